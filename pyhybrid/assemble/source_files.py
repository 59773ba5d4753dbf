"""Which text the program's files had: what shows source asks, for a file may be edited at any time.

When the run is finished each file's hash is noted: an edit after that is found by it.  A file that
is newer than the run's begin was edited, or written, meanwhile, perhaps more than once, and its
functions may have run from several texts: it is compiled, and a code object that ran has its text
there if one of the same name in the same line has the same location table, which has lines and
columns of all its instructions.  Lines of the others have no text.
"""

import os
import platform
import stat
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType
from typing import Any

from pyhybrid._columns import line_runs
from pyhybrid.base.hashes import text_hash
from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.spool.content import Code, Spool

_MAX_BYTES = 1 << 22  # of a file; larger ones are data
_NEVER = 1 << 63

# A code object's name, first line and location table.
type _CodeKey = tuple[str, int, bytes]


def source_files(spool: Spool) -> dict[str, dict[str, Any]]:
    """Return by file: `hash` of its text (schema.sql, meta `sources`), and the lines that ran as
    another one (`stale`).  Only the program's own files are there, as far as they can be read."""
    codes: defaultdict[str, list[Code]] = defaultdict(list)
    for code in spool.codes.values():
        if not is_librarys(code.file):
            codes[code.file].append(code)
    known = {}
    for file, of_file in codes.items():
        path = os.path.join(str(spool.meta.get("cwd") or ""), file)
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
                continue
            with open(path, "rb") as opened:
                text = opened.read()
        except (OSError, ValueError):
            continue
        begin_ns = int(spool.meta.get("start_unix_ns") or _NEVER)
        stale: list[int] = []
        if max(status.st_mtime_ns, status.st_ctime_ns) >= begin_ns:
            stale = _stale_lines(path, text, of_file, str(spool.meta.get("python")))
        known[file] = {"hash": text_hash(text), "stale": stale}
    return known


def _stale_lines(path: str, text: bytes, codes: list[Code], python: str) -> list[int]:
    """Return the lines of code that is not compiled from this text, in order."""
    # Another version's location tables are others, and nothing is known.
    is_ours = python.split(".")[:2] == list(platform.python_version_tuple()[:2])
    found = set(_compiled(path, text)) if is_ours else set()
    found |= {(name, line, b"") for name, line, _ in found}  # a long table was not copied
    stale: set[int] = set()
    for code in codes:
        if (code.qualname, code.first_line, code.line_table) not in found:
            _, lines, _ = line_runs(code.line_table, code.first_line)
            stale.update((code.first_line, *lines))
    return sorted(line for line in stale if line > 0)


def _compiled(path: str, text: bytes) -> Iterator[_CodeKey]:
    """Yield all code objects of a text, with and without its assertions and docstrings (-O,
    -OO)."""
    for optimize in range(3):
        try:
            todo = [compile(text, path, "exec", dont_inherit=True, optimize=optimize)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        while todo:
            code = todo.pop()
            yield code.co_qualname, code.co_firstlineno, code.co_linetable
            todo += (each for each in code.co_consts if isinstance(each, CodeType))
