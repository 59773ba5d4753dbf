"""PyTorch's work on a GPU, while the program runs: torch.profiler's CUDA activities, in windows of
steps.

A window begins and ends where a step does, on the thread that trains.  In it torch.profiler runs
with CUDA activities alone, and begins and ends of functions are logged, by which launches are
placed (gpu/live.py).  Its events are taken as they are in memory.  We have no subscriber
to CUPTI of our own, of which a process can have one, and where the program profiles itself ours
steps aside.

All this runs in callbacks, so nothing of it is counted; what PyTorch raises ends the recording, not
the program.  Imports nothing of the framework's.
"""

import json
import sys
import time
from _thread import get_ident
from array import array
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from pyhybrid.frameworks import torch as names
from pyhybrid.frameworks.torch_steps import Steps

_BEGINS, _ENDS = "profiler begins", "profiler ends"

_recording: "Recording | None" = None  # the session's


def begin(native: ModuleType, above: str, n: int, of: int) -> Steps:
    """Record `n` of each `of` steps, as what is returned follows them; `above`: the folder that
    PyTorch's is in."""
    global _recording
    _recording = Recording(native, n, of)
    names.register_steps(native, above, _recording.others())
    return _recording


def pause() -> None:
    """Count nothing any more, or for a while."""
    if _recording:
        _recording.close_soon()


def metadata(native: ModuleType) -> dict[str, Any]:
    """Return what came of it, as metadata of the profile, once: the session has ended."""
    global _recording
    recording, _recording = _recording, None
    return {"gpu": recording.result()} if recording else {}


class Recording(Steps):
    """Record the windows of a session."""

    def __init__(self, native: ModuleType, n: int, of: int) -> None:
        table = names.gpu()
        others = {_BEGINS: table["profiler_begins"], _ENDS: table["profiler_ends"]}
        super().__init__(others)
        self._native, self._n, self._of = native, n, of
        self._wait = min(names.gpu()["skips"], of - n)  # steps until the next window
        self._seen = 0  # steps of the one that is open
        self._profiler: Any = None  # torch's; None: none is open
        self._begin_ns = 0
        self._theirs = False  # the program's own profiler runs
        self._n_windows = self._n_aside = 0
        self._was_used = False

    def result(self) -> dict[str, Any]:
        """Return what came of it."""
        return {
            "steps": self.n_steps,
            "windows": self._n_windows,
            "aside": self._n_aside,
            "used": self._was_used,
            "cuda": _is_cuda_build(),
            "failed": self.failed or "it is another thread's" * (self._profiler is not None),
        }

    def other_begins(self, event: str) -> None:
        """See Steps: the program's own profiler begins or ends."""
        self._theirs = event == _BEGINS
        if self._theirs:
            self._step_aside()

    def stops(self) -> None:
        """See Steps."""
        self._native.log_events(False)

    def is_busy(self) -> bool:
        """See Steps."""
        return self._profiler is not None

    def step_begins(self) -> None:
        """See Steps."""
        if self._profiler:
            self._seen += 1
            if self._seen >= self._n and not _is_captured():
                self.close()
        if self._profiler:
            return
        if self._wait:
            self._wait -= 1
        else:
            self._open()

    def _open(self) -> None:
        torch = sys.modules["torch"]
        if not torch.cuda.is_initialized():
            return
        self._was_used = True
        if self._theirs or torch.autograd._profiler_enabled():
            self._n_aside += 1
            self._wait = self._of - self._n
        elif not _is_captured():
            kind = torch.autograd.profiler.profile
            profiler = kind(use_cpu=False, use_kineto=True, use_device="cuda")
            profiler.__enter__()
            self._profiler, self._seen = profiler, 0
            self._native.log_events(True)
            self._begin_ns = time.time_ns()

    def _step_aside(self) -> None:
        if self._profiler:
            self._n_aside += 1
            self.close()

    def close_soon(self) -> None:
        """End the window: now on its own thread, else with the step, for it is that thread's."""
        if get_ident() == self.thread:
            self.close()
        else:
            self._seen = self._n

    def close(self) -> None:
        """End the window, if one is open."""
        profiler, self._profiler = self._profiler, None
        if not profiler:
            return
        self._wait = self._of - self._n
        end_ns = time.time_ns()
        profiler.__exit__(None, None, None)
        self._native.log_events(False)
        text, numbers = _packed(profiler.kineto_results.events())
        text |= {"begin_ns": self._begin_ns, "end_ns": end_ns, "steps": self._seen}
        self._native.write_device_work(json.dumps(text).encode(), numbers)
        self._n_windows += 1


def _is_cuda_build() -> bool:
    version = getattr(sys.modules.get("torch"), "version", None)
    return getattr(version, "cuda", None) is not None


def _is_captured() -> bool:
    """Is a CUDA graph being made of what the thread launches?  Nobody may wait for the GPU then."""
    captured: bool = sys.modules["torch"].cuda.is_current_stream_capturing()
    return captured


def _packed(events: Iterable[Any]) -> tuple[dict[str, Any], "array[int]"]:
    """Pack launches (correlation, name, thread, begin, duration), and then the work (correlation,
    name, device, stream, begin, duration); how many of each, and the names."""
    begins = tuple(names.gpu()["launches"])
    launches, work = array("q"), array("q")
    numbers: dict[str, int] = {}
    for event in events:
        name = event.name()
        number = numbers.setdefault(name, len(numbers))
        what = event.correlation_id(), number
        where, when = event.device_resource_id(), (event.start_ns(), event.duration_ns())
        if event.device_type().name != "CPU":
            work.extend((*what, event.device_index(), where, *when))
        elif name.startswith(begins):
            launches.extend((*what, where, *when))
    text = {"names": list(numbers), "launches": len(launches) // 5, "work": len(work) // 6}
    return text, launches + work
