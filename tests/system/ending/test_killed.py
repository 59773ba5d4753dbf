"""Programs that end without an end: the .part has all up to its last tenth of a second."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from support import LOOKS, PATIENCE_S, Run, check_invariants, command

from pyhybrid import spool as form
from pyhybrid.assemble import open_profile
from pyhybrid.spool import reader

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

TENTH_NS = 100_000_000


@pytest.mark.first_cases(1)
@pytest.mark.engine
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.slow) if how in SLOW else how for how in ENDS]
)
def test_the_part_is_readable(pyhybrid: Callable[..., Run], tmp_path: Path, how: str) -> None:
    end, code = ENDS[how]
    run = pyhybrid("--leave-part", "-c", f"{BURN}burn(1.5); {end}", check=False)
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
    pyhybrid("--leave-part", "-q", "--c-calls", "-c", RUNS, check=False)
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


@pytest.mark.further
def test_a_steady_program_adds_its_samples_alone(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """And stacks that are new: counters of 4,000 paths stay where they are."""
    pyhybrid("--leave-part", "-q", "-c", GROWS, check=False)
    data = (tmp_path / "out.pyhybrid.part").read_bytes()
    n: Counter[int] = Counter()
    for record in reader.records(data, 1 << 60):
        assert isinstance(record, reader.Record)
        n[record.kind] += 1
        n[-record.kind] += len(record.body)
    assert n[form.TYPE["CLOCK"]] == 1
    assert n[form.TYPE["EXACT_COUNTERS"]] <= 10
    assert 20 * 4_000 < n[-form.TYPE["EXACT_COUNTERS"]] < 50 * 4_500
    assert n[form.TYPE["COUNTERS"]] == n[form.TYPE["THREAD"]]
    of_chunks = (form.STRUCT["spool_samples"].size + 8) * n[
        form.TYPE["SAMPLES"]
    ]  # one each time the collector looks
    assert n[-form.TYPE["SAMPLES"]] < 3 * 12_000 + of_chunks


COUNTS = """
import mmap, os, struct, sys, time
log = mmap.mmap(os.open("log", os.O_RDWR), 24)
def leaf(): pass
n = 0
while True:
    for _ in range(100): leaf()
    n += 100
    log[:24] = struct.pack("qqq", n, time.monotonic_ns(), time.thread_time_ns())
"""


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder that no disk puts off."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.engine
@pytest.mark.alone
@pytest.mark.parametrize(
    "n_moments", [3, pytest.param(40, marks=[pytest.mark.slow, pytest.mark.long("kills 40 runs")])]
)
def test_killed_at_any_moment(in_memory: Path, n_moments: int) -> None:
    """A tenth of a second of samples is lost at most, and of counts a second, or half its age, and
    that tenth: of the time in which the collector could have a processor."""
    random = Random(n_moments)
    checked = [check_killed(in_memory, random.uniform(0.05, 3)) for _ in range(n_moments)]
    assert any(checked)


def collector_waited_ns(pid: int) -> int:
    """For how long it waited for a processor (Linux: sched-stats.rst), the last turn left out if it
    still waits."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text() == "pyhybrid\n":
                return int((task / "schedstat").read_text().split()[1])
    return 0


def stolen_ns() -> list[int]:
    """For how long other guests of the host had each processor of this machine's."""
    lines = Path("/proc/stat").read_text().splitlines()
    ticks = [int(line.split()[8]) for line in lines if re.match(r"cpu\d", line)]
    return [each * 10**9 // os.sysconf("SC_CLK_TCK") for each in ticks]


class Look(NamedTuple):
    """At a program that runs COUNTS: what it said, for how long its collector had waited, and when
    this was read: if anything came between, before that."""

    n: int
    at_ns: int
    cpu_ns: int  # of its main thread
    waited_ns: int
    stolen_ns: list[int]
    seen_ns: int

    def stolen_since_ns(self, earlier: Look) -> int:
        """By the processor that had most of it taken: on which one a thread was is not known."""
        return max(b - a for a, b in zip(earlier.stolen_ns, self.stolen_ns, strict=True))


def stop(pid: int) -> None:
    """Returns when each thread has had a processor to stop on: for how long it waited is known."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


def looks_until_killed(folder: Path, after: float) -> list[Look]:
    """The last one is of its last moment."""
    (folder / "log").write_bytes(bytes(24))
    command = [sys.executable, "-P", "-m", "pyhybrid", "--leave-part", "-q", "-c", COUNTS]
    looks: list[Look] = []
    with (folder / "log").open("rb") as log:

        def look() -> None:
            said = struct.unpack("qqq", os.pread(log.fileno(), 24, 0))
            if said[0]:
                waited_ns = collector_waited_ns(process.pid)
                looks.append(Look(*said, waited_ns, stolen_ns(), time.monotonic_ns()))

        process = subprocess.Popen(command, cwd=folder)
        while not looks or looks[-1].at_ns - looks[0].at_ns < after * 10**9:
            assert process.poll() is None
            time.sleep(0.005)
            look()
        stop(process.pid)
        look()
        process.kill()
        process.wait()
    return looks


def before_its_last(looks: list[Look], ns: int) -> list[Look]:
    """Those after which the collector could have a processor for so long."""
    last = looks[-1]

    def left_ns(look: Look) -> int:
        waited_ns = last.waited_ns - look.waited_ns + last.stolen_since_ns(look)
        return last.at_ns - look.seen_ns - waited_ns

    return [look for look in looks if left_ns(look) >= ns]


def check_killed(folder: Path, after: float) -> bool:
    """Was there anything that had to be in the file?"""
    looks = looks_until_killed(folder, after)
    with open_profile(str(folder / "out.pyhybrid.part")) as profile:
        check_invariants(profile)
        calls = sum(
            row.calls
            for row in profile.exact
            if profile.frames[profile.nodes.frame[row.node]].name == "leaf"
        )
        sampled_ns = max(thread.last_ns or 0 for thread in profile.threads.values())
        age_ns = looks[-1].at_ns - (profile.process.start_ns or 0)
        engine = profile.meta["engine"]
    # A sample comes with each ms of the thread's own time, but for what is lost: what is stolen
    # from the handler is that time, too, and as much of it is owed then.  Not by a timer, whose
    # samples come with the kernel's ticks: all turns of a thread may lie between these.
    left = [each for each in before_its_last(looks, TENTH_NS) if each.at_ns > sampled_ns]
    if engine != "timer" and left:
        unsampled_ns = left[-1].cpu_ns - left[0].cpu_ns
        assert unsampled_ns < 15_000_000 + 2 * left[-1].stolen_since_ns(left[0])
    uncounted_ns = TENTH_NS + min(10**9, age_ns // 2)
    counted = before_its_last(looks, uncounted_ns)
    assert calls >= max((each.n for each in counted), default=0)
    return bool(counted)


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


@pytest.mark.further
def test_many_threads_put_nothing_off(pyhybrid: Callable[..., Run]) -> None:
    """Each one nudges the collector (with sigtrap); after them it looks as often as before."""
    run = pyhybrid("-q", "-c", LOOKS + MANY_THREADS)
    assert int(run.result.stdout) >= 15


def killed(pyhybrid: Callable[..., Run], *options: str) -> None:
    """Once there is something in the file."""
    run = pyhybrid("--leave-part", "-q", *options, "-c", f"{BURN}burn(0.6); {KILL}", check=False)
    assert run.result.returncode == -signal.SIGKILL


@pytest.mark.further
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


@pytest.mark.further
def test_only_the_files_that_the_killed_run_was_to_make(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    killed(pyhybrid, "--format", "pstats")
    pyhybrid("report")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.pstats", "out.pyhybrid"]


@pytest.mark.further
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


@pytest.mark.further
def test_a_run_that_goes_on(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Its files are its own to make."""
    program = BURN + "burn(0.6); print('ready', flush=True); sys.stdin.read(); os._exit(0)"
    command = [
        sys.executable,
        "-P",
        "-m",
        "pyhybrid",
        "--leave-part",
        "-q",
        "--format",
        "folded",
        "-c",
        program,
    ]
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


@pytest.mark.further
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
    command = [
        sys.executable,
        "-P",
        "-m",
        "pyhybrid",
        "--leave-part",
        "--format",
        "folded",
        "-c",
        code,
    ]
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
