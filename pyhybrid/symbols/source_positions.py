"""Where native addresses lie in the source, and in which inlined functions: by DWARF, file by file.

The file itself has it, or the debug file that was split from it; it must still be the build that
ran.  A file's addresses are looked up all at once (src/symbolize/dwarf/dwarf_lines.h).
"""

import errno
import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from pyhybrid.base.terminal_text import say
from pyhybrid.errors import PyhybridError

Demangle = Callable[[str], str]


class SourceFunction(NamedTuple):
    """Hold a function, by its linkage name, and where it is declared; line 0: not known."""

    name: str | None
    file: str | None
    line: int


InlinedCall = tuple[SourceFunction, str | None, int]  # the function, the calling file and line
# File, line, the inlined calls there, innermost first, and the function that contains them all.
Position = tuple[str | None, int, list[InlinedCall], SourceFunction]


class LoadedFile(Protocol):
    """Describe a module: its file, where that was loaded (added to its addresses), and when."""

    @property
    def path(self) -> str: ...
    @property
    def build_id(self) -> str | None: ...
    @property
    def base(self) -> int: ...
    @property
    def load_ns(self) -> int: ...


class DebugInfo(Protocol):
    """Find positions in one file's DWARF; addresses are the file's virtual addresses."""

    def resolve(self, addresses: list[int], /) -> list[Position | None]:
        """Return the positions of `addresses`, in their order."""


# (path, build-id in hexadecimal or None) -> the file's DWARF.  Raises OSError where the file cannot
# be read, has none (ENODATA) or more than is wanted now (EFBIG), LookupError where it is
# another build, ValueError where it is no ELF file.
OpenDebugInfo = Callable[[str, str | None], DebugInfo]
# A build-id and the path of what has it -> the path of a debug file, or None: one that was fetched
# (Debuginfod).
Fetch = Callable[[str, str], str | None]


# Is a library on disk the one that ran? Asked where no build-id tells.

_SLACK_NS = 1_000_000_000  # wall-clock time is set meanwhile


def is_newer(path: str, load_ns: int, meta: Mapping[str, Any]) -> bool:
    """Was the file at `path` changed or put there after it was loaded, at `load_ns`?

    False where there is no such file, or the profile's meta data do not tell when that was.
    """
    start_ns, start_unix_ns = meta.get("start_ns"), meta.get("start_unix_ns")
    if not start_ns or not start_unix_ns:
        return False
    try:
        changed_ns = os.stat(path).st_ctime_ns
    except OSError:
        return False
    loaded_unix_ns = int(start_unix_ns) + max(0, load_ns - int(start_ns))
    return changed_ns > loaded_unix_ns + _SLACK_NS


def default_reader(limit_bytes: int = 0) -> tuple[OpenDebugInfo, Demangle]:
    """Return the extension module's; PyhybridError where it was not built.

    Files with more debug information than `limit_bytes` are not read; 0: any size.
    """
    try:
        native = importlib.import_module("pyhybrid._symbolize")
    except ImportError as error:
        raise PyhybridError(f"debug information cannot be read: {error}") from error
    return partial(native.DwarfLines, limit_bytes=limit_bytes), native.demangle


class DebugFiles:
    """Read the DWARF of a profile's modules; `notes` has which could not be used, and why.

    `meta` is the profile's: it has when the program ran.
    """

    def __init__(
        self, meta: Mapping[str, Any], open_file: OpenDebugInfo, fetch: Fetch | None = None
    ) -> None:
        self._notes: list[str] = []
        self._rebuilt: list[str] = []  # files
        self._meta = meta
        self._open_file = open_file
        self._fetch = fetch
        self._open: dict[tuple[str, str | None], DebugInfo | None] = {}

    @property
    def notes(self) -> list[str]:
        """Return a line each; libraries of other builds, as most on another machine, in one."""
        if not self._rebuilt:
            return self._notes
        first, *more = self._rebuilt
        note = f"{first} is another build than the one that ran"
        if more:
            note = f"{first} and {len(more)} more are other builds than those that ran"
        return [f"{note}: no source lines", *self._notes]

    def find(self, module: LoadedFile, addresses: Iterable[int]) -> dict[int, Position]:
        """Return the positions of absolute addresses in the module, as far as they are known."""
        absolute = sorted(address for address in addresses if address >= module.base)
        debug_info = self._of(module) if absolute else None
        if debug_info is None:
            return {}
        found = debug_info.resolve([address - module.base for address in absolute])
        return {at: position for at, position in zip(absolute, found, strict=True) if position}

    def _of(self, module: LoadedFile) -> DebugInfo | None:
        key = (module.path, module.build_id)  # a library can be loaded twice
        if key not in self._open:
            self._open[key] = self._read(module)
        return self._open[key]

    def _read(self, module: LoadedFile) -> DebugInfo | None:
        path, build_id = module.path, module.build_id
        if not build_id and is_newer(path, module.load_ns, self._meta):
            return None
        try:
            return self._open_file(path, build_id)
        except LookupError:
            self._rebuilt.append(path)
        except ValueError as error:
            self._notes.append(f"{path}: no source lines: {error}")
        except OSError as error:
            if error.errno == errno.EFBIG:
                name = os.path.basename(path)
                self._notes.append(
                    f"{name}: its debug information is large: `pyhybrid report` reads it"
                )
                return None
            # No DWARF; or the file is gone, which was noted when names were sought.
        fetched = self._fetch(build_id, path) if self._fetch and build_id else None
        if fetched:
            try:
                return self._open_file(fetched, build_id)
            except (OSError, LookupError, ValueError) as error:
                self._notes.append(f"{fetched}: no source lines: {error}")
        return None


# Debug files from debuginfod servers, by build-id, by debuginfod-find(1).
#
# The program is part of elfutils.  It asks the servers in $DEBUGINFOD_URLS and keeps what it gets
# where all its users look ($DEBUGINFOD_CACHE_PATH, else ~/.cache/debuginfod_client).  It runs
# only where someone asked for it: without `--debuginfod` nothing is ever fetched.

PROGRAM = "debuginfod-find"


class Debuginfod:
    """Ask the servers; `notes` has what went wrong."""

    def __init__(self) -> None:
        """Begin; raises PyhybridError where the program is missing or no server is named."""
        self.notes: list[str] = []
        if not os.environ.get("DEBUGINFOD_URLS", "").strip():
            raise PyhybridError("--debuginfod: $DEBUGINFOD_URLS names no server")
        import shutil

        program = shutil.which(PROGRAM)
        if program is None:
            raise PyhybridError(f"--debuginfod needs {PROGRAM} (of elfutils), which is not here")
        self._program = program

    def find(self, build_id: str, module: str) -> str | None:
        """Return the path of the debug file of this build of `module`; None: no server has it.

        That may take minutes: it is reported on stderr, and can be interrupted.
        """
        import subprocess  # here and there alone: the end of every run imports this module

        say(f"asking debuginfod for {os.path.basename(module)} ...")
        asked = subprocess.run(
            [self._program, "debuginfo", build_id],
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if asked.returncode == 0:
            return os.fsdecode(asked.stdout).removesuffix("\n")
        reason = os.fsdecode(asked.stderr).strip().rpartition(": ")[2]
        if reason != "No such file or directory":
            reason = reason or f"{PROGRAM} ended with {asked.returncode}"
            self.notes.append(f"debuginfod: {build_id}: {reason}")
        return None
