"""What each sample knows of its thread: the GIL, whether it waited, and on which CPU it ran."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import pytest
from support import PATIENCE_S, Run, covered_ns, is_stripped, printed

from pyhybrid.tables import Sampled
from pyhybrid.tables.profile import Profile
from pyhybrid.views.selection.frames_of_kind import PYTHON_ONLY
from pyhybrid.views.selection.sample_selection import Choice, choose

# Two threads want the GIL all the time, one works without it, one sleeps.  Prints for how long the
# two waited for a processor (nanoseconds; Linux: Documentation/scheduler/sched-stats.rst), and for
# how long the sleeper was there without sleeping: it waits for the GIL afterwards.
WALL = """
import threading, time, zlib

end = time.monotonic() + 2
data = bytes(range(256)) * 160_000

def say(who):
    print(f"{who} {open('/proc/thread-self/schedstat').read().split()[1]}\\n", end="")

def computes():
    while time.monotonic() < end:
        sum(range(1000))
    say("holds")

def compresses():
    while time.monotonic() < end:
        zlib.compress(data, 9)
    say("compresses")

def sleeps():
    began = time.monotonic()
    falls_asleep.set()
    begins_to = time.monotonic()
    time.sleep(end - begins_to)
    print(f"awake {int((time.monotonic() - end + begins_to - began) * 1e9)}\\n", end="")

# The sleeper first, while nobody else wants the GIL.
falls_asleep = threading.Event()
threads = [threading.Thread(target=f, name=n) for f, n in (
    (sleeps, "sleeps"), (computes, "first"), (computes, "second"), (compresses, "compresses"))]
for thread in threads:
    thread.start()
    falls_asleep.wait()
for thread in threads: thread.join()
"""

CPU = """
import threading, time, zlib

def computes():
    while time.thread_time() < 0.5:
        sum(range(1000))

def compresses():
    data = bytes(range(256)) * 40_000
    while time.thread_time() < 0.5:
        zlib.compress(data, 9)

for f in (computes, compresses):
    thread = threading.Thread(target=f, name=f.__name__)
    thread.start()
    thread.join()
"""


def shares(profile: Profile, key: Callable[[Sampled], object]) -> dict[str, Counter[object]]:
    """By name of thread: the share of its weight for each value of `key`."""
    found: dict[str, Counter[object]] = {}
    for row in profile.sampled:
        found.setdefault(of_thread(profile, row), Counter())[key(row)] += row.weight_ns
    return {
        name: Counter({value: weight / of.total() for value, weight in of.items()})
        for name, of in found.items()
    }


def of_thread(profile: Profile, row: Sampled) -> str:
    return profile.threads[row.thread].name


def names_of(profile: Profile, stack: int) -> set[str]:
    frames, nodes, stacks = profile.frames, profile.nodes, profile.stacks
    found = set()
    while stack:
        found.add(frames[nodes.frame[stacks.node[stack]]].name)
        stack = stacks.parent[stack]
    return found


def test_by_the_clock_on_the_wall(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--clock", "wall", "--hz", 500, "-c", WALL)
    profile = run.profile()
    gil = shares(profile, lambda row: row.gil)
    off = shares(profile, lambda row: row.waits)
    for name in ("first", "second"):
        assert gil[name]["held"] + gil[name]["waiting"] > 0.75, gil
        assert gil[name]["waiting"] > 0.1, gil
    # One thread at a time holds it, and nearly always one does.  (Where samples come late, they are
    # few, and each stands for all of the time since the one before.)
    workers = [t for t in profile.threads.values() if t.name in ("first", "second")]
    by_chance = 4 * sqrt(0.5 / min(t.recorded for t in workers))
    alive_ns = max(t.recorded_weight_ns for t in workers)
    held_ns = sum(
        row.weight_ns
        for row in profile.sampled
        if row.gil == "held" and of_thread(profile, row) != "MainThread"
    )
    assert 1 - max(0.2, by_chance) < held_ns / alive_ns < 1 + max(0.1, by_chance), gil
    assert gil["compresses"]["neither"] > 0.7, gil
    no_processor: Counter[str] = Counter()
    for line in run.result.stdout.splitlines():
        who, ns = line.split()
        no_processor[who] += int(ns)
    slept = sum(r.weight_ns for r in profile.sampled if of_thread(profile, r) == "sleeps")
    assert gil["sleeps"]["neither"] * slept > 0.85 * slept - no_processor["awake"], gil
    assert off["sleeps"][1] > 0.95, off
    # It waits for a processor, and between two calls for the GIL.
    whole = sum(r.weight_ns for r in profile.sampled if of_thread(profile, r) == "compresses")
    assert off["compresses"][1] * whole < 0.3 * whole + no_processor["compresses"], off
    held_off = sum(row.weight_ns for row in profile.sampled if row.gil == "held" and row.waits)
    held = sum(row.weight_ns for row in profile.sampled if row.gil == "held")
    assert held_off < 0.1 * held + no_processor["holds"]
    waiting = [row for row in profile.sampled if row.gil == "waiting"]
    assert sum(r.weight_ns for r in waiting if r.waits) > 0.7 * sum(r.weight_ns for r in waiting)
    quality = printed(run.folder, "report", "quality")
    assert re.search(r"^GIL  +\d+\.\d% held, \d+\.\d% waiting, ", quality, re.M)
    assert re.search(r"^threads  +off the CPU \d+\.\d%$", quality, re.M)


# It sleeps and works in turns; and a thread sleeps through all of it.  Prints for how long it ran,
# was in `works`, was on a processor and waited for one (seconds; schedstat: as in WALL); then how
# long the other one slept, and how long the collector, which then is the only thread but the main
# one, waited for a processor.
NAPS = """
import glob, threading, time
def naps():
    began, worked = time.monotonic(), 0
    for _ in range(ROUNDS):
        time.sleep(SLEEP)
        worked -= time.monotonic()
        works()
        worked += time.monotonic()
    waited = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    print(time.monotonic() - began, worked, time.thread_time(), waited)
def works():
    end = time.monotonic() + WORK
    while time.monotonic() < end: pass
def sleeps():
    global slept
    began = time.monotonic()
    time.sleep(ROUNDS * (SLEEP + WORK))
    slept = time.monotonic() - began
threads = [threading.Thread(target=f, name=f.__name__) for f in (naps, sleeps)]
for thread in threads: thread.start()
for thread in threads: thread.join()
while len(glob.glob("/proc/self/task/*")) > 2: time.sleep(0.001)
left = [open(file).read().split() for file in glob.glob("/proc/self/task/*/schedstat")]
print(slept, sum(int(waited) for _, waited, _ in left) / 1e9)
"""


@pytest.mark.further
@pytest.mark.parametrize(
    ("rounds", "sleep", "work"), [(10, 0.3, 0.06), (40, 0.06, 0.02), (60, 0.045, 0.005)]
)
def test_who_sleeps_for_long_is_let_alone(
    pyhybrid: Callable[..., Run], rounds: int, sleep: float, work: float
) -> None:
    program = f"ROUNDS, SLEEP, WORK = {rounds}, {sleep}, {work}\n{NAPS}"
    options = ("--clock", "wall", "--hz", 999, "--format", "folded")
    run = pyhybrid(*options, "-c", program)
    profile = run.profile()
    ran, worked, on_cpu, no_processor, slept, late = (
        float(word) * 1e9 for word in run.result.stdout.split()
    )
    whole = rounds * (sleep + work) * 1e9
    threads = {thread.name: thread for thread in profile.threads.values()}
    # All of its time is there, though few signals came, which would have ended its sleep each time.
    sleeps, naps = threads["sleeps"], threads["naps"]
    assert abs(covered_ns(profile, sleeps) - slept) < 0.05 * whole
    assert sleeps.missed_weight_ns < 0.1e9 + late
    assert sleeps.recorded < 150
    assert shares(profile, lambda row: row.waits)["sleeps"][1] > 0.98
    # So it is of one that wakes, and what it did just then is in the right place.
    assert abs(covered_ns(profile, naps) - ran) < 0.1 * whole
    off = shares(profile, lambda row: row.waits)["naps"][1] * naps.recorded_weight_ns
    # (What it waits for a processor is off the CPU only where it is the most of a sample's time.)
    assert abs(off - (ran - on_cpu)) < 0.05 * whole + no_processor
    in_work = sum(
        row.weight_ns
        for row in profile.sampled
        if profile.threads[row.thread] is naps and "works" in names_of(profile, row.stack)
    )
    # Just after its sleep it is seen when it has run for a tick, however long that takes.
    assert abs(in_work - worked) < 0.2 * worked + no_processor
    assert naps.missed_weight_ns < 0.02 * whole + late


PAUSED = """
import threading, time, pyhybrid
def sleeps():
    global slept
    began = time.monotonic_ns()
    time.sleep(1.5)
    slept = time.monotonic_ns() - began
with pyhybrid.Profiler(clock="wall", hz=500, mode="sample") as p:
    thread = threading.Thread(target=sleeps)
    lived = time.monotonic_ns()
    thread.start()
    time.sleep(0.3)
    most = time.monotonic_ns()
    p.pause()
    paused = time.monotonic_ns()
    time.sleep(0.6)
    paused = time.monotonic_ns() - paused
    p.resume()
    most = time.monotonic_ns() - most
    thread.join()
    lived = time.monotonic_ns() - lived
(sleeper,) = [t for t in p.profile.threads.values() if t.tid != p.profile.process.pid]
counted = sleeper.recorded_weight_ns + sleeper.missed_weight_ns  # missed until it was first seen
told = (slept, lived, paused, most, sleeper)
assert slept - most - 0.1e9 < counted < lived - paused + 0.06e9, told
assert sleeper.recorded_weight_ns > counted / 2, told
"""


@pytest.mark.further
def test_what_a_sleeper_does_in_a_pause_counts_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", PAUSED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


TAKES_THE_GIL = """
import os, time
end = time.process_time() + 1
while time.process_time() < end:
    for _ in range(200): os.stat("/")
"""


@pytest.mark.further
def test_nobody_waits_for_the_gil_in_a_program_of_one_thread(pyhybrid: Callable[..., Run]) -> None:
    """Each call lets go of it and takes it again."""
    profile = pyhybrid("-q", "--format", "folded", "-c", TAKES_THE_GIL).profile()
    weights = Counter[str]()
    for row in profile.sampled:
        weights[row.gil] += row.weight_ns
    assert min(weights["held"], weights["neither"]) > 0.1 * weights.total()
    assert weights["waiting"] == 0


RENAMES = {
    "MainThread": "",
    "by-prctl": "import ctypes; ctypes.CDLL(None).prctl(15, b'by-prctl')",
    "by threading": "import threading; threading.current_thread().name = 'by threading'",
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", RENAMES)
def test_the_main_thread_has_its_name(pyhybrid: Callable[..., Run], name: str) -> None:
    """Also where the program does not import threading; nothing else may import it."""
    program = f"""
import sys, time
{RENAMES[name]}
assert {"threading" in RENAMES[name]} == ("threading" in sys.modules)
while time.process_time() < 0.3: pass
"""
    files = {
        "speedscope": "speedscope.json",
        "chrome": "trace.json",
        "firefox": "firefox.json.gz",
        "folded": "folded",
    }
    run = pyhybrid(*(word for kind in files for word in ("--format", kind)), "-c", program)
    (thread,) = run.profile().threads.values()
    assert thread.name == name
    for suffix in files.values():
        (file,) = run.folder.glob(f"out*{suffix}")
        data = file.read_bytes()
        text = (gzip.decompress(data) if suffix.endswith("gz") else data).decode()
        assert name in text, suffix
        assert '"python"' not in text, suffix
    chosen = pyhybrid("report", run.path(), "--thread", name).result.stdout
    assert f"only threads {name}" in chosen
    live = pyhybrid("--mode", "none", "--emit", "print:tree:calls.txt", "-c", program)
    assert "MainThread" in (live.folder / "calls.txt").read_text().splitlines()[0]


# Some threads are named before they begin, one by prctl long after that, one only for the kernel.
NAMED = """
import ctypes, sys, threading, time

set_name = lambda name: ctypes.CDLL(None).prctl(15, name)

def waits():
    time.sleep(2.2)

def renamed():
    time.sleep(0.3)
    began = time.monotonic()
    set_name(b"late-name")
    time.sleep(1.9)
    print(time.monotonic() - began)

threads = [threading.Thread(target=f, name=n) for f, n in (
    (waits, "loader-0"), (waits, "loader-1"), (waits, "other"), (renamed, "plain"))]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.further
def test_chosen_threads_by_the_clock_on_the_wall(pyhybrid: Callable[..., Run]) -> None:
    chosen = ("--wall-thread", "loader-*", "--wall-thread", "late-[mn]ame")
    options = ("--clock", "wall", "--hz", 500, "--format", "folded", *chosen)
    run = pyhybrid(*options, "--wall-thread", "absent", "-c", NAMED)
    profile = run.profile()
    seconds = {t.name: t.recorded_weight_ns / 1e9 for t in profile.threads.values()}
    signals = {t.name: t.signals for t in profile.threads.values()}
    assert signals.pop("other") == signals.pop("MainThread") == 0, signals
    assert seconds["loader-0"] > 1, seconds
    assert seconds["loader-1"] > 1, seconds
    named = float(run.result.stdout)
    assert 0.1 < seconds["plain"] < named + 0.05, (named, seconds)  # by the kernel's name for it
    comms = {t.name: t.comm for t in profile.threads.values()}
    assert comms["plain"] == "late-name" != comms["other"]
    said = run.result.stderr
    assert "wall time of the threads loader-*, late-[mn]ame" in said
    assert [line for line in said.splitlines() if "no thread of this name" in line] == [
        "note     --wall-thread absent: no thread of this name was sampled"
    ]
    calls: Counter[str] = Counter()
    for row in profile.exact:
        calls[profile.frames[profile.nodes.frame[row.node]].name] += row.calls
    assert (calls["waits"], calls["renamed"]) == (3, 1)


@pytest.mark.further
@pytest.mark.parametrize("mode", ["sample", "hybrid"])
def test_the_main_thread_alone(pyhybrid: Callable[..., Run], mode: str) -> None:
    options = ("--clock", "wall", "--hz", 500, "--mode", mode, "--format", "folded")
    run = pyhybrid(*options, "--wall-thread", "MainThread", "-c", NAMED)
    signals = {t.name: t.signals for t in run.profile().threads.values()}
    assert {name for name, n in signals.items() if n} == {"MainThread"}
    assert "no thread of this name" not in run.result.stderr


@pytest.mark.further
def test_chosen_threads_where_functions_are_left_out(pyhybrid: Callable[..., Run]) -> None:
    options = ("--clock", "wall", "--hz", 500, "--format", "folded", "-t", "renamed")
    run = pyhybrid(*options, "--wall-thread", "loader-*", "-c", NAMED)
    seconds = {t.name: t.recorded_weight_ns / 1e9 for t in run.profile().threads.values()}
    assert min(seconds["loader-0"], seconds["loader-1"]) > 1, seconds
    assert seconds["other"] == 0


WAITED_FOR = """
import threading, time, pyhybrid
done = threading.Event()
threads = [threading.Thread(target=done.wait, name=name) for name in ("loader", "other")]
for thread in threads: thread.start()
with pyhybrid.Profiler(clock="wall", hz=500, mode=%r, wall_threads=["load*"]) as p:
    time.sleep(1)
    late = threading.Thread(target=done.wait, name="other still")
    late.start()
    p.pause()
    late.name = "load after all"
    p.resume()
    time.sleep(1)
done.set()
seconds = {t.name: t.recorded_weight_ns / 1e9 for t in p.profile.threads.values()}
assert seconds["loader"] > 0.7 and seconds["other"] == 0, seconds
assert seconds["load after all"] > 0.3, seconds
"""


@pytest.mark.further
@pytest.mark.parametrize("mode", ["sample", "hybrid"])
def test_chosen_threads_that_wait_already(tmp_path: Path, mode: str) -> None:
    command = [sys.executable, "-P", "-c", WAITED_FOR % mode]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


@pytest.mark.further
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "--clock wall"),
        (("--clock", "wall", "--mode", "trace"), "--clock wall"),
        (("--clock", "wall", "--wall-thread", ""), "names of 1 to"),
        (("--clock", "wall", "--wall-thread", "x" * 201), "names of 1 to"),
        (("--clock", "wall", *("--wall-thread", "x" * 199) * 6), "too long"),
    ],
)
def test_threads_that_cannot_be_chosen(
    pyhybrid: Callable[..., Run], options: tuple[str, ...], why: str
) -> None:
    run = pyhybrid(*options, "--wall-thread", "x", "-c", "print('ran')", check=False)
    assert (run.result.returncode, run.result.stdout) == (2, "")
    assert why in run.result.stderr
    assert len(run.result.stderr.splitlines()) == 1


@pytest.mark.engine  # by wall-clock time everyone has the same timers
def test_by_cpu_time(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--hz", 999, "-c", CPU)
    gil = shares(run.profile(), lambda row: row.gil)
    assert gil["computes"]["held"] > 0.98, gil
    assert gil["compresses"]["neither"] > 0.9, gil
    assert not any(row.waits for row in run.profile().sampled)


@pytest.mark.further
def test_views_and_exports_by_state(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", CPU, "--format", "folded")
    view = pyhybrid("report", "--gil", "neither", "--thread", "comp*", cwd=run.folder)
    assert "compresses" in view.result.stdout
    assert "libz" in view.result.stdout
    assert "builtin_sum" not in view.result.stdout
    options = ("-f", "folded", "--thread", "computes", "--python-only", "-o", "x.folded")
    pyhybrid("export", *options, cwd=run.folder)
    stacks = [line.rpartition(" ")[0] for line in (run.folder / "x.folded").read_text().split("\n")]
    frames = {frame for stack in stacks for frame in stack.split(";")[2:]}
    assert any(frame.startswith("computes (") for frame in frames)
    assert all(" (" in frame for frame in frames), frames
    wrong = pyhybrid("report", "--off-cpu", cwd=run.folder, check=False)
    assert (wrong.result.returncode, wrong.result.stdout) == (1, "")
    assert "--clock wall" in wrong.result.stderr


@pytest.mark.further
@pytest.mark.engine
def test_the_cpu_of_each_sample(pyhybrid: Callable[..., Run]) -> None:
    cpu = max(os.sched_getaffinity(0))
    pinned = f"import os; os.sched_setaffinity(0, {{{cpu}}})\n{CPU}"
    run = pyhybrid("--format", "perf", "-c", pinned)
    profile = run.profile()
    names = {number: thread.name for number, thread in profile.threads.items()}
    cpus = {
        value
        for chunk in profile.timeline()
        if names[chunk.thread] in ("computes", "compresses")
        for value in chunk.cpus.values()
    }
    assert cpus == {cpu}
    command = ["perf", "script", "-i", "perf.data", "-F", "comm,cpu"]
    printed = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=True)
    assert f"[{cpu:03}]" in printed.stdout


@pytest.mark.further
def test_calls_of_c_functions_in_a_view_without_them(pyhybrid: Callable[..., Run]) -> None:
    program = "def f(n): return sorted(range(n))\nfor _ in range(200): f(20_000)"
    profile = pyhybrid("--c-calls", "--format", "folded", "-c", program).profile()
    chosen, _ = choose(profile, Choice(frames=PYTHON_ONLY))
    names = {profile.frames[profile.nodes.frame[row.node]].name for row in profile.exact}
    assert {"f", "builtins.sorted" if is_stripped() else "builtin_sorted"} <= names
    kinds = {profile.frames[profile.nodes.frame[row.node]].kind for row in chosen.exact}
    assert kinds == {"python"}
    # What they took is their callers' own time now.
    assert sum(row.self_ns for row in chosen.exact) == sum(row.self_ns for row in profile.exact)
