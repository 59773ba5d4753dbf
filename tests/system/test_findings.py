"""Findings: each is said of a program in which it was planted, none of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import TARGETS, Run

from pyhybrid.views.findings import MOST, Finding, findings

pytestmark = pytest.mark.once

MODULE = """
import time
while time.process_time() < 1:
    pass
"""


def found(
    pyhybrid: Callable[..., Run], what: str, *options: str, **variables: str
) -> dict[str, Finding]:
    """By rule."""
    options = ("-q", "--format", "folded", *options)
    run = pyhybrid(*options, TARGETS / "planted.py", what, env=variables)
    of_it = findings(run.profile())
    assert len(of_it) <= MOST
    assert all(each.evidence and each.command for each in of_it)
    return {each.rule: each for each in of_it}


def test_a_clean_program(pyhybrid: Callable[..., Run]) -> None:
    assert found(pyhybrid, "clean") == {}


@pytest.mark.parametrize(
    ("what", "rule", "says"),
    [
        ("tiny_calls", "tiny calls", "2,000,000 calls of tiny (planted.py:"),
        ("called_from_c", "called from C", "is key (planted.py:"),
        ("collection", "garbage collection", "is garbage collection"),
        ("page_faults", "page faults", "most of it in touch (planted.py:"),
        ("waiting", "waiting", "of CPU time in 1."),
    ],
)
def test_planted(pyhybrid: Callable[..., Run], what: str, rule: str, says: str) -> None:
    text = found(pyhybrid, what)[rule].text
    assert says in text.replace(str(TARGETS) + "/", "")


def test_imports(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "planted_module.py").write_text(MODULE)
    finding = found(pyhybrid, "imports", PYTHONPATH=str(tmp_path))["imports"]
    assert finding.evidence["module"] == "planted_module"
    assert finding.share > 0.5
    text = pyhybrid("report", "--no-inlines").result.stdout
    assert f"found    {finding.text}" in text


def test_threads_that_wait_for_the_gil(pyhybrid: Callable[..., Run]) -> None:
    finding = found(pyhybrid, "gil", "--clock", "wall")["gil"]
    assert finding.evidence["holder"].startswith("count (")
    assert finding.evidence["threads"] >= 4


@pytest.mark.needs("torch")
def test_threads_that_spin(pyhybrid: Callable[..., Run]) -> None:
    finding = found(pyhybrid, "spinning", OMP_WAIT_POLICY="active")["spinning"]
    assert finding.evidence["pool"] == "OpenMP (libgomp)"
    assert finding.evidence["threads"] >= 2
    assert finding.evidence["seconds"] >= 0.5
