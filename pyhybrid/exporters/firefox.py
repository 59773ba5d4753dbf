"""A profile for the Firefox Profiler (profiler.firefox.com), gzipped JSON.

Format: the "processed profile", version 60 - https://github.com/firefox-devtools/profiler, its
src/types/profile.ts and docs-developer/CHANGELOG-formats.md; files of an older version are upgraded
as they are loaded.  Tables are structs of arrays that all threads share; text is numbered.

Each sample has its time and its weight in milliseconds; a Python function is one of "JavaScript",
so that the stack filters JavaScript and Native choose Python and native code.  What a thread had to
do with the GIL, and calls that were kept, are markers.
"""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from heapq import nlargest
from itertools import groupby
from typing import Any, BinaryIO

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.viewer_names import CREATOR, encodable, facts, functions, title
from pyhybrid.tables import Call, Chunk, Frame, Module, stack_of, waits
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import gil_runs, periods_of, times
from pyhybrid.views.call_tree.sampled_paths import SampledPaths

# The tables that all threads of a Firefox profile share: stacks, frames, functions, libraries.
#
# A table is a struct of arrays; a row is a number that others hold.  Rows are made when first asked
# for (exporters/firefox.py has the format).

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
    """Hold rows of these columns."""

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
        """Return it as it is written."""
        return {**self._columns, "length": self.length}


class Numbered[Key]:
    """Number what rows were made of."""

    def __init__(self, make: Callable[[Key], int]) -> None:
        self._make = make
        self._numbers: dict[Key, int] = {}

    def __call__(self, key: Key) -> int:
        """Return the row's number; the row is made if it is not there."""
        if key not in self._numbers:
            self._numbers[key] = self._make(key)
        return self._numbers[key]


class Shared:
    """Hold all of one profile."""

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
        """Return them as they are written, once nothing more is asked for."""
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
        """Return the stack of a row of the table `stack`; None: it has no frame that is shown."""
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


VERSION = 60
GECKO_VERSION = 30  # of the format that the browser itself writes, from which this one stems
MOST_CALLS = 20_000  # the viewer slows down with more markers
INTERVAL = 1  # a marker's phase


class Firefox(Exporter):
    """Write the folded call paths of every sample."""

    name = "firefox"
    help = "for profiler.firefox.com: samples of all threads in time"
    suffix = ".firefox.json.gz"
    is_text = False

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it; raises PyhybridError where there are no samples."""
        if not profile.sampled:
            raise PyhybridError(f"{profile.path}: no samples, which Firefox's format is made of")
        shared = Shared(profile)
        calls = defaultdict(list)
        for call in nlargest(MOST_CALLS, profile.calls, key=lambda each: each.busy_ns):
            calls[call.thread].append(call)
        whole = {
            "meta": _meta(profile),
            "threads": [
                _Thread(profile, shared, thread).content(chunks, calls[thread])
                for thread, chunks in groupby(profile.timeline(), lambda chunk: chunk.thread)
            ],
            "libs": shared.libraries,
            "pages": [],
            "shared": shared.tables(),
        }
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
            out.write(json.dumps(whole, separators=(",", ":")).encode())
        more = len(profile.calls) > MOST_CALLS
        return [f"has the longest {MOST_CALLS:,} of {len(profile.calls):,} calls"] if more else []


def _meta(profile: Profile) -> dict[str, Any]:
    meta = profile.meta
    entries = [{"label": name, "format": "string", "value": text} for name, text in facts(profile)]
    return {
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "interval": profile.period_ns / 1e6,
        "startTime": meta.get("start_unix_ns", 0) / 1e6,
        "processType": 0,
        "product": title(profile.process),
        "importedFrom": CREATOR,
        "stackwalk": 1,
        "symbolicated": True,
        "usesOnlyOneStackType": False,
        "sourceCodeIsNotOnSearchfox": True,
        "keepProfileThreadOrder": True,
        "platform": "X11",
        "oscpu": f"Linux {meta.get('arch', '')}",
        "CPUName": meta.get("cpu"),
        "logicalCPUs": meta.get("n_cpus"),
        "arguments": encodable(" ".join(profile.process.argv)),
        "categories": CATEGORIES,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "markerSchema": [
            _schema("gil", "GIL {marker.data.state}", state="What the thread had to do with it"),
            _schema("call", "{marker.name}", ended="Ended", attributes="Attributes"),
        ],
        "extra": [{"label": "pyhybrid", "entries": entries}],
    }


def _schema(name: str, label: str, **fields: str) -> dict[str, Any]:
    return {
        "name": name,
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "tooltipLabel": label,
        "chartLabel": label,
        "fields": [{"key": key, "label": text, "format": "string"} for key, text in fields.items()],
    }


class _Thread:
    """Build a thread; its times are milliseconds from the start."""

    def __init__(self, profile: Profile, shared: Shared, thread: int) -> None:
        self._profile, self._shared, self._row = profile, shared, profile.threads[thread]
        self._start_ns = profile.process.start_ns or 0
        self._samples = Table("stack", "timeDeltas", "weight", "threadCPUDelta")
        self._markers = Table("name", "startTime", "endTime", "phase", "category", "data")
        self._last_ms = 0.0

    def content(self, chunks: Iterator[Chunk], calls: list[Call]) -> dict[str, Any]:
        """Return the thread, as it is written."""
        for chunk in chunks:
            self._add_samples(chunk)
            for state, begin_ns, end_ns in gil_runs(chunk, self._profile.period_ns):
                if state != "neither":
                    data = {"type": "gil", "state": state}
                    self._mark(f"GIL {state}", begin_ns, end_ns, PYTHON, data)
        for call in calls:
            function = self._shared.names[self._profile.nodes.frame[call.node]].name
            data = {"type": "call", "ended": call.state}
            if call.attributes:
                data["attributes"] = encodable(call.attributes)
            self._mark(function, call.begin_ns, call.end_ns, REGION, data)
        pid, name = self._profile.pid_of(self._row.id), encodable(self._row.name)
        return {
            "processType": "default",
            "processName": title(self._profile.processes[self._row.process]),
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": max(0, self._ms(self._row.start_ns)),
            "unregisterTime": None,
            "pausedRanges": [],
            "name": name,
            "isMainThread": self._row.tid == pid,
            "pid": str(pid),
            "tid": self._row.tid,
            "samples": {**self._samples.content(), "weightType": "tracing-ms"},
            "markers": self._markers.content(),
            "showMarkersInTimeline": True,
        }

    def _add_samples(self, chunk: Chunk) -> None:
        for place, time_ns, periods in zip(
            chunk.place, times(chunk), periods_of(chunk), strict=True
        ):
            if stack_of(place) in self._profile.own_stacks:
                continue
            at_ms, weight_ns = self._ms(time_ns), periods * self._profile.period_ns
            stack = self._shared.stack(stack_of(place))
            step_ms = round(at_ms - self._last_ms, 3)
            cpu_ns = 0 if waits(place) else weight_ns
            self._samples.add(stack, step_ms, round(weight_ns / 1e6, 3), cpu_ns)
            self._last_ms = at_ms

    def _mark(
        self, name: str, begin_ns: int, end_ns: int, category: int, data: dict[str, str]
    ) -> None:
        begin, end = self._ms(begin_ns), self._ms(end_ns)
        self._markers.add(self._shared.text(name), begin, end, INTERVAL, category, data)

    def _ms(self, time_ns: int) -> float:
        return round((time_ns - self._start_ns) / 1e6, 3)
