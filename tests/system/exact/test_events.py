"""The event log: every begin and end, in order, and nothing that the counters do not know."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from exact_support import MODES, check_exact
from support import TARGETS, Run

from pyhybrid.tables.profile import Profile

pytestmark = [pytest.mark.version, pytest.mark.once]

PROGRAM = """
import asyncio, threading, time

def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)

def numbers(n):
    for i in range(n):
        yield i

def raising():
    raise ValueError

def mixed():
    sum(numbers(100))
    g = numbers(10); next(g); g.close()
    try: next(numbers(5)); raising()
    except ValueError: pass
    sorted(range(50), key=lambda x: -x)
    fib(12)

async def waits(n):
    for _ in range(n): await asyncio.sleep(0)

async def tasks(): await asyncio.gather(*(waits(5) for _ in range(4)))

threads = [threading.Thread(target=mixed) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
mixed()
asyncio.run(tasks())
"""


def replay(
    profile: Profile,
) -> tuple[dict[tuple[int, int], Counter[str]], Counter[tuple[int, int]]]:
    """How often each kind came by (thread, node), and the time spent; ends match their begins."""
    counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    spent: Counter[tuple[int, int]] = Counter()
    running: dict[int, list[tuple[int, int]]] = defaultdict(list)
    last: dict[int, int] = {}
    for thread, time_ns, kind, node in profile.events():
        assert time_ns >= last.get(thread, 0)
        last[thread] = time_ns
        counts[thread, node][kind] += 1
        if kind in ("call", "resume"):
            running[thread].append((node, time_ns))
        else:
            begun, since = running[thread].pop()
            assert begun == node
            spent[thread, node] += time_ns - since
    assert not any(running.values())
    return counts, spent


@pytest.mark.parametrize("mode", MODES)
def test_the_log_agrees_with_the_counters(pyhybrid: Callable[..., Run], mode: str) -> None:
    profile = pyhybrid("--mode", mode, "--events", "--format", "folded", "-c", PROGRAM).profile()
    check_exact(profile)
    counts, spent = replay(profile)
    assert not any(kinds["gap"] for kinds in counts.values())
    seen = set()
    for row in profile.exact:
        kinds = counts[row.thread, row.node]
        assert kinds["call"] == row.calls
        assert kinds["resume"] == row.resumes + row.seeded
        assert kinds["raise"] == row.raised
        tolerance = 2 * kinds.total() + row.total_ns * 1e-4
        assert abs(spent[row.thread, row.node] - row.total_ns) <= tolerance
        seen.add((row.thread, row.node))
    assert seen == counts.keys()
    assert len({thread for thread, _ in seen}) == 5


@pytest.mark.further
def test_regions_are_in_the_log(pyhybrid: Callable[..., Run]) -> None:
    options = ("--mode", "trace", "--events", "--format", "folded")
    profile = pyhybrid(*options, TARGETS / "regions.py", 0.1).profile()
    frames, nodes = profile.frames, profile.nodes.frame
    kinds: Counter[tuple[str, str]] = Counter()
    for event in profile.events():
        frame = frames[nodes[event.node]]
        if frame.kind == "region":
            kinds[frame.name, event.kind] += 1
    assert kinds["epoch", "call"] == kinds["epoch", "return"] == 3
    assert kinds["task 0", "call"] == kinds["task 0", "return"] == 1
    assert kinds["task 0", "resume"] == kinds["task 0", "yield"] == 3
    replay(profile)


LONG = """
import time
def before(): pass
def after(): pass
for _ in range(1000): before()
end = time.monotonic() + 1.2
while time.monotonic() < end:
    after()
    sum(range(300))
"""


def test_the_last_ones_only(pyhybrid: Callable[..., Run]) -> None:
    options = ("--mode", "trace", "--events=500ms", "--format", "folded")
    profile = pyhybrid(*options, "-c", LONG).profile()
    frames, nodes = profile.frames, profile.nodes.frame
    events = [
        frames[nodes[event.node]].name
        for event in profile.events()
        if event.kind != "gap"  # where the collector came late: its node is a number of events
    ]
    assert "before" not in events
    counted = {frames[nodes[row.node]].name: row.calls for row in profile.exact}
    assert counted["before"] == 1000
    logged = events.count("after")
    assert 1000 < logged < 2 * counted["after"]


@pytest.mark.further
def test_what_an_overrun_loses_is_said(pyhybrid: Callable[..., Run]) -> None:
    """The collector is kept from draining by its priority: one thread alone cannot be stopped."""
    program = """
import os, threading
tids = [int(t) for t in os.listdir("/proc/self/task")]
collector, = [t for t in tids if open(f"/proc/self/task/{t}/comm").read() == "pyhybrid\\n"]
cpus = os.sched_getaffinity(0)
os.sched_setaffinity(collector, {min(cpus)})
os.sched_setscheduler(collector, os.SCHED_IDLE, os.sched_param(0))
os.sched_setaffinity(0, {min(cpus)})
def f(): pass
for _ in range(3_000_000): f()
os.sched_setaffinity(0, cpus)
os.sched_setscheduler(collector, os.SCHED_OTHER, os.sched_param(0))
"""
    profile = pyhybrid("--mode", "trace", "--events", "--format", "folded", "-c", program).profile()
    frames, nodes = profile.frames, profile.nodes.frame
    (f,) = [row for row in profile.exact if frames[nodes[row.node]].name == "f"]
    assert f.calls == 3_000_000
    logged = gaps = 0
    for event in profile.events():
        if event.kind == "gap":
            gaps += event.node
        elif event.node == f.node:
            logged += 1
    assert logged <= 2 * f.calls <= logged + gaps + 10  # others may be missing, too


@pytest.mark.further
def test_bad_options(pyhybrid: Callable[..., Run]) -> None:
    for options, reason in (
        (("--mode", "sample", "--events"), "--events needs --mode hybrid or trace"),
        (("--events=often",), "is not a time"),
        (("--events=0s",), "--events must be"),
    ):
        result = pyhybrid(*options, "-c", "1", check=False).result
        assert result.returncode == 2
        assert reason in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.further
def test_below_a_full_tree_begins_have_their_ends(pyhybrid: Callable[..., Run]) -> None:
    options = ("--mode", "trace", "--events", "--max-nodes", 300, "--format", "folded")
    profile = pyhybrid(*options, "-c", PROGRAM).profile()
    assert any("[tree full]" in note for note in profile.meta["notes"])
    counts, _ = replay(profile)
    assert counts
