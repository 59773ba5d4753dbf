"""Programs that begin with PyTorch imported: to import it takes longer than what most of them do.

Tests of what happens as it is imported, or of what it reads then (variables of the environment),
start a process of their own.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import PATIENCE_S, common_folder

SERVER = Path(__file__).parent / "torch_server.py"


class TorchProcess:
    """The process of a session's workers that has imported it: programs run in forks of that."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        folder = common_folder(factory)
        with open(folder / "torch-process.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._connect(folder):
                # A pool of NumPy's would have a thread, which a fork does not.  Threads of OpenMP
                # that spin at barriers take from others who work, and wait for them.
                ours = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
                environment = {**os.environ, **ours}
                command = [sys.executable, "-P", SERVER, "torch-process"]
                subprocess.run(command, cwd=folder, env=environment, check=True)
                assert self._connect(folder)

    def _connect(self, folder: Path) -> bool:
        """False: nobody listens there (any more)."""
        fd = os.open(folder, os.O_RDONLY)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_S + 60)  # the other side ends it before
        try:
            self._socket.connect(f"/proc/self/fd/{fd}/torch-process")  # whose path may be too long
            self._answers = self._socket.makefile()
            return self._answers.readline() == "ready\n"
        except OSError:
            self._socket.close()
            return False
        finally:
            os.close(fd)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def run(self, folder: Path, what: str | Path, *arguments: object) -> str:
        """Runs a module or a file there, and returns what it printed; what it printed as errors is
        in the file `errors`."""
        asked = {"folder": str(folder), "what": str(what), "arguments": [*map(str, arguments)]}
        self._socket.sendall(json.dumps(asked).encode() + b"\n")
        status = self._answers.readline()
        assert status == "0\n", (folder / "errors").read_text()
        return (folder / "said").read_text()

    def profiled(self, folder: Path, *arguments: object) -> str:
        """The same of `python -m pyhybrid`."""
        return self.run(folder, "pyhybrid", *arguments)
