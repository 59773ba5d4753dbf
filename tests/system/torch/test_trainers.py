"""Training loops that others wrote: Lightning's and accelerate's, with what is planted in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import TARGETS, made_once, printed, record

pytestmark = [pytest.mark.needs("torch", "trainers"), pytest.mark.once, pytest.mark.further]

N_STEPS, SLOW_BATCH, SLOW_ITEMS = 12, 5, 7  # tests/targets/trainers.py


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        options = ("-q", "--format", "folded", "--hz", "199")
        program = (TARGETS / "trainers.py",)
        record(folder, *options, *program, PYTHONPATH=str(TARGETS), OMP_NUM_THREADS="1")

    return made_once(tmp_path_factory, "trainers", make)


def report(folder: Path, *options: str) -> Any:
    return json.loads(printed(folder, "report", *options, "--json"))


def test_their_steps(folder: Path) -> None:
    """As many as there were, each with its phases; what is planted is named."""
    told = report(folder, "steps")
    assert told["n_steps"] == 2 * N_STEPS
    assert told["n_lacking"] == 0
    of_lightning, of_accelerate = told["steps"][:N_STEPS], told["steps"][N_STEPS:]
    for step in told["steps"]:
        phases = step["phases"]
        assert phases.keys() >= {"forward", "backward", "optimizer", "other"}
        assert sum(phases.values()) == step["end_ns"] - step["begin_ns"]
    assert all({"data", "zero_grad"} <= step["phases"].keys() for step in of_lightning)
    assert all(
        "zero_grad" in step["phases"] for step in of_accelerate[1:]
    )  # comes last in its loop
    # It fetches one batch ahead: the last step has its batch already.
    assert all("data" in step["phases"] for step in of_accelerate[:-1])
    slowest = {slow["number"]: slow for slow in told["slowest"]}
    batch, items = slowest[SLOW_BATCH], slowest[N_STEPS + SLOW_ITEMS]
    assert batch["phase"] == "data"
    assert batch["function"].startswith(("decode (", "spin ("))
    assert items["phase"] == "other"
    assert items["function"].startswith("count_right (")
    assert told["sync_ns"] > 0
    compiled = slowest[N_STEPS]  # the first of its own
    assert compiled["phase"] == "compile"
    assert compiled["compiled"].startswith("Net.forward (trainers.py:")


def test_the_first_screen(folder: Path) -> None:
    """It says what was trained, and where to look; a loader that is waited for stands out."""
    told = report(folder)
    assert told["steps"]["n_steps"] == 2 * N_STEPS
    assert sum(told["steps"]["shares"].values()) == pytest.approx(1)
    screen = printed(folder, "report").splitlines()
    (line,) = (line for line in screen if line.startswith("steps "))
    assert line.startswith(f"steps    {2 * N_STEPS} of a training, median ")
    assert line.endswith("`pyhybrid report steps`")


def test_their_layers(folder: Path) -> None:
    """The layer that takes most is the planted one; the compiled model is known by its class."""
    modules = {each["name"]: each for each in report(folder, "modules")["modules"]}
    of_lightning = [each for each in modules.values() if each["name"].startswith("Net")]
    assert {each["calls"] for each in of_lightning} == {N_STEPS}
    assert {each["of_class"] for each in of_lightning} == {"Net", "Linear", "SlowLayer"}
    slowest = max(of_lightning, key=lambda each: each["exact_own_ns"])
    assert (slowest["name"], slowest["of_class"]) == ("Net.middle", "SlowLayer")
    assert all(each["exact_backward_ns"] > 0 for each in of_lightning)
    assert modules["Compiled"]["calls"] == N_STEPS
    compiles = report(folder, "compiles")["compiles"]
    assert [each["of"] for each in compiles if not each["backward"]] == [1]  # once, never again
