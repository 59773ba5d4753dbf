"""PerfStubs' timers of an application as frames of the tree: ADIOS2, whose PerfStubs is real.

Python functions as timers of a tool: test_emit_perfstubs.py.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import check_exact
from perfstubs_support import build_tool, counted
from support import TARGETS, Run, check_invariants, paths, preloaded

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.needs("adios2")

PROGRAM = TARGETS / "adios.py"


def timers(profile: Profile) -> collections.Counter[str]:
    found: collections.Counter[str] = collections.Counter()
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        if frame.kind == "region":
            found[frame.name] += row.calls
    return found


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tool(tmp_path_factory)


@pytest.mark.version
def test_counts_are_those_of_another_tool(
    pyhybrid: Callable[..., Run], tool: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    environment = {**os.environ, **preloaded(tool), "PS_COUNTS": str(tmp_path / "counts")}
    subprocess.run(
        [sys.executable, PROGRAM, alone], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    _, expected = counted(tmp_path / "counts")
    run = pyhybrid(
        "--mode", "trace", "--regions", "perfstubs", "--include", "adios.py", PROGRAM, tmp_path
    )
    profile = run.profile()
    check_invariants(profile)
    check_exact(profile)
    assert timers(profile) == expected
    assert expected["BP5Writer::EndStep"] == 20
    assert profile.meta["unplaced_regions"] == profile.meta["unmatched_regions"] == 0


@pytest.mark.engine
def test_where_they_stand(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Below the functions that called ADIOS2, with its native frames below them."""
    profile = pyhybrid("--hz", 5000, "--regions", "perfstubs", PROGRAM, tmp_path).profile()
    nodes, frames = profile.nodes, profile.frames
    found = set()
    for row in profile.exact:
        if frames[nodes.frame[row.node]].name == "BP5Writer::EndStep":
            node = nodes.parent[row.node]
            while frames[nodes.frame[node]].name not in ("save", "<module>"):
                node = nodes.parent[node]
            found.add(frames[nodes.frame[node]].name)
    assert found == {"save"}
    below = [
        names[kinds.index("region") + 1 :]
        for _, kinds, names in paths(profile)
        if "region" in kinds
    ]
    assert any("adios2" in name for names in below for name in names), below


WITHOUT_GIL = """
import ctypes, glob, os, sys, threading
sys.modules["torch"] = None  # as in tests/targets/adios.py
import adios2
path = glob.glob(os.path.join(os.path.dirname(adios2.__file__), "libadios2_perfstubs.so.*"))[0]
held, released = ctypes.PyDLL(path), ctypes.CDLL(path)
for library in (held, released):
    library.ps_initialize_()
    library.ps_timer_create_.restype = library.ps_create_counter_.restype = ctypes.c_void_p

def run(library, name, n):
    timer = ctypes.c_void_p(library.ps_timer_create_(name))
    start, stop = library.ps_timer_start_, library.ps_timer_stop_
    for _ in range(n):
        start(timer)
        stop(timer)

def both():
    run(held, b"held", 3000)
    run(released, b"released", 5000)

threads = [threading.Thread(target=both) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
both()
counter = ctypes.c_void_p(held.ps_create_counter_(b"bytes"))
for value in (1.0, 2.0, 6.0):
    held.ps_sample_counter_(counter, ctypes.c_double(value))
held.ps_set_metadata_(b"ranks", b"1")
held.ps_set_metadata_(b"ranks", b"2")
held.ps_start_string_(b"by name")
held.ps_dynamic_phase_start_(b"phase", 7)
held.ps_dynamic_phase_stop_(b"phase", 7)
held.ps_stop_current_()
"""


@pytest.mark.further
@pytest.mark.version
def test_without_the_gil_and_counters(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--mode", "trace", "--regions", "perfstubs", "-c", WITHOUT_GIL)
    profile = run.profile()
    assert timers(profile) == {"held": 9000, "released": 15_000, "by name": 1, "phase [7]": 1}
    assert "counter  bytes: 3 values, sum 9, mean 3, from 1 to 6" in run.result.stderr
    report = json.loads(pyhybrid("report", "--json").result.stdout)
    of_counter = {"name": "bytes", "n": 3, "sum": 9, "min": 1, "max": 6, "sum_of_squares": 41}
    assert report["counters"] == [of_counter]
    assert report["metadata"] == {"ranks": "2"}
    with contextlib.closing(sqlite3.connect(run.path())) as database:
        assert database.execute("SELECT name, n, sum FROM counter").fetchall() == [("bytes", 3, 9)]
        assert database.execute("SELECT * FROM metadata").fetchall() == [("ranks", "2")]


LATE = """
import os, sys
sys.path.insert(0, TARGETS)
sys.argv = ["adios.py", sys.argv[1]]
import adios  # its PerfStubs has looked for a tool in vain
from pyhybrid import Profiler

def timers(p):
    found = {}
    for row in p.profile.exact:
        frame = p.profile.frames[p.profile.nodes.frame[row.node]]
        if frame.kind == "region":
            found[frame.name] = found.get(frame.name, 0) + row.calls
    return found

seen = []
for i in range(2):  # stopped, and started again
    with Profiler(mode="trace", regions="perfstubs", include=["adios.py"], output=f"p{i}") as p:
        adios.save(f"{sys.argv[1]}/late{i}.bp", 5)
        pid = os.fork()
        if not pid:
            adios.save(f"{sys.argv[1]}/child.bp", 5)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    adios.save(f"{sys.argv[1]}/between.bp", 5)
    seen.append(timers(p))
assert seen[0] == seen[1], seen
assert sum(seen[0].values()) >= 5 * 5, seen
print(sorted(seen[0]))
"""


@pytest.mark.further
def test_late_again_and_forked(tmp_path: Path) -> None:
    """Handles that were made before mean nothing to us: they are one timer."""
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-W",
            "ignore",
            "-c",
            LATE.replace("TARGETS", repr(str(TARGETS))),
            tmp_path,
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "[unnamed timer]" in done.stdout


@pytest.mark.further
def test_not_asked_for_it_is_not_there(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    run = pyhybrid("--mode", "trace", PROGRAM, tmp_path)
    assert not timers(run.profile())
    assert "registering tool" not in run.result.stdout
