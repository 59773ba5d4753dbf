"""A spool that is read as it grows has in the end what it has when it is read at once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_writer import SpoolWriter, native, python

from pyhybrid import spool as form
from pyhybrid.errors import PyhybridError
from pyhybrid.live.follower import Follower
from pyhybrid.spool import reader


def written() -> SpoolWriter:
    spool = SpoolWriter(pid=os.getpid())
    spool.meta()
    spool.module(1, "/lib/libfoo.so", 0x7F0000000000)
    for number, name in enumerate(("main", "work"), 1):
        spool.code(number, name, "program.py", number)
    spool.thread(1, 4242, "python")
    main, work = python(1, 4), python(2, 4)
    for round_ in range(5):
        stacks = [spool.stack(main, work, native(1, 16 * round_)), spool.stack(main)]
        spool.stacks()
        spool.samples(1, stacks * 3, first_ns=(2 + round_) * 10**9, weights=[(2, 5)])
    return spool


def counted(path: Path) -> Counter[int]:
    """Periods by place."""
    weights = Counter[int]()
    for chunk in reader.read(str(path)).chunks:
        weights.update(chunk.place)
        for index, weight in zip(chunk.weights[::2], chunk.weights[1::2], strict=True):
            weights[chunk.place[index]] += weight - 1
    return weights


@given(cuts=st.lists(st.integers(0, len(written().data)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_wherever_it_is_cut(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    path, data = tmp_path_factory.mktemp("spool") / "run.pyhybrid.part", bytes(written().data)
    weights, n = Counter[int](), 0
    path.touch()
    follower = Follower(str(path))
    try:
        for end in [*sorted(cuts), len(data)]:
            path.write_bytes(data[:end])
            taken = follower.read()
            weights.update(taken.weights.get(1, {}))
            n += taken.samples
        assert follower.spool.n_damaged == 0
        assert weights == counted(path)
        assert n == 30
        whole = reader.read(str(path))
        assert follower.spool.words == whole.words and follower.spool.parents == whole.parents
        assert {*follower.spool.codes} == {1, 2}
    finally:
        follower.close()


def test_what_is_damaged_costs_that_alone(tmp_path: Path) -> None:
    path, spool = tmp_path / "run.pyhybrid.part", written()
    data = bytearray(spool.data)
    data[spool.boundaries[-2] + 40] ^= 1  # within the last samples
    path.write_bytes(data)
    follower = Follower(str(path))
    assert follower.read().samples == 24
    more = written()
    path.write_bytes(data + more.data[more.boundaries[-2] :])
    assert follower.read().samples in (0, 6)  # the first time it may be about to be written
    follower.read()
    assert follower.spool.n_damaged == 1
    follower.close()


def test_a_counter_is_that_of_the_last_round(tmp_path: Path) -> None:
    path, spool = tmp_path / "run.pyhybrid.part", written()
    spool.replaced(form.TYPE["CLOCK"], form.STRUCT["spool_clock"].pack(0, 0, 100, 10**9))
    path.write_bytes(spool.data)
    follower = Follower(str(path))
    follower.read()
    assert follower.spool.clocks[-1] == (100, 10**9)
    other = SpoolWriter()
    other.replaced(form.TYPE["CLOCK"], form.STRUCT["spool_clock"].pack(0, 0, 200, 2 * 10**9))
    begin, size = spool.boundaries[-2] + form.RECORD.size, other.boundaries[-1]
    half = other.data[other.boundaries[-2] + form.RECORD.size : size]
    half = bytearray(half[: len(half) // 2])
    with open(path, "r+b") as file:
        file.seek(begin + len(half))
        file.write(half)  # of round 1, too: not newer than what was taken
        file.flush()
        follower.read()
        assert follower.spool.clocks[-1] == (100, 10**9)
    follower.close()


def test_a_counter_of_which_a_part_is_there(tmp_path: Path) -> None:
    """The disk was full, or a copy broke off."""
    path, spool = tmp_path / "run.pyhybrid.part", written()
    spool.replaced(form.TYPE["CLOCK"], form.STRUCT["spool_clock"].pack(0, 0, 100, 10**9))
    for end in range(spool.boundaries[-2], spool.boundaries[-1]):
        path.write_bytes(spool.data[:end])
        follower = Follower(str(path))
        follower.read()
        assert follower.spool.pid == os.getpid()
        follower.close()


def test_what_is_no_spool(tmp_path: Path) -> None:
    path = tmp_path / "x.part"
    path.write_bytes(b"x" * 64)
    follower = Follower(str(path))
    with pytest.raises(PyhybridError, match="not a pyhybrid spool"):
        follower.read()
    follower.close()
    with pytest.raises(PyhybridError, match="No such file"):
        Follower(str(tmp_path / "none.part"))
