"""--keep-last: what is kept is of the last minutes, and is one profile whoever makes it when."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, TARGETS

import pyhybrid
from pyhybrid.finish.finish import make_of_spools
from pyhybrid.finish.snapshot import copied_spools
from pyhybrid.merge.merge import merge
from pyhybrid.tables.profile import Profile

PYHYBRID = [sys.executable, "-P", "-m", "pyhybrid"]
KEPT_S = 2
QUICK = ("--keep-last", f"{KEPT_S}s", "--format", "folded")


class Program:
    """runs_on.py, profiled."""

    def __init__(self, folder: Path, *options: str, words: tuple[str, ...] = ()) -> None:
        self.folder, self.part = folder, folder / "x.pyhybrid.part"
        command = [*PYHYBRID, *QUICK, *options, "-o", str(folder / "x")]
        command += [str(TARGETS / "runs_on.py"), str(folder), *words]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout
        self.pid = int(self.process.stdout.readline())

    def windows(self) -> set[str]:
        """Return the names of the spools that are kept now."""
        parts = self.folder / "x.pyhybrid.parts"
        return {each.name for each in parts.glob("*.part")} if parts.is_dir() else set()

    def wait_for_windows(self, n: int) -> set[str]:
        """Wait until so many have been kept, and return their names."""
        seen: set[str] = set()
        self.until(lambda: len(seen.update(self.windows()) or seen) >= n)
        return seen

    def until(self, holds: Any) -> None:
        """Wait for that."""
        until = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < until
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def ends(self) -> tuple[dict[str, Any], str]:
        """Let it end; returns what it has noted, and what we have said."""
        (self.folder / "end").touch()
        out, said = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, said
        noted: dict[str, Any] = json.loads(out.splitlines()[-1])
        return noted, said


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Any]:
    started: list[Program] = []

    def start(*options: str, words: tuple[str, ...] = ()) -> Program:
        started.append(Program(tmp_path, *options, words=words))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


def calls(profile: Profile, name: str) -> Counter[str]:
    """Return how often a function was called, by the thread's name."""
    frame = {f.id for f in profile.frames.values() if f.name == name}
    nodes = profile.nodes
    found: Counter[str] = Counter()
    for row in profile.exact:
        if nodes.frame[row.node] in frame:
            found[profile.threads[row.thread].name] += row.calls
    return found


def since(times: list[int], profile: Profile) -> int:
    """Return how many of these times are in the profile's."""
    process = profile.process
    assert process.start_ns
    until = process.end_ns or sys.maxsize
    return sum(process.start_ns <= time_ns <= until for time_ns in times)


def check_last(profile: Profile, times: list[int]) -> None:
    """It is of the last seconds, and counts what was done then, but for the moments between."""
    (process,) = profile.processes.values()
    assert process.start_ns
    assert process.start_ns > times[0]
    names = Counter(each.name for each in profile.threads.values())
    assert set(names.values()) == {1}
    turns = since(times, profile)
    counted = calls(profile, "turn")["MainThread"]
    assert turns / 2 < counted <= turns + 1
    assert counted < len(times)
    assert calls(profile, "a turn")["MainThread"] == pytest.approx(counted, abs=10)
    main = next(each for each in profile.threads.values() if each.name == "MainThread")
    sql = "SELECT sum(samples) FROM sampled WHERE thread = ?"
    ((recorded,),) = profile.query(sql, main.id)
    assert recorded == main.recorded > 0


@pytest.mark.version
def test_the_end_has_the_last_seconds(program: Any, tmp_path: Path) -> None:
    running = program()
    seen = running.wait_for_windows(7)
    # A quarter of the time each: what ended before is removed.
    assert len(running.windows()) <= 6 < len(seen)
    noted, said = running.ends()
    assert noted["threads"] == 1
    with pyhybrid.load(tmp_path / "x.pyhybrid") as profile:
        check_last(profile, noted["times"])
        # Both threads' turns, and none of what keeps them.
        assert calls(profile, "child")["other"] == 0  # it began before
        frames, nodes = profile.frames, profile.nodes
        counted = {str(frames[nodes.frame[row.node]].file) for row in profile.exact}
        assert not any("pyhybrid/capture" in file for file in counted), counted
    assert "a flight recorder's: the last 2 s" in said.replace("last 3 s", "last 2 s")
    assert re.search(r"; 2 threads, \d busy", said)
    assert not (tmp_path / "x.pyhybrid.parts").exists()
    assert not running.part.exists()


def test_snapshots_while_it_runs(program: Any, tmp_path: Path) -> None:
    running = program("--snapshot-when", "signal USR1", "--snapshot-when", "rss > 1M")
    running.wait_for_windows(2)
    rule = next(iter(snapshots(running, 1)))  # it has had more from the beginning
    with pyhybrid.load(rule) as profile:
        assert profile.meta["snapshot"] == "rss > 1M"
    os.kill(running.pid, signal.SIGUSR1)
    (by_signal,) = snapshots(running, 2) - {rule}
    (tmp_path / "snapshot").touch()
    running.until((tmp_path / "has snapshot").exists)
    command = [*PYHYBRID, "snapshot", str(running.pid), "-o", str(tmp_path / "by hand")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "a snapshot (pyhybrid snapshot): the program goes on" in done.stderr
    assert "was killed" not in done.stderr
    noted, _ = running.ends()
    for path in (by_signal, Path(noted["snapshot"]), tmp_path / "by hand.pyhybrid"):
        with pyhybrid.load(path) as profile:
            counted = calls(profile, "turn")["MainThread"]
            assert 0 < counted <= len(noted["times"])


def snapshots(running: Program, n: int) -> set[Path]:
    """Wait until there are so many, and return them."""
    found: set[Path] = set()
    running.until(lambda: len(found.update(running.folder.glob("x-*.pyhybrid")) or found) >= n)
    return found


@pytest.mark.further
def test_children_keep_their_own(program: Any, tmp_path: Path) -> None:
    running = program(words=("fork",))
    running.wait_for_windows(14)
    noted, _ = running.ends()
    of_child = json.loads((tmp_path / "child").read_text())
    with pyhybrid.load(tmp_path / "x.pyhybrid") as profile:
        assert next(iter(profile.processes.values())).pid == running.pid
        assert len(profile.processes) == 2
        counts = Counter[int]()
        frame = {f.id for f in profile.frames.values() if f.name == "turn"}
        for row in profile.exact:
            if profile.nodes.frame[row.node] in frame:
                counts[profile.threads[row.thread].process] += row.calls
        for process, times in zip(
            profile.processes.values(), (noted["times"], of_child), strict=True
        ):
            end = process.end_ns or sys.maxsize
            turns = sum((process.start_ns or 0) <= each <= end for each in times)
            assert turns / 2 < counts[process.id] <= turns + 1 < len(times)


@pytest.mark.further
def test_windows_add_up(program: Any, tmp_path: Path) -> None:
    """What is joined has the figures of what is merged, each once."""
    running = program()
    running.wait_for_windows(4)
    spools = copied_spools(str(running.part), str(tmp_path / "copy"))
    running.ends()
    merge(spools, str(tmp_path / "merged.pyhybrid"))
    path = make_of_spools(spools, str(tmp_path / "joined"), [], dict)
    with pyhybrid.load(tmp_path / "merged.pyhybrid") as apart, pyhybrid.load(path) as joined:
        assert (len(apart.processes), len(joined.processes)) == (len(spools), 1)
        for sql in (
            "SELECT node, sum(calls), sum(self_ns), sum(total_ns), sum(seeded) FROM exact "
            "GROUP BY node",
            "SELECT stack, gil, sum(samples), sum(weight_ns) FROM sampled GROUP BY stack, gil",
            "SELECT tid, sum(recorded), sum(signals), sum(cpu_ns), sum(missed_weight_ns) "
            "FROM thread GROUP BY tid",
            "SELECT reason, sum(samples), sum(weight_ns) FROM loss GROUP BY reason",
            "SELECT count(*), min(begin_ns), sum(end_ns) FROM call",
            "SELECT first_ns, n FROM timeline ORDER BY first_ns",
            "SELECT node, sum(calls), max(max_ns) FROM call_time GROUP BY node",
        ):
            assert joined.query(sql) == apart.query(sql)
        rows = joined.query("SELECT calls, histogram FROM call_time")
        assert rows
        for n, histogram in rows:
            assert sum(count for _, count in json.loads(histogram)) == n
        for table in ("exact", "sampled", "loss", "call", "timeline", "thread"):
            process = joined.process.id
            assert joined.query(f"SELECT DISTINCT process FROM {table}") in ([(process,)], [])


@pytest.mark.further
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_killed_leaves_them(program: Any, tmp_path: Path, how: int) -> None:
    running = program()
    running.wait_for_windows(4)
    running.process.send_signal(how)
    running.process.wait(PATIENCE_S)
    path, until = tmp_path / "x.pyhybrid", time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    with pyhybrid.load(path) as profile:
        assert calls(profile, "turn")["MainThread"] > 0
        assert len(profile.processes) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--keep-last", "1s"), "--keep-last is 2s at least"),
        (("--snapshot-when", "cpu > 90 %"), "--snapshot-when needs --keep-last"),
        ((*QUICK, "--snapshot-when", "cpu"), "is a condition like"),
        ((*QUICK, "--snapshot-when", "signal KILL"), "is a condition like"),
        ((*QUICK, "--emit", "print"), "--emit is not for --keep-last"),
    ],
)
def test_what_cannot_be_is_one_line(options: tuple[str, ...], reason: str) -> None:
    done = subprocess.run([*PYHYBRID, *options, "-c", ""], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert reason in line


@pytest.mark.parametrize(
    ("words", "reason"),
    [(("1",), "is not profiled"), (("/no/prefix",), "there is no such file")],
)
def test_no_run_is_one_line(words: tuple[str, ...], reason: str) -> None:
    done = subprocess.run([*PYHYBRID, "snapshot", *words], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert reason in line
