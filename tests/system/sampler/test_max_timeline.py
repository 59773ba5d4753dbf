"""`--max-timeline`: the spool stays within its bound, the oldest samples are sums, none is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from support import check_calls_shown, check_invariants, made_once

from pyhybrid.assemble import open_profile
from pyhybrid.assemble.samples import count_samples
from pyhybrid.spool import reader
from pyhybrid.tables.timeline import periods_of

# Timers, which the ordinary user has, tick at 250 Hz: it would take a minute.
pytestmark = pytest.mark.needs("root")

BOUND = 128 << 10  # about 15,000 samples
OPTIONS = ("--max-timeline", "128K", "--hz", "10000", "--mode", "sample", "--format", "folded")
BURN = """
import os, sys, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
other = threading.Thread(target=burn, args=(0.5,))
other.start()
burn(float(sys.argv[1]))
while os.path.getsize(sys.argv[2]) < FULL: burn(0.05)  # where samples come late
other.join()
""".replace("FULL", str(3 * BOUND))  # with sums of the oldest ones


COMMAND = (*OPTIONS, "-c", BURN, "2", "out.pyhybrid.part")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped now and then: `N.part` is what its spool was then."""
    return made_once(tmp_path_factory, "max_timeline", run_and_stop)


def run_and_stop(folder: Path) -> None:
    part, random, n_copies = folder / "out.pyhybrid.part", Random(1), 0
    words = [sys.executable, "-P", "-m", "pyhybrid", *COMMAND]
    with (
        (folder / "stderr").open("w") as stderr,
        subprocess.Popen(words, cwd=folder, stderr=stderr) as process,
    ):
        while process.poll() is None:
            time.sleep(random.uniform(0.02, 0.2))
            process.send_signal(signal.SIGSTOP)
            if part.exists() and part.stat().st_size > 4096:
                (folder / f"{n_copies}.part").write_bytes(part.read_bytes())
                n_copies += 1
            process.send_signal(signal.SIGCONT)
    assert process.returncode == 0


def test_older_samples_are_sums(stopped: Path) -> None:
    with open_profile(str(stopped / "out.pyhybrid")) as profile:
        check_invariants(profile)
        recorded = sum(thread.recorded for thread in profile.threads.values())
        assert 8 * recorded > 1.1 * BOUND
        (note,) = [note for note in profile.meta["notes"] if "--max-timeline" in note]
        merged = int(re.findall(r"the ([\d,]+) samples of the first", note)[0].replace(",", ""))
        # As many bytes as are asked, but for the segment that is being filled and heads of records.
        assert BOUND / 2 < 8 * (recorded - merged) < BOUND
        weight_ns = dict.fromkeys(profile.threads, 0)
        for chunk in profile.timeline():
            weight_ns[chunk.thread] += sum(periods_of(chunk)) * profile.period_ns
        assert weight_ns == {t.id: t.recorded_weight_ns for t in profile.threads.values()}
    stderr = (stopped / "stderr").read_text()
    assert "sums" in stderr
    check_calls_shown(stopped, stderr)


@pytest.mark.further
def test_killed_at_any_moment(stopped: Path) -> None:
    """A process that stops leaves the file that one which is killed would leave."""
    copies = sorted(stopped.glob("[0-9]*.part"), key=lambda copy: int(copy.stem))
    seen = [0]
    merged = 0
    for copy in copies:
        if b'"period_ns"' not in copy.read_bytes():
            continue  # nothing was recorded yet
        spool = reader.read(str(copy))
        assert not spool.n_damaged
        taken = count_samples(spool)
        seen.append(sum(each.samples.total() for each in taken.values()))
        assert seen[-1] >= seen[-2]
        merged += bool(spool.sums)
    assert merged > 1
    with open_profile(str(copies[-1])) as profile:
        check_invariants(profile)
