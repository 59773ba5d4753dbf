"""`pyhybrid diff` without runs: which functions are the same, limits, and what is shown."""

from __future__ import annotations

import io
import json
import random
from itertools import chain
from pathlib import Path

import pytest
from example_profile import PERIOD_NS, PID, fake_symbols
from spool_writer import SpoolWriter, python
from trainings import Training

from pyhybrid.assemble import open_profile
from pyhybrid.report.diff import comparison_json, markdown, print_comparison, sections
from pyhybrid.tables.profile import Profile
from pyhybrid.views.diff.change_limits import EXCEEDED, UNSURE, WITHIN, WRONG, Limit, judge
from pyhybrid.views.diff.function_figures import Function, run_figures
from pyhybrid.views.diff.runs import Comparison, FunctionChange, Side, compare
from pyhybrid.views.diff.same_functions import SameFunctions
from pyhybrid.views.diff.significance import Change, Mean, change, runs_needed, without_error
from pyhybrid.views.diff.step_changes import StepFigures, step_changes, step_figures

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
    """A profile with so many samples of functions, which begin on these lines, in some ten turns.

    `f;g` are those of g, called by f.
    """
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.thread(1, PID, "python", "MainThread")
    for number, (name, line) in enumerate(lines.items(), 3):
        spool.code(number, name, file, line)
    codes = {name: number for number, name in enumerate(lines, 3)}
    stacks = {
        name: spool.stack(*(python(codes[each], 0) for each in name.split(";"))) for name in samples
    }
    spool.stacks()
    turns = [
        [stacks[name]] * (n * (turn + 1) // 10 - n * turn // 10)
        for turn in range(10)
        for name, n in samples.items()
    ]
    spool.samples(1, [*chain(*turns)])
    spool.counters(1, sum(samples.values()), sum(samples.values()))
    spool.end()
    return str(spool.save(path))


def opened(path: str) -> Profile:
    return open_profile(path, fake_symbols())


def test_samples_of_two_files(tmp_path: Path) -> None:
    """Other lines, another folder; one function works twice as long."""
    lines = {"f": 1, "g": 10, "h": 20}
    before = recorded(tmp_path / "a.part", "/a/w.py", lines, {"f": 400, "g": 400, "h": 200})
    lines = {"h": 2, "g": 5, "f": 90}
    after = recorded(tmp_path / "b.part", "/b/w.py", lines, {"f": 800, "g": 405, "h": 200})
    found = compare([before], [after], opened)
    by_name = {each.function.name: each for each in found.functions}
    assert by_name.keys() == {"f", "g", "h"}
    assert [by_name[name].differs for name in "fgh"] == [True, False, False]
    assert [each.name for each in found.left_out] == ["f"]
    total = by_name["f"].total
    assert total is not None
    assert (total.before, total.after) == (400 * PERIOD_NS, 800 * PERIOD_NS)
    assert total.low < 1 < total.high
    assert found.all is not None
    assert found.all.before == 1000 * PERIOD_NS
    assert "calls are not compared: they were not counted in all runs" in found.notes
    verdicts = [
        judge(found, Limit.parse(text)).state
        for text in ("total(f) > +50%", "total(f) > 150%", "self(f)>0%", "below(g) > +1%")
    ]
    assert verdicts == [EXCEEDED, WITHIN, EXCEEDED, UNSURE]


def test_the_order_of_samples_shows_how_well_they_count(tmp_path: Path) -> None:
    """In ten turns of 40 and 60 the one's count is known far better than of 1,000 by chance."""
    samples = {"f": 400, "g": 600}
    with opened(recorded(tmp_path / "a.part", "/w.py", {"f": 1, "g": 2}, samples)) as profile:
        figures = run_figures(profile)
    turns = {each.name: found for each, found in figures.functions.items()}
    borders = 19 * 1000 / 999  # between 20 turns
    assert turns["f"].total.variance == pytest.approx(borders / 2 * PERIOD_NS**2, rel=0.06)
    assert turns["f"].below.variance == turns["f"].total.variance
    assert figures.all.total.variance == PERIOD_NS**2
    chance = random.Random(1)
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.thread(1, PID, "python", "MainThread")
    for number, name in enumerate(samples, 3):
        spool.code(number, name, "/w.py", number)
    stacks = [spool.stack(python(number, 0)) for number in (3, 4)]
    spool.stacks()
    spool.samples(1, chance.choices(stacks, (0.4, 0.6), k=1000))
    spool.counters(1, 1000, 1000)
    spool.end()
    with opened(str(spool.save(tmp_path / "b.part"))) as profile:
        figures = run_figures(profile)
    (variance,) = (e.total.variance for f, e in figures.functions.items() if f.name == "f")
    assert variance == pytest.approx(1000 * 0.4 * 0.6 * PERIOD_NS**2, rel=0.1)


TIMES = {
    "main;store": 150,
    "main;rank": 400,
    "main;rank;score": 100,
    "main;render": 200,
    "load": 40,
}
NAMES = {
    each: line for line, each in enumerate(["main", "store", "rank", "score", "render", "load"])
}
BUSY = [1.0, 1.6, 1.1, 1.3, 2.1, 1.2]  # by what a machine is slower, run by run


def runs(folder: Path, factors: dict[str, float], busy: list[float]) -> list[str]:
    """Profiles of TIMES, some functions slower, and all of them by what the machine is."""
    return [
        recorded(
            folder / f"{number}-{sum(factors.values())}.part",
            "/w.py",
            NAMES,
            {each: round(n * slower * factors.get(each, 1)) for each, n in TIMES.items()},
        )
        for number, slower in enumerate(busy)
    ]


def change_of(found: Comparison, name: str) -> Change:
    (change,) = (each.share for each in found.functions if each.function.name == name)
    assert change
    return change


def test_shares_leave_out_what_the_machine_does(tmp_path: Path) -> None:
    """`rank` and what it calls take 30 % more; times of runs differ by more than that."""
    before = runs(tmp_path, {}, BUSY[:3])
    after = runs(tmp_path, {"main;rank": 1.3, "main;rank;score": 1.3}, BUSY[3:])
    found = compare(before, after, opened)
    assert change_of(found, "rank").change == pytest.approx(0.3, abs=0.01)
    assert change_of(found, "store").change == pytest.approx(0, abs=0.02)
    differ = {each.function.name for each in found.functions if each.differs}
    assert differ == {"rank", "score"}
    assert {each.name for each in found.left_out} == {"rank", "score"}
    texts = "share(rank) > +20%", "share(rank) > 40%", "share(store) > 5%", "total(rank) > 20%"
    states = [judge(found, Limit.parse(text)).state for text in texts]
    assert states == [EXCEEDED, WITHIN, WITHIN, UNSURE]
    assert next(each for each in found.functions if each.function.name == "main").share is None
    for text in ("share(*) > 5%", "share(nothing) > 5%"):
        assert judge(found, Limit.parse(text)).state == WRONG
    assert "total(main)" in judge(found, Limit.parse("share(main) > 5%")).why


def test_one_that_gets_faster_makes_none_slower(tmp_path: Path) -> None:
    after = runs(tmp_path, {"main;rank": 0.3}, BUSY[3:])
    found = compare(runs(tmp_path, {}, BUSY[:3]), after, opened)
    assert [each.name for each in found.left_out] == ["rank"]
    for name in ("store", "render", "load"):
        assert change_of(found, name).change == pytest.approx(0, abs=0.03)
        assert judge(found, Limit.parse(f"share({name}) > +10%")).state == WITHIN


def test_a_whole_program_that_is_slower_has_the_same_shares(tmp_path: Path) -> None:
    same, slower = [1.0, 1.01, 0.99], [1.5, 1.51, 1.49]
    found = compare(runs(tmp_path, {}, same), runs(tmp_path, {"": 1}, slower), opened)
    assert not any(each.differs for each in found.functions)
    limits = [
        Limit.parse(text) for text in ("share(rank) > 5%", "total(rank) > 5%", "total(*) > 5%")
    ]
    verdicts = [judge(found, limit) for limit in limits]
    assert [each.state for each in verdicts] == [WITHIN, EXCEEDED, EXCEEDED]
    assert "the rest, or the machine, got slower, too" in verdicts[1].why


def test_how_many_runs_would_tell(tmp_path: Path) -> None:
    before, after = runs(tmp_path, {}, BUSY[:3]), runs(tmp_path, {"": 1}, BUSY[3:])
    verdict = judge(compare(before, after, opened), Limit.parse("total(*) > +20%"))
    assert (verdict.state, verdict.more_runs_tell) == (UNSURE, True)
    assert verdict.runs and verdict.runs > 3
    assert f": {verdict.runs} would show 20 %" in verdict.why
    assert verdict.change
    assert runs_needed(verdict.change, 0.4) < verdict.runs
    assert runs_needed(verdict.change, 1e-9) is None


@pytest.mark.parametrize(
    ("percent", "error", "state", "why"),
    [
        (0, 0.01, WITHIN, ""),
        (3, 0.016, WITHIN, ""),  # not seen to have changed, as it would be by 5 %
        (3, 0.010, UNSURE, "a change, but not whether it is above the limit: "),
        (7, 0.010, UNSURE, "a change, but not whether it is above the limit: "),
        (8, 0.010, EXCEEDED, ""),
        (3, 0.030, UNSURE, "3 runs a side show changes from "),
    ],
)
def test_states_of_limits(percent: float, error: float, state: str, why: str) -> None:
    """By 3 % and 7 % the limit, 5 %, is as far away, and as many runs would tell."""
    one = counted([1], [1])
    means = (Mean(value, error**2 / 2, runs=3) for value in (1, 1 + percent / 100))
    one.share = change(*means)
    verdict = judge(made(one), Limit.parse("share(f) > +5%"))
    assert (verdict.state, why in verdict.why) == (state, True)
    assert (verdict.runs is not None) == (state == UNSURE)
    if "above" in why:
        assert verdict.runs == runs_needed(one.share, 0.02)


def test_tables_and_limits_agree(tmp_path: Path) -> None:
    """What a limit is on is shown; where it is exceeded, no table has it among noise."""
    slower = compare(
        runs(tmp_path, {}, BUSY[:3]), runs(tmp_path, {"main;rank": 1.3}, BUSY[3:]), opened
    )
    by_name = {each.function.name: each for each in slower.functions}
    by_name["rank"].differs = False  # as among many functions
    verdicts = [judge(slower, Limit.parse(f"share({name}) > 10%")) for name in ("rank", "load")]
    assert [each.state for each in verdicts] == [EXCEEDED, WITHIN]
    shown, noise = (
        [row.function.name for row in each.table.rows]
        for each in sections(slower, verdicts, 1)
        if each.title.startswith("sampled")
    )
    assert (shown[0], "load" in noise, "rank" in noise) == ("rank", True, False)
    lines = [*markdown(slower, verdicts, 1)]
    assert lines[0] == "### \N{CROSS MARK} exceeded: 1 of 2 limits (pyhybrid diff)"
    folded = lines.index("<details><summary>sampled time, within noise</summary>")
    (at_rank,) = (at for at, line in enumerate(lines) if line.endswith("| `rank (/w.py)` |"))
    (at_load,) = (at for at, line in enumerate(lines) if line.endswith("| `load (/w.py)` |"))
    assert at_rank < folded < at_load < lines.index("</details>", folded)


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
    verdict = judge(made(counted(before, after)), Limit.parse(limit))
    assert (verdict.state, verdict.more_runs_tell) == (state, False)


def test_what_no_file_can_tell() -> None:
    one, other = counted([1], [1]), FunctionChange(of_python("D.f", "v.py"), ([1], [1]))
    one.per_call = without_error(5, 6)
    several = judge(made(one, other), Limit.parse("calls(f) > 1%"))
    assert (several.state, "C.f (w.py), D.f (v.py)" in several.why) == (WRONG, True)
    assert judge(made(one), Limit.parse("calls(g) > 1%")).state == WRONG
    nearer = FunctionChange(of_python("f", "u.py"), ([1], [1]))
    assert judge(made(one, other, nearer), Limit.parse("calls(f) > 1%")).function == nearer.function
    assert judge(made(one), Limit.parse("total(*) > 1%")).state == UNSURE
    time = judge(made(one), Limit.parse("time(f) > 1%"))
    assert (time.state, "three" in time.why) == (UNSURE, True)


def of_steps(n: int, **means: float) -> StepFigures:
    """A run whose steps are known to a hundredth."""
    known = {name: Mean(ns, (ns / 100) ** 2, 9) for name, ns in means.items()}
    return StepFigures(n, known, known, {}, True)


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
    assert list(states.values()) == [EXCEEDED, EXCEEDED, WITHIN, UNSURE, WRONG, EXCEEDED]
    text = io.StringIO()
    print_comparison(comparison, [], 12, text)
    titles = [line for line in text.getvalue().splitlines() if line.startswith("steps")]
    title = "steps of a training (40 -> 50)"
    assert titles == [
        f"{title}, median time: 2 of 4 differ by more than noise",
        f"{title}, median time, within noise",
        f"{title}, mean time: 2 of 4 differ by more than noise",
        f"{title}, mean time, within noise",
    ]


@pytest.mark.parametrize("slow", ["layer", "log"])
def test_what_explains_a_phase(tmp_path: Path, slow: str) -> None:
    """The layer, or function, that takes longer is behind each phase that does; no other is."""
    runs = []
    for name, ms in (("before", 20), ("after", 32)):
        layer, log = (ms, 20) if slow == "layer" else (20, ms)
        training = Training()
        for at in range(40):
            layers = [(f"Net:Net/forward/Net.forward/Net.{n}:Attn/forward", 10) for n in "ab"]
            layers.append(("Net:Net/forward/Net.forward/Net.c:Attn/forward", layer + at % 2))
            training.step(*layers, ("backward", 30), ("log", log + at % 3))
        profile = training.profile(tmp_path / f"{name}.spool", [(layers[2][0], 40 * layer)])
        runs.append(step_figures(profile))
    found = {each.name: each for each in step_changes(runs[:1], runs[1:])}
    phases = {"layer": ("forward",), "log": ("other",)}[slow]
    part = {"layer": "Net.c [Attn]", "log": "log"}[slow]
    for name in (*phases, "total"):
        (first, *rest) = found[name].parts
        assert (first.part, not rest, found[name].mean_differs) == (part, True, True)
    assert first.more_ns == pytest.approx(24e6 if slow == "layer" else 12e6, rel=0.01)
    assert [each.part for each in found["cpu"].parts] == [part]
    assert not found["optimizer"].parts


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
            assert len(cells) in (6, 9)
            assert cells[-2].strip().startswith("`")
            assert cells[-2].count("`") == 2
        elif "img" in line:
            assert r"\<img" in line
    plain = json.loads(json.dumps(comparison_json(comparison, verdicts), allow_nan=False))
    assert plain["functions"][0]["function"]["name"] == HOSTILE
    assert plain["limits"][0]["state"] == EXCEEDED
