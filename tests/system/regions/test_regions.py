"""Named regions are frames of the tree, in every mode, and are suspended with their coroutine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exact_support import check_exact
from support import TARGETS, Run, check_invariants, made_once, paths, record

from pyhybrid.tables.profile import Profile

Names = tuple[str, ...]

# Where each region stands: the functions of the target and the regions above it.
PLACES: dict[str, set[Names]] = {
    "epoch": {("epochs",)},
    "inner": {("epochs", "epoch")},
    "forward": {("epochs", "epoch", "inner", "step"), ("step",)},
    "backward": {("epochs", "epoch", "inner", "step"), ("step",)},
    "tasks": {("tasks",)},
    "task 1": {("waits",)},
    "in generator": {(), ("closed",)},
    "raising": {("raising",)},
}
ENTERED = {
    "epoch": 3, "inner": 3, "forward": 6, "backward": 6, "in generator": 6, "raising": 1,
    "tasks": 1, "task 0": 1, "task 1": 1, "task 2": 1,
}  # fmt: skip


PRINTED = "printed.json"


@pytest.fixture(params=["sample", pytest.param("trace", marks=pytest.mark.once), "hybrid"])
def run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Run]:
    def make(folder: Path) -> None:
        options = ("--mode", request.param, "--format", "folded")
        (folder / PRINTED).write_text(record(folder, *options, TARGETS / "regions.py").stdout)

    recorded = Run.recorded(made_once(tmp_path_factory, f"regions_{request.param}", make))
    yield recorded
    recorded.close()


def above(profile: Profile, node: int) -> tuple[Names, str]:
    """The target's functions and the regions above a node, and its own name."""
    names = []
    while node:
        frame = profile.frames[profile.nodes.frame[node]]
        if frame.kind == "region" or (frame.file or "").endswith("regions.py"):
            names.append(frame.name)
        node = profile.nodes.parent[node]
    names = [name for name in reversed(names) if name not in ("<module>", "generator")]
    return tuple(names[:-1]), names[-1] if names else ""


@pytest.mark.first_cases(1)
@pytest.mark.version
def test_where_regions_stand(run: Run) -> None:
    profile = run.profile()
    check_invariants(profile)
    check_exact(profile)
    places: dict[str, set[Names]] = {}
    for node in range(1, len(profile.nodes.parent)):
        if profile.frames[profile.nodes.frame[node]].kind == "region":
            path, name = above(profile, node)
            places.setdefault(name, set()).add(path)
    assert places.keys() == ENTERED.keys()
    for name, expected in PLACES.items():
        assert places[name] == expected, name


@pytest.mark.first_cases(1)
def test_how_often_they_were_entered(run: Run) -> None:
    profile = run.profile()
    if profile.meta["mode"] == "sample":
        assert not profile.exact
        return
    entered: Counter[str] = Counter()
    resumed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        if frame.kind == "region":
            entered[frame.name] += row.calls
            resumed[frame.name] += row.resumes
            total[frame.name] += row.total_ns
            assert not row.seeded
    assert entered == ENTERED
    assert resumed["task 0"] == resumed["task 1"] == 3
    assert resumed["tasks"] == 1
    assert resumed["in generator"] == 3 + 5  # next: twice more and the end; close: five times
    # Suspended, they are charged nothing: task 0 would be 0.2 s more, tasks 0.3.
    worked = json.loads(run.path(PRINTED).read_text())
    for name, cpu_s in (("task 0", 0.09), ("tasks", 0.06)):
        assert worked[name] >= cpu_s
        assert worked[name] <= total[name] / 1e9 < worked[name] + 0.05


@pytest.mark.first_cases(1)
@pytest.mark.engine
def test_samples_outside_are_outside(run: Run) -> None:
    profile = run.profile()
    inside: Counter[bool] = Counter()
    for samples, kinds, names in paths(profile):
        regions = [name for kind, name in zip(kinds, names, strict=True) if kind == "region"]
        if "closed" in names and "generator" not in names:
            assert not regions, names
        if "closed" in names and "burn" in names:
            inside["generator" in names] += samples
            assert ("in generator" in regions) == ("generator" in names), names
    if profile.meta["mode"] != "trace":
        assert inside[True] > 5 < inside[False]


HELPED = """
import contextlib, time
from pyhybrid import region

def burn():
    end = time.thread_time() + 0.1
    while time.thread_time() < end: pass

def within():
    burn()

def main():
    with contextlib.ExitStack() as stack:
        stack.enter_context(region("helped"))
        within()

for _ in range(3):
    main()
"""


@pytest.mark.further
@pytest.mark.parametrize("mode", ["sample", "hybrid"])
def test_a_region_that_a_helper_entered(pyhybrid: Callable[..., Run], mode: str) -> None:
    """It is the helper's, which has returned: not the next function's in the same memory."""
    run = pyhybrid("--mode", mode, "--format", "folded", "-c", HELPED)
    inside = [names for _, kinds, names in paths(run.profile()) if "region" in kinds]
    assert not [names for names in inside if {"within", "burn"} & {*names}]


LEFT_OUT = """
import types
from pyhybrid import region

@types.coroutine
def wait():
    yield

def child(): pass

async def deep():
    child()
    await wait()
    child()

async def left_out():
    with region("whole"):
        await deep()
        child()
        await deep()

async def around():
    await left_out()

def main():
    turns = around()
    for turn in range(2):
        turns.send(None)
        child()
    try:
        turns.send(None)
    except StopIteration:
        child()

main()
"""


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("outermost", ["left_out", "around"])
def test_a_function_that_is_left_out_goes_on_within_its_regions(
    pyhybrid: Callable[..., Run], outermost: str
) -> None:
    script = LEFT_OUT.replace("turns = around()", f"turns = {outermost}()")
    run = pyhybrid("--mode", "trace", "--exclude", "left_out", "-c", script)
    profile = run.profile()
    check_exact(profile)
    calls: Counter[tuple[bool, str]] = Counter()
    for row in profile.exact:
        names = []
        node = row.node
        while node:
            names.append(profile.frames[profile.nodes.frame[node]].name)
            node = profile.nodes.parent[node]
        calls["whole" in names, names[0]] += row.calls
    assert calls[True, "child"] == 5
    assert calls[False, "child"] == 3
    assert (calls[True, "deep"], calls[False, "deep"]) == (2, 0)
    assert (calls[True, "wait"], calls[True, "whole"]) == (2, 1)


def test_api(tmp_path: object) -> None:
    script = """
import contextlib, gc, sys, threading
from pyhybrid import Profiler, region
r = region("a", step=3)
assert repr(r) == "region('a')"
with r as same:
    assert same is r
for wrong in ((), (1,), ("a", "b")):
    try:
        region(*wrong)
    except TypeError:
        continue
    raise AssertionError(wrong)
for wrong in (lambda: region.__enter__(len), lambda: region.__exit__()):
    try:
        wrong()
    except TypeError:
        continue
    raise AssertionError

def names(p):
    frames, nodes = p.profile.frames, p.profile.nodes
    return {frames[nodes.frame[r.node]].name: (r.calls, r.resumes) for r in p.profile.exact
            if frames[nodes.frame[r.node]].kind == "region"}

# Nested in itself, twice entered, many at once, left in another order.
with Profiler(mode="trace") as p:
    with region("x"):
        with region("y\\u00e9"):
            pass
    r = region("twice")
    with r:
        with r: pass
    again = region("again")
    def recursive(n):
        with again: return n and recursive(n - 1)
    def held(begun, ends):
        with again: begun.set(); ends.wait()
    begun, ends = threading.Event(), threading.Event()
    t = threading.Thread(target=held, args=(begun, ends))
    t.start()
    begun.wait()
    recursive(3)
    ends.set()
    t.join()
    with contextlib.ExitStack() as stack:
        stack.enter_context(region("stacked"))
    region.__enter__(r := region("unbound"))
    region.__exit__(r, None, None, None)
    many = [region(f"m{i}") for i in range(500)]
    for each in many: each.__enter__()
    for each in many[:250]: each.__exit__(None, None, None)
    for each in many[250:]: each.__exit__()
assert names(p)["x"] == names(p)["y\\u00e9"] == names(p)["twice"] == (1, 0)
frames, nodes = p.profile.frames, p.profile.nodes
calls = {}
for row in p.profile.exact:
    name = frames[nodes.frame[row.node]].name
    calls[name] = calls.get(name, 0) + row.calls
assert (calls["twice"], calls["again"], calls["recursive"]) == (2, 5, 4), calls
assert names(p)["stacked"] == names(p)["unbound"] == (1, 0)
assert sum(n.startswith("m") for n in names(p)) == 500

# Dropped while an exception is on its way, which stays.
with Profiler(mode="trace") as p:
    try:
        print(region("lost", shape=(1, 2)).__enter__(), 1 / 0)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError
assert names(p)["lost"] == (1, 0)

# A generator that another thread finishes, and one that nobody does.
def g():
    with region("moved"):
        yield 1
        yield 2
with Profiler(mode="hybrid") as p:
    moved, dropped = g(), g()
    next(moved), next(dropped)
    t = threading.Thread(target=lambda: list(moved)); t.start(); t.join()
    del dropped
    gc.collect()
    with region("after"):
        pass
assert names(p)["after"] == (1, 0)

# Begun in one run, ended in the next.
p = Profiler(mode="trace")
p.start()
r = region("long"); r.__enter__()
p.stop()
p.start()
r.__exit__(None, None, None)
with region("long"): pass
p.stop()
assert names(p) == {"long": (1, 0)}, names(p)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.further
def test_the_first_region_imports_nothing(pyhybrid: Callable[..., Run]) -> None:
    """A child that is forked by another thread meanwhile would wait for that module for ever."""
    run = pyhybrid(
        "-q",
        "--format",
        "pstats",
        "-c",
        "import sys, pyhybrid\n"
        "before = set(sys.modules)\n"
        "with pyhybrid.region('first'):\n"
        "    print(set(sys.modules) - before)",
    )
    assert run.result.stdout == "set()\n"


def path_of(profile: Profile, node: int) -> Names:
    names: list[str] = []
    while node:
        names.insert(0, profile.frames[profile.nodes.frame[node]].name)
        node = profile.nodes.parent[node]
    return tuple(names)


NUL = r"""
import threading
import pyhybrid


def plain():
    return sum(range(100))


def work():
    with pyhybrid.region("n\0x", **{"a\0b": "c\0d"}), pyhybrid.region("n"):
        return plain()


work.__code__ = work.__code__.replace(co_name="wo\0rk", co_qualname="wo\0rk")
thread = threading.Thread(target=work, name="thr\0ead")
thread.start()
thread.join()
work()
"""


@pytest.mark.further
@pytest.mark.parametrize("mode", ["hybrid", "trace", "sample"])
def test_names_with_nul(pyhybrid: Callable[..., Run], mode: str) -> None:
    """They are escaped in every table, as in what is printed."""
    kept = () if mode == "sample" else ("--keep", "wo*rk", "--emit", "print:emitted")
    run = pyhybrid("--mode", mode, *kept, "-c", NUL)
    assert "damaged" not in run.result.stderr
    if mode == "sample":
        return
    profile = run.profile()
    check_exact(profile)
    calls: Counter[Names] = Counter()
    for row in profile.exact:
        calls[path_of(profile, row.node)[-3:]] += row.calls
    assert calls[r"n\x00x", "n", "plain"] == 2
    assert {thread.name for thread in profile.threads.values()} == {"MainThread", r"thr\x00ead"}
    kept_names = [path_of(profile, call.node)[-1] for call in profile.calls]
    assert sorted(kept_names) == ["n", "n", r"n\x00x", r"n\x00x", r"wo\x00rk", r"wo\x00rk"]
    emitted = (run.folder / "emitted").read_text()
    assert "REGION : n\\x00x\n" in emitted
    assert "-> wo\\x00rk\n" in emitted
