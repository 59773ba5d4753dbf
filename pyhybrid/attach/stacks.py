"""All stacks of a process once: Python and native frames of each thread as one, read from outside.

Nothing runs in the process.  Each thread is stopped for as long as its stack is read, some
milliseconds at most; where ptrace is not permitted, its Python frames are read while it runs.  A
run of Python frames stands in the place of the eval loop that executes it, as in a profile: its
native frame has the run's entry frame on the stack (src/pyframes/pyframe.h).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from pyhybrid import _attach
from pyhybrid._columns import line_runs
from pyhybrid.attach.processes import Process, command_of, refusal, status_of
from pyhybrid.capture.children import ranks
from pyhybrid.errors import UsageError
from pyhybrid.symbols.plumbing import is_interpreter, is_plumbing, plain_symbol, starts_threads
from pyhybrid.symbols.resolve import default_loader

GIL_HELD, GIL_WAITED_FOR = "has the GIL", "waits for the GIL"
_TRIES = 3  # of a thread that runs meanwhile, or that a signal meets
_NO_LINE = -1
_FUTEX = "202"
_STATES = {"R": "running", "D": "asleep in the kernel", "T": "stopped", "t": "traced"}


class StackFrame(NamedTuple):
    """Hold a frame: of Python a function, its file and line, else a native function and its
    library's name; `is_plumbing`: it is of no interest to most.  `variables`: names, and texts that
    stand for their values, if they were read."""

    name: str
    file: str
    line: int = 0
    is_python: bool = True
    is_plumbing: bool = False
    variables: tuple[tuple[str, str], ...] = ()


class ThreadStack(NamedTuple):
    """Hold the stack of a thread, innermost frame first: `is_main`, the kernel's name, what it does
    (running, asleep...), and about the GIL; `why` it is not whole."""

    tid: int
    is_main: bool
    name: str
    state: str
    gil: str
    frames: tuple[StackFrame, ...]
    why: str = ""


class ProcessStacks(NamedTuple):
    """Hold those of a process; `rank` among others that a launcher started, or None; `notes`."""

    pid: int
    rank: int | None
    command: str
    version: str
    threads: tuple[ThreadStack, ...]
    notes: tuple[str, ...] = ()


_Native = tuple[int, int, str | None, int]  # as Unwind.frames has them


class _Raw(NamedTuple):
    """Hold what was read of a thread."""

    python: list[tuple[int, int, int]]
    native: list[_Native]
    state: str
    gil: str
    why: str
    variables: dict[int, tuple[tuple[str, str], ...]]  # by frame


class Reader:
    """Read processes of this interpreter's version; `natives`: their native frames, too;
    `variables`: the local ones of Python frames."""

    def __init__(self, *, natives: bool = True, variables: bool = False) -> None:
        self._natives, self._variables = natives, variables
        self._raw: list[tuple[Process, dict[int, _Raw], tuple[str, ...]]] = []
        self._codes: dict[tuple[int, int], tuple[str, str, int, bytes] | None] = {}

    def read(self, process: Process) -> None:
        """Read its stacks.  Raises UsageError."""
        pid, notes = process.pid, []
        alive, _, _, threads = process.interpreter()
        if not alive:
            raise UsageError(f"process {pid} has no Python yet, or no more")
        states = {tid: state for tid, state, _ in threads}
        unwind = None
        if self._natives:
            try:
                unwind = _attach.Unwind(pid)
            except RuntimeError as error:
                notes.append(f"no native frames: {error}")
        found = {}
        for tid in sorted(
            (int(name) for name in os.listdir(f"/proc/{pid}/task")), key=(pid).__ne__
        ):
            with suppress(OSError):
                found[tid] = self._thread(process, tid, states.get(tid, 0), unwind)
        if why := next((each.why for each in found.values() if each.why == "denied"), ""):
            notes.append(f"no native frames: {refusal(pid, PermissionError(1, why))}")
        self._raw.append((process, found, tuple(notes)))

    def _thread(
        self, process: Process, tid: int, state: int, unwind: _attach.Unwind | None
    ) -> _Raw:
        pid = process.pid
        does, why = _doing(pid, tid), ""
        waits = bool(state) and _waits_for(pid, tid, *_attach.gil(pid, process.runtime)[1:])
        native: list[_Native] = []
        stopped = ""
        if unwind:
            for _ in range(_TRIES):
                stopped = _attach.stop(tid)[0]
                if stopped != "unsafe":
                    break
        try:
            python = _attach.frames(pid, state) if state else []
            variables = {
                frame: tuple(_attach.locals(pid, frame))
                for code, frame, _ in python
                if code and self._variables
            }
            holds = bool(state) and _attach.gil(pid, process.runtime)[0] == state
            if unwind and not stopped:
                native, why = unwind.frames(tid)
        finally:
            if unwind and not stopped:
                _attach.release(tid)
        for code, _, _ in python:
            self._remember(pid, code)
        gil = GIL_HELD if holds else GIL_WAITED_FOR if waits else ""
        return _Raw(python, native, does, gil, why or stopped, variables)

    def _remember(self, pid: int, code: int) -> None:
        """Read what names the code object, once."""
        if code and (pid, code) not in self._codes:
            self._codes[pid, code] = None
            with suppress(OSError):
                self._codes[pid, code] = _attach.code(pid, code)

    def stacks(self) -> list[ProcessStacks]:
        """Return those of all that were read; native names are looked up for all at once."""
        names = _names(
            frame for _, threads, _ in self._raw for raw in threads.values() for frame in raw.native
        )
        return [
            ProcessStacks(
                process.pid,
                _rank(process.pid),
                _command(process.pid),
                process.shown_version,
                tuple(self._whole(process.pid, tid, raw, names) for tid, raw in threads.items()),
                notes,
            )
            for process, threads, notes in self._raw
        ]

    def _whole(self, pid: int, tid: int, raw: _Raw, names: dict[_Place, str]) -> ThreadStack:
        frames = tuple(self._joined(pid, raw, names))
        comm = ""
        with suppress(OSError), open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as file:
            comm = file.read().rstrip("\n")
        return ThreadStack(tid, tid == pid, comm, raw.state, raw.gil, frames, raw.why)

    def _joined(self, pid: int, raw: _Raw, names: dict[_Place, str]) -> Iterator[StackFrame]:
        runs = list(_runs(raw.python))
        for at, (_, sp, path, address) in enumerate(raw.native):
            caller_sp = raw.native[at + 1][1] if at + 1 < len(raw.native) else 0
            here = []
            while runs and sp <= runs[0][0] < caller_sp:
                here.append(runs.pop(0)[1])
            for run in here:
                yield from (self._python(pid, raw, *frame) for frame in run)
            if not here:
                yield _native(names.get((path, address), ""), path)
        for _, run in runs:
            yield from (self._python(pid, raw, *frame) for frame in run)

    def _python(self, pid: int, raw: _Raw, code: int, frame: int, offset: int) -> StackFrame:
        known = self._codes.get((pid, code))
        if known is None:
            return StackFrame("?", "")
        name, file, first_line, table = known
        starts, lines, end = line_runs(table, first_line)
        line = lines[bisect_right(starts, offset) - 1] if offset < end else first_line
        variables = raw.variables.get(frame, ())
        line = first_line if line == _NO_LINE else line
        return StackFrame(name, file, line, variables=variables)


_Place = tuple[str | None, int]  # a file, and an address in it


def _runs(python: list[tuple[int, int, int]]) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Yield each eval loop's entry frame and the frames that it executes."""
    run: list[tuple[int, int, int]] = []
    for frame in python:
        if frame[0]:
            run.append(frame)
        else:
            yield frame[1], run
            run = []
    if run:
        yield 0, run


def _native(symbol: str, path: str | None) -> StackFrame:
    file = os.path.basename(path or "")
    if not symbol:
        nameless = not path or is_interpreter(file) or starts_threads(file)
        return StackFrame(f"{file or '[jit]'}!?", file, is_python=False, is_plumbing=nameless)
    return StackFrame(symbol, file, is_python=False, is_plumbing=is_plumbing(file, symbol))


def _names(frames: Iterable[_Native]) -> dict[_Place, str]:
    """Return the readable names of all native frames, each file read once."""
    load, demangle = default_loader()
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for _, _, path, address in frames:
        if path and path.startswith("/"):
            wanted[path].add(address)
    paths_of: defaultdict[tuple[int, int], list[str]] = defaultdict(list)  # a process has its own
    for path in wanted:
        with suppress(OSError):
            status = os.stat(path)
            paths_of[status.st_dev, status.st_ino].append(path)
    names: dict[_Place, str] = {}
    for paths in paths_of.values():
        listed = sorted(set().union(*(wanted[path] for path in paths)))
        with suppress(OSError, LookupError, ValueError):
            for address, symbol in zip(listed, load(paths[0], None).resolve(listed), strict=True):
                if symbol:
                    name = demangle(plain_symbol(symbol[0]))
                    names.update({(path, address): name for path in paths})
    return names


def _doing(pid: int, tid: int) -> str:
    """Return what the kernel says that it does."""
    with suppress(OSError, IndexError):
        with open(f"/proc/{pid}/task/{tid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0].decode()
        return _STATES.get(state, "asleep")
    return ""


def _waits_for(pid: int, tid: int, start: int, end: int) -> bool:
    """Does it sleep on a futex between these?"""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as file:
            call = file.read().split()
        return call[0] == _FUTEX and start <= int(call[1], 16) < end
    return False


def _rank(pid: int) -> int | None:
    """Return its rank among others that a launcher started."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        words = (os.fsdecode(each).partition("=") for each in file.read().split(b"\0"))
        return ranks({name: value for name, _, value in words}).get("rank")
    return None


def _command(pid: int) -> str:
    return command_of(pid) or status_of(pid, "Name")
