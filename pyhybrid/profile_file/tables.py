"""Rows of a profile file, as dataclasses: schema.sql in Python.

Times are CLOCK_MONOTONIC nanoseconds, weights nanoseconds of the sampling clock, addresses absolute
unless a field says otherwise.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyhybrid.pseudo import TIMES
from pyhybrid.spool.layout import GIL_SHIFT, STACK_MASK, WAITS

FOLDED_TID = 1 << 22  # and more: no thread of the system has these
OBJECT = "object"  # the source of a frame that is an object with a path: a module of a model
BACKWARD = "backward"  # of one that stands above the backward work for such an object
GIL = ("neither", "held", "waiting", "neither")  # what a thread has to do with the GIL, by number


@dataclass(slots=True)
class Process:
    """A profiled process; `end_ns` None: it was killed, and so is what only the end tells."""

    id: int
    pid: int
    executable: str | None
    argv: list[str]
    start_ns: int | None
    end_ns: int | None
    cpu_ns: int | None
    n_forked: int | None
    n_spawned: int | None

    def with_(self, others: "Sequence[Process]") -> "Process":
        """This one, from the first's begin to the last's end; of sums those that are known."""
        all_of_them = (self, *others)
        begins = [each.start_ns for each in all_of_them if each.start_ns is not None]
        ends = [each.end_ns for each in all_of_them if each.end_ns is not None]

        def total(name: str) -> int | None:
            known = [n for each in all_of_them if (n := getattr(each, name)) is not None]
            return sum(known) if known else None

        return replace(
            self,
            start_ns=min(begins, default=None),
            end_ns=max(ends) if len(ends) == len(all_of_them) else None,
            cpu_ns=total("cpu_ns"),
            n_forked=total("n_forked"),
            n_spawned=total("n_spawned"),
        )


@dataclass(slots=True)
class Thread:
    """A thread; signals == recorded + the samples of its losses.

    `first_ns` and `last_ns` are the times of its first and last sample; `handler_ns` is the
    histogram of src/record/spool.h, SPOOL_HISTOGRAM.
    """

    id: int
    tid: int
    name: str
    comm: str
    start_ns: int
    first_ns: int | None
    last_ns: int | None
    cpu_ns: int | None
    signals: int
    recorded: int
    recorded_weight_ns: int
    missed_weight_ns: int
    handler_ns: list[int]
    process: int

    @property
    def n_threads(self) -> int:
        """How many it is: threads of a name may be one (src/record/thread_folds.h)."""
        _, of, n = self.name.rpartition(TIMES)
        return int(n.replace(",", "")) if of and self.tid >= FOLDED_TID else 1


@dataclass(slots=True)
class Loss:
    """Samples of a thread that were not recorded, by reason (pseudo.py)."""

    thread: int
    reason: str
    samples: int
    weight_ns: int


@dataclass(slots=True)
class Module:
    """A loaded ELF file; `segments`: (start, size, file offset, `PF_*` flags), absolute."""

    id: int
    path: str
    build_id: str | None
    base: int
    load_ns: int
    unload_ns: int | None
    segments: list[tuple[int, int, int, int]]


@dataclass(slots=True)
class Frame:
    """A function; kind: python, native, kernel, pseudo or region.  The fields are schema.sql's."""

    id: int
    kind: str
    name: str
    file: str | None
    line: int | None
    module: int | None
    address: int | None
    size: int | None
    symbol: str | None
    source: str
    python_name: str | None = None
    inlined: bool = False  # into what calls it on the path: by inlined.py, not in the file

    @property
    def is_object(self) -> bool:
        """An object that has a path of its own: a module of a model; `symbol` is its class."""
        return self.kind == "region" and self.source == OBJECT

    @property
    def is_backward(self) -> bool:
        """Backward work for an object stands below it; `symbol` is that one's path."""
        return self.kind == "region" and self.source == BACKWARD

    @property
    def is_nameless(self) -> bool:
        """Native code of which neither a symbol nor the interpreter tells a name."""
        return self.kind == "native" and self.symbol is None and self.python_name is None


@dataclass(slots=True)
class Nodes:
    """Call paths by function, indexed by node id; 0 is the root, parents have smaller ids."""

    parent: "array[int]"
    frame: "array[int]"


@dataclass(slots=True)
class Stacks:
    """Call paths by address, indexed by stack id; 0 is the root, parents have smaller ids."""

    parent: list[int]
    node: list[int]
    address: list[int | None]
    offset: list[int | None]
    line: list[int | None]


class Place(NamedTuple):
    """Where in the source a frame of a stack row is; line 0: not known."""

    frame: int
    file: str | None
    line: int


@dataclass(slots=True)
class Sampled:
    """What a thread was sampled in: self figures.  The fields are schema.sql's."""

    thread: int
    stack: int
    gil: str
    waits: int
    samples: int
    weight_ns: int


class Exact(NamedTuple):
    """What events counted of a path on a thread: the table `exact` without its process."""

    thread: int
    node: int
    calls: int
    resumes: int
    raised: int
    seeded: int
    total_ns: int
    self_ns: int


class Backward(NamedTuple):
    """Work of the backward pass for a path: the table `backward`; thread, node 0: not known
    for which."""

    thread: int
    node: int
    name: str
    calls: int
    self_ns: int


class Call(NamedTuple):
    """A call that was kept: the table `call` without its process; `attributes` are JSON.

    `parent`: the call that was kept around it; `weight`: how many calls it stands for.
    """

    id: int
    thread: int
    node: int
    begin_ns: int
    end_ns: int
    busy_ns: int
    state: str
    attributes: str | None
    parent: int | None
    weight: int


class WatchedCall(NamedTuple):
    """A call of a framework's function: the table `watched_call`."""

    thread: int
    node: int
    begin_ns: int
    end_ns: int
    cpu_begin_ns: int
    cpu_end_ns: int
    raised: int


class GpuWork(NamedTuple):
    """Work of a GPU, by the call that launched it: the table `gpu`."""

    id: int
    node: int
    backward: int
    name: str
    device: int
    stream: int
    launches: int
    ns: int


class GpuActivity(NamedTuple):
    """A kernel, copy or fill: the table `gpu_activity`; `launch_ns` None: it is not known."""

    work: int
    begin_ns: int
    end_ns: int
    launch_ns: int | None


class GpuWait(NamedTuple):
    """Waits for a GPU, by the call that waited: the table `gpu_wait`."""

    node: int
    name: str
    calls: int
    ns: int


class GpuWindow(NamedTuple):
    """When a GPU's work was recorded: the table `gpu_window`."""

    begin_ns: int
    end_ns: int


class Usage(NamedTuple):
    """What a kept call used: the table `usage` without its process; None: not asked for."""

    call: int
    cpu_begin_ns: int | None
    cpu_end_ns: int | None
    cpu_ns: int | None
    user_ns: int | None
    system_ns: int | None
    process_ns: int | None
    minor_faults: int | None
    major_faults: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    resident_begin: int | None
    resident_end: int | None


@dataclass(slots=True)
class Code:
    """What is told of a function whose calls are kept; `path` is module.qualname."""

    frame: int
    function: str
    module: str
    path: str
    file: str
    line: int
    arguments: list[str]
    other_locals: list[str]
    stack_size: int


class Turn(NamedTuple):
    """A turn of a call that has several."""

    call: int
    thread: int
    begin_ns: int
    end_ns: int


class CallTime(NamedTuple):
    """Durations of a path's calls on a thread; `histogram`: (from_ns, calls)."""

    thread: int
    node: int
    calls: int
    total_ns: int
    max_ns: int
    histogram: list[tuple[int, int]]


class Event(NamedTuple):
    """A begin or an end.

    kind: call, resume, return, yield, raise; or gap: `node` events are missing here.
    """

    thread: int
    time_ns: int
    kind: str
    node: int


class Line(NamedTuple):
    """A line of a function on a path, on a thread: the table `line` without its process."""

    thread: int
    node: int
    line: int
    hits: int
    total_ns: int


@dataclass(slots=True)
class Chunk:
    """Samples of one thread in order of time: uint32[n] each, and the weights that are not one.

    A sample's time is `first_ns` + the sum of `dt_ns` up to and including it.  Its place says the
    stack (`stack_of`), what the thread had to do with the GIL (`gil_name`), and whether it was off
    the CPU (`waits`).
    """

    thread: int
    first_ns: int
    dt_ns: "array[int]"
    place: "array[int]"
    weights: dict[int, int]  # index -> periods
    cpus: dict[int, int]  # index -> CPU, which holds until the next one


def stack_of(place: int) -> int:
    """The id of a sample's stack."""
    return place & STACK_MASK


def stacks_of(places: Iterable[int]) -> list[int]:
    """The ids of samples' stacks."""
    return [place & STACK_MASK for place in places]


def gil_name(place: int) -> str:
    """One of GIL."""
    return GIL[place >> GIL_SHIFT & 3]


def waits(place: int) -> int:
    """1: the thread was off the CPU."""
    return int(place & WAITS != 0)
