"""The source text of a function that ran, if its file is there and still has it in its place.

What parses it is imported only then: at the end of a run lines are read, but no functions.
"""

import errno
import os
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast

_EXPRESSIONS = {
    "Lambda": "<lambda>",
    "GeneratorExp": "<genexpr>",
    "ListComp": "<listcomp>",
    "SetComp": "<setcomp>",
    "DictComp": "<dictcomp>",
}
_CHANGED = "source has changed since: lines may have moved"


class Source(NamedTuple):
    """Text by line number, empty where it is not known; `note`: what to say about it, or ""."""

    lines: dict[int, str]
    note: str


def find_source(path: str, name: str, first: int, last: int, recorded_ns: int) -> Source:
    """The source of the function with the qualified name `name` that begins in line `first`.

    `last` is a line that it must reach, `recorded_ns` the time, since the epoch, when it ran: a
    file changed later is used, with a note, as long as such a function stands there.
    """
    import ast
    import tokenize

    try:
        _refuse_pipes(path)
        with tokenize.open(path) as file:
            changed = os.fstat(file.fileno()).st_mtime_ns > recorded_ns
            text = file.read()
        written, _, _ = name.partition(" [")
        end = _end(ast.parse(text), written.rpartition(".")[2], first)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return Source({}, "source not found")
    lines = text.split("\n")
    if end is None or not last <= end <= len(lines):
        return Source({}, "source has changed")
    numbers = range(first, end + 1)
    return Source(
        {number: lines[number - 1].expandtabs() for number in numbers}, _CHANGED if changed else ""
    )


def read_source(path: str, wanted: Iterable[int], recorded_ns: int) -> Source:
    """The text of these lines, as far as the file has them; `recorded_ns` as above."""
    try:
        _refuse_pipes(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            changed = os.fstat(file.fileno()).st_mtime_ns > recorded_ns
            lines = file.read().split("\n")
    except OSError:
        return Source({}, "source not found")
    numbers = (number for number in wanted if 0 < number <= len(lines))
    return Source(
        {number: lines[number - 1].expandtabs() for number in numbers}, _CHANGED if changed else ""
    )


def _refuse_pipes(path: str) -> None:
    """A program may have been read from one, and would not come again.  Raises OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")


def _end(tree: "ast.Module", name: str, first: int) -> int | None:
    """The last line of the function (or class, or lambda, ...) that begins in line `first`."""
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
