"""Writes spools by hand, record by record (src/record/spool.h): for tests of what reads them."""

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import adler32

from pyhybrid import spool as form
from pyhybrid._columns import (
    ADDRESS_BITS,
    ADDRESS_MASK,
    C_CALL_LIMIT,
    KERNEL_LIMIT,
    NATIVE_LIMIT,
    OFFSET_BITS,
    PSEUDO_LIMIT,
    REGION_LIMIT,
    REGION_OBJECT,
    SPOOL_LOSSES,
    SPOOL_MARK,
    SPOOL_REPLACED,
    SPOOL_VERSION,
)

META = {
    "version": "0.1.0",
    "argv": ["workload.py", "--steps", "3"],
    "executable": "/opt/python/bin/python3.12",
    "cwd": "/home/me",
    "pid": 4242,
    "hostname": "host",
    "python": "3.12.1",
    "os_release": "6.18.0",
    "arch": "x86_64",
    "clock": "cpu",
    "engine": "perf_event",
    "engine_reason": "",
    "hz_asked": 1000,
    "hz": 1000,
    "period_ns": 1_000_000,
    "mode": "sample",
    "start_ns": 1_000_000_000,
    "start_unix_ns": 1_700_000_000_000_000_000,
    "unwinder": "cfi",
    "notes": [],
    "n_cpus": 2,
}


def native(module: int, offset: int) -> int:
    """The word of a native frame."""
    return module << ADDRESS_BITS | offset


def python(code: int, offset: int) -> int:
    """The word of a Python frame."""
    return NATIVE_LIMIT | code << OFFSET_BITS | offset


def pseudo(number: int) -> int:
    """The word of a pseudo-frame."""
    return PSEUDO_LIMIT | number


def kernel(address: int) -> int:
    """The word of a frame of the kernel."""
    return KERNEL_LIMIT | address & ADDRESS_MASK


def region(number: int, is_object: bool = False) -> int:
    """The word of a named region, or of an object, which has one."""
    return REGION_LIMIT | (REGION_OBJECT if is_object else 0) | number


def c_call(module: int, offset: int) -> int:
    """The word of a C function that Python called."""
    return C_CALL_LIMIT | native(module, offset)


def call_turn(
    since: int, until: int, node: int = 1, flags: int = 9, serial: int = 0, more: bytes = b""
) -> bytes:
    """As src/exact/kept_calls.h has it; flags 9: the first and last one."""
    head = form.STRUCT["call_turn"].pack(since, until, node, serial, flags, 0, len(more))
    return head + more.ljust(-(-len(more) // 8) * 8, b"\0")


class SpoolWriter:
    """A spool in the making: `data` is the file so far, `boundaries` where each record ends."""

    def __init__(self, pid: int = 4242, version: int = SPOOL_VERSION) -> None:
        self.data = bytearray(form.HEADER.pack(form.MAGIC, version, pid, 1))
        self.boundaries = [len(self.data)]
        self._rows: dict[tuple[int, int], int] = {}
        self._pending: list[tuple[int, int]] = []
        self._threads: dict[int, int] = {}  # tid -> index, without events
        self._newest = 0
        self._clock: tuple[int, int] | None = None

    def record(self, kind: int, body: bytes) -> None:
        """Append any record."""
        head = struct.pack("<II", kind, len(body))
        self._append(head, adler32(head + body), body)

    def replaced(self, kind: int, body: bytes) -> None:
        """Append a record that is replaced in its place: as the first round leaves it."""
        length = struct.pack("<I", len(body))
        number = struct.pack("<Q", 1)
        half = length + struct.pack("<I", adler32(length + number + body)) + number + body
        half += bytes(-len(body) % 8)
        head = struct.pack("<II", kind | SPOOL_REPLACED, 2 * len(half))
        self._append(head, adler32(head), half + bytes(len(half)))

    def _append(self, head: bytes, check: int, body: bytes) -> None:
        mark = struct.pack("<II", SPOOL_MARK, check)
        self.data += mark + head + body + bytes(-len(body) % 8)
        self.boundaries.append(len(self.data))

    def meta(self, **keys: Any) -> None:
        """META, overriding `keys` of the usual ones."""
        self.record(form.TYPE["META"], json.dumps(META | keys).encode())

    def module(
        self,
        number: int,
        path: str,
        base: int,
        size: int = 0x100000,
        build_id: bytes = b"\xab" * 20,
    ) -> None:
        """A module of one executable segment, `size` bytes from `base`."""
        raw = path.encode()
        head = form.STRUCT["spool_module"].pack(number, 1, base, 0, len(build_id), len(raw))
        segment = form.STRUCT["spool_segment"].pack(base, size, 0, 5)
        self.record(form.TYPE["MODULE"], head + segment + build_id + raw)

    def code(
        self,
        index: int,
        qualname: str,
        file: str,
        first_line: int,
        first_traceable: int = 0,
        table: bytes = b"\xf0\x00" * 0,
    ) -> None:
        """A code object."""
        name, path = (text.encode("utf-8", "surrogatepass") for text in (qualname, file))
        lengths = (len(name), len(path), len(table))
        head = form.STRUCT["spool_code"].pack(index, first_line, first_traceable, *lengths)
        self.record(form.TYPE["CODE"], head + name + path + table)

    def thread(
        self, index: int, tid: int, comm: str, name: str = "", first_ns: int = 10**9
    ) -> None:
        """A thread, and its name by threading."""
        head = form.STRUCT["spool_thread"].pack(index, tid, first_ns, first_ns, comm.encode())
        self.record(form.TYPE["THREAD"], head)
        self._threads[tid] = index
        self._newest = max(self._newest, index)
        if name:
            self.record(form.TYPE["THREAD_NAME"], struct.pack("<II", index, 1) + name.encode())

    def stack(self, *words: int) -> int:
        """The id of the stack with these words, root first; new rows go out with `stacks`."""
        row = 0
        for word in words:
            key = (row, word)
            if key not in self._rows:
                self._rows[key] = len(self._rows) + 1
                self._pending.append(key)
            row = self._rows[key]
        return row

    def stacks(self) -> None:
        """STACKS: the rows that are new since the last one."""
        n = len(self._pending)
        first = len(self._rows) - n + 1
        parents = struct.pack(f"<{n}I", *(parent for parent, _ in self._pending))
        words = struct.pack(f"<{n}Q", *(word for _, word in self._pending))
        head = form.STRUCT["spool_stacks"].pack(first, n)
        self.record(form.TYPE["STACKS"], head + parents + bytes(-len(parents) % 8) + words)
        self._pending.clear()

    def functions(self, starts: dict[int, int]) -> None:
        """FUNCTIONS: word -> start word."""
        self.record(
            form.TYPE["FUNCTIONS"], b"".join(struct.pack("<QQ", *each) for each in starts.items())
        )

    def samples(
        self,
        thread: int,
        stacks: Sequence[int],
        first_ns: int = 2_000_000_000,
        dt_ns: int = 1_000_000,
        weights: Iterable[tuple[int, int]] = (),
        cpus: Iterable[tuple[int, int]] = ((0, 0),),
    ) -> None:
        """A chunk of samples, `dt_ns` apart; a stack's upper bits: what the thread was about."""
        n, weights, cpus = len(stacks), list(weights), list(cpus)
        head = form.STRUCT["spool_samples"].pack(thread, n, len(weights), len(cpus), first_ns)
        arrays = struct.pack(f"<{2 * n}I", 0, *[dt_ns] * (n - 1), *stacks)
        pairs = b"".join(struct.pack("<II", *each) for each in [*weights, *cpus])
        self.record(form.TYPE["SAMPLES"], head + arrays + pairs)

    def segment(self, number: int, records: "SpoolWriter", rest: bytes = b"") -> None:
        """Samples of a bounded timeline: the records of another spool, and what else is there."""
        inner = records.data[form.HEADER.size :] + bytes(form.RECORD.size) + rest
        body = form.STRUCT["spool_segment_head"].pack(number) + inner
        head = struct.pack("<II", form.TYPE["SAMPLE_SEGMENT"], len(body))
        self._append(head, adler32(head), body)

    def counters(
        self,
        thread: int,
        recorded: int,
        weight: int,
        lost: Sequence[int] = (),
        cpu_ns: int = 0,
        missed_weight: int = 0,
        handler: Sequence[int] = (),
    ) -> None:
        """A snapshot of a thread's own account."""
        losses = [*lost, *[0] * (SPOOL_LOSSES - len(lost))]
        self.replaced(
            form.TYPE["COUNTERS"],
            form.STRUCT["spool_counters"].pack(
                *(thread, 3, recorded + sum(losses), recorded, weight, missed_weight),
                *(cpu_ns, *losses, *losses, *handler, *[0] * (64 - len(handler))),
            ),
        )

    def exact_thread(
        self, index: int, tid: int, first_ns: int = 10**9, comm: str = "python"
    ) -> None:
        """A thread that events came from: the last one of that tid, or a new one."""
        if tid not in self._threads:
            self.thread(self._newest + 1, tid, comm, first_ns=first_ns)
        self.record(
            form.TYPE["EXACT_THREAD"],
            form.STRUCT["spool_exact_thread"].pack(index, self._threads.pop(tid)),
        )

    def exact_nodes(self, thread: int, first_id: int, *rows: tuple[int, int]) -> None:
        """Nodes: (parent, word)."""
        n = len(rows)
        parents = struct.pack(f"<{n}I", *(parent for parent, _ in rows))
        words = struct.pack(f"<{n}Q", *(word for _, word in rows))
        head = form.STRUCT["spool_exact_nodes"].pack(thread, first_id, n)
        self.record(form.TYPE["EXACT_NODES"], head + parents + bytes(-len(parents) % 8) + words)

    def exact_counts(self, thread: int, *counts: dict[str, int]) -> None:
        """Counters of nodes, each a record: node, calls, resumes, raised, ticks, seeded, since."""
        columns = ("raised", "seeded", "calls", "resumes", "ticks", "since")
        for count in counts:
            head = form.STRUCT["spool_exact_counters"].pack(thread, count["node"], 1)
            row = form.EXACT_COUNT.pack(*(count.get(key, 0) for key in columns))
            self.replaced(form.TYPE["EXACT_COUNTERS"], head + row)

    def calls(self, thread: int, *turns: bytes) -> None:
        """Of `call_turn`."""
        self.record(form.TYPE["CALLS"], form.STRUCT["spool_calls"].pack(thread) + b"".join(turns))

    def region(self, number: int, name: str) -> None:
        """REGION: a name."""
        self.record(form.TYPE["REGION"], form.STRUCT["spool_region"].pack(number) + name.encode())

    def c_function(self, address: int, name: str) -> None:
        """A name by which Python calls the C function at an absolute address."""
        self.record(
            form.TYPE["C_FUNCTION"], form.STRUCT["spool_c_function"].pack(address) + name.encode()
        )

    def function_name(self, start: int, name: str) -> None:
        """A name by which Python reaches the C function whose first word is `start`."""
        self.record(
            form.TYPE["FUNCTION_NAME"],
            form.STRUCT["spool_function_name"].pack(start) + name.encode(),
        )

    def clock(self, ticks: int, time_ns: int) -> None:
        """A reading of both clocks: the first one, or the last one so far."""
        self._clock = self._clock or (ticks, time_ns)
        self.replaced(
            form.TYPE["CLOCK"], form.STRUCT["spool_clock"].pack(*self._clock, ticks, time_ns)
        )

    def end(self, time_ns: int = 3_000_000_000, cpu_ns: int = 1_500_000_000) -> None:
        """END: stopped in order, two children forked and one spawned."""
        self.record(form.TYPE["END"], form.STRUCT["spool_end"].pack(time_ns, cpu_ns, 2, 1, 0, 0, 0))

    def save(self, path: Any) -> str:
        """Write the file; returns its path as str."""
        with open(path, "wb") as file:
            file.write(self.data)
        return str(path)


def with_checks(data: bytes) -> bytes:
    """The spool with the right checks of the records that follow one another."""
    made, at = bytearray(data), form.HEADER.size
    while at + form.RECORD.size <= len(made):
        mark, _, kind, length = form.RECORD.unpack_from(made, at)
        begin, end = at + form.RECORD.size, at + form.RECORD.size + length
        if mark != SPOOL_MARK or end > len(made):
            break
        head = bytes(made[at + 8 : begin])
        if kind & SPOOL_REPLACED:
            for half in (begin, begin + length // 2):
                _check_half(made, half, end)
        else:
            head += made[begin:end]
        struct.pack_into("<I", made, at + 4, adler32(head))
        at = end + -end % 8
    return bytes(made)


def _check_half(made: bytearray, at: int, end: int) -> None:
    if at + form.HALF.size <= end:
        (length,) = struct.unpack_from("<I", made, at)
        content = made[at + form.HALF.size : at + form.HALF.size + length]
        check = adler32(made[at : at + 4] + made[at + 8 : at + 16] + content)
        struct.pack_into("<I", made, at + 4, check)
