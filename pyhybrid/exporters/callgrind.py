"""The exact half as a callgrind file, for KCachegrind and callgrind_annotate.

Format: https://valgrind.org/docs/manual/cl-format.html - for each function its file, its self cost
at its first line, and each function that it called with the number of calls and their inclusive
cost; names are written once and then by number ("name compression").  The cost is nanoseconds.

Only Python functions, and with --c-calls the C functions that they call, by their names in Python;
other C is part of its caller's self cost.  As in pstats each turn of a generator is a call.  A
call's inclusive cost is that of the calls by which the function was entered, without recursion:
then the costs of all calls of a function sum to the time in which it was on the stack.  `[threads]`
stands for what no Python function called.  Files below the program's working directory are relative
to it: callgrind_annotate cuts its own directory off callers' files, but not off those of callees,
and would take the two for different functions.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from typing import BinaryIO

from pyhybrid import __version__
from pyhybrid.exporters import ASCII, Exporter
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.imports import note_of_sums
from pyhybrid.views.calls.compensate import COMPENSATED
from pyhybrid.views.calls.function_calls import ROOT, FunctionCalls, Tally, traced_calls
from pyhybrid.views.labels import short_time

THREADS = "[threads]"
NO_FILE = "???"  # as callgrind writes it
_LINE_ENDS = ASCII | str.maketrans({"\n": " ", "\r": " "})


class Callgrind(Exporter):
    """Write costs of functions and calls, all threads together."""

    name = "callgrind"
    help = "exact calls and times for KCachegrind and callgrind_annotate"
    min_time_ns = 0  # functions with a total below are part of their callers

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Return callgrind.out beside the profile, as its readers look for callgrind.out*; it is
        callgrind.out.NAME where the profile has a name of its own."""
        folder, name = os.path.split(prefix)
        if profile.meta.get("custom_prefix"):
            return os.path.join(folder, "callgrind.out." + name)
        suffix = str(profile.meta.get("prefix_suffix", ""))
        return os.path.join(folder, "callgrind.out" + suffix)

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it; raises PyhybridError where nothing was traced."""
        for line in self.lines(profile):
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        return note_of_sums(profile)

    def lines(self, profile: Profile) -> list[str]:
        """Return the lines, without line ends."""
        functions = traced_calls(profile, self.min_time_ns)
        total_ns = sum(function.self_ns for function in functions.values())
        command = " ".join(profile.process.argv).translate(_LINE_ENDS)
        return [
            "# callgrind format",
            "version: 1",
            f"creator: pyhybrid {__version__}",
            f"pid: {profile.process.pid}",
            f"cmd: {command}",
            *(f"desc: View: {text}" for text in self._views(profile)),
            "part: 1",
            "positions: line",
            "event: ns : Nanoseconds",
            "events: ns",
            f"summary: {total_ns}",
            *_body(functions, _Names(profile, functions)),
            "",
            f"totals: {total_ns}",
        ]

    def _views(self, profile: Profile) -> Iterator[str]:
        """Yield what was done to the figures."""
        if profile.view.compensated:
            yield COMPENSATED
        if self.min_time_ns:
            yield f"functions below {short_time(self.min_time_ns)} are part of their callers"


def _body(functions: dict[int, FunctionCalls], names: "_Names") -> Iterator[str]:
    called: defaultdict[int, dict[int, Tally]] = defaultdict(dict)
    for callee, function in functions.items():
        for caller, tally in function.callers.items():
            called[caller][callee] = tally
    for caller in dict.fromkeys((ROOT, *functions, *called)):
        at, self_ns = names.line(caller), functions[caller].self_ns if caller in functions else 0
        yield from ("", f"fl={names.file(caller)}", f"fn={names.function(caller)}")
        yield f"{at} {self_ns}"
        for callee, tally in called[caller].items():
            yield f"cfi={names.file(callee)}"
            yield f"cfn={names.function(callee)}"
            # What had begun before is no call, but readers take a cost without one as self cost.
            yield f"calls={max(tally.turns + tally.seeded, 1)} {names.line(callee)}"
            yield f"{at} {tally.entered_ns}"


class _Names:
    """Name files and functions as they are written: "(1) name" first, then "(1)".

    A file's functions of one name have their lines in their names: readers know functions by file
    and name alone.
    """

    def __init__(self, profile: Profile, functions: dict[int, FunctionCalls]) -> None:
        self._frames = profile.frames
        self._c_names = profile.c_names
        self._directory = os.path.join(str(profile.meta.get("cwd") or ""), "")
        self._files: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._shared = Counter((f.file, f.name) for f in map(profile.frames.__getitem__, functions))

    def line(self, frame: int) -> int:
        """Return the first line of the function; 0: unknown."""
        return self._frames[frame].line or 0 if frame != ROOT else 0

    def file(self, frame: int) -> str:
        """Return what stands after fl= and cfi=."""
        name = self._file(frame)
        return _numbered(self._files, name, name)

    def function(self, frame: int) -> str:
        """Return what stands after fn= and cfn=."""
        if frame == ROOT:
            return _numbered(self._functions, (NO_FILE, THREADS), THREADS)
        row = self._frames[frame]
        name = self._c_names.get(frame, row.name).translate(_LINE_ENDS)
        if self._shared[row.file, row.name] > 1 and row.line:
            name += f":{row.line}"
        return _numbered(self._functions, (self._file(frame), name), name)

    def _file(self, frame: int) -> str:
        name = self._frames[frame].file if frame != ROOT else None
        return name.removeprefix(self._directory).translate(_LINE_ENDS) if name else NO_FILE


def _numbered[Key: Hashable](numbers: dict[Key, int], key: Key, name: str) -> str:
    if key in numbers:
        return f"({numbers[key]})"
    numbers[key] = len(numbers) + 1
    return f"({numbers[key]}) {name}"
