"""`--regions itt,nvtx`: what PyTorch and others tell to ITT and NVTX are frames of the tree."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import check_exact
from support import TARGETS, Run

ITT, NVTX, NVTX_TORCH = (TARGETS / f"{name}.py" for name in ("itt", "nvtx_ranges", "nvtx_torch"))


def tasks(run: Run, program: Path) -> collections.Counter[tuple[str, str]]:
    """How often each began, with the region or function of the program around it."""
    profile = run.profile()
    check_exact(profile)
    nodes, frames = profile.nodes, profile.frames
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for row in profile.exact:
        task = frames[nodes.frame[row.node]]
        if task.kind != "region" or task.source == "object":
            continue
        around = nodes.parent[row.node]
        while around and not (
            frames[nodes.frame[around]].source == "region"
            or frames[nodes.frame[around]].file == str(program)
        ):
            around = nodes.parent[around]
        place = frames[nodes.frame[around]].name if around else ""
        found[place, task.name] += row.calls
    return found


@pytest.mark.further
@pytest.mark.version
@pytest.mark.needs("torch")
def test_operators_and_ranges(pyhybrid: Callable[..., Run]) -> None:
    """A range that a wrapper in Python pushes is its caller's."""
    found = tasks(pyhybrid("--mode", "trace", "--regions", "itt", ITT), ITT)
    assert found["train", "step"] == found["train", "alone"] == 7
    assert found["step", "aten::linear"] == 7
    assert found["aten::linear", "aten::addmm"] == 7


@pytest.mark.further
@pytest.mark.needs("torch")
def test_operators_and_ranges_of_nvtx(pyhybrid: Callable[..., Run]) -> None:
    """Their names are without numbers; what PyTorch hears of depths is what it hears of no tool."""
    run = pyhybrid("--mode", "trace", "--regions", "nvtx", NVTX_TORCH)
    found = tasks(run, NVTX_TORCH)
    assert found["train", "step"] == found["train", "alone"] == 7
    assert found["step", "aten::linear"] == 7
    assert found["aten::linear", "aten::addmm"] == 7
    assert not [name for _, name in found if "op_id" in name or "seq" in name]
    assert run.result.stdout == "-2 -2\n" * 7


@pytest.mark.version
@pytest.mark.needs("nvtx")
def test_ranges_of_a_package(pyhybrid: Callable[..., Run]) -> None:
    found = tasks(pyhybrid("--mode", "trace", "--regions", "nvtx", NVTX), NVTX)
    assert found == {
        ("work", "block"): 10,
        ("block", "decorated"): 10,
        ("work", "pushed"): 2,
    }


@pytest.mark.further
@pytest.mark.needs("torch")
def test_another_collector_stays(pyhybrid: Callable[..., Run]) -> None:
    programs = f"import runpy\nfor each in {[str(ITT), str(NVTX_TORCH)]}: runpy.run_path(each)"
    others = dict.fromkeys(("INTEL_LIBITTNOTIFY64", "NVTX_INJECTION64_PATH"), "/no/such.so")
    run = pyhybrid("--mode", "trace", "--regions", "itt,nvtx", "-c", programs, env=others)
    assert not tasks(run, ITT)
    for option, variable in zip(("--regions itt", "--regions nvtx"), others, strict=True):
        said = f"{option}: what {variable} names is told, and pyhybrid is not"
        assert said in run.result.stderr
