"""Phases, modules and hooks of trainings against stamps of the same run (tests/targets)."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support import TARGETS, made_once, printed
from torch_support import TorchProcess

pytestmark = pytest.mark.needs("torch")

TRAININGS = (
    "transforms",
    "evaluations",
    "layers",
    "saves",
    "hooks",
    "exchanges",
)  # one after the other
N_STEPS = 6
MS = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    def make(folder: Path) -> None:
        options = ("-q", "--format", "folded", "--hz", "199")
        program = TARGETS / "true_phases.py"
        said = torch_process.profiled(folder, *options, program, folder / "saved.pt")
        (folder / "said").write_text(said)

    return made_once(tmp_path_factory, "true-phases", make)


def report(folder: Path, which: str) -> Any:
    return json.loads(printed(folder, "report", which, "--json"))


@pytest.mark.version
def test_phases_are_what_the_program_says(folder: Path) -> None:
    said = json.loads((folder / "said").read_text().splitlines()[-1])
    steps = report(folder, "steps")["steps"]
    assert len(steps) == len(TRAININGS) * N_STEPS
    for at, training in enumerate(TRAININGS):
        its = steps[at * N_STEPS : (at + 1) * N_STEPS]
        for phase, stamps in said[training].items():
            # (What is taken from a virtual machine may count as a thread's time, once in a while.)
            stamped = median(stamps)
            told = median(step["phases_cpu"][phase] for step in its if phase in step["phases_cpu"])
            assert abs(told - stamped) <= 0.02 * stamped + MS / 2, (training, phase)
        phases = {phase for step in its for phase in step["phases"]} - {"other", "zero_grad"}
        assert phases == said[training].keys()


@pytest.mark.version
def test_modules_are_those_of_the_model(folder: Path) -> None:
    told = report(folder, "modules")
    modules = {each["name"]: each for each in told["modules"]}
    assert not any("Transform" in name for name in modules)
    assert told["exact_loader_ns"] >= 2 * N_STEPS * 4 * MS
    for name in ("ModuleList.0", "ModuleList.1"):
        layer = modules[name]
        assert (layer["calls"], layer["recomputed_calls"]) == (N_STEPS, N_STEPS)
        assert layer["exact_total_ns"] >= N_STEPS * 5 * MS
        assert layer["exact_recomputed_ns"] >= N_STEPS * 5 * MS
        inner = modules[f"{name}.inner"]  # its node is the first that needs what was not kept
        assert inner["exact_backward_ns"] < N_STEPS * 5 * MS
    (hook,) = (each for each in told["hooks"] if not each["is_framework"])
    assert hook["function"].startswith("watch (")
    assert (hook["kind"], hook["calls"], hook["modules"]) == ("hook", 2 * N_STEPS, 2)
    assert hook["total_ns"] >= 2 * N_STEPS * 4 * MS
    linear = modules["Sequential.1"]
    assert linear["exact_total_ns"] - linear["exact_own_ns"] >= N_STEPS * 4 * MS


def test_texts(folder: Path) -> None:
    lines = printed(folder, "report", "modules").splitlines()
    (head,) = (line.split() for line in lines if line.split()[:1] == ["forward"])
    assert head[:5] == ["forward", "own", "recomputed", "backward", "calls"]
    assert any(line.startswith("modules that load data, in no row: ") for line in lines)
    at = next(n for n, line in enumerate(lines) if line.startswith("hooks of modules"))
    assert "watch (" in lines[at + 2]
    assert lines[at + 2].endswith(", of 2 modules")
