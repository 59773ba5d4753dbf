"""Views of a profile: which samples and frames are chosen, and that every reader sees the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from spool_writer import SpoolWriter, native, pseudo, python

from pyhybrid._columns import GIL_SHIFT, WAITS
from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.tables import stack_of
from pyhybrid.tables.profile import Profile
from pyhybrid.views.selection.frames_of_kind import NATIVE_ONLY, PYTHON_ONLY
from pyhybrid.views.selection.sample_selection import Choice, choose

HELD, WAITING = 1 << GIL_SHIFT, 2 << GIL_SHIFT
LIBRARY, PERIOD_NS = 1, 1_000_000
START_NS = 1_000_000_000


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    """Two threads by wall-clock time; `loader` has native code only."""
    spool = SpoolWriter()
    spool.meta(clock="wall", engine="monotonic", start_ns=START_NS)
    spool.module(LIBRARY, "/opt/lib.so", 0x7F0000000000)
    spool.code(1, "main", "/a.py", 1)
    spool.code(2, "inner", "/a.py", 9)
    spool.thread(1, 4242, "python", "MainThread")
    spool.thread(2, 4250, "loader", "loader")
    work = native(LIBRARY, 0x1000)
    call, deep = native(LIBRARY, 0x2000), native(LIBRARY, 0x3000)
    main = spool.stack(work, python(1, 3))
    inner = spool.stack(work, python(1, 3), call, python(2, 1), deep)
    gap = spool.stack(work, python(1, 3), pseudo(2), deep)
    alone = spool.stack(work, call)
    spool.functions({word: word for word in (work, call, deep)})
    spool.stacks()
    # Two seconds apart: 0, 2 ... 10 s after the start.
    places = [main | HELD, inner | HELD, inner, gap | WAITING | WAITS, inner | WAITS, main | HELD]
    spool.samples(
        1, places, START_NS, 2_000_000_000, weights=[(4, 10)], cpus=[(0, 1), (2, 3), (5, 0)]
    )
    spool.samples(2, [alone, alone | WAITS], START_NS + 500_000_000, 1_000_000_000)
    spool.counters(1, 6, 15, lost=(3,), cpu_ns=6_000_000)
    spool.counters(2, 2, 2, cpu_ns=2_000_000)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part")) as opened:
        yield opened


def weights(profile: Profile) -> dict[str, int]:
    """Periods by the names of a path's frames, with the timeline checked against it."""
    counted: dict[tuple[int, int], int] = {}
    for chunk in profile.timeline():
        assert set(chunk.weights) <= set(range(len(chunk.place)))
        for at, place in enumerate(chunk.place):
            key = (chunk.thread, stack_of(place))
            counted[key] = counted.get(key, 0) + chunk.weights.get(at, 1)
    summed: dict[tuple[int, int], int] = {}
    by_path: dict[str, int] = {}
    for row in profile.sampled:
        key = (row.thread, row.stack)
        summed[key] = summed.get(key, 0) + row.weight_ns // PERIOD_NS
        names, stack = [], row.stack
        while stack:
            names.append(profile.frames[profile.nodes.frame[profile.stacks.node[stack]]].name)
            stack = profile.stacks.parent[stack]
        path = ";".join(reversed(names))
        by_path[path] = by_path.get(path, 0) + row.weight_ns // PERIOD_NS
    assert counted == summed
    return by_path


def times(profile: Profile) -> list[float]:
    found = []
    for chunk in profile.timeline():
        at = chunk.first_ns
        for step in chunk.dt_ns:
            at += step
            found.append((at - START_NS) / 1e9)
    return found


W, C, D = (f"lib.so!+{offset:#x}" for offset in (0x1000, 0x2000, 0x3000))
ALL = {
    f"{W};main": 2,
    f"{W};main;{C};inner;{D}": 12,
    f"{W};main;[unwind gap];{D}": 1,
    f"{W};{C}": 2,
}


def test_nothing_chosen_is_the_profile_itself(profile: Profile) -> None:
    assert choose(profile, Choice()) == (profile, [])
    assert weights(profile) == ALL


@pytest.mark.parametrize("pattern", ["loader", "load*", "4250"])
def test_a_thread(profile: Profile, pattern: str) -> None:
    chosen, notes = choose(profile, Choice(threads=[pattern]))
    assert weights(chosen) == {f"{W};{C}": 2}
    assert notes == ["only threads loader"]
    assert [thread.signals for thread in chosen.threads.values()] == [2]
    assert not chosen.losses
    assert chosen.process.cpu_ns == 2_000_000  # its share of what sampling took is of that


def test_threads_that_are_not_there(profile: Profile) -> None:
    with pytest.raises(PyhybridError, match="no thread 'x'; there are: MainThread, loader"):
        choose(profile, Choice(threads=["Main*", "x"]))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(gil="held"), [0, 2, 10]),
        (Choice(gil="waiting"), [6]),
        (Choice(gil="neither"), [4, 8, 0.5, 1.5]),
        (Choice(off_cpu=True), [6, 8, 1.5]),
        (Choice(off_cpu=False), [0, 2, 4, 10, 0.5]),
        (Choice(gil="neither", off_cpu=True), [8, 1.5]),
        (Choice(begin_ns=1_000_000_000, end_ns=6_000_000_000), [2, 4, 6, 1.5]),
        (Choice(begin_ns=3_000_000_000), [4, 6, 8, 10]),
        (Choice(end_ns=400_000_000, gil="held"), [0]),
        (Choice(begin_ns=4_000_000_000, threads=["loader"]), []),
    ],
)
def test_samples_by_state_and_time(profile: Profile, choice: Choice, expected: list[float]) -> None:
    chosen, notes = choose(profile, choice)
    assert times(chosen) == expected
    lost = any("3 samples were lost in all" in note for note in notes)
    assert lost == (choice.threads != ["loader"])
    assert len(notes) >= 1 + lost
    weights(chosen)
    assert not chosen.losses  # of which nobody knows when they were
    threads = chosen.threads.values()
    assert all(thread.signals == thread.recorded for thread in threads)
    on_cpu_ns = sum(row.weight_ns for row in chosen.sampled if not row.waits)
    assert chosen.process.cpu_ns == (on_cpu_ns or None)


def test_the_cpu_of_each_sample(profile: Profile) -> None:
    def cpus(view: Profile) -> list[int]:
        found = []
        for chunk in view.timeline():
            current = -1
            for at in range(len(chunk.place)):
                current = chunk.cpus.get(at, current)
                found.append(current)
        return found

    assert cpus(profile) == [1, 1, 3, 3, 3, 0, 0, 0]
    assert cpus(choose(profile, Choice(gil="held"))[0]) == [1, 1, 0]
    assert cpus(choose(profile, Choice(begin_ns=5_000_000_000))[0]) == [3, 3, 0]


def test_a_step_of_time_too_long_for_a_chunk_begins_another(profile: Profile) -> None:
    chosen, _ = choose(profile, Choice(gil="held"))
    chunks = list(chosen.timeline())
    assert [list(chunk.dt_ns) for chunk in chunks] == [[0, 2_000_000_000], [0]]
    assert [chunk.cpus for chunk in chunks] == [{0: 1}, {0: 0}]


def test_python_only(profile: Profile) -> None:
    chosen, notes = choose(profile, Choice(frames=PYTHON_ONLY))
    assert weights(chosen) == {"main": 3, "main;inner": 12}
    assert notes == ["only Python functions; 11.8% of the samples have none"]


def test_native_only(profile: Profile) -> None:
    chosen, notes = choose(profile, Choice(frames=NATIVE_ONLY))
    assert weights(chosen) == {
        W: 2,
        f"{W};{C};{D}": 12,
        f"{W};[unwind gap];{D}": 1,
        f"{W};{C}": 2,
    }
    assert notes == ["only native code"]


@pytest.mark.parametrize(
    "choice",
    [
        Choice(frames=PYTHON_ONLY),
        Choice(frames=NATIVE_ONLY),
        Choice(gil="held"),
        Choice(begin_ns=1_000_000_000, frames=PYTHON_ONLY),
    ],
)
def test_exporters_write_what_was_chosen(profile: Profile, choice: Choice, tmp_path: Path) -> None:
    chosen, _ = choose(profile, choice)
    total = sum(weights(chosen).values())
    export_to(Folded(), chosen, str(tmp_path / "x.folded"))
    lines = (tmp_path / "x.folded").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == total
    export_to(Perf(), chosen, str(tmp_path / "x.data"))


def test_a_cpu_clock_has_nothing_off_the_cpu(tmp_path: Path) -> None:
    spool = SpoolWriter()
    spool.meta()
    refuses = pytest.raises(PyhybridError, match="--clock wall")
    with open_profile(spool.save(tmp_path / "y.part")) as cpu, refuses:
        choose(cpu, Choice(off_cpu=True))
