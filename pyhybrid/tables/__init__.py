"""The tables of a profile file, PREFIX.pyhybrid, which is one SQLite database.

Times are CLOCK_MONOTONIC nanoseconds; weights are nanoseconds of the sampling clock; addresses
are absolute unless a field has others. Ids are unique in the file. What something is, several
processes may share: module, frame, node, stack, and what is known of frames have no process, so
that a function or a call path is one row, however many processes run it. Figures are those of a
process: thread, sampled, exact, call, line, timeline and the like carry it.

An exact time (counted by events) that stands in one row with sampled ones, in `report --json`, a
data frame or a page, has the prefix `exact_`: exact_self_ns beside self_ns. A table of one half
needs none, nor do calls, of which samples know nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from pyhybrid._columns import GIL_SHIFT, STACK_MASK, WAITS
from pyhybrid.base.pseudo_frames import TIMES
from pyhybrid.capture.children import OWN_THREAD
from pyhybrid.tables.schema import NO_NUMBER as NO_NUMBER
from pyhybrid.tables.schema import TABLES as TABLES
from pyhybrid.tables.schema import (
    CallId,
    FrameId,
    Id,
    Json,
    ModuleId,
    NodeId,
    NodeIds,
    NodeOrZero,
    Places,
    ProcessId,
    Record,
    Row,
    StackId,
    StackOrZero,
    ThreadId,
    ThreadOrZero,
    Time,
    WorkId,
)

FOLDED_TID = 1 << 22  # and more: no thread of the system has these
OBJECT = "object"  # the source of a frame that is an object with a path: a module of a model
BACKWARD = "backward"  # of one that stands above the backward work for such an object
GIL = ("neither", "held", "waiting", "neither")  # what a thread has to do with the GIL, by number


class Meta(Row, key="key"):
    """One row is what the profiled process recorded of itself (version, argv, clock, engine, hz,
    period_ns, ...) and of its host (machine.py), or what finishing added.

    complete: false where it was killed. recorded_until_ns: then, up to when its calls were counted.
    kernel_lost: ticks of which it is not known where in the kernel they came. kernel_mute: clocks
    that could not know that. unaccounted_ns: CPU time of the process, without ours, that no sample
    stands for, nor a lost or missed one. kernel_text: [start, end] of the kernel's code, or null.
    kernel_build_id. perf_map and jitdumps: files in which other runtimes named their code. n_cpus.
    notes. main_delay_ns: for how long the main thread was ready but had no processor. throttled and
    throttled_ns: how often and for how long the quota of its container held it back, all processors
    together. cells: of a notebook, what their functions have as their file, by the file that
    IPython named for it. decorated: functions during whose calls alone anything counted; none: no
    such limit. unplaced_regions and unmatched_regions: pushes by native code that could not be
    counted; pops of what was not open.  parts_cpu_ns: what Profilers within the run took to start
    and to stop, on the CPU.  end_cpu_ns: CPU time of the process after the end of profiling, until
    it waited for its profile. sources: of the program's own files the `hash` of the text at the
    end, and `stale`, the lines that ran when it was another one. other_tools: was there one of
    sys.monitoring, sys.settrace or sys.setprofile? counters and metadata: what native code gave
    (the views `counter` and `metadata`). unsampled_calls: nodes of native functions that called
    what led to Python also from places that no stack has. call_cost_ns: what counting adds to a
    call, measured at start. call_cost_inside_ns: the part that is charged to the function itself,
    not to its caller; null: not known. counting_more_ns: what calls from C code, new paths and new
    threads took beyond that, by those that were timed; absent: it was killed.
    """

    key: str
    value: Json[object]


class Process(Row, ordered_by="id"):
    """One row is a profiled process; argv is a list.

    end_ns is null where it was killed, and so is what only the end provides.
    """

    id: Id
    pid: int
    executable: str | None
    argv: Json[list[str]]
    start_ns: Time | None
    end_ns: Time | None
    cpu_ns: int | None
    n_forked: int | None
    n_spawned: int | None

    def with_(self, others: Sequence[Process]) -> Process:
        """Return this one, from the first begin to the last end that is known, if this one has
        ended; of sums those that are known."""
        all_of_them = (self, *others)
        begins = [each.start_ns for each in all_of_them if each.start_ns is not None]
        ends = [each.end_ns for each in all_of_them if each.end_ns is not None]

        def total(name: str) -> int | None:
            known = [n for each in all_of_them if (n := getattr(each, name)) is not None]
            return sum(known) if known else None

        return self._replace(
            start_ns=min(begins, default=None),
            end_ns=max(ends) if self.end_ns is not None else None,
            cpu_ns=total("cpu_ns"),
            n_forked=total("n_forked"),
            n_spawned=total("n_spawned"),
        )


class ProcessMeta(Row, key="process key"):
    """One row is what each process recorded of itself that `meta` does not have of all, where the
    file is of several processes (`pyhybrid merge`)."""

    process: ProcessId
    key: str
    value: Json[object]


class Thread(Row, ordered_by="id"):
    """One row is a thread; name: threading's, else comm.  signals = recorded + the samples of its
    losses.

    first_ns and last_ns: when its first and its last sample were taken. handler_ns: the histogram
    of the handler's time (src/record/spool.h, SPOOL_HISTOGRAM).
    """

    id: Id
    process: ProcessId
    tid: int
    name: str
    comm: str
    start_ns: Time
    first_ns: Time | None
    last_ns: Time | None
    cpu_ns: int | None
    signals: int
    recorded: int
    recorded_weight_ns: int
    missed_weight_ns: int
    handler_ns: Json[list[int]]

    @property
    def n_threads(self) -> int:
        """Return how many it is: threads of a name may be one (src/record/thread_folds.c)."""
        _, of, n = self.name.rpartition(TIMES)
        return int(n.replace(",", "")) if of and self.tid >= FOLDED_TID else 1

    @property
    def is_ours(self) -> bool:
        """Is it the thread of ours that serves who attached, or keeps the last minutes?"""
        return self.name == OWN_THREAD and not self.recorded


class Loss(Row, of_process=True, ordered_by="thread, reason"):
    """One row is the samples of a thread that were not recorded, by reason (pseudo_frames.py)."""

    thread: ThreadId
    reason: str
    samples: int
    weight_ns: int


class Module(Row, ordered_by="id", describes=True, not_stored=("segments",)):
    """One row is a loaded ELF file."""

    id: Id
    path: str
    build_id: str | None
    base: int
    load_ns: Time
    unload_ns: Time | None
    segments: list[tuple[int, int, int, int]]  # start, size, file offset, flags: absolute


class Segment(Row, describes=True, ordered_by="module, start"):
    """One row is where a module is: its program headers PT_LOAD; `flags` are theirs (PF_*)."""

    module: ModuleId
    start: int
    size: int
    file_offset: int
    flags: int


class Frame(Row, ordered_by="id", describes=True, not_stored=("inlined",)):
    """One row is a function. kind: python, native, kernel, pseudo, or region (pyhybrid.region; an
    object: a PyTorch module of a model, whose name is its path; or the backward work for one).
    Python functions are one by (name, file, line), native ones by (module's path and build-id,
    address), code in no module by address.

    name: the qualname, demangled symbol, or [pseudo]. file, line: of Python functions the file
    and the first line; of the kernel `file` is its module. module: of native ones; null: code in
    no module (a JIT compiler's). address, size: of native ones the function's start, relative to
    the module; without a module, and of the kernel, absolute (64 bits with sign). symbol: of
    native ones and the kernel the name as it stands in the table; exported data: an object's name
    and the place in it (resolve.py); pseudo: which, as a word (pseudo_frames.py); an object: its
    class; backward work: the path of the object. source: code, symtab, debug file, debugdata,
    dynsym, plt, exported data, method table, role (frames.py), fde, jit map, jitdump
    (jit.py), kallsyms, none, pseudo, region; object: of an object's region; backward.
    python_name: by which Python reaches a native function (torch._C._nn.linear), by the
    interpreter's method tables at the program's end.
    """

    id: Id
    kind: str
    name: str
    file: str | None
    line: int | None
    module: ModuleId | None
    address: int | None
    size: int | None
    symbol: str | None
    source: str
    python_name: str | None = None
    inlined: bool = False  # into what calls it on the path: by inlined.py, not in the file

    @property
    def is_object(self) -> bool:
        """Is it an object with a path: a module of a model, whose class is `symbol`?"""
        return self.kind == "region" and self.source == OBJECT

    @property
    def is_backward(self) -> bool:
        """Does backward work for an object stand below it, whose path is `symbol`?"""
        return self.kind == "region" and self.source == BACKWARD

    @property
    def is_nameless(self) -> bool:
        """Is it native code of which neither a symbol nor the interpreter knows a name?"""
        return self.kind == "native" and self.symbol is None and self.python_name is None


class Node(Row, ordered_by="id", describes=True):
    """One row is a call path by function. Parents have smaller ids; parent 0 is the root."""

    id: Id
    parent: NodeOrZero
    frame: FrameId


class Stack(Row, ordered_by="id", describes=True):
    """One row is a call path, address by address; node is its projection. Rows that stand for no
    frame of a call (assemble/trees.py, "Phantoms") are nobody's parent.

    address: of native code and the kernel, absolute (64 bits with sign). offset: of Python code,
    the instruction's in code units. line: of Python code.
    """

    id: Id
    parent: StackOrZero
    node: NodeId
    address: int | None
    offset: int | None
    line: int | None


class Sampled(
    Row,
    of_process=True,
    key="process thread stack gil waits",
    ordered_by="thread, stack, gil, waits",
):
    """One row has self figures of samples; inclusive ones are derived.

    gil: 'held', 'waiting' (the thread slept until it would get the GIL) or 'neither'. waits: 1
    where the thread was off the CPU, which wall-clock time sees.
    """

    thread: ThreadId
    stack: StackId
    gil: str
    waits: int
    samples: int
    weight_ns: int


class Exact(Row, of_process=True, key="process thread node", ordered_by="process, thread, node"):
    """One row is what the events of sys.monitoring counted of a Python function, path by path, and
    with --c-calls of a C function that Python functions called (native nodes, children of their
    callers'); it is never added to samples.

    total_ns: wall time (by the TSC) of all activations of the path. self_ns: without what they
    called. A generator that is suspended is charged nothing; resumes are its later turns. All
    times include what counting took. seeded: activations that had begun before profiling did,
    timed from its start.
    """

    thread: ThreadId
    node: NodeId
    calls: int
    resumes: int
    raised: int
    seeded: int
    total_ns: int
    self_ns: int


class RecursiveNode(Row, describes=True):
    """One row is a node of `exact` whose function is on its path already: what calls take there is
    part of an outer one's total_ns."""

    node: Id


class Backward(
    Row, of_process=True, key="process thread node name", ordered_by="thread, node, name"
):
    """One row is of the backward pass of PyTorch: how often autograd nodes ran, and how long, by
    the call path that made them, on the thread that did; name is the autograd node's
    (AddmmBackward0).

    self_ns is wall time without the nodes that ran within (of a checkpoint); on a GPU it is that
    of launching. thread, node 0: of nodes of which it is not known, and of those that accumulate
    gradients, which no call makes.
    """

    thread: ThreadOrZero
    node: NodeOrZero
    name: str
    calls: int
    self_ns: int


class Call(Row, of_process=True, ordered_by="begin_ns", absent={"parent": "NULL", "weight": "1"}):
    """One row is a single call of a function chosen with -t and --keep, or of a region.

    A generator's or coroutine's call lies between its first begin and its last end, in several
    turns, and busy_ns is the time of these. state: returned, raised, or partial (it began before
    profiling did, or went on after it). attributes: JSON, a region's, or a call's arguments, as
    texts. parent: the innermost call in this table that it began in, on the same thread. weight:
    how many calls it stands for. 1: itself; all are in the file, or it is one of the slowest of
    its path. More (a power of two): beyond --max-calls it is one of a uniform sample of all
    others, so that sums of weights are estimates of what happened; call_time has the exact
    figures.
    """

    id: Id
    thread: ThreadId
    node: NodeId
    begin_ns: Time
    end_ns: Time
    busy_ns: int
    state: str
    attributes: str | None
    parent: CallId | None
    weight: int


class Usage(Row, of_process=True, key="process call", absent={"cpu_ns": "user_ns + system_ns"}):
    """One row is what a kept call used, with --usage; null means: not asked for.

    Of its thread: CPU time so far when it began and when it ended, and what it used itself, in
    all its turns: CPU time, page faults, context switches; and user and system time, which the
    kernel counts by its ticks (1 to 10 ms), so of short calls only sums over many mean something.
    Of the process, all threads together: CPU time meanwhile, and its resident memory, in bytes,
    when the call began and when it ended.
    """

    call: CallId
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


class Code(Row, key="frame", describes=True):
    """One row is what is known of a function whose calls are kept.

    function: its name, module: `__name__` where it runs, path: module.qualname.
    """

    frame: FrameId
    function: str
    module: str
    path: str
    file: str
    line: int
    arguments: Json[list[str]]
    other_locals: Json[list[str]]
    stack_size: int


class Turn(Row, of_process=True, ordered_by="begin_ns"):
    """One row is a turn of a call that has several."""

    call: CallId
    thread: ThreadId
    begin_ns: Time
    end_ns: Time


COLLECTION = 2


class WatchedCall(
    Row,
    ordered_by="thread, begin_ns, end_ns DESC",
    absent={"no_graph": "0", "integers": "0", "resident": "0"},
):
    """One row is a single call of a framework's function (frameworks/torch.toml, --torch no-steps),
    or of one of the program that it calls back, by which the steps of a training are known; or a
    garbage collection that happened in a call.

    cpu_begin_ns, cpu_end_ns: the thread's CPU time so far.  raised: 1 where it ended by an
    exception; from COLLECTION on it is a collection: its generation is the lower byte less
    COLLECTION, above that is how many objects it freed.  no_graph: 1 where no autograd node was
    made meanwhile; 0: some, or it is not known.  integers: of a model's call how many elements the
    tensor of integers has that it got, as tokens; 0: it got none, or that is not known.  resident:
    bytes of the process's memory at the end of an optimizer's or model's call; 0: not read.
    """

    thread: ThreadId
    node: NodeId
    begin_ns: Time
    end_ns: Time
    cpu_begin_ns: int
    cpu_end_ns: int
    raised: int
    no_graph: int
    integers: int
    resident: int


class GpuWork(Row, table="gpu", ordered_by="rowid", absent={"id": "rowid"}):
    """One row is work of a GPU that calls launched: sums by call path; node 0: no known call.

    name: the kernel's, or what was copied; after [graph]: what a CUDA graph replayed.
    backward: 1: the backward pass of what the call did in the forward pass.
    """

    id: Id
    node: NodeOrZero
    backward: int
    name: str
    device: int
    stream: int
    launches: int
    ns: int


class GpuActivity(Row, ordered_by="begin_ns, rowid"):
    """One row is when a kernel or copy ran on the GPU, and when it was launched (null: not known):
    the longest 200,000; the others are in the sums alone."""

    work: WorkId
    begin_ns: Time
    end_ns: Time
    launch_ns: Time | None


class GpuWait(Row):
    """One row is a call of CUDA that waited for a GPU, by the call path that made it (node 0: not
    known), in wall-clock time."""

    node: NodeOrZero
    name: str
    calls: int
    ns: int


class ClockPair(Row, ordered_by="time_ns", describes=True):
    """One row is the profile's time and that of the day (CLOCK_REALTIME), which the system puts
    right slowly, at the same moment: one pair a second, with --events and --torch gpu."""

    time_ns: Time
    unix_ns: int


class GpuWindow(Row, ordered_by="begin_ns"):
    """One row is when the work of the GPU was recorded: of other times nothing is known."""

    begin_ns: Time
    end_ns: Time


class CallTime(Row, of_process=True, key="process thread node"):
    """One row is how long such a path's calls took, all that began and ended while profiling ran.

    histogram: a list of [from_ns, calls].
    """

    thread: ThreadId
    node: NodeId
    calls: int
    total_ns: int
    max_ns: int
    histogram: Json[list[tuple[int, int]]]


class EventLog(Row, of_process=True, ordered_by="thread, first_ns, rowid"):
    """One row has begins and ends of Python functions or regions in order of time (--events).

    events: an array of uint64, whose fields are src/exact/event_log.h's; a step of time is
    tick_ns.
    """

    thread: ThreadId
    first_ns: Time
    tick_ns: float
    n: int
    n_dropped: int
    events: bytes


class EventNode(Row, of_process=True):
    """One row is what the events of a thread call node i: the i-th uint32."""

    thread: ThreadId
    node: NodeIds


class Line(Row, of_process=True, key="process thread node line", ordered_by="thread, node, line"):
    """One row is a line of a function chosen with --lines, path by path (node: the function's).

    hits: LINE events, the times that the line was begun (once for a loop that is all on it).
    total_ns: wall time from each to the same activation's next one, or to its end or suspension,
    with all that the line calls: where a function calls itself, its inner activations are part of
    the outer line's time. hits 0: a generator was resumed, or a function found running, on it.
    """

    thread: ThreadId
    node: NodeId
    line: int
    hits: int
    total_ns: int


class CFunction(Row, key="frame name", describes=True):
    """One row is, with --c-calls, a name by which Python calls a C function, as cProfile writes it;
    there are several where functions share their code."""

    frame: FrameId
    name: str


class Timeline(
    Row, of_process=True, ordered_by="thread, first_ns, rowid", indexed_by="thread, first_ns"
):
    """One row has samples in order of time: dt_ns and place are arrays of n little-endian uint32.

    weight: an array of (uint32 index, uint32 periods) for the samples whose weight is not one
    period. cpu: an array of (uint32 index, uint32 CPU) for the first sample and those on another
    CPU than the one before. A place is stack | gil << 28 | waits << 30, with gil 0: neither, 1:
    held, 2: waiting. Where the timeline was bounded (--max-timeline), a thread's first row has the
    older samples: each place once, with all their weight, without times (first_ns is that of the
    first one) or CPU (4294967295). The index spares sorting all samples for that order.
    """

    thread: ThreadId
    first_ns: Time
    n: int
    dt_ns: bytes
    place: Places
    weight: bytes
    cpu: bytes


class Nodes(Record):
    """Hold call paths by function, indexed by node id; 0 is the root, parents have smaller ids."""

    parent: array[int]
    frame: array[int]


class Place(Record):
    """Hold where in the source a frame of a stack row is; line 0: not known."""

    frame: int
    file: str | None
    line: int


class Stacks(Record):
    """Hold call paths by address, indexed by stack id; 0 is the root, parents have smaller ids.

    places: of native rows the function and the calls inlined into it, outermost first, where
    debug information is used (inlined.with_inlined).
    """

    parent: list[int]
    node: list[int]
    address: list[int | None]
    offset: list[int | None]
    line: list[int | None]


class StackColumns(Record):
    """Hold the same in columns: uint32, and int64 where NO_NUMBER stands for None."""

    parent: array[int]
    node: array[int]
    address: array[int]
    offset: array[int]
    line: array[int]

    def lists(self) -> Stacks:
        """Return the same as lists."""
        where = (self.address, self.offset, self.line)
        known = ([None if each == NO_NUMBER else each for each in column] for column in where)
        return Stacks(self.parent.tolist(), self.node.tolist(), *known)


class Event(Record):
    """An event is a begin or an end.

    kind: call, resume, return, yield, raise; or gap: `node` events are missing here.
    """

    thread: int
    time_ns: int
    kind: str
    node: int


class Chunk(Record):
    """Hold samples of a thread in order of time: uint32[n] each, and weights that are not one.

    A sample's time is `first_ns` + the sum of `dt_ns` up to and including it. Its place has the
    stack (`stack_of`), what the thread had to do with the GIL (`gil_name`), and whether it was off
    the CPU (`waits`).
    """

    thread: int
    first_ns: int
    dt_ns: array[int]
    place: array[int]
    weights: dict[int, int]  # index -> periods
    cpus: dict[int, int]  # index -> CPU, which holds until the next one


def stack_of(place: int) -> int:
    """Return the id of a sample's stack."""
    return place & STACK_MASK


def stacks_of(places: Iterable[int]) -> list[int]:
    """Return the ids of samples' stacks."""
    return [place & STACK_MASK for place in places]


def gil_name(place: int) -> str:
    """Return one of GIL."""
    return GIL[place >> GIL_SHIFT & 3]


def waits(place: int) -> int:
    """Return 1 where the thread was off the CPU."""
    return int(place & WAITS != 0)
