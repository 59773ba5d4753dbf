"""Regions of native code, by pyhybrid.h: with the GIL, without it, and where Python never was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import check_exact
from support import (
    PATIENCE_S,
    TARGETS,
    Run,
    build_extension,
    check_invariants,
    long_enough,
    made_once,
    paths,
)

import pyhybrid as package
from pyhybrid.tables.profile import Profile

PROGRAM = TARGETS / "native_regions.py"

# Where each region stands (functions of the program and regions above it), and how often it began.
Place = tuple[str, ...]
MAIN = ("<module>", "main")
PLACES: dict[str, dict[Place, int]] = {
    "outer": {(*MAIN, "nested"): 1},
    "inner": {(*MAIN, "nested", "outer", "nested.<locals>.<lambda>"): 1},
    "wrapped": {(*MAIN, "wrapped"): 5},
    "managed": {(*MAIN, "managed"): 3},
    "left outer": {(*MAIN, "left_open"): 1},
    "left inner": {(*MAIN, "left_open", "left outer"): 1},
    "released": {(*MAIN, "released"): 1, ("released",): 3},
    "many": {(*MAIN, "released", "released"): 1000, ("released", "released"): 3000},
    "unseen": {(): 4},
    "often": {("unseen",): 40_000},
    "visited": {(): 1},
    "raising": {(*MAIN, "raising"): 1},
}


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which tests/targets/native_regions.c, built for it, is found."""
    folder = os.path.dirname(package.get_library())
    options = (
        *("-pthread", "-g", "-Wl,--no-as-needed", f"-I{package.get_include()}"),
        *(f"-L{folder}", "-lpyhybrid", f"-Wl,-rpath,{folder}"),
    )
    made = made_once(
        tmp_path_factory,
        "native_regions",
        lambda to: build_extension(to, "native_regions", *options),
    )
    return {"PYTHONPATH": str(made)}


def above(profile: Profile, node: int) -> tuple[Place, str]:
    """The program's functions and the regions above a node, and its own name."""
    names = []
    while node:
        frame = profile.frames[profile.nodes.frame[node]]
        if frame.kind == "region" or frame.file == str(PROGRAM):
            names.append(frame.name)
        node = profile.nodes.parent[node]
    return tuple(names[:0:-1]), names[0] if names else ""


def places(profile: Profile) -> dict[str, dict[Place, int]]:
    found: dict[str, dict[Place, int]] = {}
    for row in profile.exact:
        if profile.frames[profile.nodes.frame[row.node]].kind == "region":
            assert not row.seeded and not row.resumes
            path, name = above(profile, row.node)
            of = found.setdefault(name, {})
            of[path] = of.get(path, 0) + row.calls
    return found


VERSION = pytest.mark.version


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "options",
    [pytest.param((), marks=VERSION), pytest.param(("--c-calls",), marks=VERSION), ("--events",)],
)
def test_where_they_stand_and_how_often(
    pyhybrid: Callable[..., Run], native: dict[str, str], options: tuple[str, ...]
) -> None:
    run = pyhybrid("--mode", "trace", "--format", "folded", *options, PROGRAM, 0.1, env=native)
    profile = run.profile()
    check_invariants(profile)
    check_exact(profile)
    assert places(profile) == PLACES
    assert profile.meta["unplaced_regions"] == 0
    assert profile.meta["unmatched_regions"] == 1
    frames, nodes = profile.frames, profile.nodes
    durations = Counter(frames[nodes.frame[each.node]].name for each in profile.calls)
    assert durations["wrapped"] == 5


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.version
def test_samples_are_below_them(pyhybrid: Callable[..., Run], native: dict[str, str]) -> None:
    run = pyhybrid(PROGRAM, long_enough(1, 4), env=native)
    profile = run.profile()
    check_invariants(profile)
    check_exact(profile)
    assert places(profile) == PLACES
    below: Counter[str] = Counter()
    for samples, kinds, names in paths(profile):
        if "native_burn" not in names and "burn" not in names:
            continue
        regions = [name for kind, name in zip(kinds, names, strict=True) if kind == "region"]
        below[regions[-1] if regions else ""] += samples
        if "unseen" in regions:
            assert names[0] == "unseen"
        if "left_open" in names:
            assert not regions
    assert {*below} >= {"inner", "wrapped", "managed", "released", "unseen", "visited", ""}


@pytest.mark.further
def test_samples_alone(pyhybrid: Callable[..., Run], native: dict[str, str]) -> None:
    run = pyhybrid("--mode", "sample", PROGRAM, long_enough(1, 4), env=native)
    found = {
        name
        for _, kinds, names in paths(run.profile())
        for kind, name in zip(kinds, names, strict=True)
        if kind == "region"
    }
    assert found >= {"inner", "released", "unseen", "visited"}


FILTERED = """
import native_regions as native, wrappers

def leaf(): pass

def chosen():
    for _ in range(7):
        wrappers.push("ranged")
        leaf()
        wrappers.push("within")
        wrappers.pop("within")
        wrappers.pop("ranged")

chosen()
"""


@pytest.mark.further
@pytest.mark.version
def test_wrappers_that_are_left_out(
    pyhybrid: Callable[..., Run], native: dict[str, str], tmp_path: Path
) -> None:
    """Their ends are not seen: the region is the caller's from its next call on."""
    (tmp_path / "wrappers.py").write_text(
        "import native_regions as n\ndef push(name): n.push(name)\ndef pop(name): n.pop(name)\n"
    )
    (tmp_path / "filtered.py").write_text(FILTERED)
    env = {"PYTHONPATH": f"{native['PYTHONPATH']}:{tmp_path}"}
    run = pyhybrid("--mode", "trace", "--exclude", "wrappers.py", "filtered.py", env=env)
    profile = run.profile()
    check_exact(profile)
    names = {row.node: profile.frames[profile.nodes.frame[row.node]].name for row in profile.exact}
    calls: Counter[tuple[str, str]] = Counter()
    for row in profile.exact:
        calls[names.get(profile.nodes.parent[row.node], ""), names[row.node]] += row.calls
    assert calls["chosen", "ranged"] == calls["ranged", "leaf"] == 7
    assert sum(n for (_, name), n in calls.items() if name == "within") == 7


RESTARTED = """
import os, sys, threading
if sys.argv[1] == "native first":
    import pyhybrid._native
import native_regions as native
from pyhybrid import Profiler

def name(p, node):
    return p.frames[p.nodes.frame[node]].name

# Before, between and after profiles; these while threads without the GIL push and pop all the time.
native.push("before")
threads = [threading.Thread(target=native.in_threads, args=("kept", "hammered", -1, 0, 2)),
           threading.Thread(target=native.without_gil, args=("kept", "hammered", -1, 0))]
for t in threads: t.start()
counted = 0
for i in range(6):
    p = Profiler(mode="trace" if i % 2 else "hybrid", output=f"p{i}")
    p.start()
    if not i % 5:
        pid = os.fork()
        if not pid:
            native.without_gil("child", "child", 1000, 0)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    p.pause()
    native.push("paused")
    native.pop("paused")
    p.resume()
    native.inside("within", lambda: None)  # in a function that is found running by it
    p.stop()
    rows = {name(p.profile, r.node): r for r in p.profile.exact}
    assert rows["within"].calls == 1, rows
    assert not {"paused", "child"} & {*rows}
    counted += rows["hammered"].calls if "hammered" in rows else 0
native.stop()
for t in threads: t.join()
native.pop("before")
assert counted > 1000, counted

# More names than there are.
with Profiler(mode="trace", output="many") as p:
    for i in range(66_000):
        native.push(f"n{i}")
        native.pop(f"n{i}")
rows = {name(p.profile, r.node): r.calls for r in p.profile.exact}
assert rows["n0"] == 1
assert rows["[other]"] > 400
print("done")
"""


@pytest.mark.slow
@pytest.mark.version
@pytest.mark.parametrize("order", ["native first", "library first"])
def test_profiles_come_and_go_meanwhile(native: dict[str, str], tmp_path: Path, order: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", RESTARTED, order],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **native},
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("compiler", [("gcc", "-std=c99", "-xc"), ("g++", "-std=c++11", "-xc++")])
def test_the_header_stands_alone(compiler: tuple[str, ...]) -> None:
    header = Path(package.get_include(), "pyhybrid.h")
    subprocess.run(
        [*compiler, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", header], check=True
    )


SOLVER = """
#include <pyhybrid.h>
void solve(void)
{
    const pyhybrid_region *region = pyhybrid_region_named("solve");
    pyhybrid_region_push(region);
    pyhybrid_region_pop(region);
}
"""


@pytest.mark.further
def test_built_as_the_docs_say(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """A library, which is found when the program opens it."""
    docs = Path(__file__).parents[3] / "docs" / "howto" / "native-code.md"
    lines = [line.strip() for line in docs.read_text().splitlines()]
    (at,) = (i for i, line in enumerate(lines) if line.startswith("cc -I"))
    (tmp_path / "solver.c").write_text(SOLVER)
    script = "\n".join(lines[at - 1 : at + 1]).replace("...", "-shared -fPIC -o solver.so solver.c")
    script = script.replace("python -c", f"{sys.executable} -P -c")
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=True)
    code = "import ctypes; solve = ctypes.CDLL('./solver.so').solve\nfor _ in range(5): solve()"
    found = places(pyhybrid("--mode", "trace", "-c", code).profile())
    assert [*found] == ["solve"]
    assert sum(found["solve"].values()) == 5
