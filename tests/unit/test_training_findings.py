"""Findings of hand-made trainings: what is said, of how much, and where nothing is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trainings import BEGIN_NS, MS, Training

from pyhybrid.tables import WatchedCall
from pyhybrid.tables.profile import Profile
from pyhybrid.views.findings import findings

Finish = Callable[..., list[tuple[str, float, str]]]


@pytest.fixture
def said(tmp_path: Path) -> Finish:
    """Rule, share and text of each finding, the first one first."""

    def of(training: Training, *backward: tuple[str, int]) -> list[tuple[str, float, str]]:
        profile: Profile = training.profile(tmp_path / "x.part", backward)
        return [(each.rule, each.share, each.text) for each in findings(profile)]

    return of


def module(path: str, function: str) -> str:
    """`Net.fc:Linear`, in which `function` runs, below the model."""
    return f"Net:Net/forward/Net.forward/{path}/forward/{function}"


SLOW = module("Net.slow:Slow", "Slow.forward")
OTHERS = (
    (module("Net.first:Norm", "Norm.forward"), 10),
    (module("Net.second:Norm", "Norm.forward"), 10),
    ("backward", 30),
    ("log", 9),
)


@pytest.mark.parametrize(
    ("ms", "says"),
    [
        (30, "38% of the time of 20 steps is Net.slow [Slow] (train.py:70) in both passes"),
        (10, None),  # with its backward pass a sixth
    ],
)
def test_a_layer_of_the_program(said: Finish, ms: int, says: str | None) -> None:
    """Both passes count; its file and line are said."""
    training = Training()
    for _ in range(20):
        training.step((SLOW, ms), *OTHERS[:-1], ("log", 39 - ms))
    found = said(training, (SLOW, 20 * 4))
    assert [text for rule, _, text in found if rule == "layer"] == ([says] if says else [])


@pytest.mark.parametrize(("ms", "is_found"), [(40, False), (70, True)])
def test_a_layer_of_a_library_has_a_higher_limit(said: Finish, ms: int, is_found: bool) -> None:
    """A convolution may be most of what a small model does."""
    training = Training()
    for _ in range(20):
        training.step((module("Net.conv:Linear", "Linear.forward"), ms), *OTHERS)
    found = said(training)
    share = ms / (ms + 60)
    layers = [(share, text) for rule, share, text in found if rule == "layer"]
    if not is_found:
        assert layers == []
    else:
        ((of_it, text),) = layers
        assert of_it == pytest.approx(share)
        assert text == f"{share:.0%} of the time of 20 steps is Net.conv [Linear] in both passes"


def blocks(times: dict[str, int], ran: bool = True) -> tuple[tuple[Any, ...], ...]:
    """Linear layers of three blocks."""
    paths = {
        f"{number}.{name}": module(f"Net.layers.{number}.{name}:Linear", "Linear.forward")
        for number in range(3)
        for name in ("up", "down")
    }
    return tuple(
        (path, times.get(name, 3), ran or name not in times) for name, path in paths.items()
    )


@pytest.mark.parametrize(
    ("times", "ran", "says"),
    [
        ({}, True, None),
        ({"0.up": 12, "1.up": 12, "2.up": 12}, True, None),  # they are larger
        ({"2.up": 12}, True, "Net.layers.2.up [Linear] in both passes, 4.0 x those like it in "),
        ({"2.up": 12}, False, None),  # it had no processor
    ],
)
def test_layers_of_a_library_are_compared_by_place(
    said: Finish, times: dict[str, int], ran: bool, says: str | None
) -> None:
    training = Training()
    for _ in range(40):
        training.step(*blocks(times, ran), ("backward", 20), ("log", 5))
    texts = [text for rule, _, text in said(training) if rule == "layer"]
    assert len(texts) == bool(says)
    assert all(str(says) in text for text in texts)


def test_layers_of_the_program_are_compared_by_class(said: Finish) -> None:
    training = Training()
    for _ in range(20):
        norms = [(module(f"Net.{name}:Norm", "Norm.forward"), 5) for name in ("a", "b", "c")]
        slow = module("Net.d:Norm", "Norm.forward"), 20
        training.step(*norms, slow, ("backward", 50), ("log", 10))
    (text,) = (text for rule, _, text in said(training) if rule == "layer")
    assert "is Net.d [Norm] (train.py:" in text
    assert text.endswith("4.0 x others of its class")


def test_a_layer_that_waits_is_said_to(said: Finish) -> None:
    training = Training()
    for _ in range(20):
        training.step((SLOW, 50, False), *OTHERS)
    (text,) = (text for rule, _, text in said(training) if rule == "layer")
    assert text.endswith(" in both passes, where the thread did not run")


def test_of_layers_only_the_steps_count(said: Finish) -> None:
    """An evaluation, of the same layers, is between the steps."""
    training = Training()
    for number in range(20):
        if number % 5 == 4:
            for _ in range(40):
                training.runs("data", 1)
                training.runs(SLOW, 20)
        training.step(("data", 1), (SLOW, 40), *OTHERS)
    ((share, text),) = ((share, text) for rule, share, text in said(training) if rule == "layer")
    assert share == pytest.approx(40 / 101, abs=0.01)
    assert text.startswith("40% of the time of 20 steps is Net.slow [Slow]")


def steps(training: Training, slow: dict[int, tuple[Any, ...]], n: int = 20) -> None:
    for number in range(n):
        more = (slow[number],) if number in slow else ()
        training.step(("data/load", 5), *more, ("backward", 10), ("log", 4))


def test_slow_steps_are_told_with_what_ran(said: Finish) -> None:
    training = Training()
    steps(training, {7: ("data/load/decode", 300), 13: ("data/load/decode", 200), 16: ("log", 50)})
    found = {rule: (share, text) for rule, share, text in said(training)}
    share, text = found["slow steps"]
    assert share == pytest.approx(550 / (20 * 20 + 550))
    assert "of the time of 20 steps is what 3 slow ones took more than usual, " in text
    assert "most of it data: decode (train.py:" in text


def test_one_slow_step(said: Finish) -> None:
    training = Training()
    steps(training, {7: ("log", 300)})
    (text,) = (text for rule, _, text in said(training) if rule == "slow steps")
    assert "is what 1 slow one took more than usual" in text


def test_slow_steps_whose_thread_did_not_run(said: Finish) -> None:
    training = Training()
    steps(training, {7: ("backward", 300, False), 13: ("data/load/decode", 100)})
    (text,) = (text for rule, _, text in said(training) if rule == "slow steps")
    assert text.endswith("most of it backward, where the thread did not run")


@pytest.mark.parametrize(
    ("slow", "n"),
    [
        ({0: ("log", 900)}, 20),  # in the first one much is made
        ({7: ("log", 35)}, 20),  # less than three times as much
        ({7: ("log", 50)}, 40),  # less than a tenth of the time
        ({5: ("log", 900)}, 7),  # too few to know what is usual
    ],
)
def test_no_slow_steps(said: Finish, slow: dict[int, tuple[Any, ...]], n: int) -> None:
    training = Training()
    steps(training, slow, n)
    assert "slow steps" not in {rule for rule, _, _ in said(training)}


@pytest.mark.parametrize(("n", "is_last"), [(4, True), (3, False)])
def test_of_a_training_imports_are_said_last(said: Finish, n: int, is_last: bool) -> None:
    """Of three steps it is not known what a training takes."""
    training = Training({"library.py": "/w/library.py"})
    training.runs("import/library.py", 9000)
    for _ in range(n):
        training.step(("forward", 400), ("backward/hook", 150))
    rules = [rule for rule, _, _ in said(training)]
    expected = ["imports", "python in backward"]
    assert rules == (expected[::-1] if is_last else expected)


@pytest.mark.parametrize(("ms", "at"), [(9000, 2), (4800, -1)])
def test_imports_that_are_most_of_a_run_are_shown(said: Finish, ms: int, at: int) -> None:
    """Beside what takes the steps, of which there is more than a summary shows."""
    training = Training({"library.py": "/w/library.py"})
    training.runs("import/library.py", ms)
    for number in range(12):
        slow = 900 if number in (6, 9) else 40
        training.step(("data/load", 150), (SLOW, 100), ("backward/hook", 80), ("log", slow))
    found = [rule for rule, _, _ in said(training)]
    assert len(found) >= 4
    assert found[at] == "imports"


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ([("data/load/decode", 40)], "decode (train.py:30), line 35"),
        ([("data/load/library", 40)], "library (library.py:30), called at train.py:45"),
        # Where it waited no sample is; those that are there are of something else.
        (
            [("data/load/fetch", 36, False), ("data/load/decode", 4)],
            "fetch (train.py:40); for 90% of it the thread did not run",
        ),
        # Nor does a sample of the function itself tell at which line it waited.
        (
            [("data/load/fetch", 36, False), ("data/load/fetch", 4)],
            "fetch (train.py:30); for 90% of it the thread did not run",
        ),
        ([("data", 40, False)], "what does not run here; for 100% of it the thread did not run"),
    ],
)
def test_where_a_phase_is_spent(said: Finish, pieces: list[tuple[Any, ...]], says: str) -> None:
    training = Training({"library": "/w/lib/python3.12/library.py"})
    for _ in range(20):
        training.step(*pieces, ("backward", 5))
    ((share, text),) = ((share, text) for rule, share, text in said(training) if rule == "loader")
    assert share == pytest.approx(40 / 46)
    assert text == f"87% of the time of 20 steps is waiting for data, most of it in {says}"


def test_wall_clock_samples_tell_where_a_phase_waited(said: Finish) -> None:
    training = Training(clock="wall")
    for _ in range(20):
        training.step(("data/load/fetch", 40, False), ("backward", 5))
    (text,) = (text for rule, _, text in said(training) if rule == "loader")
    assert "most of it in fetch (train.py:30), line 35; for 100% of it" in text


COMPILED = "/home/me/cache/xy/c" + "abcde" * 10 + "f.py"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("count_right", "count_right (train.py:20), line 25"),
        ("evaluate/call", f"call ({COMPILED}:20), called at train.py:45"),  # of no one's own
    ],
)
def test_what_is_in_no_phase_has_its_line(said: Finish, path: str, says: str) -> None:
    training = Training({"call": COMPILED})
    for _ in range(20):
        training.step(("data", 5), ("backward", 5), (path, 30))
    ((share, text),) = ((s, text) for rule, s, text in said(training) if rule == "between phases")
    assert share == pytest.approx(30 / 41)
    assert text.endswith(f"most of it in {says}")


def compile_of(line: int, **more: Any) -> dict[str, Any]:
    known = {"id": "0/0", "name": "Net.forward", "file": "/w/train.py", "line": line}
    return {**known, "begin_ns": BEGIN_NS, "end_ns": BEGIN_NS + MS, **more}


@pytest.mark.parametrize("is_compiled", [True, False])
def test_what_is_not_compiled_in_what_is(said: Finish, is_compiled: bool) -> None:
    """The function that is compiled, or not, is the model's `forward`."""
    line = 10 if is_compiled else 1000
    training = Training(compiles=[compile_of(line)])
    scan = "Net:Net/forward/Net.forward/scan"
    for _ in range(20):
        training.step(("Net:Net/forward/Net.forward/graph", 10), (scan, 20), ("backward", 30))
    found = said(training, (scan, 20 * 20))
    texts = [text for rule, _, text in found if rule == "uncompiled"]
    says = "scan (train.py:80) in both passes, which is not compiled, in Net [Net], which is"
    assert texts == ([f"66% of the time of 20 steps is {says}"] if is_compiled else [])


def test_python_that_a_compiler_wrote_is_not_the_programs(said: Finish) -> None:
    """Wherever its cache is."""
    training = Training({"call": COMPILED})
    for _ in range(20):
        training.step(("backward/call", 40), ("backward/hook", 20), ("log", 5))
    ((share, text),) = (
        (share, text) for rule, share, text in said(training) if rule == "python in backward"
    )
    assert share == pytest.approx(20 / 66)
    assert "most of it hook (train.py:" in text


@pytest.mark.parametrize(
    ("mb_a_step", "n", "says"),
    [
        (3, 60, "grows by 3 MB in each of 60 steps, from 800 to 977 MB"),
        (0.1, 60, None),
        (3, 12, None),  # too few
    ],
)
def test_memory_that_grows(tmp_path: Path, mb_a_step: float, n: int, says: str | None) -> None:
    training = Training()
    for _ in range(n):
        training.step(*OTHERS)
    profile, done, watched = training.profile(tmp_path / "x.part"), 0, []
    for call in profile.watched_calls:
        is_optimizer = "Optimizer" in profile.frames[profile.nodes.frame[call.node]].name
        resident = int(800e6 + done * mb_a_step * 1e6 + (done % 3) * 1e5)
        watched.append(call._replace(resident=resident * is_optimizer))
        done += is_optimizer
    found = findings(profile.replaced({WatchedCall: watched}))
    texts = [each.text for each in found if each.rule == "memory"]
    assert len(texts) == bool(says) and all(str(says) in text for text in texts)
