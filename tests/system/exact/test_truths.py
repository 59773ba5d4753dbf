"""The exact half says what is true of programs that know it, cProfile right or wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from exact_support import MODES, check_exact, of_function
from support import TARGETS, Run

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.version


@pytest.fixture(params=MODES)
def truth(
    pyhybrid: Callable[..., Run], request: pytest.FixtureRequest
) -> Callable[[str], tuple[Profile, Any]]:
    def run(name: str) -> tuple[Profile, Any]:
        options = ("--mode", request.param, "--format", "folded")
        done = pyhybrid(*options, TARGETS / "truths.py", name)
        profile = done.profile()
        check_exact(profile)
        return profile, json.loads(done.result.stdout.splitlines()[-1])

    return run


Truth = Callable[[str], tuple[Profile, Any]]


def calls(profile: Profile, name: str) -> int:
    return sum(row.calls for row in of_function(profile, name))


def turns(profile: Profile, name: str) -> int:
    return sum(row.calls + row.resumes for row in of_function(profile, name))


def seconds(profile: Profile, name: str) -> float:
    return sum(row.total_ns for row in of_function(profile, name)) / 1e9


def check_seconds(total: float, true: dict[str, float]) -> None:
    """Compare with stamps within the call and around it, for it may lose its processor between."""
    assert 0.98 * true["inside"] <= total <= 1.02 * true["outside"]


def test_threads_have_their_own_time(truth: Truth) -> None:
    profile, true = truth("threads")
    rows = of_function(profile, "threads.<locals>.work")
    assert len({row.thread for row in rows}) == 4 == calls(profile, "threads.<locals>.work")
    check_seconds(seconds(profile, "busy"), true)
    assert seconds(profile, "busy") >= 2.0


def test_coroutines_are_not_charged_while_they_wait(truth: Truth) -> None:
    profile, true = truth("coroutines")
    assert calls(profile, "pause") == 12
    assert calls(profile, "task") == 4
    assert calls(profile, "busy") == 12
    # Not the 0.6 s that they waited: what others took of the processors meanwhile is theirs.
    assert seconds(profile, "pause") < 0.02 + true["ready"]
    assert 0.024 <= seconds(profile, "task") < 0.02 + true["ready"]
    check_seconds(seconds(profile, "coroutines"), true)


@pytest.mark.further
def test_a_suspended_generator_is_not_charged(truth: Truth) -> None:
    profile, true = truth("suspended")
    name = "suspended.<locals>.generator"
    assert (calls(profile, name), turns(profile, name)) == (1, 4)  # three next, one close
    assert 0.03 <= seconds(profile, name) < 0.02 + true["ready"]  # not the 0.3 s in between
    # Its time stands where it was resumed.
    assert seconds(profile, "suspended.<locals>.first") >= 0.01
    assert seconds(profile, "suspended.<locals>.second") >= 0.02


@pytest.mark.further
def test_throw_and_close_through_chains(truth: Truth) -> None:
    profile, _ = truth("thrown")
    assert calls(profile, "after") == 200
    for name in ("inner", "middle", "outer"):
        assert calls(profile, f"thrown.<locals>.{name}") == 200
    # What is called next stands below its own caller, not below a generator.
    nodes, frames = profile.nodes, profile.frames
    for row in of_function(profile, "after"):
        assert frames[nodes.frame[nodes.parent[row.node]]].name == "thrown"


@pytest.mark.further
def test_async_generators_and_cancellation(truth: Truth) -> None:
    profile, _ = truth("asynchronous")
    assert calls(profile, "numbers") == 2
    assert calls(profile, "after") == 2
    assert calls(profile, "cancelled.<locals>.waits") == 1
    (raised,) = {sum(r.raised for r in of_function(profile, "cancelled.<locals>.waits"))}
    assert raised == 1


@pytest.mark.further
def test_finalizers(truth: Truth) -> None:
    profile, _ = truth("finalizers")
    assert calls(profile, "Noisy.__init__") == calls(profile, "Noisy.__del__") == 2000
    assert calls(profile, "finalized") == 2000
    nodes, frames = profile.nodes, profile.frames
    for row in of_function(profile, "finalized"):
        assert frames[nodes.frame[nodes.parent[row.node]]].name == "Noisy.__del__"


def test_recursion_counts_once_in_a_functions_total(truth: Truth) -> None:
    from pyhybrid.views.calls.function_calls import function_calls

    profile, true = truth("recursion")
    name = "recursion.<locals>.down"
    (frame,) = (f.id for f in profile.frames.values() if f.name == name)
    tally = function_calls(profile)[frame]
    assert (tally.calls, tally.outer_turns) == (201, 1)
    check_seconds(tally.total_ns / 1e9, true)


@pytest.mark.further
def test_raised(truth: Truth) -> None:
    profile, _ = truth("raising")
    rows = of_function(profile, "raising.<locals>.fails")
    assert sum(row.calls for row in rows) == sum(row.raised for row in rows) == 500
    assert calls(profile, "after") == 50


@pytest.mark.further
def test_threads_that_live_for_a_moment(truth: Truth) -> None:
    profile, _ = truth("storm")
    assert calls(profile, "storm.<locals>.brief") == calls(profile, "after") == 200
    rows = {row.thread for row in of_function(profile, "after")}  # one for those beyond the 64th
    assert sum(profile.threads[row].n_threads for row in rows) == 200
