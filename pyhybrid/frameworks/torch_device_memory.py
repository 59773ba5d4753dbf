"""Memory of GPUs while the program runs: PyTorch's own history of it, from where the program begins
to use one, and a snapshot of it where a request fails, else at the end.

The history has the last events of each device, with the Python stacks that asked, so what lived at
the peak is known if that was in them.  Where the program keeps a history of its own, that one is
used and stays.  A snapshot is what `torch.cuda.memory._dump_snapshot` writes (views/training/
device_memory.py reads it).

PyTorch calls what is here where it initializes CUDA and where a request fails, with no lock of its
allocator's.  What is raised goes into the profile, not to the program.  Imports nothing of the
framework's.
"""

import json
import os
import pickle
import sys
from types import ModuleType
from typing import Any

SUFFIX = ".cuda-memory.pickle"  # of the snapshot, behind the profile's name without its own
META = "cuda_memory"  # of the profile
_MOST_EVENTS = 100_000  # of a device
_MOST_WRITTEN = 4  # programs try how much there is room for: the last of so many failures stays

_history: "History | None" = None  # the session's


def begin(native: ModuleType, prefix: str) -> None:
    """Have the history kept as soon as the program uses a GPU; PyTorch is loaded.  Nothing happens
    with a PyTorch that can use none."""
    global _history
    _history = None
    torch = sys.modules["torch"]
    if hasattr(torch._C, "_cuda_memorySnapshot") and hasattr(torch.cuda, "_lazy_call"):
        _history = History(native, prefix + SUFFIX)
        torch.cuda._lazy_call(_history.start)


def metadata(native: ModuleType) -> dict[str, Any]:
    """Return where the snapshot is, as metadata of the profile, and keep no history any more."""
    global _history
    history, _history = _history, None
    return history.end() if history else {}


class History:
    """Keep the history of a session."""

    def __init__(self, native: ModuleType, path: str) -> None:
        self._native, self._path, self._process = native, path, os.getpid()
        self._began = self._is_theirs = False
        self._failures: list[tuple[int, int, int]] = []  # device, bytes asked for, bytes free
        self._n_failures = 0
        self._error = ""

    def _counts(self) -> bool:
        """Is this the session's process, and not a fork of it, and has it not ended?"""
        return _history is self and os.getpid() == self._process

    def start(self) -> None:
        """Begin: CUDA is there now."""
        if not self._counts():
            return
        try:
            torch = sys.modules["torch"]
            self._is_theirs = torch._C._cuda_isHistoryEnabled()
            if not self._is_theirs:
                torch.cuda.memory._record_memory_history("all", "all", "python", _MOST_EVENTS)
            self._began = True
            torch._C._cuda_attach_out_of_memory_observer(self.fails)
        except Exception as error:
            self._error = _line(error)

    def fails(self, device: int, wanted: int, allocated: int, free: int) -> None:
        """Write a snapshot: a request has failed."""
        if not self._counts():
            return
        self._n_failures += 1
        self._failures = [*self._failures, (device, wanted, free)][-_MOST_WRITTEN:]
        if self._n_failures > _MOST_WRITTEN:
            return
        self._write()
        self._native.write_meta(json.dumps(self._facts()).encode())

    def end(self) -> dict[str, Any]:
        """Return what was found."""
        if os.getpid() != self._process or not (self._began or self._error):
            return {}
        if self._began and not self._n_failures:
            self._write()
        if self._began and not self._is_theirs:
            try:
                sys.modules["torch"].cuda.memory._record_memory_history(None)
            except Exception as error:
                self._error = _line(error)
        return self._facts()

    def _facts(self) -> dict[str, Any]:
        facts = {
            "snapshot": os.path.basename(self._path),
            "n_failures": self._n_failures,
            "failures": self._failures,
            "error": self._error,
        }
        return {META: facts}

    def _write(self) -> None:
        temporary = f"{self._path}.{self._process}"
        try:
            found = sys.modules["torch"].cuda.memory._snapshot()
            with open(temporary, "wb") as file:
                pickle.dump(found, file)
            os.replace(temporary, self._path)
        except Exception as error:
            self._error = _line(error)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
