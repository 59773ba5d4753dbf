"""Ranks that launchers start where there is no common parent: each one writes for itself."""

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

from pyhybrid.capture import children, start_at
from pyhybrid.errors import UsageError
from pyhybrid.options.settings import CommandLineSettings

pytestmark = [pytest.mark.needs("ranks"), pytest.mark.once]

PROGRAM = """
import time
def work():
    until = time.process_time() + 0.05
    while time.process_time() < until: pass
work()
"""
PROFILED = (sys.executable, "-P", "-m", "pyhybrid", "-o", "run")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def ranks(folder: Path, words: str) -> list[tuple[Any, ...]]:
    """The rank, rank of the node and size of each process that has a rank."""
    sql = "SELECT rank, local_rank, world_size FROM process WHERE rank IS NOT NULL ORDER BY rank"
    rows = json.loads(printed(folder, "ranks", "--json", "--sql", sql, words))
    return [tuple(row.values()) for row in rows]


def started(folder: Path, *command: str, **variables: str) -> str:
    """What it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("names", children.RANK_VARIABLES, ids=lambda names: names[0])
def test_what_launchers_set(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    for name, value in zip(names, "516", strict=True):
        monkeypatch.setenv(name, value)
    assert children.ranks() == {"rank": 5, "local_rank": 1, "world_size": 6}
    assert children.rank_of_several() == 5
    monkeypatch.setenv(names[2], "1")
    assert children.rank_of_several() is None
    monkeypatch.setenv(names[0], "none")
    assert children.ranks() == {}


def test_the_innermost_launcher_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a job of Slurm's, whose batch script is no rank, mpirun; in that, torchrun."""
    for name, value in {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}.items():
        monkeypatch.setenv(name, value)
    assert children.ranks() == {}
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    for name, value in {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(name, value)
    assert children.ranks() == {"rank": 1, "world_size": 3}
    for name, value in {"RANK": "7", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    assert children.ranks() == {"rank": 7, "local_rank": 3, "world_size": 8}


def test_srun_of_a_program_of_mpichs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`srun --mpi=pmi2` sets variables of both, and the local rank only as its own."""
    for name, value in {"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_PROCID": "3"}.items():
        monkeypatch.setenv(name, value)
    assert children.ranks() == {"rank": 3, "world_size": 4}
    monkeypatch.setenv("SLURM_LOCALID", "1")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert children.ranks() == {"rank": 3, "local_rank": 1, "world_size": 4}
    monkeypatch.setenv("SLURM_PROCID", "2")  # of the step in which that launcher runs
    assert children.ranks() == {"rank": 3, "world_size": 4}


@pytest.mark.needs("mpirun")
def test_mpirun(folder: Path) -> None:
    """Each writes its tables beside its profile; nothing half-written is left."""
    options = ("--oversubscribe", "-n", "3", *(["--allow-run-as-root"] * (os.geteuid() == 0)))
    errors = started(folder, "mpirun", *options, *PROFILED, "program.py")
    assert errors.count("pyhybrid ranks ") == 1
    there = sorted(each.name for each in (folder / "run.ranks").glob("*.pyhybrid"))
    assert there == [f"rank-{rank}.pyhybrid" for rank in range(3)]
    for table in ("process", "function", "path"):
        names = [each.name for each in (folder / "run.ranks" / table).iterdir()]
        files = [name for name in names if not name.startswith(".")]
        assert len(files) == 3 and all(name.endswith(".parquet") for name in files)
    assert ranks(folder, "run.ranks") == [(rank, rank, 3) for rank in range(3)]


def test_srun_as_by_its_variables(folder: Path) -> None:
    """Two nodes with a rank each, of which one is left out: it runs as without us."""
    for rank in range(2):
        place = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2"}
        started(folder, *PROFILED, "--ranks", "1", "program.py", **place)
    assert [each.name for each in (folder / "run.ranks").glob("*.pyhybrid")] == ["rank-1.pyhybrid"]
    assert ranks(folder, "run.ranks") == [(1, 0, 2)]
    found = json.loads(printed(folder, "ranks", "--json", "run.ranks"))
    assert found["missing"] == [0]


STEPS = """
import os, pyhybrid
def work(): pass
def in_child(): pass
for n in range(10):
    if n == 2 and not (child := os.fork()):
        in_child()
        raise SystemExit
    work()
    pyhybrid.step(tokens=3)
os.waitpid(child, 0)
"""


def test_a_profile_begins_with_a_step(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Four of ten are not in it; a child that was forked before is."""
    run = pyhybrid("--start-at", "step=4", "-c", STEPS)
    called = dict.fromkeys(("work", "in_child"), 0)
    with run.profile() as profile:
        for frame in profile.frames.values():
            if frame.name in called:
                nodes = [n for n, f in enumerate(profile.nodes.frame) if n and f == frame.id]
                exact = zip(profile.exact.node, profile.exact.calls, strict=True)
                called[frame.name] += sum(calls for node, calls in exact if node in nodes)
    assert called == {"work": 6, "in_child": 1}


def test_a_program_that_ends_before_its_step(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--start-at", "step=11", "--no-children", "-c", STEPS)
    assert "the program ended before --start-at step=11" in run.result.stderr


def test_a_program_begins_with_full_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the clock is set back meanwhile."""
    now = [1_000_003.5]
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds - (1 if len(slept) == 3 else 0)

    monkeypatch.setattr(start_at, "time", lambda: now[0])
    monkeypatch.setattr(start_at, "sleep", sleep)
    start_at.await_moment("/10s")
    assert now[0] == pytest.approx(1_000_010)
    assert sum(slept) == pytest.approx(7.5)


@pytest.mark.parametrize("when", ["step=0", "step=", "10s", "/0s", "/601s", "/x", ""])
def test_no_such_start(when: str) -> None:
    with pytest.raises(UsageError, match="--start-at is step=100 or /10s"):
        CommandLineSettings(start_at=when)


@pytest.mark.needs("torch", "trainers")
@pytest.mark.further
@pytest.mark.long("two processes import PyTorch")
def test_accelerate(folder: Path) -> None:
    started(
        folder,
        *(sys.executable, "-P", "-m", "accelerate.commands.launch", "--multi_gpu"),
        *("--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"),
        *("--dynamo_backend", "no", "-m", "pyhybrid", "-o", "run"),
        *(str(TARGETS / "ranks_training.py"), "none", "10", "0"),
        OMP_NUM_THREADS="1",
        HOME=str(folder),
    )
    assert ranks(folder, "run.ranks") == [(0, 0, 2), (1, 1, 2)]


RAY = """
import os, time, ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")

@ray.remote
class Worker:
    def begins(self, rank, size):  # what Ray Train's backend for PyTorch does in a worker
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))

    def work(self):
        until = time.process_time() + 0.1
        while time.process_time() < until: pass
        return os.getpid()

workers = [Worker.remote() for _ in range(2)]
ray.get([each.begins.remote(rank, 2) for rank, each in enumerate(workers)])
pids = ray.get([each.work.remote() for each in workers])
for each in workers:
    each.__ray_terminate__.remote()
while any(os.path.exists(f"/proc/{pid}") for pid in pids): time.sleep(0.01)
ray.shutdown()
"""


@pytest.mark.needs("ray")
@pytest.mark.further
@pytest.mark.long("Ray starts eight processes")
def test_workers_of_ray(folder: Path) -> None:
    """They get their ranks when they have long begun; the driver's profile has them."""
    (folder / "driver.py").write_text(RAY)
    started(folder, *PROFILED, "-q", "driver.py", HOME=str(folder))
    assert ranks(folder, "run.pyhybrid") == [(0, 0, 2), (1, 1, 2)]
