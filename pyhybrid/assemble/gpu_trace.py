"""What is told of a GPU's work, whoever tells it: plain records, times of day in nanoseconds.

kineto.py reads them from a trace of torch.profiler's, gpu_live.py from what the program recorded;
gpu_placing.py finds the calls for them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class Launch(NamedTuple):
    """A call on a thread of the program's that gave work to a GPU."""

    tid: int
    begin_ns: int


class Work(NamedTuple):
    """A kernel, copy or fill; `launch` is None where it is not known."""

    name: str
    device: int
    stream: int
    begin_ns: int
    end_ns: int
    launch: Launch | None


class Wait(NamedTuple):
    """A call on a thread of the program's that waited for a GPU."""

    name: str
    tid: int
    begin_ns: int
    end_ns: int


class Operator(NamedTuple):
    """An operator on a CPU.  `sequence`: of the autograd node that it made, or ran; -1: of none.
    `is_backward`: it ran one.  `accumulates`: it ran one that sums up a gradient, of no number."""

    tid: int
    begin_ns: int
    end_ns: int
    sequence: int
    is_backward: bool
    accumulates: bool


class Piece(NamedTuple):
    """Work of an autograd node on a CPU, and the call path that made it (0: none that is known).
    Its times are the profile's."""

    tid: int
    begin_ns: int
    end_ns: int
    node: int


def graph_name(name: str) -> str:
    """Of what a CUDA graph replays."""
    return f"[graph] {name}"


@dataclass(slots=True)
class GpuTrace:
    """All of a run, or of parts of it: `windows` are when it was recorded, in order, apart.

    `pids`: of the processes that launched; none: it is this one.  `notes`: what to say of it.
    """

    work: list[Work] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)  # instead of operators
    windows: list[tuple[int, int]] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
