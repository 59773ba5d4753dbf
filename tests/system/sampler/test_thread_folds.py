"""A thread for each request: many of a name that ended are one row, and leave next to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exact_support import check_exact
from support import LOOKS, Run, check_invariants, made_once, record

from pyhybrid.assemble import open_profile
from pyhybrid.tables import Chunk
from pyhybrid.tables.profile import Profile

OWN = 64  # FOLD_AFTER
AT_ONCE = 4
SERVER = f"""
import os, signal, sys, threading
import pyhybrid
def leaf(n): return sum(range(n))
def handle(): return leaf(3000)
def in_region():
    with pyhybrid.region("request"): return handle()
def serve(n, target):
    for _ in range(n // {AT_ONCE}):
        threads = [threading.Thread(target=target) for _ in range({AT_ONCE})]
        for each in threads: each.start()
        for each in threads: each.join()
serve(int(sys.argv[1]), globals()[sys.argv[2]])
"""
KEEP_PART = "os.link('out.pyhybrid.part', 'kept.part')\n"
KILL = "os.kill(os.getpid(), signal.SIGKILL)\n"


def calls_of(profile: Profile) -> Counter[str]:
    calls: Counter[str] = Counter()
    for row in profile.exact:
        calls[profile.frames[profile.nodes.frame[row.node]].name] += row.calls
    return calls


@pytest.mark.first_cases(1)
@pytest.mark.engine
@pytest.mark.parametrize("options", [(), ("--max-timeline", "128K")])
def test_what_a_request_leaves(
    pyhybrid: Callable[..., Run], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """On disk: 23 KB where each thread had a tree of its own."""
    size = []
    for n_requests in (200, 3000):
        pyhybrid(
            "-q", *options, "--format", "folded", "-c", SERVER + KEEP_PART, n_requests, "handle"
        )
        size.append((tmp_path / "kept.part").stat().st_size)
        (tmp_path / "kept.part").unlink()
    assert (size[1] - size[0]) / 2800 <= 200


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    def make(folder: Path) -> None:
        record(folder, "--format", "folded", "-c", SERVER, "400", "in_region")

    recorded = Run.recorded(made_once(tmp_path_factory, "thread_folds", make))
    yield recorded
    recorded.close()


@pytest.mark.version
def test_nothing_of_them_is_lost(run: Run) -> None:
    profile = run.profile()
    check_invariants(profile)
    check_exact(profile)
    calls = calls_of(profile)
    expected = dict.fromkeys(("in_region", "handle", "leaf", "request", "Thread.run"), 400)
    assert {name: calls[name] for name in expected} == expected
    assert sum(each.calls for each in profile.call_times) == 400
    kept = Counter(profile.frames[profile.nodes.frame[call.node]].name for call in profile.calls)
    assert kept == {"request": 400}


@pytest.mark.further
def test_which_threads_have_rows(run: Run) -> None:
    threads = list(run.profile().threads.values())
    assert sum(each.n_threads for each in threads) == 401
    (fold,) = (each for each in threads if each.n_threads > 1)
    assert fold.name == f"Thread-* (in_region) \u00d7 {fold.n_threads:,}"
    # (Those that live while it is folded keep theirs, and where processors are short more do.)
    assert OWN <= 400 - fold.n_threads < 2 * OWN


@pytest.mark.further
def test_their_samples_are_in_order_of_time(run: Run) -> None:
    profile = run.profile()
    (fold,) = (each.id for each in profile.threads.values() if each.n_threads > 1)
    of_fold = [chunk for chunk in profile.timeline() if chunk.thread == fold]
    times = [time for chunk in of_fold for time in times_of(chunk)]
    assert times == sorted(times)
    assert len(times) == sum(row.samples for row in profile.recorded if row.thread == fold)


def times_of(chunk: Chunk) -> list[int]:
    time, times = chunk.first_ns, []
    for step in chunk.dt_ns:
        time += step
        times.append(time)
    return times


@pytest.mark.further
def test_threads_that_live_at_once_have_rows_of_their_own(pyhybrid: Callable[..., Run]) -> None:
    program = """
import threading
barrier = threading.Barrier(100)
threads = [threading.Thread(target=barrier.wait) for _ in range(100)]
for each in threads: each.start()
for each in threads: each.join()
"""
    threads = pyhybrid("--format", "folded", "-c", program).profile().threads.values()
    assert len(threads) == 101
    assert {each.n_threads for each in threads} == {1}


@pytest.mark.further
@pytest.mark.once
def test_where_only_the_kernel_has_names_a_long_life_tells_a_thread(
    pyhybrid: Callable[..., Run],
) -> None:
    program = """
import threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(100))
def one(seconds):
    thread = threading.Thread(target=burn, args=(seconds,))
    thread.start()
    thread.join()
for _ in range(100): one(0.004)
one(1.2)
for _ in range(10): one(0.004)
"""
    run = pyhybrid("--mode", "sample", "--format", "folded", "-c", program)
    profile = run.profile()
    check_invariants(profile)
    others = [t for t in profile.threads.values() if t.tid != profile.process.pid]
    longest = max(others, key=lambda each: each.cpu_ns or 0)
    assert longest.n_threads == 1
    assert 1.1e9 < (longest.cpu_ns or 0) < 1.3e9
    assert longest.recorded_weight_ns > 0.9e9
    assert any(each.n_threads > 10 for each in others)


@pytest.mark.further
def test_their_trees_do_not_use_up_the_bound(pyhybrid: Callable[..., Run]) -> None:
    """Each has 30 nodes or more."""
    options = ("--mode", "trace", "--format", "folded", "--max-nodes", "8000")
    now_and_then = "for _ in range(25): serve(40, handle); looked(6)\n"
    program = LOOKS + SERVER + now_and_then
    profile = pyhybrid(*options, "-c", program, 0, "handle").profile()
    assert not any("too many distinct paths" in note for note in profile.meta["notes"])
    assert calls_of(profile)["leaf"] == 1000


@pytest.mark.further
@pytest.mark.parametrize("n_requests", [300, 700])
def test_a_killed_server(pyhybrid: Callable[..., Run], tmp_path: Path, n_requests: int) -> None:
    pyhybrid("--leave-part", "-q", "-c", SERVER + KILL, n_requests, "handle", check=False)
    with open_profile(str(tmp_path / "out.pyhybrid.part")) as profile:
        check_invariants(profile)
        calls = calls_of(profile)
        assert not any("damaged" in note for note in profile.meta["notes"])
    assert 0 <= calls["handle"] <= n_requests
    assert abs(calls["leaf"] - calls["handle"]) <= AT_ONCE
