"""Each loss and each flag, forced: all is counted, and what is recorded stays right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import (
    LOOKS,
    NESTED,
    TARGETS,
    Run,
    check_invariants,
    check_losses,
    covered_ns,
    long_enough,
    native_threads,
    paths,
)

pytestmark = pytest.mark.engine


def nested(pyhybrid: Callable[..., Run], chain: Path, *options: object, seconds: float = 1) -> Run:
    program = (TARGETS / "nested.py", seconds)
    run = pyhybrid("--format", "folded", *options, *program, env={"PYTHONPATH": str(chain)})
    check_invariants(run.profile())
    return run


def covered(run: Run) -> None:
    """Per thread, recorded + lost + missed weight is the kernel's CPU time, within 1 %."""
    profile = run.profile()
    for thread in profile.threads.values():
        cpu_ns = thread.cpu_ns or 0
        parts_ns = 2 * profile.period_ns * thread.n_threads  # of a period, each of a row's threads
        assert abs(covered_ns(profile, thread) - cpu_ns) <= 0.01 * cpu_ns + parts_ns, thread


def test_next_to_nothing_lost(pyhybrid: Callable[..., Run], chain: Path) -> None:
    run = nested(pyhybrid, chain)
    covered(run)
    check_losses(run.profile())


def test_ring_full(pyhybrid: Callable[..., Run], chain: Path) -> None:
    run = nested(pyhybrid, chain, "--mode", "sample", "--ring-bytes", 256)  # a sample or two
    covered(run)
    reasons = {loss.reason for loss in run.profile().losses}
    assert reasons - {"too_slow"} == {"ring_full"}  # a machine that stalls has its own
    assert "ring full" in run.result.stderr


@pytest.mark.further
@pytest.mark.once
def test_rings_have_room_for_the_rate(tmp_path: Path) -> None:
    """The stacks of a tenth of a second, twice over."""
    program = """
import re
from pyhybrid import Profiler
def bytes_of(hz):
    def size():
        return 1024 * int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1])
    before = size()
    with Profiler(mode="sample", hz=hz):
        return size() - before
bytes_of(999)
print(bytes_of(10_000) - bytes_of(999))
"""
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= (2 << 20) - (256 << 10)


def test_depth_limit(pyhybrid: Callable[..., Run], chain: Path) -> None:
    options = ("--mode", "sample", "--max-depth", 4)
    run = nested(pyhybrid, chain, *options, seconds=long_enough(1.5, 4))
    covered(run)
    cut = whole = 0
    for samples, kinds, names in paths(run.profile()):
        assert len(names) - kinds.count("kernel") <= 4  # these come another way
        if names[0] == "[truncated]":
            cut += samples
            known = [name for name in names if name in NESTED]
            at = NESTED.index(known[0]) if known else 0
            assert known == NESTED[at : at + len(known)]
        else:
            whole += samples
    assert cut > 100
    assert whole < cut / 10


@pytest.mark.further
def test_a_stack_as_deep_as_is_asked_for_fits_a_ring(pyhybrid: Callable[..., Run]) -> None:
    program = """
import sys, time
sys.setrecursionlimit(60_000)
def down(n):
    if n: return down(n - 1)
    end = time.thread_time() + float(sys.argv[1])
    while time.thread_time() < end: pass
down(40_000)
"""
    options = ("--mode", "sample", "--max-depth", 1 << 16, "--format", "folded")
    profile = pyhybrid(*options, "-c", program, long_enough(0.5, 2)).profile()
    lost = sum(loss.samples for loss in profile.losses if loss.reason == "ring_full")
    deep = sum(samples for samples, _, names in paths(profile) if names.count("down") == 40_001)
    assert deep > max(lost, 50)  # a machine that stalls may lose some


@pytest.mark.further
@pytest.mark.once
def test_tree_limit(pyhybrid: Callable[..., Run], chain: Path) -> None:
    run = nested(pyhybrid, chain, "--max-nodes", 40)
    covered(run)
    profile = run.profile()
    # The bound, an eighth more for [tree full], and a few to spare.
    assert len(profile.stacks.parent) <= 50
    assert any(names[-1] == "[tree full]" for _, _, names in paths(profile))


@pytest.mark.further
def test_threads_that_begin_and_end(pyhybrid: Callable[..., Run]) -> None:
    code = (
        "import threading, time\n"
        "def work():\n"
        "    end = time.thread_time() + 0.002\n"
        "    while time.thread_time() < end: pass\n"
        "for i in range(500):\n"
        "    t = threading.Thread(target=work); t.start(); t.join()\n"
    )
    profile = pyhybrid("--format", "folded", "-c", code).profile()
    check_invariants(profile)
    # A tick's sample stands for more than its thread ran: all of them have what all ran.
    threads = profile.threads.values()
    known_ns = sum(covered_ns(profile, t) for t in threads) + profile.meta["unaccounted_ns"]
    cpu_ns = profile.process.cpu_ns or 0
    assert 0.8 * cpu_ns < known_ns < 1.02 * cpu_ns  # without the collector's


ENGINES = [
    "auto",
    pytest.param("perf_event", marks=pytest.mark.needs("root")),
    pytest.param("timer", marks=pytest.mark.once),  # `auto`, for the ordinary user
]


@pytest.mark.further
@pytest.mark.parametrize("engine", ENGINES)
def test_a_thread_that_blocks_signals_has_its_row(
    tmp_path: Path, pyhybrid: Callable[..., Run], engine: str
) -> None:
    """Python's or native; beside one that does not block them, in shares of all."""
    library = native_threads(tmp_path)
    code = (
        "import ctypes, signal, threading, time\n"
        "def burn():\n"  # long beside what passes until it is found, and after the last look
        "    end = time.thread_time() + 1\n"
        "    while time.thread_time() < end: pass\n"
        "def blocks():\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "    burn()\n"
        "for t in (threading.Thread(target=blocks, name='waxes'), threading.Thread(target=burn)):\n"
        "    t.start(); t.join()\n"
        f"ctypes.CDLL({str(library)!r}).in_blocked_thread(b'wanes', ctypes.c_long(1_000_000))\n"
    )
    run = pyhybrid("--engine", engine, "--format", "folded", "-c", code)
    profile = run.profile()
    check_invariants(profile)
    covered(run)
    assert re.search("^caution .*signals blocked by wanes, waxes", run.result.stderr, re.M)
    for name in ("waxes", "wanes"):
        row = f"[signals blocked] thread {name}"
        (thread,) = (t for t in profile.threads.values() if t.name == name)
        assert 0.84e9 <= thread.recorded_weight_ns <= 1.02e9, thread
        assert row in {names[0] for _, _, names in paths(profile)}
    if profile.meta["kernel_frames"]:  # the clock wrote where it came
        assert any("burn_native" in names for _, _, names in paths(profile))


@pytest.mark.further
@pytest.mark.once
def test_short_threads_have_their_share_of_a_timers_samples(pyhybrid: Callable[..., Run]) -> None:
    """The first sample comes after any part of a period, not always a whole one."""
    code = (
        "import threading, time\n"
        "def work(go):\n"
        "    go.wait()\n"
        "    end = time.thread_time() + 0.03\n"
        "    while time.thread_time() < end: pass\n"
        "for _ in range(12):\n"
        "    go = threading.Event()\n"
        "    threads = [threading.Thread(target=work, args=(go,)) for _ in range(10)]\n"
        "    for t in threads: t.start()\n"
        "    looked()\n"  # each has its timer by then
        "    go.set()\n"
        "    for t in threads: t.join()\n"
    )
    options = ("--mode", "sample", "--engine", "timer", "--hz", 50, "--format", "folded")
    profile = pyhybrid(*options, "-c", LOOKS + code).profile()
    check_invariants(profile)
    main = min(profile.threads.values(), key=lambda t: t.id)
    short = [t for t in profile.threads.values() if t is not main]
    assert sum(t.n_threads for t in short) == 120
    # Less what a tick (1 to 10 ms) sees too late: the timers are looked at in ticks.
    assert 0.75 <= sum(t.recorded_weight_ns for t in short) / (120 * 0.03e9) <= 1.15


@pytest.mark.further
@pytest.mark.parametrize(
    "clock",
    ["cpu", pytest.param("wall", marks=pytest.mark.once)],  # everyone has the same timers
)
def test_others_have_the_processor(pyhybrid: Callable[..., Run], clock: str) -> None:
    """That is no loss: a handler that waited for it has not cost what it took."""
    # (Timers tick 100 times a second, or more often.)
    program = (
        "import time\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end or time.thread_time() < 0.6: pass\n"
    )
    on_one = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))  # the rest is others'
    others = [
        subprocess.Popen([*on_one, sys.executable, "-c", "while True: pass"]) for _ in range(3)
    ]
    try:
        options = ("--mode", "sample", "--clock", clock, "--format", "folded")
        profile = pyhybrid(*options, "-c", program, within=on_one).profile()
    finally:
        for other in others:
            other.kill()
            other.wait()
    lost_ns = sum(loss.weight_ns for loss in profile.losses)
    (thread,) = profile.threads.values()
    assert thread.recorded > 50
    assert lost_ns <= 0.1 * thread.recorded_weight_ns
    if clock == "wall":
        assert lost_ns + thread.recorded_weight_ns + thread.missed_weight_ns > 1.9e9


CLOSES_ALL = """
import os, resource
for fd in range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
    try: os.close(fd)
    except OSError: pass
"""
TAKES_SIGNALS = """
import signal
for each in signal.SIGTRAP, signal.SIGPROF:
    signal.signal(each, lambda number, frame: None)
"""


@pytest.mark.further
@pytest.mark.parametrize(
    ("does", "said"),
    [
        (CLOSES_ALL, ""),  # as daemons do
        (TAKES_SIGNALS, "pyhybrid: the program took SIGPROF: sampled by timers from there on"),
    ],
)
def test_sampling_goes_on_when_the_program_takes_what_it_needs(
    pyhybrid: Callable[..., Run], does: str, said: str
) -> None:
    code = (
        "import time\n"
        "def burn():\n"
        "    end = time.thread_time() + 1\n"
        "    while time.thread_time() < end: pass\n"
        f"{does}\n"
        "burn()\n"
    )
    run = pyhybrid("--format", "folded", "-c", code)
    profile = run.profile()
    assert profile.meta["complete"]
    assert "is not complete" not in run.result.stderr
    assert said in run.result.stderr
    (main,) = profile.threads.values()
    assert main.recorded_weight_ns > 0.7e9
