"""Programs that begin with PyTorch imported.

Tests of what happens as it is imported, or of what it reads then (variables of the environment),
start a process of their own.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fork_support import Forks
from support import PATIENCE_S, common_folder

# A pool of NumPy's would have a thread, which a fork does not.  Threads of OpenMP that spin at
# barriers take from others who work, and wait for them.
OURS = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


class TorchProcess:
    """The process of a session's workers that has imported it, and what an optimizer imports."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._forks = Forks(
            common_folder(factory), "torch-process", ["torch._dynamo"], frozen=False, **OURS
        )
        self.close = self._forks.close

    def run(self, folder: Path, what: str | Path, *arguments: object) -> str:
        """Runs a module or a file there, and returns what it printed; what it printed as errors is
        in the file `errors`."""
        with open(folder / "errors", "w") as errors:
            done = self._forks.run(
                *(folder, what, *arguments),
                environment={**os.environ, **OURS},
                stderr=errors,
                timeout=PATIENCE_S,
            )
        assert done.returncode == 0, (folder / "errors").read_text()
        return done.stdout

    def profiled(self, folder: Path, *arguments: object) -> str:
        """The same of `python -m pyhybrid`."""
        return self.run(folder, "pyhybrid", *arguments)
