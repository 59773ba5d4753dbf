"""The decoder of each kind of record: its body is taken into the Spool.

A decoder raises struct.error, ValueError, TypeError or KeyError where the record is damaged, or
refers to one that is.
"""

import json
import os
from array import array
from collections.abc import Callable
from itertools import accumulate, pairwise
from operator import lt
from typing import Any

from pyhybrid._columns import (
    CALLS_BUCKETS,
    NAME_COMM,
    NAME_THREADING,
    PSEUDO_LIMIT,
    PSEUDO_TRUNCATED,
    SPOOL_LOSSES,
    WATCHED_COLLECTION,
    WATCHED_FREED,
    WATCHED_MADE_NONE,
    rows_follow,
)
from pyhybrid.spool import ADDRESS_LIMIT, EXACT_COUNT, STRUCT, TYPE
from pyhybrid.spool.content import (
    BackwardSum,
    BackwardTurn,
    CallTimes,
    Chunk,
    Code,
    CodeFacts,
    Counters,
    End,
    Events,
    Module,
    Spool,
    Sum,
    Thread,
)

_SEGMENT = STRUCT["spool_segment"]
_LONGEST_GAP = 1 << 20  # rows of a tree in damaged records
_TRUNCATED = PSEUDO_LIMIT | PSEUDO_TRUNCATED

type Head = tuple[Any, ...]  # the fields of the struct that a record begins with
DECODERS: dict[int, Callable[[Spool, memoryview], None]] = {}  # by kind of record


def _record(kind: str, head: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for the decoder of records of this kind, which begin with the struct
    `head`: it takes its fields and what follows."""

    def decoder(decode: Callable[..., None]) -> Callable[..., None]:
        if form := STRUCT.get(head):
            DECODERS[TYPE[kind]] = lambda spool, body: decode(
                spool, form.unpack_from(body), body[form.size :]
            )
        else:
            DECODERS[TYPE[kind]] = lambda spool, body: decode(spool, (), body)
        return decode

    return decoder


# A time of 146 years, in nanoseconds, and more of anything than there can be: with some such in a
# sum, or a period for each, it is still a number that a table can hold (63 bits, database.py).
_MOST = 1 << 62


def _possible(spool: Spool, *figures: int) -> list[int]:
    """Return the figures; one that cannot be is 0, and the record damaged, which costs no other."""
    found = [each if each < _MOST else 0 for each in figures]
    spool.n_damaged += any(map(_MOST.__le__, figures))
    return found


def _name(text: memoryview) -> str:
    try:
        return str(text, "utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return str(text, "utf-8", "replace")


@_record("MODULE", "spool_module")
def _module(spool: Spool, head: Head, rest: memoryview) -> None:
    number, n_segments, base, load_ns, n_id, n_path = head
    at = n_segments * _SEGMENT.size
    segments = list(_SEGMENT.iter_unpack(rest[:at]))
    if max(base, *(start + size for start, size, *_ in segments), 0) > ADDRESS_LIMIT:
        raise ValueError("a module beyond all addresses")
    path = os.fsdecode(bytes(rest[at + n_id : at + n_id + n_path]))
    (load_ns,) = _possible(spool, load_ns)
    spool.modules[number] = Module(
        number, base, load_ns, None, rest[at : at + n_id].hex(), path, segments
    )


@_record("CODE", "spool_code")
def _code(spool: Spool, head: Head, rest: memoryview) -> None:
    index, first_line, first_traceable, n_name, n_file, n_table = head
    table_at = n_name + n_file
    spool.codes[index] = Code(
        first_line,
        first_traceable,
        _name(rest[:n_name]),
        _name(rest[n_name:table_at]),
        bytes(rest[table_at : table_at + n_table]),
    )


@_record("CODE_FACTS", "spool_code_facts")
def _code_facts(spool: Spool, head: Head, rest: memoryview) -> None:
    line, stack_size, n_arguments, _length = head
    parts = bytes(rest).split(b"\0")
    texts = [_name(memoryview(each)) for each in parts]
    qualname, file, module, name, *variables, _ = texts
    spool.code_facts.append(
        CodeFacts(
            qualname,
            file,
            line,
            module,
            name,
            variables[:n_arguments],
            variables[n_arguments:],
            stack_size,
        )
    )


@_record("THREAD", "spool_thread")
def _thread(spool: Spool, head: Head, _: memoryview) -> None:
    index, tid, start_ns, _first_seen_ns, raw = head
    (start_ns,) = _possible(spool, start_ns)
    comm = raw.split(b"\0")[0].decode("utf-8", "replace")
    spool.threads[index] = Thread(tid, start_ns, comm, comm)


@_record("THREAD_NAME", "spool_thread_name")
def _thread_name(spool: Spool, head: Head, rest: memoryview) -> None:
    index, source = head
    thread = spool.threads.get(index)
    name = _name(rest)
    if thread is None or not name:
        return
    if source == NAME_COMM:
        thread.comm = name
    if source >= thread.name_source:
        thread.name, thread.name_source = name, source


@_record("FOLDED", "spool_folded")
def _folded(spool: Spool, head: Head, _: memoryview) -> None:
    index, n_threads = head
    if index not in spool.threads:
        raise ValueError("several threads that are not there")
    spool.folded[index] = n_threads


@_record("FOLDED_NODES", "spool_folded_nodes")
def _folded_nodes(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, index, n = head
    if index not in spool.exact_threads or 4 * n > len(rest):
        raise ValueError("nodes of several threads that are not there")
    spool.folded_nodes[thread] = index, memoryview(bytes(rest[: 4 * n])).cast("I")


@_record("STACKS", "spool_stacks")
def _stacks(spool: Spool, head: Head, rest: memoryview) -> None:
    first_id, n = head
    _take_tree(spool.parents, spool.words, rest, first_id, n)


@_record("SAMPLES", "spool_samples")
def _samples(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, n, n_weights, n_cpus, first_ns = head
    (first_ns,) = _possible(spool, first_ns)
    sizes = (4 * n, 4 * n, 8 * n_weights, 8 * n_cpus)
    ends = list(accumulate(sizes, initial=0))
    if ends[-1] > len(rest):
        raise ValueError("samples without their arrays")
    dt_ns, places, weights, cpus = (rest[a:b].cast("I") for a, b in pairwise(ends))
    chunk = Chunk(thread, first_ns, dt_ns, places, weights, cpus)
    for pairs in (chunk.weights, chunk.cpus):
        indices = pairs[::2].tolist()
        if not all(map(lt, indices, [*indices[1:], n])):
            raise ValueError("weights or CPUs of samples that are not there")
    if n:
        if not n_cpus or chunk.cpus[0]:
            raise ValueError("a sample without its CPU")
        spool.chunks.append(chunk)


@_record("SUMS", "spool_sums")
def _sums(spool: Spool, head: Head, rest: memoryview) -> None:
    (n,) = head
    row = STRUCT["spool_sum"]
    if len(rest) != n * row.size:
        raise ValueError("sums that are cut off")
    spool.sums += (Sum(*_possible(spool, *each)) for each in row.iter_unpack(rest))


@_record("COUNTERS", "spool_counters")
def _counters(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, n_losses, *figures = head
    account, by_kind = _possible(spool, *figures[:5]), _possible(spool, *figures[5:])
    lost, lost_weight = by_kind[:SPOOL_LOSSES], by_kind[SPOOL_LOSSES : 2 * SPOOL_LOSSES]
    handler_ns = by_kind[2 * SPOOL_LOSSES :]
    tuples = (tuple(lost[:n_losses]), tuple(lost_weight[:n_losses]), tuple(handler_ns))
    columns: list[Any] = [*account, *tuples]
    spool.counters[thread] = Counters(*columns)


@_record("EXACT_THREAD", "spool_exact_thread")
def _exact_thread(spool: Spool, head: Head, rest: memoryview) -> None:
    index, number = head
    name = _name(rest)
    thread = spool.threads.get(number)
    if thread is None or thread.has_events:
        raise ValueError("events of a thread that is not there")
    thread.has_events = True
    if name and thread.name_source < NAME_THREADING:
        thread.name, thread.name_source = name, NAME_THREADING
    spool.exact_threads[index] = number
    spool.exact_parents[index] = array("I", [0])
    spool.exact_words[index] = array("Q", [0])


@_record("EXACT_NODES", "spool_exact_nodes")
def _exact_nodes(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, first_id, n = head
    all_parents, all_words = spool.exact_parents[thread], spool.exact_words[thread]
    _take_tree(all_parents, all_words, rest, first_id, n)


@_record("EXACT_COUNTERS", "spool_exact_counters")
def _exact_counters(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, first_id, n = head
    if thread not in spool.exact_threads:
        raise ValueError("counts without their thread")
    rows = rest[: n * EXACT_COUNT.size]
    if len(rows) % EXACT_COUNT.size:
        raise ValueError("counts that are cut off")
    spool.counted.append((thread, first_id, rows))


@_record("EVENTS", "spool_events")
def _events(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, n, first_ticks, last_ticks, n_dropped = head
    words = rest.cast("Q")
    if len(words) != n or thread not in spool.exact_threads:
        raise ValueError("events without their thread")
    spool.events.append(Events(thread, first_ticks, last_ticks, n_dropped, words))


@_record("CALL_TIMES", "spool_call_times")
def _call_times(spool: Spool, head: Head, rest: memoryview) -> None:
    thread, node = head[:2]
    n, total, most, lost = _possible(spool, *head[2:])
    buckets = rest.cast("I")
    if len(buckets) != CALLS_BUCKETS:
        raise ValueError("times of calls that are cut off")
    spool.call_times[thread, node] = CallTimes(thread, node, n, total, most, lost, tuple(buckets))


def _take_tree(
    all_parents: "array[int]", all_words: "array[int]", body: memoryview, first_id: int, n: int
) -> None:
    """Take rows of a tree: uint32 parent[n], padding to 8, uint64 word[n]."""
    words_at = (4 * n + 7) // 8 * 8
    parents, words = body[: 4 * n], body[words_at : words_at + 8 * n]
    missing = first_id - len(all_words)
    if not 0 <= missing < _LONGEST_GAP or len(words) != 8 * n:
        raise ValueError("rows that do not follow")
    if not rows_follow(parents.cast("I"), words.cast("Q"), first_id):
        raise ValueError("a stack before its parent, or without its word")
    # Their record was damaged: what hangs below them has lost its outer part.
    all_parents.extend([0] * missing)
    all_words.extend([_TRUNCATED] * missing)
    all_parents.frombytes(parents)
    all_words.frombytes(words)


@_record("FUNCTIONS")
def _functions(spool: Spool, _: Head, body: memoryview) -> None:
    pairs = body[: len(body) // 16 * 16].cast("Q")
    spool.functions.update(zip(pairs[::2], pairs[1::2], strict=True))


@_record("MODULE_END", "spool_module_end")
def _module_end(spool: Spool, head: Head, _: memoryview) -> None:
    number, unload_ns = head
    (spool.modules[number].unload_ns,) = _possible(spool, unload_ns)


@_record("META")
def _meta(spool: Spool, _: Head, body: memoryview) -> None:
    spool.meta.update(json.loads(bytes(body)))


@_record("REGION", "spool_region")
def _region(spool: Spool, head: Head, rest: memoryview) -> None:
    (number,) = head
    spool.regions[number] = _name(rest)


@_record("C_FUNCTION", "spool_c_function")
def _c_function(spool: Spool, head: Head, rest: memoryview) -> None:
    (address,) = head
    name = _name(rest)
    spool.c_functions.setdefault(address, set()).add(name)


@_record("FUNCTION_NAME", "spool_function_name")
def _function_name(spool: Spool, head: Head, rest: memoryview) -> None:
    (start,) = head
    name = _name(rest)
    spool.function_names.setdefault(start, set()).add(name)


@_record("CLOCK", "spool_clock")
def _clock(spool: Spool, head: Head, _: memoryview) -> None:
    first_ticks, first_ns, ticks, time_ns = head
    first_ns, time_ns = _possible(spool, first_ns, time_ns)
    spool.clocks = [(first_ticks, first_ns), (ticks, time_ns)]


@_record("CALLS", "spool_calls")
def _calls(spool: Spool, head: Head, turns: memoryview) -> None:
    spool.calls.setdefault(_thread_of_calls(spool, head), []).append(turns)


@_record("WATCHED", "spool_calls")
def _watched(spool: Spool, head: Head, rows: memoryview) -> None:
    calls = [
        (*figures, *_how(how), resident)
        for *figures, how, resident in STRUCT["watched_call"].iter_unpack(rows)
    ]
    spool.watched.setdefault(_thread_of_calls(spool, head), []).extend(calls)


def _how(how: int) -> tuple[int, int, int]:
    """Return how a watched call ended, or which collection it was; whether it made no nodes; and
    with how many integers it was called."""
    kind = how & 0xFF & ~WATCHED_MADE_NONE
    made_none = int(how & WATCHED_MADE_NONE != 0)
    return (how, 0, 0) if kind >= WATCHED_COLLECTION else (kind, made_none, how >> WATCHED_FREED)


def _thread_of_calls(spool: Spool, head: Head) -> int:
    thread: int = head[0]
    if thread not in spool.exact_threads:
        raise ValueError("calls without their thread")
    return thread


@_record("SAMPLE_SEGMENT", "spool_segment_head")
def _sample_segment(spool: Spool, head: Head, rest: memoryview) -> None:
    (number,) = head
    spool.segments[number] = rest


@_record("MERGED", "spool_merged")
def _merged(spool: Spool, head: Head, _: memoryview) -> None:
    (spool.merged_before,) = head


@_record("BACKWARD", "spool_backward")
def _backward_sums(spool: Spool, head: Head, rest: memoryview) -> None:
    (n,) = head
    row = STRUCT["backward_sum"]
    spool.backward_sums += map(BackwardSum._make, row.iter_unpack(rest[: n * row.size]))


@_record("BACKWARD_NAME", "spool_backward_name")
def _backward_name(spool: Spool, head: Head, rest: memoryview) -> None:
    (number,) = head
    spool.backward_names[number] = _name(rest)


@_record("BACKWARD_TURNS")
def _backward_turns(spool: Spool, _: Head, body: memoryview) -> None:
    row = STRUCT["backward_turn"]
    whole = len(body) // row.size * row.size
    spool.backward_turns += map(BackwardTurn._make, row.iter_unpack(body[:whole]))


@_record("THREAD_HANDLE", "spool_thread_handle")
def _thread_handle(spool: Spool, head: Head, _: memoryview) -> None:
    index, handle = head
    spool.thread_handles[index] = handle


@_record("CLOCK_PAIR", "spool_clock_pair")
def _clock_pair(spool: Spool, head: Head, _: memoryview) -> None:
    ticks, unix_ns = head
    spool.clock_pairs.append((ticks, *_possible(spool, unix_ns)))


@_record("DEVICE_WORK", "spool_device_work")
def _device_work(spool: Spool, head: Head, rest: memoryview) -> None:
    (length,) = head
    text = json.loads(bytes(rest[:length]))
    spool.device_work.append((text, rest[(length + 7) // 8 * 8 :].cast("q")))


@_record("END", "spool_end")
def _end(spool: Spool, head: Head, _: memoryview) -> None:
    spool.end = End(*_possible(spool, *head))
