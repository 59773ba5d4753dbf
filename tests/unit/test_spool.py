"""The spool's reader: what was written is read, and whatever is cut off is not missed."""

import resource
import struct
from array import array
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from zlib import adler32

import pytest
from example_profile import PID, example
from large_inputs import many_samples
from spool_writer import SpoolWriter, native
from steps import steps

from pyhybrid import spool as layout
from pyhybrid._columns import ATTRIBUTE_INT, SPOOL_MARK, SPOOL_REPLACED, SPOOL_VERSION, WAITS
from pyhybrid.assemble.samples import count_samples
from pyhybrid.errors import PyhybridError
from pyhybrid.spool import content, reader
from pyhybrid.spool.content import attributes_as_json


def test_reads_what_was_written(tmp_path: Path) -> None:
    read = reader.read(example().save(tmp_path / "x.part"))
    assert read.pid == PID
    assert read.meta["argv"] == ["workload.py", "--steps", "3"]
    assert read.modules[2].path.endswith("libtorch_cpu.so")
    assert read.modules[2].build_id == "02" * 20
    assert read.modules[2].segments == [(0x7F1000000000, 0x100000, 0, 5)]
    assert read.codes[4].qualname == "main.<locals>.step"
    assert (read.codes[4].first_line, read.codes[4].first_traceable) == (10, 2)
    assert [t.name for t in read.threads.values()] == ["MainThread", "loader;1"]
    assert read.words[1] == native(1, 0x110)
    assert read.functions[native(2, 0x3010)] == native(2, 0x3000)
    assert read.counters[1].lost[:3] == (2, 1, 0)
    assert read.counters[1].handler_ns[16] == 10
    assert read.end == content.End(3_000_000_000, 1_500_000_000, 2, 1, 0, 0, 0)
    assert [len(chunk.place) for chunk in read.chunks] == [10, 2]
    assert list(read.chunks[0].weights) == [1, 4]


def test_threads_that_are_one_row(tmp_path: Path) -> None:
    """Their samples, which came thread by thread, are in order of time."""
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1 << 22 | 1, "python", "Thread-* (handle)")
    writer.thread(2, 7, "python", "other")
    stacks = [writer.stack(native(1, at)) for at in range(0x10, 0x70, 0x10)]
    writer.stacks()
    writer.samples(1, stacks[:3], first_ns=10_000)
    writer.samples(2, stacks[:1], first_ns=10_500)
    writer.samples(1, stacks[3:], first_ns=10_001, weights=[(1, 5)])
    writer.replaced(layout.TYPE["FOLDED"], layout.STRUCT["spool_folded"].pack(1, 1234))
    read = reader.read(writer.save(tmp_path / "x.part"))
    assert [each.name for each in read.threads.values()] == [
        "Thread-* (handle) \u00d7 1,234",
        "other",
    ]
    other, folded = read.chunks
    assert (other.thread, folded.thread, folded.first_ns) == (2, 1, 10_000)
    assert [stacks.index(place) for place in folded.place] == [0, 3, 1, 4, 2, 5]
    assert list(folded.weights) == [3, 5]
    assert list(folded.dt_ns) == [0, 1, 999_999, 1, 999_999, 1]
    assert count_samples(read)[1].periods()[stacks[4]] == 5


def test_later_records_override(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta(hz=100)
    writer.record(layout.TYPE["META"], b'{"hz": 99, "more": 1}')
    writer.thread(1, 7, "comm", "first")
    writer.record(layout.TYPE["THREAD_NAME"], b"\1\0\0\0\1\0\0\0second")
    writer.record(layout.TYPE["THREAD_NAME"], b"\1\0\0\0\0\0\0\0comm again")
    writer.module(1, "/lib/a.so", 0x1000)
    writer.record(layout.TYPE["MODULE_END"], b"\1\0\0\0\0\0\0\0" + (77).to_bytes(8, "little"))
    writer.counters(1, 1, 1)
    writer.counters(1, 5, 5)
    writer.record(99, b"a type of tomorrow")
    read = reader.read(writer.save(tmp_path / "x.part"))
    assert (read.meta["hz"], read.meta["more"], read.meta["cwd"]) == (99, 1, "/home/me")
    assert read.threads[1].name == "second"
    assert read.modules[1].unload_ns == 77
    assert read.counters[1].recorded == 5


def test_odd_names_survive(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "f\udc80", "/tmp/\udcff.py", 1)
    read = reader.read(writer.save(tmp_path / "x.part"))
    assert (read.codes[1].qualname, read.codes[1].file) == ("f\udc80", "/tmp/\udcff.py")


def read_or_error(path: Path) -> content.Spool | str:
    """The spool, or what is wrong with it."""
    try:
        return reader.read(str(path))
    except PyhybridError as error:
        return str(error)


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.further)])
def test_cut_anywhere(tmp_path: Path, step: int) -> None:
    """At every `step`-th byte: either what was whole before the cut, or one clear line."""
    writer = example()
    path = tmp_path / "x.part"
    meta_end = writer.boundaries[1]
    for size in range(0, len(writer.data), step):
        path.write_bytes(writer.data[:size])
        read = read_or_error(path)
        if isinstance(read, str):
            assert size < meta_end
            assert "\n" not in read
        else:
            assert size > meta_end - 8  # the last bytes of META are padding
            assert (read.end is None) == (size < writer.boundaries[-1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a pyhybrid spool"),
        (b"PYHSPOOX" + bytes(8), "not a pyhybrid spool"),
        (bytes(SpoolWriter(version=SPOOL_VERSION + 1).data), "newer pyhybrid"),
        (bytes(SpoolWriter(version=SPOOL_VERSION - 1).data), "older pyhybrid"),
        (bytes(SpoolWriter().data), "before anything was recorded"),
    ],
)
def test_refuses(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.part"
    path.write_bytes(data)
    with pytest.raises(PyhybridError, match=message):
        reader.read(str(path))


def test_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PyhybridError, match="No such file"):
        reader.read(str(tmp_path / "none.part"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda spool: spool.module(1, "/lib/far.so", base=(1 << 64) - 4096),
        lambda spool: spool.module(1, "/lib/long.so", base=4096, size=1 << 63),
        lambda spool: spool.samples(1, [1, 1], cpus=[]),
        lambda spool: spool.samples(1, [1, 1], cpus=[(1, 0)]),
        lambda spool: spool.samples(1, [1, 1], cpus=[(0, 0), (0xFFFFFFFF, 1)]),
        lambda spool: spool.samples(1, [1, 1], cpus=[(0, 0), (0, 1)]),
        lambda spool: spool.samples(1, [1, 1], weights=[(1, 2), (0, 2)]),
        lambda spool: spool.samples(1, [1, 1], weights=[(2, 2)]),
        lambda spool: spool.exact_nodes(1, 1, (0, 0)),
        lambda spool: spool.record(
            layout.TYPE["CALLS"], layout.STRUCT["spool_calls"].pack(2) + bytes(32)
        ),
        lambda spool: spool.record(layout.TYPE["CALLS"], bytes(4)),
        lambda spool: spool.record(
            layout.TYPE["CALL_TIMES"],
            layout.STRUCT["spool_call_times"].pack(1, 0, *[1] * 4) + bytes(1280),
        ),
    ],
)
def test_what_does_not_fit_is_one_line(
    tmp_path: Path, damage: Callable[[SpoolWriter], None]
) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.exact_thread(1, 100)
    damage(writer)
    read = reader.read(writer.save(tmp_path / "x.part"))
    assert read.n_damaged == 1
    assert not (read.modules or read.chunks or read.calls or read.call_times)


@pytest.mark.parametrize("break_it", ["gap", "parent", "json", "weights"])
def test_damage_is_one_line(tmp_path: Path, break_it: str) -> None:
    writer = SpoolWriter()
    writer.meta()
    if break_it == "gap":
        writer.record(layout.TYPE["STACKS"], layout.STRUCT["spool_stacks"].pack(5, 1) + bytes(16))
    elif break_it == "parent":
        body = array("I", [1, 0]).tobytes() + bytes(8)
        writer.record(layout.TYPE["STACKS"], layout.STRUCT["spool_stacks"].pack(1, 1) + body)
    elif break_it == "json":
        writer.record(layout.TYPE["META"], b"{")
    else:
        writer.record(layout.TYPE["SAMPLES"], layout.STRUCT["spool_samples"].pack(1, 9, 9, 0, 0))
    writer.thread(1, 1, "python")
    read = reader.read(writer.save(tmp_path / "x.part"))
    assert read.n_damaged == 1
    assert len(read.words) == 1
    assert read.threads[1].tid == 1


def test_a_damaged_record_costs_that_record(tmp_path: Path) -> None:
    """Whatever byte of it is damaged, but for META, which there is once, and padding."""
    writer = example()
    path = tmp_path / "x.part"
    for begin, end in pairwise(writer.boundaries[1:-1]):
        for at in {begin, begin + 5, begin + 9, begin + 13, (begin + end) // 2, end - 8}:
            data = bytearray(writer.data)
            data[at] ^= 0x41
            path.write_bytes(data)
            read = reader.read(str(path))
            assert read.n_damaged <= 2  # with what is of a thread that is not there any more
            assert read.end is not None


def test_replaced_records(tmp_path: Path) -> None:
    """The last round that was committed counts, whatever is written of the next one."""
    rounds = [layout.STRUCT["spool_clock"].pack(1, 1, n, n) for n in range(4)]

    def half(number: int, content: bytes, damage: int = 0) -> bytes:
        length, raw = struct.pack("<I", len(content)), struct.pack("<Q", number)
        check = adler32(length + raw + content) ^ damage
        return length + struct.pack("<I", check) + raw + content

    def read(committed: int, first: bytes, second: bytes) -> tuple[int, int]:
        writer = SpoolWriter()
        writer.data[16:24] = struct.pack("<Q", committed)
        writer.meta()
        body = first + second
        head = struct.pack("<II", layout.TYPE["CLOCK"] | SPOOL_REPLACED, len(body))
        writer.data += struct.pack("<II", SPOOL_MARK, adler32(head)) + head + body
        found = reader.read(writer.save(tmp_path / "x.part"))
        return (found.clocks[-1][0] if found.clocks else 0), found.n_damaged

    empty = bytes(len(half(1, rounds[1])))
    assert read(1, half(1, rounds[1]), empty) == (1, 0)
    assert read(0, half(1, rounds[1]), empty) == (0, 0)
    assert read(2, half(1, rounds[1]), half(2, rounds[2])) == (2, 0)
    assert read(2, half(3, rounds[3]), half(2, rounds[2])) == (2, 0)
    assert read(2, half(3, rounds[3], damage=1), half(2, rounds[2])) == (2, 0)
    assert read(2, half(1, rounds[1]), half(2, rounds[2], damage=1)) == (1, 0)
    assert read(1, half(1, rounds[1], damage=1), empty) == (0, 1)


def test_a_bounded_timeline(tmp_path: Path) -> None:
    """Segments count in their order, from the first that is not in the sums on; what a segment had
    before does not."""

    def segment(*first_ns: int) -> SpoolWriter:
        writer = SpoolWriter()
        for each in first_ns:
            writer.samples(1, [1, 1], each)
        return writer

    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 7, "comm")
    writer.stack(native(1, 0x10))
    writer.stacks()
    stale = bytes(segment(99).data[layout.HEADER.size :])
    writer.segment(4, segment(40, 41), stale)
    writer.segment(2, segment(20))
    writer.segment(3, segment(30))
    writer.segment(0, segment())
    rows = [(1, 1, 10, 12, 1_000, 2_000), (1, 1 | WAITS, 1, 1, 1_500, 1_500)]
    sums = b"".join(layout.STRUCT["spool_sum"].pack(*row) for row in rows)
    writer.replaced(layout.TYPE["SUMS"], layout.STRUCT["spool_sums"].pack(len(rows)) + sums)
    writer.replaced(layout.TYPE["MERGED"], layout.STRUCT["spool_merged"].pack(3))
    path = writer.save(tmp_path / "x.part")
    read = reader.read(path)
    assert not read.n_damaged
    assert [chunk.first_ns for chunk in read.chunks] == [30, 40, 41]
    assert [tuple(row) for row in read.sums] == rows
    taken = count_samples(read)[1]
    assert taken.samples == {1: 6 + 10, 1 | WAITS: 1}
    assert taken.periods() == {1: 6 + 12, 1 | WAITS: 1}
    assert [chunk.first_ns for chunk in read.chunks] == [1_000, 30, 40, 41]
    assert list(read.chunks[0].weights) == [0, 12, 1, 1]


def test_attributes_that_are_damaged() -> None:
    whole = layout.STRUCT["spool_attribute"].pack(ATTRIBUTE_INT, 1, 2) + b"n42"
    assert attributes_as_json(memoryview(whole * 2)) == '{"n": 42}'
    assert attributes_as_json(memoryview(b"")) == "{}"
    for damaged in (whole[:-1], whole[:5], whole[:-2] + b"x2"):
        with pytest.raises((ValueError, struct.error)):
            attributes_as_json(memoryview(damaged))


def test_zeros_of_a_crash_are_the_end(tmp_path: Path) -> None:
    writer = example()
    path = tmp_path / "x.part"
    path.write_bytes(writer.data + bytes(4096))
    assert reader.read(str(path)).end is not None


def test_an_hour_is_not_decoded_sample_by_sample(tmp_path: Path) -> None:
    """3.6 M samples, in 3,600 chunks."""
    path = many_samples(tmp_path / "x.part", 3600)
    read = []
    assert steps(lambda: read.append(reader.read(path))) < 100 * 3600
    assert sum(len(chunk.place) for chunk in read[0].chunks) == 3_600_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20
