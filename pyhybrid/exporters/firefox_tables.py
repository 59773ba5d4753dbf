"""The tables that all threads of a Firefox profile share: stacks, frames, functions, libraries.

A table is a struct of arrays; a row is a number that others hold.  Rows are made when first asked
for (exporters/firefox.py has the format).
"""

import re
from collections.abc import Callable
from typing import Any

from pyhybrid.exporters.viewer_names import encodable, functions
from pyhybrid.tables import Frame, Module
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.sampled_paths import SampledPaths

_COLOURS = {
    "Other": "grey",
    "Python": "blue",
    "Native": "orange",
    "Interpreter": "yellow",
    "Kernel": "red",
    "Region": "green",
}
_CATEGORY_OF = {name: at for at, name in enumerate(_COLOURS)}
CATEGORIES = [
    {"name": name, "color": colour, "subcategories": ["Other"]} for name, colour in _COLOURS.items()
]
REGION = _CATEGORY_OF["Region"]
PYTHON = _CATEGORY_OF["Python"]
_OF_KIND = {"python": "Python", "native": "Native", "kernel": "Kernel", "region": "Region"}
_INTERPRETER = re.compile(r"(?:.*/)?(?:lib)?python3[^/]*")
_LIBRARY = 1  # a type of a resource


class Table:
    """Rows of these columns."""

    def __init__(self, *columns: str) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in columns}
        self.length = 0

    def add(self, *values: Any) -> int:
        """Append a row; returns its number."""
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        self.length += 1
        return self.length - 1

    def content(self) -> dict[str, Any]:
        """As it is written."""
        return {**self._columns, "length": self.length}


class Numbered[Key]:
    """Numbers of what rows were made of."""

    def __init__(self, make: Callable[[Key], int]) -> None:
        self._make = make
        self._numbers: dict[Key, int] = {}

    def __call__(self, key: Key) -> int:
        """The row's number; the row is made if it is not there."""
        if key not in self._numbers:
            self._numbers[key] = self._make(key)
        return self._numbers[key]


class Shared:
    """All of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._paths = SampledPaths(profile)
        self.names = functions(profile)
        self._stack_of_path: dict[int, int | None] = {0: None}
        self.libraries: list[dict[str, Any]] = []
        self._strings: list[str] = []
        self._stacks = Table("frame", "prefix")
        self._frames = Table(
            *("address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol"),
            *("innerWindowID", "line", "column"),
        )
        self._functions = Table(
            *("name", "isJS", "relevantForJS", "resource", "source", "lineNumber", "columnNumber")
        )
        self._resources = Table("lib", "name", "host", "type")
        self._symbols = Table("libIndex", "address", "name", "functionSize")
        self._sources = Table("uuid", "filename")
        self.text = Numbered(self._new_text)
        self._library = Numbered(self._new_library)
        self._resource = Numbered(self._new_resource)
        self._source = Numbered[str](lambda file: self._sources.add(None, self.text(file)))
        self._function = Numbered(self._new_function)
        self._symbol = Numbered(self._new_symbol)
        self._frame = Numbered(self._new_frame)

    def tables(self) -> dict[str, Any]:
        """As they are written, once nothing more is asked for."""
        return {
            "stackTable": self._stacks.content(),
            "frameTable": self._frames.content(),
            "funcTable": self._functions.content(),
            "resourceTable": self._resources.content(),
            "nativeSymbols": self._symbols.content(),
            "sources": self._sources.content(),
            "stringArray": self._strings,
        }

    def stack(self, row: int) -> int | None:
        """The stack of a row of the table `stack`; None: it has no frame that is shown."""
        path, steps, known = self._paths.of_row[row], [], self._stack_of_path
        while path not in known:
            steps.append(path)
            path = self._paths.parent[path]
        stack = known[path]
        for step in reversed(steps):
            address, lines = self._paths.locations[self._paths.location[step]]
            for depth, (frame, line) in enumerate(lines):
                stack = self._stacks.add(self._frame((frame, address, line, depth)), stack)
            known[step] = stack
        return stack

    def _new_text(self, text: str) -> int:
        self._strings.append(text)
        return len(self._strings) - 1

    def _new_frame(self, key: tuple[int, int | None, int, int]) -> int:
        number, address, line, depth = key
        module = self._module(number)
        relative = address - module.base if module and address is not None else -1
        symbol = self._symbol(number) if module and not self._row(number).inlined else None
        function = self._function(number)
        category = self._category(number)
        return self._frames.add(
            relative, depth, category, 0, function, symbol, 0, line or None, None
        )

    def _new_function(self, number: int) -> int:
        kind, module = self._row(number).kind, self._module(number)
        name, file, line = self.names[number]
        return self._functions.add(
            self.text(name),
            kind == "python",
            kind == "region",
            self._resource(module.id) if module else -1,
            self._source(file) if file and self._row(number).file else None,
            line or None,
            None,
        )

    def _new_resource(self, number: int) -> int:
        name = self.libraries[self._library(number)]["name"]
        return self._resources.add(self._library(number), self.text(name), None, _LIBRARY)

    def _new_symbol(self, number: int) -> int:
        row = self._row(number)
        name = self.text(self.names[number].name)
        return self._symbols.add(self._library(row.module or 0), row.address or 0, name, row.size)

    def _new_library(self, number: int) -> int:
        module = self._profile.modules[number]
        path, build_id = encodable(module.path), module.build_id
        name = path.rpartition("/")[2]
        self.libraries.append(
            {
                "arch": str(self._profile.meta.get("arch", "")),
                "name": name,
                "path": path,
                "debugName": name,
                "debugPath": path,
                "breakpadId": (build_id or "").ljust(32, "0")[:32].upper() + "0",
                "codeId": build_id,
            }
        )
        return len(self.libraries) - 1

    def _row(self, number: int) -> Frame:
        return self._profile.frames[number]

    def _module(self, number: int) -> Module | None:
        return self._profile.modules.get(self._row(number).module or 0)

    def _category(self, number: int) -> int:
        module = self._module(number)
        if module and _INTERPRETER.fullmatch(module.path):
            return _CATEGORY_OF["Interpreter"]
        return _CATEGORY_OF[_OF_KIND.get(self._row(number).kind, "Other")]
