"""What a spool (src/record/spool.h) holds, as records; times: CLOCK_MONOTONIC nanoseconds."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyhybrid._columns import (
    ATTRIBUTE_FALSE,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_INT,
    ATTRIBUTE_NONE,
    ATTRIBUTE_OTHER,
    ATTRIBUTE_TRUE,
)
from pyhybrid.base.structs import Struct, made
from pyhybrid.spool import STRUCT


class Module(Struct):
    """Hold a loaded ELF file.  `segments`: (start, size, file offset, PF_ flags), absolute."""

    id: int
    base: int
    load_ns: int
    unload_ns: int | None
    build_id: str  # hexadecimal, "" if it has none
    path: str
    segments: list[tuple[int, int, int, int]]


class Code(NamedTuple):
    """Hold a code object; `first_traceable` counts code units from co_code_adaptive."""

    first_line: int
    first_traceable: int
    qualname: str
    file: str
    line_table: bytes  # co_linetable, empty if it was too large to copy


class CodeFacts(NamedTuple):
    """Hold the facts of a function whose single calls are kept; `module` may be empty."""

    qualname: str
    file: str
    first_line: int
    module: str
    name: str
    arguments: list[str]
    other_locals: list[str]
    stack_size: int


MAIN_THREAD = "MainThread"


class Thread(Struct):
    """A thread's `name` is threading's where it has one, else the kernel's comm; the main thread is
    MAIN_THREAD unless it got another one."""

    tid: int
    start_ns: int
    comm: str
    name: str
    name_source: int = 0
    has_events: bool = False


class Chunk(Struct):
    """Hold samples of a thread in order of time: `dt_ns` and `place` are uint32[n] views.

    A place is a stack's id and what the thread was about (STACK_MASK).  `weights` is
    uint32[2 * n_weights]: (index, periods) of the samples that stand for more or less than one
    period; `cpus` the same, (index, CPU) of the first sample and of those on another CPU.
    `samples`: how many each one stands for, where they are sums; else it is empty.
    """

    thread: int
    first_ns: int
    dt_ns: memoryview
    place: memoryview
    weights: memoryview
    cpus: memoryview
    samples: array[int] = made(lambda: array("Q"))


class Sum(NamedTuple):
    """Hold samples of a thread at one place (Chunk), without times; `weight` is in periods."""

    thread: int
    place: int
    samples: int
    weight: int
    first_ns: int
    last_ns: int


class Counters(NamedTuple):
    """Hold a thread's own account; weights in periods, `handler_ns` as in SPOOL_HISTOGRAM."""

    signals: int
    recorded: int
    recorded_weight: int
    missed_weight: int
    cpu_ns: int
    lost: tuple[int, ...]
    lost_weight: tuple[int, ...]
    handler_ns: tuple[int, ...]


class Events(NamedTuple):
    """Hold a thread's begins and ends, uint64[n] as in src/exact/event_log.h; absolute ticks."""

    thread: int
    first_ticks: int
    last_ticks: int
    n_dropped: int
    words: memoryview


class BackwardSum(NamedTuple):
    """Hold work that was done later for a node of a thread, in ticks; thread 0: of unknown ones."""

    thread: int
    node: int
    name: int
    calls: int
    ticks: int


class BackwardTurn(NamedTuple):
    """A turn is a piece of such work, in ticks, and where it ran: a thread's number of the
    system's, and what identifies it to CUPTI."""

    since: int
    until: int
    thread: int
    node: int
    tid: int
    handle: int


class CallTimes(NamedTuple):
    """Hold the durations of a node's calls, in ticks: buckets as in src/exact/kept_calls.h."""

    thread: int
    node: int
    n: int
    sum: int
    max: int
    n_lost: int  # of the thread's calls, so far
    buckets: tuple[int, ...]


class End(NamedTuple):
    """The profiler was stopped in order; `cpu_ns` is the process's while it ran.

    n_kernel_lost: ticks of which it is not known where in the kernel they came; n_mute: clocks
    that could not know that.  unaccounted_ns: CPU time that no sample stands for, lost and missed
    ones among them; below 0: samples stand for more, by chance.
    """

    time_ns: int
    cpu_ns: int
    n_forked: int
    n_spawned: int
    n_kernel_lost: int
    n_mute: int
    unaccounted_ns: int


class Spool(Struct):
    """Hold one spool, read.  Stack ids index `parents` and `words`; 0 is the root."""

    path: str
    pid: int
    meta: dict[str, Any] = made(dict)
    modules: dict[int, Module] = made(dict)
    codes: dict[int, Code] = made(dict)
    backward_sums: list[BackwardSum] = made(list)
    # Of threads that were folded, by their number: that of the tree of all, and the nodes there.
    folded_nodes: dict[int, tuple[int, memoryview]] = made(dict)
    backward_names: dict[int, str] = made(dict)
    backward_turns: list[BackwardTurn] = made(list)
    thread_handles: dict[int, int] = made(dict)  # by number in the exact half
    clock_pairs: list[tuple[int, int]] = made(list)  # (ticks, time of day)
    # Windows of a GPU's work, and their numbers (frameworks/torch_gpu.py).
    device_work: list[tuple[dict[str, Any], memoryview]] = made(list)
    threads: dict[int, Thread] = made(dict)
    folded: dict[int, int] = made(dict)  # threads that are several -> how many
    parents: array[int] = made(lambda: array("I", [0]))
    words: array[int] = made(lambda: array("Q", [0]))
    functions: dict[int, int] = made(dict)  # word -> its function's start word
    function_names: dict[int, set[str]] = made(dict)  # start word -> names
    chunks: list[Chunk] = made(list)
    segments: dict[int, memoryview] = made(dict)  # number -> with its samples
    sums: list[Sum] = made(list)  # of samples that are in no chunk
    merged_before: int = 0  # segments with lower numbers are in the sums
    counters: dict[int, Counters] = made(dict)
    # The exact half, by its own number of a thread: that in `threads`, nodes as in `parents` and
    # `words`, and of each node an EXACT_COUNT.
    exact_threads: dict[int, int] = made(dict)
    exact_parents: dict[int, array[int]] = made(dict)
    exact_words: dict[int, array[int]] = made(dict)
    exact_counts: dict[int, bytearray] = made(dict)
    # Where some were added up (assemble/import_calls.py): of each node that it had the one it has.
    exact_rows: dict[int, array[int]] = made(dict)
    # EXACT_COUNTERS records: thread, the first row's node, rows
    counted: list[tuple[int, int, memoryview]] = made(list)
    regions: dict[int, str] = made(dict)  # number -> name
    c_functions: dict[int, set[str]] = made(dict)  # absolute address -> names
    clocks: list[tuple[int, int]] = made(list)  # (ticks, ns)
    events: list[Events] = made(list)
    code_facts: list[CodeFacts] = made(list)
    # Turns of kept calls (src/exact/kept_calls.h) by their thread in the exact half.
    calls: dict[int, list[memoryview]] = made(dict)
    # since, until (ticks), CPU time at both, node, raised, no graph; by thread of the exact half
    watched: dict[int, list[tuple[int, ...]]] = made(dict)
    call_times: dict[tuple[int, int], CallTimes] = made(dict)  # (thread, node)
    n_damaged: int = 0  # records that do not count
    end: End | None = None  # None: the process was killed, or is still running


class Ticks:
    """Convert the exact half's clock: its ticks to nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self, spool: Spool) -> None:
        """Convert by the first and the last pair of readings."""
        (self._ticks0, self._ns0), (ticks1, ns1) = [*spool.clocks, (0, 0), (0, 0)][:2]
        if len(spool.clocks) > 1:
            ticks1, ns1 = spool.clocks[-1]
        self.last = ticks1
        self.most = 2 * max(ticks1 - self._ticks0, 0)  # of a run, generously
        good = ticks1 > self._ticks0
        self.multiply, self.divide = (ns1 - self._ns0, ticks1 - self._ticks0) if good else (1, 1)

    @property
    def clock(self) -> tuple[int, int, int, int]:
        """Return what passes in C take: multiply, divide, ticks, and the time of these."""
        return self.multiply, self.divide, self._ticks0, self._ns0

    def span(self, ticks: int) -> int:
        """Return a duration."""
        return ticks * self.multiply // self.divide

    def time(self, ticks: int) -> int:
        """Return a point of time."""
        return self._ns0 + self.span(ticks - self._ticks0)


# A region's attributes, from the fields of a spool (enum spool_attribute_kind) to JSON.

_FIELD = STRUCT["spool_attribute"]


def attributes_as_json(fields: memoryview) -> str:
    """Return a JSON object.  Raises ValueError and struct.error where they are damaged."""
    return json.dumps(dict(_values(fields)), ensure_ascii=False)


def _values(fields: memoryview) -> Iterator[tuple[str, object]]:
    while fields:
        kind, key_length, value_length = _FIELD.unpack_from(fields)
        key_at, value_at = _FIELD.size, _FIELD.size + key_length
        end = value_at + value_length
        if end > len(fields):
            raise ValueError("an attribute that is cut off")
        yield _text(fields[key_at:value_at]), _value(kind, _text(fields[value_at:end]))
        fields = fields[end:]


def _text(text: memoryview) -> str:
    return str(text, "utf-8", "replace")


def _value(kind: int, text: str) -> object:
    if kind == ATTRIBUTE_INT:
        return int(text)
    if kind == ATTRIBUTE_FLOAT:
        number = float(text)
        return number if math.isfinite(number) else text  # which JSON has no words for
    if kind == ATTRIBUTE_OTHER:
        return f"<{text}>"
    return _CONSTANTS.get(kind, text)


_CONSTANTS = {ATTRIBUTE_NONE: None, ATTRIBUTE_FALSE: False, ATTRIBUTE_TRUE: True}
