"""What each kind of record says: its body is taken into the Spool.

A decoder raises struct.error, ValueError, TypeError or KeyError where the record is damaged, or
refers to one that is.
"""

import json
import os
from array import array
from collections.abc import Callable
from itertools import accumulate, count, pairwise
from operator import lt
from typing import Any

from pyhybrid.spool import layout as form
from pyhybrid.spool.frame_words import PSEUDO_LIMIT
from pyhybrid.spool.records import (
    CallTimes,
    Chunk,
    Code,
    CodeFacts,
    Counters,
    End,
    Events,
    Later,
    LaterTurn,
    Module,
    Spool,
    Sum,
    Thread,
)

_LONGEST_GAP = 1 << 20  # rows of a tree in damaged records
_TRUNCATED = PSEUDO_LIMIT | 1


# A time of 146 years, in nanoseconds, and more of anything than there can be: with some such in a
# sum, or a period for each, it is still a number that a table can hold (63 bits, insertion.py).
_MOST = 1 << 62


def _possible(spool: Spool, *figures: int) -> list[int]:
    """The figures; if one cannot be, it is 0, and the record is damaged, which costs no other."""
    found = [each if each < _MOST else 0 for each in figures]
    spool.n_damaged += any(map(_MOST.__le__, figures))
    return found


def _name(text: memoryview) -> str:
    try:
        return str(text, "utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return str(text, "utf-8", "replace")


def _module(spool: Spool, body: memoryview) -> None:
    number, n_segments, base, load_ns, n_id, n_path = form.MODULE_HEAD.unpack_from(body)
    at = form.MODULE_HEAD.size + n_segments * form.SEGMENT.size
    segments = list(form.SEGMENT.iter_unpack(body[form.MODULE_HEAD.size : at]))
    if max(base, *(start + size for start, size, *_ in segments), 0) > form.ADDRESS_LIMIT:
        raise ValueError("a module beyond all addresses")
    path = os.fsdecode(bytes(body[at + n_id : at + n_id + n_path]))
    (load_ns,) = _possible(spool, load_ns)
    spool.modules[number] = Module(
        number, base, load_ns, None, body[at : at + n_id].hex(), path, segments
    )


def _code(spool: Spool, body: memoryview) -> None:
    index, first_line, first_traceable, n_name, n_file, n_table = form.CODE_HEAD.unpack_from(body)
    file_at = form.CODE_HEAD.size + n_name
    table_at = file_at + n_file
    spool.codes[index] = Code(
        first_line,
        first_traceable,
        _name(body[form.CODE_HEAD.size : file_at]),
        _name(body[file_at:table_at]),
        bytes(body[table_at : table_at + n_table]),
    )


def _code_facts(spool: Spool, body: memoryview) -> None:
    line, stack_size, n_arguments, _ = form.CODE_FACTS_HEAD.unpack_from(body)
    parts = bytes(body[form.CODE_FACTS_HEAD.size :]).split(b"\0")
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


def _thread(spool: Spool, body: memoryview) -> None:
    index, tid, start_ns, _, raw = form.THREAD_HEAD.unpack_from(body)
    (start_ns,) = _possible(spool, start_ns)
    comm = raw.split(b"\0")[0].decode("utf-8", "replace")
    spool.threads[index] = Thread(tid, start_ns, comm, comm)


def _thread_name(spool: Spool, body: memoryview) -> None:
    index, source = form.THREAD_NAME_HEAD.unpack_from(body)
    thread = spool.threads.get(index)
    name = _name(body[form.THREAD_NAME_HEAD.size :])
    if thread is None or not name:
        return
    if source == form.NAME_COMM:
        thread.comm = name
    if source >= thread.name_source:
        thread.name, thread.name_source = name, source


def _folded(spool: Spool, body: memoryview) -> None:
    index, _, n_threads = form.FOLDED_BODY.unpack_from(body)
    if index not in spool.threads:
        raise ValueError("several threads that are not there")
    spool.folded[index] = n_threads


def _stacks(spool: Spool, body: memoryview) -> None:
    first_id, n = form.STACKS_HEAD.unpack_from(body)
    _take_tree(spool.parents, spool.words, body[form.STACKS_HEAD.size :], first_id, n)


def _samples(spool: Spool, body: memoryview) -> None:
    thread, n, n_weights, n_cpus, first_ns = form.SAMPLES_HEAD.unpack_from(body)
    (first_ns,) = _possible(spool, first_ns)
    sizes = (4 * n, 4 * n, 8 * n_weights, 8 * n_cpus)
    ends = list(accumulate(sizes, initial=form.SAMPLES_HEAD.size))
    if ends[-1] > len(body):
        raise ValueError("samples without their arrays")
    dt_ns, places, weights, cpus = (body[a:b].cast("I") for a, b in pairwise(ends))
    chunk = Chunk(thread, first_ns, dt_ns, places, weights, cpus)
    for pairs in (chunk.weights, chunk.cpus):
        indices = pairs[::2].tolist()
        if not all(map(lt, indices, [*indices[1:], n])):
            raise ValueError("samples are told of that are not there")
    if n:
        if not n_cpus or chunk.cpus[0]:
            raise ValueError("a sample without its CPU")
        spool.chunks.append(chunk)


def _sums(spool: Spool, body: memoryview) -> None:
    n, _ = form.SUMS_HEAD.unpack_from(body)
    rows = body[form.SUMS_HEAD.size :]
    if len(rows) != n * form.SUM.size:
        raise ValueError("sums that are cut off")
    spool.sums += (Sum(*_possible(spool, *row)) for row in form.SUM.iter_unpack(rows))


def _counters(spool: Spool, body: memoryview) -> None:
    thread, n_losses, *figures = form.COUNTERS_HEAD.unpack_from(body)
    rest = _possible(spool, *figures)
    account, lost, lost_weight, handler_ns = rest[:5], rest[5:13], rest[13:21], rest[21:]
    tuples = (tuple(lost[:n_losses]), tuple(lost_weight[:n_losses]), tuple(handler_ns))
    columns: list[Any] = [*account, *tuples]
    spool.counters[thread] = Counters(*columns)


def _exact_thread(spool: Spool, body: memoryview) -> None:
    index, number = form.EXACT_THREAD_HEAD.unpack_from(body)
    name = _name(body[form.EXACT_THREAD_HEAD.size :])
    thread = spool.threads.get(number)
    if thread is None or thread.has_events:
        raise ValueError("events of a thread that is not there")
    thread.has_events = True
    if name and thread.name_source < form.NAME_THREADING:
        thread.name, thread.name_source = name, form.NAME_THREADING
    spool.exact_threads[index] = number
    spool.exact_parents[index] = array("I", [0])
    spool.exact_words[index] = array("Q", [0])


def _exact_nodes(spool: Spool, body: memoryview) -> None:
    thread, first_id, n, _ = form.EXACT_NODES_HEAD.unpack_from(body)
    all_parents, all_words = spool.exact_parents[thread], spool.exact_words[thread]
    _take_tree(all_parents, all_words, body[form.EXACT_NODES_HEAD.size :], first_id, n)


def _exact_counters(spool: Spool, body: memoryview) -> None:
    thread, first_id, n, _ = form.EXACT_COUNTERS_HEAD.unpack_from(body)
    if thread not in spool.exact_threads:
        raise ValueError("counts without their thread")
    begin = form.EXACT_COUNTERS_HEAD.size
    rows = body[begin : begin + n * form.EXACT_COUNT.size]
    if len(rows) % form.EXACT_COUNT.size:
        raise ValueError("counts that are cut off")
    spool.counted.append((thread, first_id, rows))


def _events(spool: Spool, body: memoryview) -> None:
    thread, n, first_ticks, last_ticks, n_dropped = form.EVENTS_HEAD.unpack_from(body)
    words = body[form.EVENTS_HEAD.size :].cast("Q")
    if len(words) != n or thread not in spool.exact_threads:
        raise ValueError("events without their thread")
    spool.events.append(Events(thread, first_ticks, last_ticks, n_dropped, words))


def _call_times(spool: Spool, body: memoryview) -> None:
    thread, node, n, total, most, lost, *buckets = form.CALL_TIMES_BODY.unpack_from(body)
    n, total, most, lost = _possible(spool, n, total, most, lost)
    spool.call_times[thread, node] = CallTimes(thread, node, n, total, most, lost, tuple(buckets))


def _take_tree(
    all_parents: "array[int]", all_words: "array[int]", body: memoryview, first_id: int, n: int
) -> None:
    """Rows of a tree: uint32 parent[n], padding to 8, uint64 word[n]."""
    words_at = (4 * n + 7) // 8 * 8
    parents, words = body[: 4 * n], body[words_at : words_at + 8 * n]
    missing = first_id - len(all_words)
    if not 0 <= missing < _LONGEST_GAP or len(words) != 8 * n:
        raise ValueError("rows that do not follow")
    if not all(map(lt, parents.cast("I"), count(first_id))):
        raise ValueError("a stack before its parent")
    if not all(words.cast("Q")):
        raise ValueError("a stack without its word")
    # Their record was damaged: what hangs below them has lost its outer part.
    all_parents.extend([0] * missing)
    all_words.extend([_TRUNCATED] * missing)
    all_parents.frombytes(parents)
    all_words.frombytes(words)


def _functions(spool: Spool, body: memoryview) -> None:
    pairs = body[: len(body) // 16 * 16].cast("Q")
    spool.functions.update(zip(pairs[::2], pairs[1::2], strict=True))


def _module_end(spool: Spool, body: memoryview) -> None:
    number, _, unload_ns = form.MODULE_END_HEAD.unpack_from(body)
    (spool.modules[number].unload_ns,) = _possible(spool, unload_ns)


def _meta(spool: Spool, body: memoryview) -> None:
    spool.meta.update(json.loads(bytes(body)))


def _region(spool: Spool, body: memoryview) -> None:
    number, _ = form.REGION_HEAD.unpack_from(body)
    spool.regions[number] = _name(body[form.REGION_HEAD.size :])


def _c_function(spool: Spool, body: memoryview) -> None:
    (address,) = form.C_FUNCTION_HEAD.unpack_from(body)
    name = _name(body[form.C_FUNCTION_HEAD.size :])
    spool.c_functions.setdefault(address, set()).add(name)


def _function_name(spool: Spool, body: memoryview) -> None:
    (start,) = form.FUNCTION_NAME_HEAD.unpack_from(body)
    name = _name(body[form.FUNCTION_NAME_HEAD.size :])
    spool.function_names.setdefault(start, set()).add(name)


def _clock(spool: Spool, body: memoryview) -> None:
    first_ticks, first_ns, ticks, time_ns = form.CLOCK_HEAD.unpack_from(body)
    first_ns, time_ns = _possible(spool, first_ns, time_ns)
    spool.clocks = [(first_ticks, first_ns), (ticks, time_ns)]


def _of_calls(spool: Spool, body: memoryview) -> tuple[int, memoryview]:
    """The thread, and what follows."""
    (thread,) = form.CALLS_HEAD.unpack_from(body)
    if thread not in spool.exact_threads:
        raise ValueError("calls without their thread")
    return thread, body[form.CALLS_HEAD.size :]


def _calls(spool: Spool, body: memoryview) -> None:
    thread, turns = _of_calls(spool, body)
    spool.calls.setdefault(thread, []).append(turns)


def _watched(spool: Spool, body: memoryview) -> None:
    thread, rows = _of_calls(spool, body)
    spool.watched.setdefault(thread, []).extend(form.WATCHED_CALL.iter_unpack(rows))


def _sample_segment(spool: Spool, body: memoryview) -> None:
    (number,) = form.SAMPLE_SEGMENT_HEAD.unpack_from(body)
    spool.segments[number] = body


def _merged(spool: Spool, body: memoryview) -> None:
    (spool.merged_before,) = form.MERGED_HEAD.unpack_from(body)


def _later(spool: Spool, body: memoryview) -> None:
    n, _ = form.LATER_HEAD.unpack_from(body)
    rows = body[form.LATER_HEAD.size :][: n * form.LATER_SUM.size]
    spool.later += map(Later._make, form.LATER_SUM.iter_unpack(rows))


def _later_name(spool: Spool, body: memoryview) -> None:
    number, _ = form.LATER_NAME_HEAD.unpack_from(body)
    spool.later_names[number] = _name(body[form.LATER_NAME_HEAD.size :])


def _later_turns(spool: Spool, body: memoryview) -> None:
    rows = body[: len(body) // form.LATER_TURN.size * form.LATER_TURN.size]
    spool.later_turns += map(LaterTurn._make, form.LATER_TURN.iter_unpack(rows))


def _thread_handle(spool: Spool, body: memoryview) -> None:
    index, handle = form.THREAD_HANDLE_BODY.unpack_from(body)
    spool.thread_handles[index] = handle


def _clock_pair(spool: Spool, body: memoryview) -> None:
    ticks, unix_ns = form.CLOCK_PAIR_BODY.unpack_from(body)
    spool.clock_pairs.append((ticks, *_possible(spool, unix_ns)))


def _device_work(spool: Spool, body: memoryview) -> None:
    length, _ = form.DEVICE_WORK_HEAD.unpack_from(body)
    end = form.DEVICE_WORK_HEAD.size + length
    text = json.loads(bytes(body[form.DEVICE_WORK_HEAD.size : end]))
    spool.device_work.append((text, body[(end + 7) // 8 * 8 :].cast("q")))


def _end(spool: Spool, body: memoryview) -> None:
    spool.end = End(*_possible(spool, *form.END_HEAD.unpack_from(body)))


# By kind of record; others are passed over.
DECODERS: dict[int, Callable[[Spool, memoryview], None]] = {
    form.SAMPLES: _samples,
    form.STACKS: _stacks,
    form.CODE: _code,
    form.FUNCTIONS: _functions,
    form.COUNTERS: _counters,
    form.MODULE: _module,
    form.MODULE_END: _module_end,
    form.THREAD: _thread,
    form.THREAD_NAME: _thread_name,
    form.META: _meta,
    form.EXACT_THREAD: _exact_thread,
    form.EXACT_NODES: _exact_nodes,
    form.EXACT_COUNTERS: _exact_counters,
    form.REGION: _region,
    form.C_FUNCTION: _c_function,
    form.FUNCTION_NAME: _function_name,
    form.CLOCK: _clock,
    form.EVENTS: _events,
    form.CALLS: _calls,
    form.WATCHED: _watched,
    form.CODE_FACTS: _code_facts,
    form.CALL_TIMES: _call_times,
    form.SAMPLE_SEGMENT: _sample_segment,
    form.SUMS: _sums,
    form.MERGED: _merged,
    form.LATER: _later,
    form.LATER_NAME: _later_name,
    form.LATER_TURNS: _later_turns,
    form.THREAD_HANDLE: _thread_handle,
    form.CLOCK_PAIR: _clock_pair,
    form.DEVICE_WORK: _device_work,
    form.FOLDED: _folded,
    form.END: _end,
}
