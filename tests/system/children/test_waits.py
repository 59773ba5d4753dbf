"""Processes that wait for one another: for whom, where, and what these did meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Run, check_invariants, printed

from pyhybrid.views.findings.process_measures import needed
from pyhybrid.views.processes import grouped, processes_of

DECODE = """
import time
def decode(seconds):
    end = time.process_time() + seconds
    total = 0
    while time.process_time() < end:
        total += sum(range(200))
    return total
"""
POOL = f"""
import multiprocessing
{DECODE}
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(decode, [0.1] * 8, chunksize=1)
"""
RANKS = f"""
import os
import torch, torch.distributed as dist
{DECODE}
dist.init_process_group("gloo")
rank = dist.get_rank()
def step():
    decode(0.05 * (1 + 9 * rank))
    dist.all_reduce(torch.ones(8))
for _ in range(10):
    step()
dist.destroy_process_group()
"""


def found(folder: Path, rule: str) -> dict[str, Any]:
    told = json.loads(printed(folder, "report", "findings", "--json"))["findings"]
    (finding,) = (each for each in told if each["rule"] == rule)
    return dict(finding)


@pytest.mark.parametrize(
    ("n", "busy", "share", "enough"),
    [(4, 1.0, 0.5, 8), (4, 0.95, 0.3, 6), (4, 0.5, 0.5, 0), (4, 1.0, 1.0, 0)],
)
def test_how_many_would_do(n: int, busy: float, share: float, enough: int) -> None:
    assert needed(n, busy, share) == enough


def test_a_pool_is_waited_for(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    pyhybrid("-q", "pool.py")
    finding = found(tmp_path, "awaited")
    evidence = finding["evidence"]
    assert finding["share"] > 0.5
    assert evidence["who"] == "the first process"
    assert evidence["whom"] == "its 2 pool workers"
    assert evidence["function"].startswith("ApplyResult.get (")
    assert "in decode (pool.py:" in evidence["spent"]


@pytest.mark.further
@pytest.mark.needs("torch")
def test_ranks_of_torchrun(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """One file; each rank is itself; the quick one waits for the slow one."""
    (tmp_path / "ranks.py").write_text(RANKS)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run = pyhybrid(*launcher, "ranks.py", env={"OMP_NUM_THREADS": "1"})
    profile = run.profile()
    check_invariants(profile)
    processes = processes_of(profile)
    assert Counter(each.rank for each in processes) == {None: 1, 0: 1, 1: 1}
    assert [group.n for group in grouped(processes, "rank")] == [1, 1, 1]
    assert "2 ranks of ranks.py" in run.result.stderr
    steps = {number for number, frame in profile.frames.items() if frame.name == "step"}
    rows = [row for row in profile.exact if profile.nodes.frame[row.node] in steps]
    assert sorted(row.calls for row in rows) == [10, 10]
    waits = found(tmp_path, "awaited")
    assert waits["evidence"]["whom"] in ("the other rank", "its 2 child processes")
    assert "rank 0" in printed(tmp_path, "report", "processes", "--by", "rank")
