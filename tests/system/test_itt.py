"""`--itt`: ITT's tasks, of PyTorch, are frames of the tree."""

from __future__ import annotations

import collections
from collections.abc import Callable

import pytest
from exact_support import check_exact
from support import TARGETS, Run

pytestmark = pytest.mark.needs("torch")

PROGRAM = TARGETS / "itt.py"


def tasks(run: Run) -> collections.Counter[tuple[str, str]]:
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
            or frames[nodes.frame[around]].file == str(PROGRAM)
        ):
            around = nodes.parent[around]
        place = frames[nodes.frame[around]].name if around else ""
        found[place, task.name] += row.calls
    return found


@pytest.mark.version
def test_operators_and_ranges(pyhybrid: Callable[..., Run]) -> None:
    """A range that a wrapper in Python pushes is its caller's."""
    found = tasks(pyhybrid("--mode", "trace", "--itt", PROGRAM))
    assert found["train", "step"] == found["train", "alone"] == 7
    assert found["step", "aten::linear"] == 7
    assert found["aten::linear", "aten::addmm"] == 7


def test_another_collector_stays(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid(
        *("--mode", "trace", "--itt", PROGRAM), env={"INTEL_LIBITTNOTIFY64": "/no/such.so"}
    )
    assert not tasks(run)
    assert "tasks of ITT go to what INTEL_LIBITTNOTIFY64 names" in run.result.stderr
