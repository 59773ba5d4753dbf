"""PyTorch's operators, told by the frames that they have; `report --ops`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import TARGETS, made_once

pytestmark = pytest.mark.needs("torch")

PROGRAM = TARGETS / "language_model.py"


def profiled(folder: Path, *words: object) -> str:
    command = [sys.executable, "-P", "-m", "pyhybrid", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run of the program left its profile."""
    return made_once(
        tmp_path_factory, "operators", lambda folder: profiled(folder, "-q", "--c-calls", PROGRAM)
    )


def said(folder: Path, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(profiled(folder, "report", "--ops", "--json", *options))
    return found


def test_most_of_a_step_is_below_an_operator(folder: Path) -> None:
    found = said(folder)
    share = found["step_operator_weight_ns"] / found["step_weight_ns"]
    assert share >= 0.9
    lines = profiled(folder, "report", "--ops").splitlines()
    assert lines[0] == f"{share:.1%} of the samples in steps are below an operator"
    own = sum(each["own_weight_ns"] for each in found["operators"])
    assert own == found["operator_weight_ns"]


def test_an_operator_has_its_phase_module_and_line(folder: Path) -> None:
    by_name = {each["name"]: each for each in said(folder)["operators"]}
    # What the program calls, and what runs for it.
    linear, addmm, mm = (by_name[name] for name in ("linear", "addmm", "mm"))
    assert set(linear["called_as"]) == {"linear"} == set(addmm["called_as"])
    assert linear["weight_ns"] > addmm["weight_ns"] > 10 * linear["own_weight_ns"]
    assert set(linear["phases"]) == {"forward"}
    assert mm["phases"]["backward"] > 0.9 * mm["weight_ns"]
    # The forward pass of a layer, and the backward work for it.
    layers = {f"LM.layers.{i}.mlp.fc{j}" for i in range(4) for j in (1, 2)}
    assert layers < set(linear["modules"])
    assert layers < set(mm["modules"])
    text = PROGRAM.read_text().splitlines()
    at = {line["line"] for line in linear["callers"] if line["function"] == "MLP.forward"}
    assert [text[line - 1].strip() for line in at] == ["return self.fc2(gelu(self.fc1(x)))"]
    (caller,) = mm["callers"]
    assert text[caller["line"] - 1].strip() == "loss.backward()"


def test_exact_counts_where_there_are_some(folder: Path) -> None:
    found = said(folder)
    nodes = {each["name"]: each["calls"] for each in found["backward_nodes"]}
    by_name = {each["name"]: each["calls"] for each in found["operators"]}
    steps = nodes["LogSoftmaxBackward0"]
    assert nodes["AddmmBackward0"] == 17 * steps
    assert nodes["GeluBackward0"] == 4 * steps
    assert by_name["gelu"] == 4 * steps
    assert by_name["mm"] is None


def test_some_of_them(folder: Path) -> None:
    some = profiled(folder, "report", "--ops", "--match", "^gelu").splitlines()
    assert any("100.0%" in line and line.endswith(" in backward") for line in some)
    assert {"gelu", "gelu_backward"} == {
        each["name"] for each in said(folder, "--match", "^gelu")["operators"]
    }
    first = said(folder, "--to", "100s")
    assert first["operators"] and not first["backward_nodes"]  # these are not kept by time
    for options in (["--match", "("], ["--match", "nothing"], ["--python-only"]):
        command = [sys.executable, "-P", "-m", "pyhybrid", "report", "--ops", *options]
        assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode
