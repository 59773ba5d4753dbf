"""Merged profiles: what is shared is one, and sums are those of the parts, to the last digit."""

import argparse
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest
from example_profile import PATHS, PID, PYTHON, TORCH, example, fake_symbols
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from spool_writer import SpoolWriter, native, python

from pyhybrid.assemble import open_profile
from pyhybrid.cli.merge import Merge
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters import EXPORTERS
from pyhybrid.finish.finish import export, finish
from pyhybrid.merge import LISTS
from pyhybrid.merge.merge import merge
from pyhybrid.tables import Frame, stack_of
from pyhybrid.tables.profile import Profile
from pyhybrid.views.selection.process_selection import meta_of
from pyhybrid.views.selection.sample_selection import Choice, choose

OF_CALLS = ("pstats", "callgrind", "pfw", "lttng")  # of which there are none
OTHER = 30  # a library that only the other process has, where the first one has its interpreter
LATER_NS = 1_500_000_000  # when another process began


def other(**said: object) -> SpoolWriter:
    """Another process: a library of the first's elsewhere, one of its own, one function shared."""
    spool = SpoolWriter(PID + 1)
    spool.meta(pid=PID + 1, argv=["python", "/srv/other.py", "12"], **said)
    spool.module(TORCH, PATHS[TORCH], 0x7F2000000000, build_id=b"\x02" * 20)
    spool.module(OTHER, "/usr/lib/libother.so", 0x7F0000000000, build_id=b"\x03" * 20)
    spool.code(1, "<module>", "/home/me/workload.py", 1, table=b"\xd7\x00\x00\xe7\x00\x00")
    spool.code(2, "main.<locals>.step", "/home/me/workload.py", 10, first_traceable=2)
    spool.thread(1, PID + 1, "python", "MainThread")
    step = [python(1, 9), python(2, 6)]
    stacks = [spool.stack(*step, native(TORCH, 0x1010)), spool.stack(*step, native(OTHER, 0x40))]
    spool.stacks()
    spool.samples(1, [*stacks, stacks[0]])
    spool.counters(1, 3, 3, cpu_ns=3_000_000)
    spool.end()
    return spool


def finished(spool: SpoolWriter, folder: Path, name: str) -> str:
    return finish(spool.save(folder / f"{name}.part"), str(folder / name), fake_symbols())


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    return [finished(example(), tmp_path, "a"), finished(other(), tmp_path, "b")]


def what(profile: Profile, frame: Frame) -> tuple[object, ...]:
    module = profile.modules[frame.module].path if frame.module else None
    return frame.kind, frame.name, frame.file, frame.line, module, frame.address


def paths(profile: Profile) -> list[tuple[object, ...]]:
    """Of each node."""
    found: list[tuple[object, ...]] = [()]
    nodes = profile.nodes
    for parent, frame in zip(nodes.parent[1:], nodes.frame[1:], strict=True):
        found.append((*found[parent], what(profile, profile.frames[frame])))
    return found


def sums(*profiles: Profile) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for profile in profiles:
        path = paths(profile)
        for row in profile.sampled:
            key = path[profile.stacks.node[row.stack]], row.gil, row.waits
            found[*key, "samples"] += row.samples
            found[*key, "weight_ns"] += row.weight_ns
        for chunk in profile.timeline():
            for place in chunk.place:
                found[path[profile.stacks.node[stack_of(place)]], "timeline"] += 1
    return found


def test_sums_are_those_of_the_parts(parts: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "all.pyhybrid")
    merge(parts, path)
    with Profile.open(parts[0]) as a, Profile.open(parts[1]) as b, Profile.open(path) as whole:
        assert sums(whole) == sums(a, b)
        assert len(whole.threads) == len(a.threads) + len(b.threads)
        assert [row.pid for row in whole.processes.values()] == [PID, PID + 1]
        assert whole.process.cpu_ns == sum(p.process.cpu_ns or 0 for p in (a, b))
        assert {whole.pid_of(thread) for thread in whole.threads} == {PID, PID + 1}
        names = Counter(what(whole, frame) for frame in whole.frames.values())
        assert set(names.values()) == {1}
        assert names.keys() == {what(p, frame) for p in (a, b) for frame in p.frames.values()}


@st.composite
def processes(draw: st.DrawFn, number: int) -> SpoolWriter:
    """A process with some of a few libraries, at other addresses, and some paths, twice, too."""
    spool = SpoolWriter(PID + number)
    spool.meta(pid=PID + number, mode="hybrid", start_ns=10**9 + number)
    spool.clock(0, 10**9)
    bases = draw(st.permutations([0x10000000, 0x20000000, 0x30000000]))
    libraries = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True))
    for at, library in enumerate(libraries, 1):
        spool.module(at, f"/lib/{library}.so", bases[at - 1], build_id=bytes([library]) * 20)
    # Code objects 1 and 2 are one function: so paths of words differ that are no different paths.
    codes = [("f", 1), ("f", 1), ("g", draw(st.integers(1, 2)))]
    for at, (name, line) in enumerate(codes, 1):
        spool.code(at, name, "/srv/a.py", line)
    places = [python(code, 0) for code in range(1, len(codes) + 1)]
    places += [native(at, 0x10 * i) for at in range(1, len(libraries) + 1) for i in range(2)]
    paths = st.lists(st.sampled_from(places), min_size=1, max_size=4)
    stacks = [spool.stack(*path) for path in draw(st.lists(paths, min_size=1, max_size=6))]
    spool.stacks()
    spool.thread(1, PID + number, "python", "MainThread")
    spool.functions({word: word for word in places if word < python(1, 0)})
    spool.samples(1, draw(st.lists(st.sampled_from(stacks), min_size=1, max_size=8)))
    spool.exact_thread(1, PID + number)
    parents = draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    rows = [
        (min(parent, row), python(draw(st.integers(1, len(codes))), 0))
        for row, parent in enumerate(parents)
    ]
    spool.exact_nodes(1, 1, *rows)
    calls = draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    for node, n in enumerate(calls, 1):
        spool.exact_counts(1, {"node": node, "calls": n, "ticks": 10 * n})
    spool.end()
    return spool


def figures(*profiles: Profile) -> Counter[tuple[object, ...]]:
    """All figures of each process, by path: of samples by its addresses in their libraries, too."""
    found = sums(*profiles)
    for profile in profiles:
        path = paths(profile)
        places: list[tuple[object, ...]] = [()]
        for parent, node, *where in zip(*(each[1:] for each in profile.stacks), strict=True):
            frame = profile.frames[profile.nodes.frame[node]]
            if frame.module:
                where[0] -= profile.modules[frame.module].base
            places.append((*places[parent], path[node], *where))
        for row in profile.recorded:
            found[profile.pid_of(row.thread), places[row.stack], row.gil] += row.samples
        for each in profile.exact:
            found[profile.pid_of(each.thread), path[each.node], "calls"] += each.calls
            found[profile.pid_of(each.thread), path[each.node], "total_ns"] += each.total_ns
    return found


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(st.tuples(*(processes(number) for number in range(3))), st.permutations(range(3)))
def test_figures_of_paths_are_those_of_the_parts(
    spools: tuple[SpoolWriter, ...], order: list[int]
) -> None:
    """Of any processes, in any order, from files and from spools."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        parts = [spool.save(folder / f"{n}.part") for n, spool in enumerate(spools)]
        files = [finish(part, part.removesuffix(".part")) for part in parts]
        merge([parts[n] for n in order], f"{name}/of spools")
        merge([parts[n] if n == 1 else files[n] for n in order], f"{name}/mixed")
        merge([files[n] for n in order], f"{name}/of files")
        assert dump(f"{name}/of spools") == dump(f"{name}/of files") == dump(f"{name}/mixed")
        whole = stack.enter_context(Profile.open(f"{name}/of files"))
        alone = [stack.enter_context(Profile.open(each)) for each in files]
        assert figures(whole) == figures(*alone)
        recursive = {node for (node,) in whole.query("SELECT node FROM recursive_node")}
        names = paths(whole)
        counted = {row.node for row in whole.exact}
        assert recursive == {each for each in counted if names[each][-1] in names[each][:-1]}


def test_addresses_lie_in_their_modules(parts: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "all.pyhybrid")
    merge(parts, path)
    with Profile.open(path) as whole:
        spans = sorted(
            (start, start + size, module.id)
            for module in whole.modules.values()
            for start, size, *_ in module.segments
        )
        assert all(this[1] <= after[0] for this, after in pairwise(spans))
        stacks, seen = whole.stacks, set()
        for node, address in zip(stacks.node[1:], stacks.address[1:], strict=True):
            frame = whole.frames[whole.nodes.frame[node]]
            if frame.module and address is not None:
                (of,) = (each for start, end, each in spans if start <= address < end)
                assert of == frame.module
                seen.add(whole.modules[of].path)
        assert {PATHS[PYTHON], PATHS[TORCH], "/usr/lib/libother.so"} <= seen


def dump(path: str) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def test_merging_what_was_merged(parts: list[str], tmp_path: Path) -> None:
    at_once, by_steps, two = (str(tmp_path / f"{n}.pyhybrid") for n in ("1", "2", "3"))
    third = finished(other(start_ns=LATER_NS), tmp_path, "c")
    merge([*parts, third], at_once)
    merge(parts, two)
    merge([two, third], by_steps)
    assert dump(at_once) == dump(by_steps)


def test_merging_what_was_merged_of_other_boots(tmp_path: Path) -> None:
    """All times are those of the first file's clock, also what each process said of itself."""
    booted = {"a": 10**18, "b": 10**18 + 3 * 10**12, "c": 10**18 + 7 * 10**12}
    paths = {}
    for at, (name, unix_ns) in enumerate(booted.items(), 1):
        begin, end = at * 10**9, (at + 5) * 10**9
        said = {"start_ns": begin, "start_unix_ns": unix_ns + begin, "stop_ns": end}
        paths[name] = finished(other(**said, boot_id=name), tmp_path, name)
    at_once, by_steps, two = (str(tmp_path / f"{n}.pyhybrid") for n in ("1", "2", "3"))
    merge([paths[name] for name in "cab"], at_once)
    merge([paths["a"], paths["b"]], two)
    merge([paths["c"], two], by_steps)
    assert dump(at_once) == dump(by_steps)
    with Profile.open(by_steps) as whole:
        for number, (name, at) in enumerate((("c", 3), ("a", 1), ("b", 2)), 1):
            said = meta_of(whole, [number])
            later_ns = booted[name] - booted["c"]
            assert said["start_ns"] == at * 10**9 + later_ns
            assert said["stop_ns"] == (at + 5) * 10**9 + later_ns
            assert said["boot_id"] == name


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_each_process_says_what_it_said_alone(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Also after a second merge, and of lists of which others have more, or none."""
    spools = (
        example(),
        other(keep=["step"], notes=["slow"], wall_threads=["Main*"], decorated=["f"]),
        other(keep=["step", "step2"], notes=[], clock_source="tsc", start_ns=LATER_NS),
    )
    paths = [finished(spool, tmp_path, name) for spool, name in zip(spools, "abc", strict=True)]
    first, *others = (paths[number] for number in order)
    two, path = str(tmp_path / "two.pyhybrid"), str(tmp_path / "all.pyhybrid")
    merge(others, two)
    merge([first, two], path)
    with Profile.open(path) as whole:
        for number, alone in enumerate([first, *others], 1):
            said = meta_of(whole, [number])
            with Profile.open(alone) as profile:
                expected = {key: [] for key in LISTS} | profile.meta
            assert {key: said.get(key, []) for key in expected} == expected
        assert {"step", "step2"} == set(whole.meta["keep"])
        assert len(whole.meta["keep"]) == 2


def test_what_a_killed_run_left(parts: list[str], tmp_path: Path) -> None:
    killed = example(end=False).save(tmp_path / "killed.part")
    path = str(tmp_path / "all.pyhybrid")
    merge([parts[1], killed], path)
    with Profile.open(path) as whole, open_profile(killed) as part:
        assert not whole.meta["complete"]
        first = whole.processes[1]
        assert whole.process.end_ns == first.end_ns is not None  # the last that is known
        assert whole.process.start_ns == part.process.start_ns
        told = whole.query("SELECT process, value FROM process_meta WHERE key = 'complete'")
        assert told == [(1, "true")]  # which the file is not


def test_all_exports(parts: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "all.pyhybrid")
    merge(parts, path)
    formats = [name for name in EXPORTERS if name not in OF_CALLS]
    assert not export(path, str(tmp_path / "all"), formats, summary=False)
    folded = (tmp_path / "all.folded").read_text()
    assert f"MainThread of {PID};" in folded
    assert f"MainThread of {PID + 1};" in folded


@pytest.mark.parametrize(
    "change", [{"hz": 99, "period_ns": 10_101_010}, {"clock": "wall"}, {"mode": "trace"}]
)
def test_what_was_measured_otherwise(tmp_path: Path, change: dict[str, object]) -> None:
    spool = other()
    spool.meta(pid=PID + 1, **change)
    parts = [finished(example(), tmp_path, "a"), finished(spool, tmp_path, "b")]
    with pytest.raises(PyhybridError, match=r"b\.pyhybrid: measured with another --"):
        merge(parts, str(tmp_path / "all.pyhybrid"))


def test_a_run_that_is_there_already(parts: list[str], tmp_path: Path) -> None:
    """A copy of a file, also of one that is part of a merged one; nothing of it is written."""
    copy = shutil.copy(parts[0], f"{tmp_path}/copy.pyhybrid")
    whole = str(tmp_path / "all.pyhybrid")
    assert run(*parts, "-o", whole) == 0
    for files in ([*parts, copy], [whole, copy]):
        with pytest.raises(PyhybridError, match=rf"{copy}: has the run of process {PID} that .*"):
            run(*files, "-o", str(tmp_path / "again"))
    assert not (tmp_path / "again.pyhybrid").exists()


def test_the_output_is_no_input(parts: list[str], tmp_path: Path) -> None:
    before = Path(parts[1]).read_bytes()
    link = tmp_path / "link.pyhybrid"
    link.symlink_to(parts[1])
    for output in (parts[1], parts[1].removesuffix(".pyhybrid"), str(link)):
        with pytest.raises(UsageError, match=r"-o .* is one of its inputs"):
            run(*parts, "-o", output)
    assert Path(parts[1]).read_bytes() == before


def test_a_process_that_is_not_there(parts: list[str], tmp_path: Path) -> None:
    merge(parts, str(tmp_path / "all.pyhybrid"))
    with open_profile(str(tmp_path / "all.pyhybrid")) as whole:
        with pytest.raises(PyhybridError) as raised:
            choose(whole, Choice(processes=["12"]))
        assert f"no process '12'; there are: {PID} (" in str(raised.value)
        assert str(raised.value).endswith(f", {PID + 1} (other.py)")
        everything, notes = choose(whole, Choice(processes=["*"]))
        assert (sums(everything), notes) == (sums(whole), [f"only processes {PID}, {PID + 1}"])


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    Merge().prepare_parser(parser)
    return Merge().run(parser.parse_args(arguments))


def test_the_command(parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x", "x.pyhybrid"):
        assert run(*parts, "-o", str(tmp_path / name)) == 0
        assert capsys.readouterr().err == f"pyhybrid: {tmp_path}/x.pyhybrid: 2 profiles\n"
    before = (tmp_path / "x.pyhybrid").read_bytes()
    with pytest.raises(UsageError, match="nothing to merge"):
        run(parts[0], "-o", str(tmp_path / "x"))
    for wrong in (str(tmp_path / "none"), __file__):
        with pytest.raises(PyhybridError, match=wrong):
            run(*parts, wrong, "-o", str(tmp_path / "x"))
    with pytest.raises(PyhybridError, match="no folder"):
        run(*parts, "-o", str(tmp_path / "no folder" / "x"))
    assert (tmp_path / "x.pyhybrid").read_bytes() == before
    assert not list(tmp_path.glob("*.tmp"))
