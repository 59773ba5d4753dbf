"""Whole inputs of the readers in Python, in pieces (mutate.py)."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

from example_profile import example, fake_symbols
from mutate import Pieces
from spool_writer import SpoolWriter, c_call, call_turn, kernel, native, pseudo, python, region

from pyhybrid import spool as form
from pyhybrid._columns import ATTRIBUTE_FLOAT, ATTRIBUTE_INT, GIL_SHIFT, LINE_LIMIT, WAITS
from pyhybrid.finish.finish import finish

CODE = 0x7E0000000000
PID = 4242
PAGE = 4096


def perf_maps() -> list[Pieces]:
    lines = [b"%x %x function %d\n" % (CODE + 64 * i, 64, i % 7) for i in range(40)]
    overlaps = [b"%x %x f%d\n" % (CODE + 16 * (i % 9), 16 * (i % 5 + 1), i) for i in range(40)]
    odd = [b"0x10 0X20 with 0x\r\n", b"30 8 caf\xc3\xa9 \xff\x07\n", b"40 8 " + b"long" * 2000]
    return [lines, overlaps, odd]


def _dump(order: str) -> Pieces:
    pieces = [struct.pack(order + "6IQQ", 0x4A695444, 1, 40, 62, 0, PID, 123, 0)]

    def record(kind: int, body: bytes) -> None:
        pieces.append(struct.pack(order + "IIQ", kind, 16 + len(body), 99) + body)

    for index in range(12):
        start = CODE + index % 5 * 256
        numbers = struct.pack(order + "IIQQQQ", PID, PID, start, start, 64, index)
        record(0, numbers + b"function %d\0" % index + b"\x90" * 64)
        if index % 3 == 0:  # it moves
            record(1, struct.pack(order + "IIQQQQQ", PID, PID, CODE + 64, start, CODE, 64, index))
        record(2 + index % 3, bytes(24))
    return pieces


def jitdumps() -> list[Pieces]:
    return [_dump("<"), _dump(">")]


ATTRIBUTES = (
    form.STRUCT["spool_attribute"].pack(ATTRIBUTE_INT, 4, 1)
    + b"step3"
    + form.STRUCT["spool_attribute"].pack(ATTRIBUTE_FLOAT, 5, 3)
    + b"rationan"
)


def _every_record() -> SpoolWriter:
    """What a hybrid run with all options leaves."""
    spool = SpoolWriter()
    spool.meta(mode="hybrid", events=True, functions=["work"], wall_threads=["loader-*"])
    spool.module(1, "/lib/libfoo.so", 0x7F0000000000)
    spool.module(2, "/lib/libfoo.so", 0x7F1000000000, build_id=b"")
    spool.record(form.TYPE["MODULE_END"], form.STRUCT["spool_module_end"].pack(2, 2 * 10**9))
    for index, name in enumerate(("main", "work", "<lambda>", "Class.method"), 1):
        spool.code(
            index, name, f"/home/me/{name[:1]}.py", 10 * index, table=b"\xd7\x00\x00\xe7\x02"
        )
    for index in (1, 2):
        spool.thread(index, PID + index, "python", "loader-1")
        spool.exact_thread(index, PID + index)
        nodes = [(0, python(1, 0)), (1, python(2, 0)), (2, python(3, 0)), (1, region(1))]
        nodes += [(4, python(2, 0)), (2, pseudo(6)), (2, c_call(1, 0x100)), (5, native(1, 0x20))]
        nodes += [(2, LINE_LIMIT | 21), (2, LINE_LIMIT | 22)]
        spool.exact_nodes(index, 1, *nodes)
        for node in range(1, 11):
            count = {"calls": 11 - node, "ticks": 10**6 // node, "seeded": node % 2}
            spool.exact_counts(index, {"node": node, **count})
        words = struct.pack("<6Q", *(n << 35 | n % 5 << 32 | n for n in range(1, 7)))
        spool.record(
            form.TYPE["EVENTS"], form.STRUCT["spool_events"].pack(index, 6, 1000, 4000, 3) + words
        )
        times = form.STRUCT["spool_call_times"].pack(index, 2, 3, 600, 300, 1)
        times += struct.pack("<320I", 1, 2, *[0] * 318)
        spool.replaced(form.TYPE["CALL_TIMES"], times)
        usage = struct.pack("<2I6Q4I", 7, 0, 100, 900, 50, 990, 4096, 8192, 3, 0, 1, 2)
        spool.calls(
            index,
            call_turn(1000, 2500, node=2),
            call_turn(3000, 3500, node=2, flags=8, serial=1),  # of a generator
            call_turn(3100, 3200, node=3, flags=9 | 32, more=usage),
            call_turn(0, 0, flags=16, serial=2, more=ATTRIBUTES),
            call_turn(4000, 4500, node=2, flags=1, serial=1),
            call_turn(5000, 6000, node=4, serial=2),
        )
        watched = (
            form.STRUCT["watched_call"].pack(n, n + 50, n, n + 40, n % 4, 0, n)
            for n in (1000, 2000)
        )
        spool.record(
            form.TYPE["WATCHED"], form.STRUCT["spool_calls"].pack(index) + b"".join(watched)
        )
        spool.counters(index, 4, 5, lost=(1, 2), cpu_ns=5_000_000)
    facts = b"work\0/home/me/w.py\0module\0work\0x\0y\0z\0"
    spool.record(
        form.TYPE["CODE_FACTS"], form.STRUCT["spool_code_facts"].pack(20, 3, 2, len(facts)) + facts
    )
    spool.region(1, "epoch")
    spool.c_function(0x7F0000000100, "math.sin")
    spool.function_name(native(1, 0x20), "torch._C.linear")
    inner = [spool.stack(python(1, 3), python(2, 4), native(1, 0x28), kernel(0xFFFF888000001000))]
    inner.append(spool.stack(python(1, 3), region(1), python(2, 1), native(1, 0x110)))
    inner.append(spool.stack(python(1, 3), native(0, CODE), pseudo(2), native(2, 0x10)))
    inner.append(spool.stack(native(1, 0x20), pseudo(1), python(3, 0)))
    spool.functions({native(1, 0x28): native(1, 0x20), native(1, 0x110): native(1, 0x100)})
    spool.stacks()
    for thread in (1, 2):
        states = [row | gil << GIL_SHIFT | WAITS * gil for gil, row in enumerate(inner[:2])]
        spool.samples(thread, [*inner, 0, *states], weights=[(1, 4)], cpus=[(0, 0), (3, 1)])
    spool.samples(2, inner[:3], first_ns=2_000_500_000, cpus=[(0, 1), (2, 0)])
    spool.replaced(form.TYPE["FOLDED"], form.STRUCT["spool_folded"].pack(2, 1234))
    segment = SpoolWriter()
    segment.samples(1, [inner[0], inner[1]], 30)
    spool.segment(2, segment)
    sums = form.STRUCT["spool_sum"].pack(1, inner[0], 10, 12, 1_000, 2_000)
    spool.replaced(form.TYPE["SUMS"], form.STRUCT["spool_sums"].pack(1) + sums)
    spool.replaced(form.TYPE["MERGED"], form.STRUCT["spool_merged"].pack(2))
    spool.clock(1000, 10**9)
    spool.clock(9000, 2 * 10**9)
    spool.end()
    return spool


def _writers() -> list[SpoolWriter]:
    return [example(), example(end=False), _every_record()]


def spools() -> list[Pieces]:
    return [[bytes(w.data[a:b]) for a, b in pairwise([0, *w.boundaries])] for w in _writers()]


def profiles() -> list[Pieces]:
    """Finished ones, in pages of SQLite's."""
    seeds = []
    for writer in _writers():
        path = finish(writer.save("seed.part"), "seed", fake_symbols())
        data = Path(path).read_bytes()
        seeds.append([data[at : at + PAGE] for at in range(0, len(data), PAGE)])
    return seeds
