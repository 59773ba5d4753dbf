"""The join: every recorded sample's path is the one that the program is known to have."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from exact_support import check_exact, check_halves
from support import (
    JIT,
    NESTED,
    TARGETS,
    Run,
    check_invariants,
    check_losses,
    covered_ns,
    eval_frames,
    is_stripped,
    long_enough,
    paths,
)

from pyhybrid.tables.profile import Profile

TICK_NS = 4_000_000  # of Debian's kernels

pytestmark = pytest.mark.version

OF_NESTED = {*NESTED, "<module>", "Thread._bootstrap"}
FORCED = ("--hz", "10000", "--format", "folded")
# By mode: the halves are compared, so each path that was counted is to be there.
IN_MODE = {
    "sample": ("--mode", "sample"),
    "trace": ("--mode", "trace"),
    "hybrid": ("--mode", "hybrid", "--imports"),
}


def only(names: list[str], kept: set[str]) -> list[str]:
    return [name for name in names if name in kept]


def total(profile: object, *columns: str) -> list[int]:
    return [sum(getattr(t, c) for t in profile.threads.values()) for c in columns]  # type: ignore


both_modes = pytest.mark.parametrize("mode", ["sample", "hybrid"])


def check(profile: Profile) -> None:
    check_invariants(profile)
    if profile.meta["mode"] == "hybrid":
        check_exact(profile)
        check_halves(profile)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("unwinder", "mode"),
    [
        pytest.param("own", "sample", marks=pytest.mark.slow),
        ("own", "hybrid"),
        pytest.param("table", "sample", marks=pytest.mark.slow),
        pytest.param("libunwind", "sample", marks=pytest.mark.slow),
    ],
)
def test_nested_c_and_python(
    pyhybrid: Callable[..., Run], chain: Path, unwinder: str, mode: str
) -> None:
    if JIT and unwinder == "libunwind":
        pytest.skip("libunwind does not get past the code of CPython's JIT")
    if JIT and unwinder == "table":
        pytest.skip("its code is bridged, as that of libraries is which are not known yet")
    hz, seconds = (1000, 9) if unwinder == "libunwind" else (10_000, long_enough(4.5, 9))
    options = (*FORCED, "--hz", hz, *IN_MODE[mode], "--unwinder", unwinder)
    run = pyhybrid(*options, TARGETS / "nested.py", seconds, env={"PYTHONPATH": str(chain)})
    profile = run.profile()
    check(profile)
    (recorded,) = total(profile, "recorded")
    deep = lagging = 0
    for samples, _, names in paths(profile):
        assert not eval_frames(names), names
        assert "[other interpreter]" not in names
        if unwinder == "table" and {"[bridged]", "[unwind gap]"} & set(names):
            lagging += samples  # the library was not known yet
            continue
        known = only(names, set(NESTED))
        if "walk" in known:  # else: start-up, or the loop's own code
            assert known == NESTED[: len(known)], names
            assert "[truncated]" not in names and "[unknown python]" not in names, names
        deep += samples if "leaf" in known else 0
    if profile.meta["engine"] in ("sigtrap", "perf_event") and unwinder != "libunwind":
        assert recorded >= 10_000
    # libunwind takes long, and longer where others want the processors; sanitizers do, too.
    check_losses(profile, slow=unwinder == "libunwind" or bool(os.environ.get("SAN")))
    assert recorded >= 1000
    assert lagging <= 0.01 * recorded
    assert deep >= 0.8 * recorded


PARENTS = {
    "main": {"<module>"},
    "key": {"by_sorted", "numbers"},
    "add": {"by_map", "by_reduce", "Point.double", "<module>"},
    "fib": {"by_recursion", "fib"},
    "numbers": {"by_sum"},
    "replace": {"by_regex", "sub"},
    "deep": {"by_depth", "deep"},
    "Point.__init__": {"by_property", "by_comparison.<locals>.<genexpr>"},
    "Point.__lt__": {"by_comparison"},
    "Point.double": {"by_property"},
    "by_comparison.<locals>.<genexpr>": {"by_comparison"},
    "sub": {"by_regex"},
    "loads": {"by_json"},
    "JSONDecoder.decode": {"loads"},
    "JSONDecoder.raw_decode": {"JSONDecoder.decode"},
}
BETWEEN = {  # (Python caller, Python callee): C functions that lie between
    ("by_sorted", "key"): ["list_sort"],
    ("by_map", "add"): ["map_next"],
    ("deep", "deep"): ["map_next"],
    ("by_comparison", "Point.__lt__"): ["list_sort"],
    ("sub", "replace"): ["pattern_subx"],
}

# Static functions of a stripped interpreter: `python3.14!+0x790540`, or by its method tables.
UNNAMED = ("python3", "list.sort", "map.__next__")


def check_call(caller: str, between: list[str], callee: str, names: list[str]) -> None:
    if callee.startswith("by_") and "<locals>" not in callee:
        assert caller == "main", names
    elif callee in PARENTS:
        assert caller in PARENTS[callee], names
    for c_function in BETWEEN.get((caller, callee), []):
        known = c_function, *(UNNAMED if is_stripped() else ())
        assert any(name.startswith(known) for name in between), names


@pytest.mark.further
@both_modes
def test_calls_of_all_kinds(pyhybrid: Callable[..., Run], mode: str) -> None:
    profile = pyhybrid(*FORCED, *IN_MODE[mode], TARGETS / "calls.py", 1.5).profile()
    check(profile)
    (recorded,) = total(profile, "recorded")
    checked = 0
    for samples, kinds, names in paths(profile):
        assert not eval_frames(names), names
        if "main" not in names:
            continue
        caller, between = "", []
        for kind, name in list(zip(kinds, names, strict=True))[names.index("main") :]:
            if kind == "python":
                if caller:
                    check_call(caller, between, name, names)
                    checked += samples
                caller, between = name, []
            elif name == "[unknown python]":  # its callers, to the end of this eval loop
                caller = ""
            else:
                between.append(name)
    check_losses(profile)
    assert checked > 2 * recorded


@pytest.mark.further
@both_modes
def test_a_generator_that_is_linked_to_no_caller(pyhybrid: Callable[..., Run], mode: str) -> None:
    """As the eval loop resumes one, or takes a value from it, there is such an instant."""
    program = (TARGETS / "generators.py", long_enough(1.5, 9))
    profile = pyhybrid(*FORCED, *IN_MODE[mode], *program).profile()
    check(profile)
    path = ["produces", "consumes", "outer", "middle", "inner"]
    checked = unknown = 0
    for samples, _, names in paths(profile):
        known = only(names, {*path, "[unknown python]"})
        if "[unknown python]" in known:  # in place of all that one eval loop runs
            unknown += samples
        else:
            assert known == path[: len(known)], names
            checked += samples * bool(known)
    assert unknown <= checked / 20
    assert checked > 200


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.parametrize("mode", [pytest.param("sample", marks=pytest.mark.slow), "hybrid"])
def test_64_threads(pyhybrid: Callable[..., Run], chain: Path, mode: str) -> None:
    options = (*IN_MODE[mode], "--format", "folded")
    run = pyhybrid(*options, TARGETS / "nested.py", 0.05, 64, env={"PYTHONPATH": str(chain)})
    profile = run.profile()
    check(profile)
    walkers = {t.id for t in profile.threads.values() if t.tid != profile.process.pid}
    assert len(walkers) == 64
    for _, _, names in paths(profile):
        known = only(names, set(NESTED))
        assert known == NESTED[: len(known)], names
        assert not eval_frames(names)
    covered = {number: covered_ns(profile, profile.threads[number]) for number in walkers}
    total_ns = sum(profile.threads[number].cpu_ns or 0 for number in walkers)
    assert abs(sum(covered.values()) - total_ns) <= 0.03 * total_ns
    # Up to a young thread's first sample ticks stand for its time (newborn.h), one for more than it
    # ran.  Timers are bound to ticks themselves: a thread has ticks alone for its first eight, each
    # of which stands for half a tick to two, its part of what all such threads ran (drain.c).
    n_shared = 8 if profile.meta["engine"] == "timer" else 0
    for number in walkers:
        # Its last sample may be up to two periods before its end.
        assert abs(covered[number] - profile.threads[number].cpu_ns) <= (
            0.01 * profile.threads[number].cpu_ns + 2 * profile.period_ns + (2 + n_shared) * TICK_NS
        )


RECURSION = """
import json, pickle

class Node:
    def __init__(self, inner): self.inner = inner
    def __reduce__(self): return Node, (self.inner,)

def inner_of(node): return [node.inner]

def both(node):
    for _ in range(30):
        pickle.dumps(node)
        json.dumps(node, default=inner_of)

node = None
for _ in range(100): node = Node(node)
both(node)
"""


@pytest.mark.further
def test_a_recursion_of_c_code(pyhybrid: Callable[..., Run]) -> None:
    """It calls Python at each level, so each call has more native frames above it than the last."""
    profile = pyhybrid("--mode", "trace", "-c", RECURSION).profile()
    nodes, frames = profile.nodes, profile.frames
    for name, other in (("Node.__reduce__", "json"), ("inner_of", "pickle")):
        above: dict[int, int] = {}
        for row in profile.exact:
            if frames[nodes.frame[row.node]].name != name:
                continue
            path, node = [], nodes.parent[row.node]
            while frames[nodes.frame[node]].name not in ("dumps", "JSONEncoder.encode", "both"):
                path.append(frames[nodes.frame[node]])
                node = nodes.parent[node]
            above[len(path)] = above.get(len(path), 0) + row.calls
            if not is_stripped():
                assert not any(frame.kind == "pseudo" for frame in path)
                modules = {profile.modules[f.module].path for f in path if f.module}
                assert not any(f"_{other}" in module for module in modules)
        assert sum(above.values()) == 3000
        usual = sorted(n for n, calls in above.items() if calls >= 20)  # once it is specialized
        assert len(usual) == 100
        assert len({b - a for a, b in pairwise(usual[1:])}) == 1
