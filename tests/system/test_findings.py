"""Findings: each is said of a program in which it was planted, none of others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import TARGETS, Run
from torch_support import OURS as TORCH_PROCESS_HAS
from torch_support import TorchProcess

from pyhybrid.profile_file.profile import Profile
from pyhybrid.pseudo import OWN_CALLBACK
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.views.findings import MOST, Finding, findings

pytestmark = pytest.mark.once

MODULE = """
import time
while time.process_time() < 1:
    pass
"""


def profile_of(pyhybrid: Callable[..., Run], what: str, *options: str, **variables: str) -> Profile:
    options = ("-q", "--format", "folded", *options)
    return pyhybrid(*options, TARGETS / "planted.py", what, env=variables).profile()


def by_rule(profile: Profile) -> dict[str, Finding]:
    of_it = findings(profile)
    assert len(of_it) <= MOST
    assert all(each.evidence and each.command for each in of_it)
    return {each.rule: each for each in of_it}


def found(
    pyhybrid: Callable[..., Run], what: str, *options: str, **variables: str
) -> dict[str, Finding]:
    return by_rule(profile_of(pyhybrid, what, *options, **variables))


def share_below(profile: Profile, symbols: str) -> float:
    """Of the samples that have one of these functions on their path."""
    names = re.compile(symbols)
    found, own = (
        {f.id for f in profile.frames.values() if is_one(f.symbol or "")}
        for is_one in (names.match, OWN_CALLBACK.__eq__)
    )
    below = [(False, False)]
    nodes = profile.nodes
    for parent, frame in list(zip(nodes.parent, nodes.frame, strict=True))[1:]:
        here, ours = below[parent]
        below.append((here or frame in found, ours or frame in own))
    weights = [(*below[profile.stacks.node[row.stack]], row.weight_ns) for row in profile.sampled]
    all_ns = sum(weight_ns for _, ours, weight_ns in weights if not ours)
    return sum(weight_ns for here, ours, weight_ns in weights if here and not ours) / all_ns


def test_a_clean_program(pyhybrid: Callable[..., Run]) -> None:
    assert found(pyhybrid, "clean") == {}


@pytest.mark.parametrize(
    ("what", "rule", "says"),
    [
        ("tiny_calls", "tiny calls", "2,000,000 calls of tiny (planted.py:"),
        ("tiny_recursion", "tiny calls", "635,621 calls of fib (planted.py:"),
        ("called_from_c", "called from C", "is key (planted.py:"),
        ("waiting", "waiting", " of CPU time in "),
    ],
)
def test_planted(pyhybrid: Callable[..., Run], what: str, rule: str, says: str) -> None:
    profile = profile_of(pyhybrid, what)
    findings = by_rule(profile)
    if rule == "tiny calls" and not are_tiny(profile, says):
        assert rule not in findings  # on a machine where each waits for a processor
        return
    assert says in findings[rule].text.replace(str(TARGETS) + "/", "")
    assert findings[rule].share <= 1


def are_tiny(profile: Profile, says: str) -> bool:
    """Did calls of the function that a finding names take 2 us or less?"""
    name = says.split(" of ")[1].partition(" (")[0]
    (frame,) = (frame.id for frame in profile.frames.values() if frame.name == name)
    of_it = function_calls(profile)[frame]
    return of_it.total_ns <= 2000 * of_it.calls


@pytest.mark.parametrize(
    ("what", "rule", "says", "least", "symbols"),
    [
        ("collection", "garbage collection", "is garbage collection", 0.6, "gc_collect"),
        (
            *("allocation", "allocation", "most of it in allocate (planted.py:", 0.35),
            # With symbols of the C library, or by what it exports.
            r"(__libc_)?(malloc|calloc|free|realloc|_int_(malloc|free).*)$",
        ),
        (
            *("page_faults", "page faults", "most of it in touch (planted.py:", 0.3),
            r"(asm_)?exc_page_fault$|handle_mm_fault$",
        ),
        (
            *("locks", "locks", "most of it in hand_over (planted.py:", 0.2),
            r"do_futex$|__x64_sys_futex$",
        ),
    ],
)
def test_a_share_is_that_of_the_samples(
    pyhybrid: Callable[..., Run], what: str, rule: str, says: str, least: float, symbols: str
) -> None:
    profile = profile_of(pyhybrid, what)
    finding = by_rule(profile)[rule]
    assert says in finding.text.replace(str(TARGETS) + "/", "")
    assert least < finding.share < 1
    assert finding.share == pytest.approx(share_below(profile, symbols), abs=0.02)


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
    assert "gomp_team_barrier_wait_end" in finding.evidence["functions"]
    assert finding.evidence["threads"] >= 2
    assert finding.evidence["seconds"] >= 0.5
    assert " of the CPU time, " in finding.text


@pytest.mark.needs("torch")
def test_threads_that_sleep_do_not_spin(torch_process: TorchProcess, tmp_path: Path) -> None:
    """Wall-clock time has samples of a pool's threads that wait for work, too."""
    assert TORCH_PROCESS_HAS["OMP_WAIT_POLICY"] == "passive"
    options = ("-q", "--format", "folded", "--clock", "wall")
    torch_process.profiled(tmp_path, *options, TARGETS / "planted.py", "resting")
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        findings = by_rule(profile)
    assert "spinning" not in findings
    assert findings["idle threads"].evidence["threads"] >= 3
    pools = ("gomp_thread_start", "thread_main")  # OpenMP's, and PyTorch's pthreadpool
    assert findings["idle threads"].evidence["function"] in pools
