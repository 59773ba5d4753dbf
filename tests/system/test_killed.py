"""Programs that end without an end: the .part has all up to its last second of counts."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from support import LOOKS, PATIENCE_S, Run, check_invariants, command

from pyhybrid.assemble.opening import open_profile
from pyhybrid.spool import framing
from pyhybrid.spool import layout as form

BURN = """
import os, signal, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""

KILL = "os.kill(os.getpid(), signal.SIGKILL)"
ENDS = {
    "C's _exit": ("import ctypes; ctypes.CDLL(None)._exit(3)", 3),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "abort": ("os.abort()", -signal.SIGABRT),
}


SLOW = ("SIGTERM", "abort")


@pytest.mark.engine
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.slow) if how in SLOW else how for how in ENDS]
)
def test_the_part_is_readable(pyhybrid: Callable[..., Run], tmp_path: Path, how: str) -> None:
    end, code = ENDS[how]
    run = pyhybrid("-c", f"{BURN}burn(1.5); {end}", check=False)
    assert run.result.returncode == code
    part = tmp_path / "out.pyhybrid.part"
    assert [p for p in tmp_path.iterdir() if p.name != "core"] == [part]
    with open_profile(str(part)) as profile:
        check_invariants(profile)
        assert profile.process.end_ns is None
        assert sum(t.recorded_weight_ns for t in profile.threads.values()) > 800_000_000
        assert any(frame.name == "burn" for frame in profile.frames.values())
    for arguments in (["report"], ["export", "-f", "folded", "-f", "perf"]):
        command(tmp_path, arguments[0], part, *arguments[1:])
    assert "burn (" in (tmp_path / "out.folded").read_text()
    assert (tmp_path / "perf.data").stat().st_size > 10_000


RUNS = """
import os, signal, threading, time
def leaf(): return sum(range(200))
def spin(end):
    while time.monotonic() < end: leaf()
    os.kill(os.getpid(), signal.SIGKILL)
def outer(): spin(time.monotonic() + 2)
def waits(): time.sleep(600)
threading.Thread(target=waits, daemon=True).start()
outer()
"""


@pytest.mark.engine
def test_what_runs_has_its_time(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Python functions, and C functions that they wait for, whose end is never seen."""
    began = time.monotonic_ns()
    pyhybrid("-q", "--c-calls", "-c", RUNS, check=False)
    took = time.monotonic_ns() - began
    with open_profile(str(tmp_path / "out.pyhybrid.part")) as profile:
        rows = {profile.frames[profile.nodes.frame[row.node]].name: row for row in profile.exact}
    sleep = next(row for name, row in rows.items() if "sleep" in name)
    for row in (rows["spin"], rows["outer"], rows["waits"], sleep):
        assert row.calls == 1
        assert 300_000_000 < row.total_ns < took
    assert rows["leaf"].total_ns <= rows["spin"].total_ns <= rows["outer"].total_ns
    assert sleep.total_ns <= rows["waits"].total_ns


GROWS = """
import os, signal, time
def leaf(x): return x + 1
functions = []
for i in range(500):
    names = {"leaf": leaf}
    exec(f"def f{i}(x, d):\\n    return leaf(x) if d == 0 else f{i}(x, d - 1)", names)
    functions.append(names[f"f{i}"])
while time.process_time() < 3:
    for f in functions: f(1, 6)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_steady_program_adds_its_samples_alone(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """And stacks that are new: counters of 4,000 paths stay where they are."""
    pyhybrid("-q", "-c", GROWS, check=False)
    data = (tmp_path / "out.pyhybrid.part").read_bytes()
    n: Counter[int] = Counter()
    for record in framing.records(data, 1 << 60):
        assert isinstance(record, framing.Record)
        n[record.kind] += 1
        n[-record.kind] += len(record.body)
    assert n[form.CLOCK] == 1
    assert n[form.EXACT_COUNTERS] <= 10
    assert 20 * 4_000 < n[-form.EXACT_COUNTERS] < 50 * 4_500
    assert n[form.COUNTERS] == n[form.THREAD]
    of_chunks = (form.SAMPLES_HEAD.size + 8) * n[form.SAMPLES]  # one each time the collector looks
    assert n[-form.SAMPLES] < 3 * 12_000 + of_chunks


COUNTS = """
import mmap, os, struct, sys, time
log = mmap.mmap(os.open("log", os.O_RDWR), 16)
def leaf(): pass
n = 0
while True:
    for _ in range(100): leaf()
    n += 100
    log[:16] = struct.pack("qq", n, time.monotonic_ns())
"""


@pytest.mark.engine
@pytest.mark.alone
@pytest.mark.parametrize("n_moments", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_at_any_moment(tmp_path: Path, n_moments: int) -> None:
    """A tenth of a second of samples is lost at most, and of counts a second, or half its age."""
    random = Random(n_moments)
    for _ in range(n_moments):
        check_killed(tmp_path, random.uniform(0.05, 3))


def collector_waited_ns(pid: int) -> int:
    """For how long it waited for a processor (Linux: sched-stats.rst)."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text() == "pyhybrid\n":
                return int((task / "schedstat").read_text().split()[1])
    return 0


def check_killed(tmp_path: Path, after: float) -> None:
    (tmp_path / "log").write_bytes(bytes(16))
    command = [sys.executable, "-P", "-m", "pyhybrid", "-q", "-c", COUNTS]
    with (tmp_path / "log").open("rb") as log:
        process = subprocess.Popen(command, cwd=tmp_path)
        told, looks = [(0, 0)], []
        while not told[-1][1] or told[-1][1] - told[1][1] < after * 10**9:
            assert process.poll() is None
            told.append(struct.unpack("qq", os.pread(log.fileno(), 16, 0)))
            if not told[-1][1]:
                told.pop()
            looks.append((time.monotonic_ns(), collector_waited_ns(process.pid)))
            time.sleep(0.005)
        process.kill()
        process.wait()
        last_ns = struct.unpack("qq", os.pread(log.fileno(), 16, 0))[1]
    with open_profile(str(tmp_path / "out.pyhybrid.part")) as profile:
        check_invariants(profile)
        rows = [
            row
            for row in profile.exact
            if profile.frames[profile.nodes.frame[row.node]].name == "leaf"
        ]
        sampled_ns = max(thread.last_ns or 0 for thread in profile.threads.values())
        age_ns = last_ns - (profile.process.start_ns or 0)
    # Another process may have the processor: this one and the collector know how long.
    looks = [look for look in looks if look[0] > last_ns - 11 * 10**8] or looks[-1:]
    late_ns = 60_000_000 + max((b[0] - a[0] for a, b in pairwise(looks)), default=0)
    late_ns += looks[-1][1] - looks[0][1]
    assert sampled_ns > last_ns - 100_000_000 - late_ns
    lost_ns = min(10**9, age_ns // 2) + 50_000_000 + late_ns
    least = max(n for n, at_ns in told if at_ns <= last_ns - lost_ns)
    assert sum(row.calls for row in rows) >= least


MANY_THREADS = """
import threading, time
def works():
    end = time.thread_time() + 0.003
    while time.thread_time() < end: pass
for _ in range(300):
    thread = threading.Thread(target=works)
    thread.start()
    thread.join()
before, end = looks(), time.process_time() + 1
while time.process_time() < end: pass
print(looks() - before)
"""


def test_many_threads_put_nothing_off(pyhybrid: Callable[..., Run]) -> None:
    """Each one nudges the collector (with sigtrap); after them it looks as often as before."""
    run = pyhybrid("-q", "-c", LOOKS + MANY_THREADS)
    assert int(run.result.stdout) >= 15


def killed(pyhybrid: Callable[..., Run], *options: str) -> None:
    """Once there is something in the file."""
    run = pyhybrid("-q", *options, "-c", f"{BURN}burn(0.6); {KILL}", check=False)
    assert run.result.returncode == -signal.SIGKILL


def test_a_killed_runs_part_is_moved_aside(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    killed(pyhybrid)
    left = (tmp_path / "out.pyhybrid.part").read_bytes()
    pyhybrid("-q", "-c", "pass")
    assert (tmp_path / "out.pyhybrid.part.old").read_bytes() == left
    assert not (tmp_path / "out.pyhybrid.part").exists()


EXPORT = pytest.param(("export", "-f", "pstats"), marks=pytest.mark.slow)


@pytest.mark.parametrize("command", [("report",), EXPORT])
def test_a_killed_runs_files_are_made(
    pyhybrid: Callable[..., Run], tmp_path: Path, command: tuple[str, ...]
) -> None:
    """By who asks for the last run without a name; an older one's are replaced, as by a run."""
    pyhybrid("-q", "-c", "pass")
    killed(pyhybrid)
    done = pyhybrid(*command).result
    said, *others = done.stderr.splitlines()
    assert said.startswith("pyhybrid: out.pyhybrid.part was of a run that was killed: ")
    made = ["out.folded", "out.pyhybrid", "perf.data", "perf.data.old"]
    if command[0] == "export":
        made.insert(1, "out.pstats")
        assert others == ["pyhybrid: wrote out.pstats"]
    else:
        assert "the process was killed" in done.stdout
        assert others == []
    assert sorted(path.name for path in tmp_path.iterdir()) == made
    assert "burn (" in (tmp_path / "out.folded").read_text()
    again = pyhybrid(*command).result
    assert again.stderr.splitlines() == others


def test_only_the_files_that_the_killed_run_was_to_make(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    killed(pyhybrid, "--format", "pstats")
    pyhybrid("report")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.pstats", "out.pyhybrid"]


def test_files_that_cannot_be_made(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """What the killed run left is read all the same, and stays."""
    killed(pyhybrid)
    (tmp_path / "out.pyhybrid").mkdir()
    os.utime(tmp_path / "out.pyhybrid", (0, 0))
    done = pyhybrid("report").result
    assert "999 Hz asked" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyhybrid: out.pyhybrid.part is of a run that was killed: its files can")
    assert (tmp_path / "out.pyhybrid.part").exists()


def test_a_run_that_goes_on(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Its files are its own to make."""
    program = BURN + "burn(0.6); print('ready', flush=True); sys.stdin.read(); os._exit(0)"
    command = [sys.executable, "-P", "-m", "pyhybrid", "-q", "--format", "folded", "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        done = pyhybrid("report").result
        assert "999 Hz asked" in done.stdout
        assert done.stderr.startswith("pyhybrid: out.pyhybrid.part: the run goes on, or is being")
        assert [p.name for p in tmp_path.iterdir()] == ["out.pyhybrid.part"]
        process.communicate(timeout=PATIENCE_S)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.folded", "out.pyhybrid"]


def test_a_named_profile_is_read_as_it_is(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """With a line where a later run was killed."""
    killed(pyhybrid)
    lone = pyhybrid("report", "out.pyhybrid", check=False).result
    assert (lone.returncode, lone.stdout) == (1, "")
    assert lone.stderr.startswith("pyhybrid: there is no out.pyhybrid, but out.pyhybrid.part is")
    pyhybrid("-q", "-c", "pass")
    assert "out.pyhybrid.part" not in pyhybrid("report", "out.pyhybrid").result.stderr
    killed(pyhybrid)
    older = pyhybrid("report", "out.pyhybrid").result
    assert older.stderr.startswith("pyhybrid: out.pyhybrid is older: out.pyhybrid.part is of a run")
    assert (tmp_path / "out.pyhybrid.part").exists()


@pytest.mark.engine
def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C: the program gets it as without us, and the profile is made."""
    code = (
        "import sys\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    while True: pass\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "    raise\n"
    )
    command = [sys.executable, "-P", "-m", "pyhybrid", "--format", "folded", "-c", code]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGINT
    assert stdout == "interrupted\n"
    assert "KeyboardInterrupt" in stderr
    assert (tmp_path / "out.pyhybrid").exists()
