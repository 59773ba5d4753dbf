"""Which batches of a training are evaluation's, by what follows them, and where its steps begin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trainings import Training

from pyhybrid.tables import WatchedCall
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.phases import all_phases, phase_spans
from pyhybrid.views.training.steps import find_steps

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


def test_each_phase_has_its_color_on_the_page() -> None:
    colors = (Path(__file__).parents[2] / "web" / "src" / "colors.ts").read_text()
    palettes = re.findall(r"^  phases: \[(.*)\],$", colors, re.MULTILINE)
    assert len(palettes) == 2
    assert all(palette.count('"#') == len(all_phases()) for palette in palettes)
