"""The source text of a function that ran, if its file is there and still has it in its place.

What parses it is imported only then: at the end of a run lines are read, but no functions.
"""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyhybrid.base.hashes import text_hash

if TYPE_CHECKING:
    import ast

_EXPRESSIONS = {
    "Lambda": "<lambda>",
    "GeneratorExp": "<genexpr>",
    "ListComp": "<listcomp>",
    "SetComp": "<setcomp>",
    "DictComp": "<dictcomp>",
}
NOT_FOUND = "source not found"
_CHANGED = "source has changed since: lines may have moved"
_PARTLY = "source changed while it ran: lines that ran before have no text"


class Source(NamedTuple):
    """Hold text by line number, empty where it is not known; `note`: a remark on it, or "".

    `changed`: it is the text of another time, so its lines may be others than those that ran.
    """

    lines: dict[int, str]
    note: str
    changed: bool = False


class Sources:
    """Find the source files of a profile's functions, as far as they are what ran.

    It is known what the program's own Python files were (assemble/source_files.py); of others, and
    in older profiles, a file that is newer than the run's begin is a changed one.
    """

    def __init__(self, meta: Mapping[str, Any]) -> None:
        """Go by the profile's `meta`."""
        self._folder = str(meta.get("cwd") or "")
        self._begin_ns = int(meta.get("start_unix_ns") or 0)
        known: dict[str, dict[str, Any]] = meta.get("sources") or {}
        self._hash = {file: each["hash"] for file, each in known.items()}
        self._stale = {file: frozenset(each["stale"]) for file, each in known.items()}

    def function(self, file: str, name: str, first: int, last: int) -> Source:
        """Return the source of the function of qualified name `name` that begins in line `first`.

        `last` is a line that it must reach.  A changed file is used, with a note, as long as such a
        function stands there.
        """
        import ast

        try:
            data, changed = self._read(file)
            text = _decoded(data)
            written, _, _ = name.partition(" [")
            end = _end(ast.parse(text), written.rpartition(".")[2], first)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return Source({}, NOT_FOUND)
        lines = text.split("\n")
        if end is None or not last <= end <= len(lines) or self._is_stale(file, first):
            return Source({}, "source has changed")
        numbers = range(first, end + 1)
        return _source({number: lines[number - 1].expandtabs() for number in numbers}, changed)

    def lines(self, file: str, wanted: Iterable[int]) -> Source:
        """Return the text of these lines, as far as the file has them, but for those that ran as
        others while the file was another one."""
        try:
            data, changed = self._read(file)
        except OSError:
            return Source({}, NOT_FOUND)
        lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        numbers = [n for n in wanted if 0 < n <= len(lines)]
        right = [n for n in numbers if not self._is_stale(file, n)]
        found = _source({number: lines[number - 1].expandtabs() for number in right}, changed)
        return found if found.note or len(right) == len(numbers) else found._replace(note=_PARTLY)

    def _is_stale(self, file: str, line: int) -> bool:
        return line in self._stale.get(file, ())

    def _read(self, file: str) -> tuple[bytes, bool]:
        """Return its bytes, and is it another text?  Raises OSError."""
        path = os.path.join(self._folder, file)
        _refuse_pipes(path)
        with open(path, "rb") as opened:
            data = opened.read()
            newer = os.fstat(opened.fileno()).st_mtime_ns > self._begin_ns
        known = self._hash.get(file)
        return data, newer if known is None else text_hash(data) != known


def _source(lines: dict[int, str], changed: bool) -> Source:
    return Source(lines, _CHANGED if changed else "", changed)


def _decoded(data: bytes) -> str:
    """Decode it as Python reads it.  Raises SyntaxError, ValueError."""
    import io
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()


def _refuse_pipes(path: str) -> None:
    """Refuse a pipe: a program read from one would not come again.  Raises OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")


def _end(tree: "ast.Module", name: str, first: int) -> int | None:
    """Return the last line of the function (class, lambda, ...) that begins in line `first`."""
    import ast

    if name == "<module>":
        return max((node.end_lineno or 0 for node in tree.body), default=0)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            begins = min(each.lineno for each in (node, *node.decorator_list))
            if (node.name, begins) == (name, first):
                return node.end_lineno
        expression = _EXPRESSIONS.get(type(node).__name__)
        if isinstance(node, ast.expr) and (expression, node.lineno) == (name, first):
            return node.end_lineno
    return None
