"""Real ranks of torchrun on gloo, of which one has a fault: it is named first, with where it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import TARGETS, Run, printed

pytestmark = [
    pytest.mark.needs("torch", "ranks"),
    pytest.mark.further,
    pytest.mark.once,
    pytest.mark.long("four processes import PyTorch, and take steps in turn"),
]
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
TRAINING = str(TARGETS / "ranks_training.py")
STEPS, SLOW = "30", 2
# Of each fault the phase in which it is slow, the function that is named, and how it is slow.
FAULTS = {
    "sleep": ("other", "log_metrics (", "waits"),
    "garbage": ("garbage collection", "collate_labels (", "collects"),
    "loader": ("data", "decode (", "waits"),
    "sequence": ("backward", "Block.forward (", "computes"),
}


def verdict(folder: Path, *words: str) -> dict[str, Any]:
    return dict(json.loads(printed(folder, "ranks", "--json", *words)))


def launched(folder: Path, *arguments: str) -> str:
    """torchrun starts ranks each of which is profiled for itself; returns their errors."""
    command = [sys.executable, "-P", *TORCHRUN, "-m", "pyhybrid", *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment(), check=True
    )
    return done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def test_workers_of_a_loader(tmp_path: Path) -> None:
    """Two bring two batches at once: every other step waits for them."""
    launched(tmp_path, TRAINING, "loader", "20", str(SLOW), "workers")
    found = verdict(tmp_path, "out.ranks")
    assert [each["rank"] for each in found["slow"]] == [SLOW]
    reason = found["slow"][0]["reasons"][0]
    assert (reason["phase"], reason["how"], reason["in_worker"]) == ("data", "waits", True)
    assert reason["function"].startswith("decode (")


@pytest.mark.parametrize("fault", FAULTS)
def test_each_rank_for_itself(tmp_path: Path, fault: str) -> None:
    errors = launched(tmp_path, TRAINING, fault, STEPS, str(SLOW))
    assert "pyhybrid ranks out.ranks" in errors
    profiles = sorted(each.name for each in (tmp_path / "out.ranks").glob("*.pyhybrid"))
    assert profiles == [f"rank-{rank}.pyhybrid" for rank in range(4)]
    found = verdict(tmp_path, "out.ranks")
    assert [each["rank"] for each in found["slow"]] == [SLOW]
    reason = found["slow"][0]["reasons"][0]
    phase, function, how = FAULTS[fault]
    assert (reason["phase"], reason["how"]) == (phase, how)
    assert reason["function"].startswith(function)
    assert {each["steps"] for each in found["ranks"]} == {int(STEPS)}
    first = printed(tmp_path, "ranks", "out.ranks").splitlines()[:4]
    assert function in "\n".join(first) and f"rank {SLOW} " in first[1]
    assert found["slow"][0]["tokens_ratio"] == (2 if fault == "sequence" else 1)
    assert all(each["tokens_per_s"] > 0 for each in found["ranks"])
    assert f"{fault} {STEPS}" in printed(tmp_path, "ranks", "--rank", str(SLOW), "out.ranks")


def test_the_root_of_a_node(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """One profile of all; the backward pass of a wrapped model waits for others in native code."""
    run = pyhybrid(*TORCHRUN, TRAINING, "sequence", STEPS, str(SLOW), "ddp", env=environment())
    assert run.result.returncode == 0
    found = verdict(tmp_path, "out.ranks")
    assert [each["rank"] for each in found["slow"]] == [SLOW]
    assert {"forward", "backward"} == {each["phase"] for each in found["slow"][0]["reasons"]}
    least = min(found["ranks"], key=lambda each: int(each["wait_ns"]))
    assert least["rank"] == SLOW
    assert verdict(tmp_path, "out.pyhybrid") == found


RANKS_OF_THE_PROGRAM = """
import os, signal, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    dist.barrier()
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    both = mp.start_processes(work, (sys.argv[1],), 2, join=False, start_method=sys.argv[2])
    for each in both.processes:
        each.join()
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ranks_that_the_program_gives(
    pyhybrid: Callable[..., Run], tmp_path: Path, method: str
) -> None:
    """No launcher sets variables for them, and they are killed."""
    (tmp_path / "training.py").write_text(RANKS_OF_THE_PROGRAM)
    pyhybrid("training.py", str(tmp_path / "store"), method, env=environment())
    found = verdict(tmp_path, "out.pyhybrid")
    assert [each["rank"] for each in found["ranks"]] == [0, 1]
    assert found["world_size"] == 2
    assert " of training.py" in printed(tmp_path, "ranks", "out.pyhybrid")


def test_healthy_ranks_are_even(tmp_path: Path) -> None:
    launched(tmp_path, TRAINING, "none", STEPS, str(SLOW))
    assert verdict(tmp_path, "out.ranks")["slow"] == []
    assert "\neven     no rank is slow" in printed(tmp_path, "ranks", "out.ranks")


def test_some_ranks_alone(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """The others run all the same, each for itself or under the root."""
    launched(tmp_path, "--ranks", "0,2-3", TRAINING, "none", "10", "0")
    assert len([*(tmp_path / "out.ranks").glob("*.pyhybrid")]) == 3
    found = verdict(tmp_path, "out.ranks")
    assert found["missing"] == [1] and len(found["ranks"]) == 3
    pyhybrid("-o", "all", "--ranks", "1", *TORCHRUN, TRAINING, "none", "10", "0", env=environment())
    assert [each["rank"] for each in verdict(tmp_path, "all.pyhybrid")["ranks"]] == [1]


TRAINING_WITHOUT_MARKS = """
import torch
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def test_a_profile_begins_with_a_step_of_an_optimizer(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    pyhybrid("--start-at", "step=4", "-c", TRAINING_WITHOUT_MARKS, env=environment())
    assert json.loads(printed(tmp_path, "report", "steps", "--json"))["n_steps"] == 6
