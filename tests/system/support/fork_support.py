"""Programs that begin with some modules imported: to import these takes longer than what most of
them do.

Tests of how a program starts (what is imported, what the interpreter reads then, how it was called)
start a process of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import pytest
from gdb_support import core_files, where_it_hangs

SERVER = Path(__file__).parent / "fork_server.py"

# Beginnings of names of variables that the interpreter, or a library, reads as it starts.
READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "ASAN_", "UBSAN_")


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: value for k, value in environment.items() if k.startswith(READ_AT_START)}


class Forks:
    """A process that has imported MODULES, of all who name it so in this folder: programs run in
    forks of it."""

    def __init__(
        self, folder: Path, name: str, modules: Iterable[str], frozen: bool, **more: str
    ) -> None:
        """FROZEN: garbage collections leave out what is imported, in the programs, too, which take
        less time; libraries of nanobind's (Triton's) then say that it leaks.  MORE: variables of
        its environment."""
        self._lock = threading.Lock()
        self._at_start = at_start(os.environ)
        with open(folder / f"{name}.lock", "w") as lock, core_files():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._connect(folder, name):
                command = [
                    sys.executable,
                    "-P",
                    SERVER,
                    name,
                    "frozen" if frozen else "whole",
                    *modules,
                ]
                subprocess.run(command, cwd=folder, env={**os.environ, **more}, check=True)
                assert self._connect(folder, name)

    def _connect(self, folder: Path, name: str) -> bool:
        """False: nobody listens there (any more)."""
        fd = os.open(folder, os.O_RDONLY)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(f"/proc/self/fd/{fd}/{name}")  # whose path may be too long
            return self._socket.recv(100) == b"ready"
        except OSError:
            self._socket.close()
            return False
        finally:
            os.close(fd)

    def close(self) -> None:
        self._socket.close()

    def start_alike(self, environment: Mapping[str, str]) -> bool:
        """Would an interpreter with this environment start as that process did?"""
        return at_start(environment) == self._at_start

    def run(
        self,
        folder: Path,
        what: str | Path,
        *arguments: object,
        environment: Mapping[str, str],
        stdout: IO[str] | int | None = None,
        stderr: IO[str] | int | None = None,
        timeout: float,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a module or a file there; what it prints goes to the files, or else is returned."""
        asked = {
            "folder": str(folder),
            "what": str(what),
            "arguments": [*map(str, arguments)],
            "environment": dict(environment),
        }
        with contextlib.ExitStack() as files:
            printed = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
            stdin = files.enter_context(open(os.devnull))
            given = [stdin, *(a or b for a, b in zip((stdout, stderr), printed, strict=True))]
            descriptors = [each if isinstance(each, int) else each.fileno() for each in given]
            with self._lock:
                status = self._status(json.dumps(asked).encode(), descriptors, timeout)
            for each in printed:
                each.seek(0)
            module = [] if os.path.isabs(what) else ["-m"]
            command = [sys.executable, "-P", *module, str(what), *map(str, arguments)]
            return subprocess.CompletedProcess(command, status, *(each.read() for each in printed))

    def _status(self, message: bytes, descriptors: list[int], timeout: float) -> int:
        socket.send_fds(self._socket, [message], descriptors)
        pid = int(self._socket.recv(100))
        if not select.select([self._socket], [], [], timeout)[0]:
            stacks = where_it_hangs(pid)
            os.kill(pid, signal.SIGKILL)
            self._socket.recv(100)
            pytest.fail(f"{message.decode()} hangs:\n{stacks}")
        return int(self._socket.recv(100))
