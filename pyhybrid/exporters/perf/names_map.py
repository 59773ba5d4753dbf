"""The perf map, /tmp/perf-PID.map: names for the synthetic addresses in perf.data.

Format: tools/perf/Documentation/jit-interface.txt in the Linux source - `START SIZE name` a line,
hexadecimal.  Python functions are written as CPython's perf trampoline does, `py::qualname:file`,
and with the first line: `py::Linear.forward:/path/linear.py:130`.  Native functions of which perf
finds no name (addresses.py) have their library's with them: `gomp_barrier_wait_end [libgomp.so.1]`.

A runtime of the program may have written the same file about its own code (symbols/jit.py): its
functions stay in it, and so do those of earlier runs in the same process (pyhybrid.Profiler), whose
addresses are others.

perf reads the map of a process only where the reader's user owns it.  /tmp belongs to everyone, so
nothing is written through a link or over another user's file.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from pyhybrid.base.pseudo_frames import JIT, LEFT_OUT
from pyhybrid.capture.jit_files import began_since_boot, perf_map_path, why_not_ours
from pyhybrid.capture.machine import boot_id
from pyhybrid.exporters import SEPARATORS, Exporter
from pyhybrid.exporters.perf.addresses import FRAME_SIZE, REGIONS, SyntheticAddresses, nameless
from pyhybrid.exporters.perf.old_maps import mark, without_mark
from pyhybrid.symbols.jit import JIT_MAP, JitFunctions, read_trusted
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import shorten_native

MAX_EARLIER = 200_000  # functions of earlier runs in the same process: beyond that none are kept
_SLACK_S = 0.1

# Tools that read perf's output cut names at parentheses, too.
UNSAFE = SEPARATORS | str.maketrans({"(": "[", ")": "]"})


def missing(profile: Profile) -> list[str]:
    """Return a note where the map that perf would read is not this profile's."""
    path = perf_map_path(profile.process.pid)
    first = SyntheticAddresses(profile).base
    try:
        with open(path, "rb") as file:
            what = "is another run's"
            if any(line.startswith(b"%x " % first) for line in file):
                return []
    except FileNotFoundError:
        what = "is missing"
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
    again = "`pyhybrid export -f perf-map` writes it again"
    return [f"{path} {what}: perf will not name Python functions ({again})"]


class Entry(NamedTuple):
    """An entry is a line of the map."""

    start: int
    size: int
    name: str


class PerfMap(Exporter):
    """Write the map of the profiled process."""

    name = "perf-map"
    help = "names for perf.data, /tmp/perf-PID.map"
    mode = 0o644
    _theirs = _mark = b""

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Return where perf looks for it."""
        return perf_map_path(profile.process.pid)

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write the map."""
        file.write(self._mark)
        for line in self.lines(profile, self._theirs):
            file.write(f"{line}\n".encode("utf-8", "backslashreplace"))
        return []

    def prepare(self, profile: Profile, path: str) -> None:
        """Make what the program's runtimes wrote at `path` part of it."""
        self._theirs = _theirs(profile, path)
        if path == perf_map_path(profile.process.pid):
            self._mark = mark(profile, self._theirs)
            self._theirs = without_mark(self._theirs)

    def refuses(self, profile: Profile, path: str) -> str:
        """Leave a link, another user's file and another process's map alone."""
        reason = _why_not(profile, path)
        return f"{reason}; perf will not name Python functions" if reason else ""

    def lines(self, profile: Profile, theirs: bytes = b"") -> list[str]:
        """Return lines, by address, without line ends; `theirs`: a map whose functions are kept."""
        return [f"{start:x} {size:x} {name}" for start, size, name in entries(profile, theirs)]


def entries(profile: Profile, theirs: bytes = b"") -> list[Entry]:
    """Name synthetic addresses and code in no module, by address; `theirs`: as `lines`."""
    addresses = SyntheticAddresses(profile, nameless(profile))
    jit = _jit_functions(profile, addresses, theirs)
    found = [Entry(addresses.left_out, FRAME_SIZE, LEFT_OUT)]
    found += [
        Entry(address, FRAME_SIZE, _name(profile, profile.frames[frame]))
        for frame, address in (addresses.of_frame | addresses.moved).items()
    ]
    found += [Entry(start, size, name.translate(UNSAFE)) for name, start, size in jit]
    taken = [(start, start + size) for _, start, size in jit]
    found += [Entry(start, size, JIT) for start, size in _gaps(addresses.jit, taken)]
    return sorted(found)


def _name(profile: Profile, frame: Frame) -> str:
    name = frame.name
    if frame.kind == "python":
        name = f"py::{name}:{frame.file}:{frame.line}"
    elif frame.kind == "region":
        name = f"[{name}]"
    elif frame.kind == "native" and frame.module is not None:
        library = os.path.basename(profile.modules[frame.module].path)
        name = shorten_native(name)
        if not frame.is_nameless:  # else the name begins with it
            name = f"{name} [{library.strip('[]')}]"
    return name.translate(UNSAFE)


def _why_not(profile: Profile, path: str) -> str:
    """Return why nothing may be written there; "" where it may.  Raises OSError."""
    pid = profile.process.pid
    if path == perf_map_path(pid) and _is_another(pid, profile.meta):
        return f"process {pid} is another one now"
    return why_not_ours(path)


def _is_another(pid: int, meta: Mapping[str, Any]) -> bool:
    """Is there a process of that number that began after the profile did?"""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            if b"\nTgid:\t%d\n" % pid not in file.read():
                return False  # a thread of another one
        began = began_since_boot(str(pid))
    except OSError:
        return False
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()  # the machine, at most
    start = int(meta.get("start_ns") or 0) / 1e9 + asleep
    return began > start + _SLACK_S or meta.get("boot_id", boot_id()) != boot_id()


def _theirs(profile: Profile, path: str) -> bytes:
    """Return what the program's runtimes wrote at `path`; nothing where it was not theirs."""
    if profile.meta.get("perf_map") != path:
        return b""
    try:
        return read_trusted(path, {0, os.geteuid()})
    except (OSError, ValueError):
        return b""


def _jit_functions(
    profile: Profile, addresses: SyntheticAddresses, theirs: bytes
) -> list[tuple[str, int, int]]:
    """Return (name, start, size) of functions in no module, by address; the profile's first."""
    recorded, functions = JitFunctions(), JitFunctions()
    recorded.add_perf_map(theirs)
    kept = recorded.functions()
    earlier = {start for _, start, _ in kept if REGIONS.start <= start < REGIONS.stop}
    own = range(addresses.base, addresses.base + addresses.size)
    left_out = earlier if len(earlier) > MAX_EARLIER else own
    for name, start, size in kept:
        if start not in left_out:
            functions.add(start, size, name.encode(), JIT_MAP)
    for frame in profile.frames.values():
        if frame.kind == "native" and frame.module is None and frame.address is not None:
            shown = frame.name.encode("utf-8", "backslashreplace")
            functions.add(frame.address, frame.size or 0, shown, JIT_MAP)
    return functions.functions()


def _gaps(ranges: list[tuple[int, int]], taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the rest of `ranges`, (start, size), less `taken`, (start, end); both by address."""
    left: list[tuple[int, int]] = []
    first = 0
    for start, size in ranges:
        end = start + size
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        at = first
        while at < len(taken) and taken[at][0] < end:
            if start < taken[at][0]:
                left.append((start, taken[at][0] - start))
            start = max(start, taken[at][1])
            at += 1
        if start < end:
            left.append((start, end - start))
    return left
