"""`--max-timeline`: the spool stays within its bound, the oldest samples are sums, none is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support import Run, check_invariants

from pyhybrid.assemble.opening import open_profile
from pyhybrid.assemble.sample_counts import count_samples
from pyhybrid.profile_file.timeline import periods_of
from pyhybrid.spool import reader

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


def test_older_samples_are_sums(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid(*OPTIONS, "-c", BURN, 2, "out.pyhybrid.part")
    profile = run.profile()
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
    assert "sums" in run.result.stderr


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """A process that stops leaves the file that one which is killed would leave."""
    options = ("-P", "-m", "pyhybrid", *OPTIONS, "-o", "x", "-c", BURN, "2", "x.pyhybrid.part")
    part, random = tmp_path / "x.pyhybrid.part", Random(1)
    copies: list[Path] = []
    with subprocess.Popen([sys.executable, *options], cwd=tmp_path) as process:
        while process.poll() is None:
            time.sleep(random.uniform(0.02, 0.2))
            process.send_signal(signal.SIGSTOP)
            copy = tmp_path / f"{len(copies)}.part"
            if part.exists() and part.stat().st_size > 4096:
                copy.write_bytes(part.read_bytes())
                copies.append(copy)
            process.send_signal(signal.SIGCONT)
    assert process.returncode == 0
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
