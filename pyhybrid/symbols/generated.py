"""Functions that a framework's compiler made: its kernels have one symbol, its Python files names.

Which files, and what they say, frameworks/torch.toml tells.  They are in a cache, which is there at
the end of the run, when names are found; else the names stay as they are.
"""

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache

from pyhybrid.frameworks.torch import generated, is_generated
from pyhybrid.symbols.jit import read_trusted, trusted_uids

N_OPERATORS = 3  # that are named of a graph


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(generated()[name], re.MULTILINE | re.DOTALL)


def _cache_of(path: str) -> str:
    """The folder in which are the folders of the files."""
    return os.path.dirname(os.path.dirname(path))


class Generated:
    """Those of one run; files are read when a name is wanted."""

    def __init__(self, spool_path: str, python_files: Iterable[str]) -> None:
        """`python_files`: those whose functions ran."""
        self._spool_path = spool_path
        self._files = set(filter(is_generated, python_files))
        self._texts: dict[str, str] = {}
        self._kernels: dict[str, list[tuple[str, str]]] = {}  # of a cache: text and name

    def native_name(self, library: str, symbol: str) -> str | None:
        """What a kernel is called where it was asked for: `cpp_fused_add_gelu_0 [inductor]`."""
        is_kernel = _pattern("symbol").match(symbol)
        found = _pattern("library").search(library) if is_kernel and self._files else None
        if not is_kernel or not found:
            return None
        text = self._read(library[: found.end(1)] + generated()["text"]).strip()
        known = self._kernels_in(_cache_of(library))
        name = next((name for begin, name in known if text.startswith(begin)), None)
        return name and f"{name}{symbol[is_kernel.end() :]} [{generated()['maker']}]"

    def python_name(self, file: str, name: str) -> str:
        """The function's name; that which runs a graph says which: `call [inductor 0_forward:
        addmm]`."""
        runs = generated()["functions"]
        if file not in self._files or not any(fnmatchcase(name, each) for each in runs):
            return name
        text = self._read(file)
        graph = _pattern("graph").search(text)
        if not graph:
            return name
        operators = self._operators(text)
        more = ["…"] if len(operators) > N_OPERATORS else []
        made_of = ", ".join([*operators[:N_OPERATORS], *more])
        return f"{name} [{generated()['maker']} {graph[1]}{': ' * bool(made_of)}{made_of}]"

    def _operators(self, text: str) -> list[str]:
        """What a graph was made of, but for what computes nothing."""
        told = (each.split(", ") for each in _pattern("operators").findall(text))
        names = (each.removeprefix(generated()["prefix"]) for row in told for each in row)
        return [each for each in dict.fromkeys(names) if each and each not in generated()["views"]]

    def _kernels_in(self, folder: str) -> list[tuple[str, str]]:
        if folder not in self._kernels:
            texts = (self._read(file) for file in self._files if _cache_of(file) == folder)
            found = (each for text in texts for each in _pattern("kernels").findall(text))
            self._kernels[folder] = sorted((text.strip(), name) for name, text in found)
        return self._kernels[folder]

    def _read(self, path: str) -> str:
        """Empty where it is not there, or not to be trusted."""
        if path not in self._texts:
            try:
                data = read_trusted(path, trusted_uids(self._spool_path))
            except (OSError, ValueError):
                data = b""
            self._texts[path] = data.decode("utf-8", "replace")
        return self._texts[path]
