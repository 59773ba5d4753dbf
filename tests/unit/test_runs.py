"""`pyhybrid diff` without runs: which functions are the same, limits, and what is shown."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from example_profile import PERIOD_NS, PID, fake_symbols
from spool_writer import SpoolWriter, python

from pyhybrid.assemble import open_profile
from pyhybrid.report.diff import comparison_json, markdown, print_comparison
from pyhybrid.tables.profile import Profile
from pyhybrid.views.diff.change_limits import EXCEEDED, UNSURE, WITHIN, Limit, judge
from pyhybrid.views.diff.function_figures import Function
from pyhybrid.views.diff.runs import Comparison, FunctionChange, Side, compare
from pyhybrid.views.diff.same_functions import SameFunctions
from pyhybrid.views.diff.significance import Mean, change, without_error
from pyhybrid.views.diff.step_changes import StepFigures, step_changes

HOSTILE = "f|`<img src=x>\x1b[31m"


def of_python(name: str, place: str) -> Function:
    return Function("python", name, place)


def test_the_same_function_elsewhere() -> None:
    same = SameFunctions()
    step = of_python("step", "proj/train.py")
    init = of_python("<module>", "proj/__init__.py")
    twice = [of_python("run", "a/x.py"), of_python("run", "b/x.py")]
    same.names([step, init, *twice])
    moved = of_python("step", "/ci/build/train.py")
    other = of_python("<module>", "/ci/lib/__init__.py")  # of another package
    unclear = of_python("run", "/ci/c/x.py")
    clear = of_python("run", "/ci/b/x.py")
    names = same.names([moved, other, unclear, clear])
    assert names == {moved: step, other: other, unclear: unclear, clear: twice[1]}
    assert same.names([step, moved]) == {step: step, moved: moved}  # both are there


def recorded(path: Path, file: str, lines: dict[str, int], samples: dict[str, int]) -> str:
    """A profile with so many samples of functions, which begin on these lines."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.thread(1, PID, "python", "MainThread")
    for number, (name, line) in enumerate(lines.items(), 3):
        spool.code(number, name, file, line)
    codes = {name: number for number, name in enumerate(lines, 3)}
    stacks = {name: spool.stack(python(codes[name], 0)) for name in samples}
    spool.stacks()
    spool.samples(1, [stacks[name] for name, n in samples.items() for _ in range(n)])
    spool.counters(1, sum(samples.values()), sum(samples.values()))
    spool.end()
    return str(spool.save(path))


def opened(path: str) -> Profile:
    return open_profile(path, fake_symbols())


def test_samples_of_two_files(tmp_path: Path) -> None:
    """Other lines, another folder; one function works twice as long."""
    lines = {"f": 1, "g": 10}
    before = recorded(tmp_path / "a.part", "/a/w.py", lines, {"f": 400, "g": 400})
    lines = {"g": 5, "f": 90}
    after = recorded(tmp_path / "b.part", "/b/w.py", lines, {"f": 800, "g": 405})
    found = compare([before], [after], opened)
    by_name = {each.function.name: each for each in found.functions}
    assert by_name.keys() == {"f", "g"}
    assert (by_name["f"].differs, by_name["g"].differs) == (True, False)
    total = by_name["f"].total
    assert total is not None
    assert (total.before, total.after) == (400 * PERIOD_NS, 800 * PERIOD_NS)
    assert total.low < 1 < total.high
    assert found.all is not None
    assert found.all.before == 800 * PERIOD_NS
    assert "calls are not compared: they were not counted in all runs" in found.notes
    verdicts = [
        judge(found, Limit.parse(text)).state
        for text in ("total(f) > +50%", "total(f) > 150%", "self(f)>0%", "below(g) > +1%")
    ]
    assert verdicts == [EXCEEDED, WITHIN, EXCEEDED, UNSURE]


def test_what_few_samples_say(tmp_path: Path) -> None:
    before = recorded(tmp_path / "a.part", "/w.py", {"f": 1, "g": 2}, {"f": 5000, "g": 4})
    after = recorded(tmp_path / "b.part", "/w.py", {"f": 1, "g": 2}, {"f": 5000, "g": 14})
    found = compare([before], [after], opened)
    rare = next(each for each in found.functions if each.function.name == "g")
    assert (rare.samples, rare.differs, rare.total) == (18, None, None)
    verdict = judge(found, Limit.parse("total(g) > +5%"))
    assert (verdict.state, verdict.why) == (UNSURE, "it has 18 samples")


def made(*functions: FunctionChange) -> Comparison:
    side = Side(["x.pyhybrid"], f"w.py {HOSTILE}", 1e9, 1e9, 0, 1000)
    return Comparison(side, side, [f"note {HOSTILE}"], False, None, list(functions))


def counted(before: list[int], after: list[int]) -> FunctionChange:
    return FunctionChange(of_python("C.f", "w.py"), (before, after))


@pytest.mark.parametrize(
    ("before", "after", "limit", "state"),
    [
        ([10], [10], "calls(f) > 0%", WITHIN),
        ([10], [11], "calls(f) > 0%", EXCEEDED),
        ([10], [11], "calls(C.f) > 10%", WITHIN),
        ([0], [1], "calls(C.f (w.py)) > 50%", EXCEEDED),
        ([9, 11], [10, 12], "calls(f) > 0%", UNSURE),
        ([9], [3], "calls(f) > +0.5%", WITHIN),
    ],
)
def test_limits_on_calls(before: list[int], after: list[int], limit: str, state: str) -> None:
    assert judge(made(counted(before, after)), Limit.parse(limit)).state == state


def test_what_no_file_can_tell() -> None:
    one, other = counted([1], [1]), FunctionChange(of_python("D.f", "v.py"), ([1], [1]))
    one.per_call = without_error(5, 6)
    several = judge(made(one, other), Limit.parse("calls(f) > 1%"))
    assert (several.state, "C.f (w.py), D.f (v.py)" in several.why) == (UNSURE, True)
    assert judge(made(one), Limit.parse("calls(g) > 1%")).state == UNSURE
    assert judge(made(one), Limit.parse("total(*) > 1%")).state == UNSURE
    time = judge(made(one), Limit.parse("time(f) > 1%"))
    assert (time.state, "three" in time.why) == (UNSURE, True)


def of_steps(n: int, **means: float) -> StepFigures:
    """A run whose steps are known to a hundredth."""
    known = {name: Mean(ns, (ns / 100) ** 2, 9) for name, ns in means.items()}
    return StepFigures(n, known, known)


def test_steps() -> None:
    before = of_steps(40, total=1000, cpu=900, forward=400, data=0)
    after = of_steps(50, total=1300, cpu=900, forward=410, checkpoint=290)
    comparison = made()
    comparison.steps = step_changes([before], [after])
    found = {each.name: (each.median_differs, each.mean_differs) for each in comparison.steps}
    assert found == {
        "total": (True, True),
        "cpu": (False, False),
        "data": (False, False),
        "forward": (False, False),
        "checkpoint": (True, True),
    }
    states = {
        text: judge(comparison, Limit.parse(text)).state
        for text in (
            "step(total) > +10%",
            "mean_step(total) > 20%",
            "step(total) > 50%",
            "step(forward) > +1%",
            "step(nothing) > +1%",
            "step(checkpoint) > 5%",
        )
    }
    assert list(states.values()) == [EXCEEDED, EXCEEDED, WITHIN, UNSURE, UNSURE, EXCEEDED]
    text = io.StringIO()
    print_comparison(comparison, [], 12, text)
    titles = [line for line in text.getvalue().splitlines() if line.startswith("steps")]
    assert titles == [
        "steps of a training (40 -> 50), median time: 2 of 4 differ by more than noise",
        "steps of a training (40 -> 50), mean time: 2 of 4 differ by more than noise",
    ]


def test_too_few_steps() -> None:
    comparison = made()
    assert judge(comparison, Limit.parse("step(total) > 1%")).why.startswith("not all runs")
    comparison.steps = step_changes([of_steps(5, total=1000)], [of_steps(40, total=1300)])
    assert comparison.steps[0].median_differs is None
    verdict = judge(comparison, Limit.parse("step(total) > 1%"))
    assert (verdict.state, "20 are needed" in verdict.why) == (UNSURE, True)
    by_runs = [[of_steps(5, total=ns + i) for i in range(3)] for ns in (1000, 1300)]
    (total,) = step_changes(*by_runs)
    assert total.median_differs
    assert total.median.low > 0.2


@pytest.mark.parametrize("text", ["f > 5%", "total(f) < 5%", "speed(f) > 5%", "total(f) > 5", ""])
def test_no_limits(text: str) -> None:
    with pytest.raises(ValueError, match="is no limit like"):
        Limit.parse(text)


def test_names_of_others_are_shown_harmless() -> None:
    hostile = FunctionChange(of_python(HOSTILE, "w|.py"), ([1], [2]), calls_differ=True)
    hostile.total = hostile.self = change(Mean(1e9, 1e15), Mean(2e9, 1e15))
    hostile.differs, hostile.samples = True, 3000
    comparison = made(hostile)
    verdicts = [judge(comparison, Limit("total", HOSTILE, 5))]
    text = io.StringIO()
    print_comparison(comparison, verdicts, 12, text)
    assert "\x1b" not in text.getvalue()
    assert r"f|`<img src=x>\x1b[31m (w|.py)" in text.getvalue()
    assert all(len(line) <= 100 for line in text.getvalue().splitlines())
    for line in markdown(comparison, verdicts, 12):
        assert "\x1b" not in line
        if line.startswith("| ") and "img" in line:
            cells = line.replace(r"\|", "").split("|")
            assert len(cells) in (6, 8)
            assert cells[-2].strip().startswith("`")
            assert cells[-2].count("`") == 2
        elif "img" in line:
            assert r"\<img" in line
    plain = json.loads(json.dumps(comparison_json(comparison, verdicts), allow_nan=False))
    assert plain["functions"][0]["function"]["name"] == HOSTILE
    assert plain["limits"][0]["state"] == EXCEEDED
