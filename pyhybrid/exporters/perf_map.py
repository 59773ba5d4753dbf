"""The perf map, /tmp/perf-PID.map: names for the synthetic addresses in perf.data.

Format: tools/perf/Documentation/jit-interface.txt in the Linux source - `START SIZE name` a line,
hexadecimal.  Python functions are written as CPython's perf trampoline does, `py::qualname:file`,
and with the first line: `py::Linear.forward:/path/linear.py:130`.

perf reads the map of a process only where the reader's user owns it.  /tmp belongs to everyone, so
nothing is written through a link or over another user's file.
"""

import os
import stat

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.addresses import FRAME_SIZE, SyntheticAddresses
from pyhybrid.exporters.output import Output
from pyhybrid.profile_file import Profile
from pyhybrid.pseudo import JIT
from pyhybrid.rows import Frame

# Tools that read perf's output cut names at parentheses, and stacks at semicolons.
_UNSAFE = str.maketrans({"(": "[", ")": "]", ";": ":", "\n": " ", "\r": " "})


class PerfMap:
    """Writes the map of the profiled process."""

    name = "perf-map"
    help = "names for perf.data, /tmp/perf-PID.map"

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Where perf looks for it."""
        return f"/tmp/perf-{profile.process.pid}.map"

    def write(self, profile: Profile, path: str, limit_bytes: int | None = None) -> Output:
        """Write the map at `path`.

        A link or another user's file is left alone, which is a note and not an error.  Raises
        PyhybridError where the file cannot be written.
        """
        text = "".join(f"{line}\n" for line in self.lines(profile))
        try:
            if refused := _remove_stale(path):
                note = f"{path} not written: {refused}; perf will not name Python functions"
                return Output(None, [note])
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(path, flags, 0o644), "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise PyhybridError(f"cannot write {path}: {error.strerror}") from error
        return Output(path, [])

    def lines(self, profile: Profile) -> list[str]:
        """The lines, by address, without line ends."""
        addresses = SyntheticAddresses(profile)
        entries = [
            (address, FRAME_SIZE, _name(profile.frames[frame]))
            for frame, address in addresses.of_frame.items()
        ]
        entries += [(start, size, JIT) for start, size in addresses.jit]
        return [f"{start:x} {size:x} {name}" for start, size, name in sorted(entries)]


def _name(frame: Frame) -> str:
    name = frame.name if frame.kind != "python" else f"py::{frame.name}:{frame.file}:{frame.line}"
    return name.translate(_UNSAFE)


def _remove_stale(path: str) -> str:
    """Remove our own old map; the reason where what is there is not ours to remove."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(there.st_mode):
        return "there is something else of that name"
    if there.st_uid != os.geteuid():
        return "the file there belongs to another user"
    os.unlink(path)
    return ""
