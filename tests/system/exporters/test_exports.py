"""What other people's tools read: the real perf on perf.data, flamegraph.pl on out.folded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from perf_support import CLOCK_ONLY, perf, script
from support import Run

FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"


@pytest.fixture
def run(nested: Run) -> Run:
    return nested


def folded_counts(run: Run) -> list[int]:
    return [int(line.rsplit(" ", 1)[1]) for line in run.path("out.folded").open()]


def weight(run: Run) -> int:
    return sum(row.weight_ns for row in run.profile().sampled)


@pytest.mark.engine
@pytest.mark.needs("perf")
def test_perf_report(run: Run) -> None:
    text = perf(
        run.folder, "report", "--stdio", "--no-children", "-g", "none", "--sort", "comm,sym"
    )
    assert re.search(r"py::leaf:.*nested\.py:\d+", text)
    assert re.search(r"\bburn\b", text)
    assert "Thread-1 (walk)" in text or "python" in text


@pytest.mark.further
@pytest.mark.needs("perf")
def test_perf_report_by_library(run: Run) -> None:
    text = perf(run.folder, "report", "--stdio", "--sort", "dso,sym", "-g", "none")
    assert re.search(r"chain\S*\.so\s+\[\.\] burn", text)
    assert re.search(r"libpython\S*|python3", text)


@pytest.mark.further
@pytest.mark.needs("perf")
def test_perf_script_has_the_paths_and_all_the_weight(run: Run) -> None:
    order = ["walk", "a2", "inner", "b2", "middle", "c2", "leaf"]
    total, comms = 0, Counter[str]()
    for sample in script(run.folder, *CLOCK_ONLY):
        comms[sample.comm] += 1
        total += sample.period
        names = [frame.symbol for frame in reversed(sample.frames)]
        if "burn" in names:
            known = [n.split(":")[2] if n.startswith("py::") else n for n in names]
            assert [n for n in known if n in order] == order
    assert total == weight(run)
    assert sum(comms.values()) == sum(row.samples for row in run.profile().sampled)
    sampled = {row.thread for row in run.profile().sampled}
    assert {t.name for t in run.profile().threads.values() if t.id in sampled} == set(comms)


@pytest.mark.further
def test_an_old_perf_data_is_kept(pyhybrid: Callable[..., Run]) -> None:
    first = pyhybrid("-c", "pass")
    before = first.path("perf.data").read_bytes()
    pyhybrid("-c", "pass")
    assert first.path("perf.data.old").read_bytes() == before


@pytest.mark.engine
def test_the_perf_map_is_ours_alone(run: Run) -> None:
    pid = run.profile().process.pid
    path = Path(f"/tmp/perf-{pid}.map")
    ranges = []
    for line in path.read_text().splitlines():
        match = re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) (\S.*)", line)
        assert match, line
        assert "(" not in match[3]
        ranges.append((int(match[1], 16), int(match[2], 16)))
    ranges.sort()
    assert all(a + n <= b for (a, n), (b, _) in pairwise(ranges))
    assert path.stat().st_uid == os.geteuid()


@pytest.mark.skipif(
    not shutil.which("perl") or not os.path.exists(FLAMEGRAPH),
    reason="needs flamegraph.pl (libdevel-nytprof-perl)",
)
def test_flamegraph(run: Run) -> None:
    done = subprocess.run(
        ["perl", FLAMEGRAPH, "out.folded"],
        cwd=run.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    assert done.stdout.rstrip().endswith("</svg>")
    assert "leaf (" in done.stdout
    assert sum(folded_counts(run)) == weight(run) // run.profile().period_ns


@pytest.mark.further
def test_a_cut_off_keeps_the_sum_of_folded_stacks(run: Run, pyhybrid: Callable[..., Run]) -> None:
    whole = folded_counts(run)
    least = max(whole)
    pyhybrid("export", "-f", "folded", "--min-time", f"{least * run.profile().period_ns}ns")
    cut = folded_counts(run)
    assert sum(cut) == sum(whole)
    assert 1 <= len(cut) < len(whole)


def test_to_a_pipe(run: Run, pyhybrid: Callable[..., Run]) -> None:
    piped = pyhybrid("export", run.path(), "-f", "folded", "-o", "/dev/fd/1").result
    assert piped.stdout == run.path("out.folded").read_text()
    assert piped.stderr == "pyhybrid: wrote /dev/fd/1\n"


DEEP = """
import sys, time
sys.setrecursionlimit(10**6)
def a_name_so_long_that_few_samples_are_many_bytes(n):
    if n: a_name_so_long_that_few_samples_are_many_bytes(n - 1)
end = time.process_time() + 1
while time.process_time() < end: a_name_so_long_that_few_samples_are_many_bytes(30_000)
"""


@pytest.mark.further
def test_what_nobody_asked_for_is_bounded(pyhybrid: Callable[..., Run]) -> None:
    """A recursion has a path for each level: megabytes for nothing.  No weight is left out."""
    run = pyhybrid("-c", DEEP)
    profile = run.profile()
    for name in ("out.folded", "perf.data"):
        assert 10_000 < run.path(name).stat().st_size < 64 << 20
    assert "call paths, of 128 frames at most" in " ".join(run.result.stderr.split())
    weight_ns = sum(row.weight_ns for row in profile.sampled)
    assert sum(map(int, perf(run.folder, "script", "-G", "-F", "period").split())) == weight_ns
    lines = run.path("out.folded").read_text().splitlines()
    told = sum(int(line.rpartition(" ")[2]) for line in lines)
    assert told * profile.period_ns == weight_ns
    assert max(line.count(";") for line in lines) <= 129
    assert any(";[frames left out];" in line for line in lines)
