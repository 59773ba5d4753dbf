"""Which batches of a training are evaluation's, by what follows them, and where its steps begin;
and those of inference."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from trainings import Training

from pyhybrid.base.pseudo_frames import STEP_MARK
from pyhybrid.tables import Call, WatchedCall
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.phases import all_phases, phase_spans
from pyhybrid.views.training.steps import Steps, find_steps
from pyhybrid.views.training.token_times import call_times

# A letter a call: data, the loader has no more, forward, an evaluation's forward...
NAMES = {
    "d": "data",
    "x": "data",
    "f": "forward",
    "e": "forward",
    "b": "backward",
    "o": "optimizer",
}
PLAIN = "dfbo" * 4


def recorded(file: Path, calls: str) -> Profile:
    """A millisecond each, and one between two."""
    training = Training()
    for letter in calls:
        training.runs(NAMES[letter], 1)
        training.runs("between", 1)
    profile = training.profile(file)
    watched = [
        call._replace(raised=int(letter == "x"), no_graph=int(letter == "e"))
        for letter, call in zip(calls, profile.watched_calls, strict=True)
    ]
    return profile.replaced({WatchedCall: watched})


@pytest.mark.parametrize(
    ("calls", "phases"),
    [
        (f"dedex{PLAIN}", "eeeee"),  # before the training
        (f"ddedexe{PLAIN}", "eeeeeee"),  # one ahead
        (f"eded{PLAIN}", "eeed"),  # fixed ones; the last batch was for nothing
        (f"defbo{PLAIN}", "defbo"),  # a teacher's net, in the step
    ],
)
def test_batches_of_evaluations(tmp_path: Path, calls: str, phases: str) -> None:
    with recorded(tmp_path / "a.spool", calls) as profile:
        (spans,) = phase_spans(profile).values()
    found = "".join(span.phase[0] for span in spans)
    assert found == phases + PLAIN


@pytest.mark.parametrize(
    ("calls", "n", "in_steps"),
    [
        (f"dedex{PLAIN}", 4, 0),  # between steps
        (f"{PLAIN}dedex{PLAIN}", 8, 0),
        ("defbo" * 4, 4, 4),  # of each step
        ("fbo" + "eefbo" * 4, 5, 8),
        (f"{PLAIN}ee{PLAIN}", 8, 0),
    ],
)
def test_evaluations_between_steps(tmp_path: Path, calls: str, n: int, in_steps: int) -> None:
    with recorded(tmp_path / "a.spool", calls) as profile:
        steps = find_steps(profile).steps
    assert len(steps) == n
    assert sum(len(step.spans.get("evaluation", [])) for step in steps) == in_steps
    assert all(len(step.spans["forward"]) == 1 for step in steps)


@pytest.mark.parametrize(
    ("calls", "tokens"),
    [
        ("d+fbo" * 4, [10, 20, 30, 40]),
        ("dfbo+" * 4, [10, 20, 30, 40]),  # before the next one's work
        ("+dfbo" * 4, [20, 30, 40, 0]),  # the first is of no step
        ("df+bdf+bo" * 2, [30, 70]),  # gradients are added up
        ("dfbo" * 2, [0, 0]),
    ],
)
def test_tokens_that_the_program_notes(tmp_path: Path, calls: str, tokens: list[int]) -> None:
    with recorded(tmp_path / "a.spool", calls.replace("+", "")) as profile:
        (between,) = (each for each in profile.frames.values() if each.name == "between")
        mark = between._replace(kind="region", name=STEP_MARK)
        frames = {**profile.frames, between.id: mark}
        node = profile.nodes.frame.index(between.id)
        at, marks = 0, list[Call]()
        ends = [each.end_ns for each in profile.watched_calls]
        for letter in calls:
            if letter != "+":
                at += 1
                continue
            now = (ends[at - 1] if at else profile.watched_calls[0].begin_ns - 3) + 2
            n = f'{{"tokens": {10 * len(marks) + 10}, "batch": true}}'
            times = now, now + 1, 1
            marks.append(Call(len(marks) + 1, 1, node, *times, "returned", n, None, 1))
        steps = find_steps(profile.replaced({Call: marks}, frames=frames)).steps
    assert [step.tokens for step in steps] == tokens
    assert {step.batch for step in steps} == {0}


def test_each_phase_has_its_color_on_the_page() -> None:
    colors = (Path(__file__).parents[2] / "web" / "src" / "colors.ts").read_text()
    palettes = re.findall(r"^  phases: \[(.*)\],$", colors, re.MULTILINE)
    assert len(palettes) == 2
    assert all(palette.count('"#') == len(all_phases()) for palette in palettes)


@pytest.mark.parametrize(
    ("integers", "kinds"),
    [
        ([64, *[2] * 5, 128, *[2] * 4], "pdddddpdddd"),
        ([0] * 6, "cccccc"),  # no integers
        ([8] * 6, "cccccc"),  # nothing has more before them
        ([16, 17, 18, 19, 20, 16, 17, 18, 19], "aaaaaaaaa"),
        ([64, 2, 2], "ccc"),  # too few to be a loop
        ([30, 20, 10, 40, 7], "ccccc"),
    ],
)
def test_calls_of_a_model_by_their_tokens(tmp_path: Path, integers: list[int], kinds: str) -> None:
    with recorded(tmp_path / "a.spool", "f" * len(integers)) as profile:
        watched = [
            call._replace(integers=n)
            for n, call in zip(integers, profile.watched_calls, strict=True)
        ]
        found = find_steps(profile.replaced({WatchedCall: watched}))
    assert not found.trains and [step.tokens for step in found.steps] == integers
    times = call_times(found)
    assert {each.kind[0]: each.n for each in times} == dict(Counter(kinds))
    assert sum(each.total_ns for each in times) == sum(step.total_ns for step in found.steps)
    assert call_times(Steps(found.steps, found.phases, 0, 0)) == []  # of a training


def test_steps_of_inference_end_with_the_model(tmp_path: Path) -> None:
    """The first one begins with it, the others where the one before ended; a batch is part of the
    next."""
    with recorded(tmp_path / "a.spool", "fdfef") as profile:
        steps = find_steps(profile).steps
    assert [step.total_ns for step in steps] == [1e6, 4e6, 2e6, 2e6]
    assert [step.phases.get("data", 0) for step in steps] == [0, 1e6, 0, 0]
    assert [step.phases["forward"] for step in steps] == [1e6] * 4
