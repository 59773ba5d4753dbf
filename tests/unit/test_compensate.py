"""Exact times less the estimated cost of counting: the arithmetic, and where it is said."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from traces import TASK, Rows, times, trace

from pyhybrid.cli import main
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.pstats import PStats
from pyhybrid.report.quality import quality_listing, quality_report
from pyhybrid.report.screen import print_summary
from pyhybrid.report.summary import summarize
from pyhybrid.report.table import shown
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.compensate import COMPENSATED, compensate

COST = {"call_cost_ns": 10.0, "call_cost_inside_ns": 4.0}
TREE: Rows = [
    (0, "main", {"calls": 1, "ticks": 1000}),
    (1, "work", {"calls": 5, "ticks": 700}),
    (2, "leaf", {"calls": 20, "resumes": 10, "ticks": 400}),
    (1, "leaf", {"calls": 2, "ticks": 50}),
]


def compensated(tmp_path: Path, *threads: Rows, **meta: Any) -> Profile:
    """The trace, compensated."""
    return compensate(trace(tmp_path, *threads, **{**COST, **meta}))


def check_sums(profile: Profile) -> None:
    """No time is negative, and a path's total is its own time and its children's totals."""
    totals = {(row.thread, row.node): row.total_ns for row in profile.exact}
    below = dict.fromkeys(totals, 0)
    for row in profile.exact:
        assert 0 <= row.self_ns <= row.total_ns
        node = profile.nodes.parent[row.node]
        while node and (row.thread, node) not in totals:
            node = profile.nodes.parent[node]
        if node:
            below[row.thread, node] += row.total_ns
    for row in profile.exact:
        assert row.total_ns == row.self_ns + below[row.thread, row.node]


def test_a_total_loses_the_inside_of_its_own_turns_and_all_of_those_below(tmp_path: Path) -> None:
    with compensated(tmp_path, TREE) as profile:
        assert times(profile) == {
            "1:main": (1000 - 4 - 10 * 37, 250 - 4 - 6 * 7),
            "1:main/work": (700 - 4 * 5 - 10 * 30, 300 - 4 * 5 - 6 * 30),
            "1:main/work/leaf": (400 - 4 * 30, 400 - 4 * 30),
            "1:main/leaf": (50 - 4 * 2, 50 - 4 * 2),
        }
        check_sums(profile)
        assert [row.calls for row in profile.exact] == [1, 5, 20, 2]


def test_what_a_task_costs_besides_its_time_is_not_its_makers(tmp_path: Path) -> None:
    """Its turns are called by an event loop, which pays what a turn costs outside of it."""
    tree: Rows = [
        (0, "main", {"calls": 1, "ticks": 400}),
        (1, TASK, {}),
        (2, "fetch", {"calls": 10, "resumes": 10, "ticks": 300}),
        (3, "leaf", {"calls": 5, "ticks": 100}),
    ]
    with compensated(tmp_path, tree) as profile:
        fetch = 300 - 4 * 20 - 10 * 5
        assert times(profile) == {
            "1:main": (100 - 4 + fetch, 100 - 4),
            "1:main/[task]/fetch": (fetch, 200 - 4 * 20 - 6 * 5),
            "1:main/[task]/fetch/leaf": (100 - 4 * 5, 100 - 4 * 5),
        }
        check_sums(profile)


def test_threads_are_on_their_own(tmp_path: Path) -> None:
    other: Rows = [(0, "main", {"calls": 1, "ticks": 90}), (1, "work", {"calls": 1, "ticks": 20})]
    with compensated(tmp_path, TREE, other) as profile:
        assert times(profile)["1:main"] == (626, 204)
        assert times(profile)["2:main"] == (90 - 4 - 10, 70 - 4 - 6)
        assert times(profile)["2:main/work"] == (16, 16)
        check_sums(profile)


def test_no_time_is_negative_where_the_estimate_is_too_high(tmp_path: Path) -> None:
    rows: Rows = [
        (0, "main", {"calls": 1, "ticks": 1000}),
        (1, "work", {"calls": 90, "ticks": 990}),
        (2, "leaf", {"calls": 90, "ticks": 930}),
    ]
    with compensated(tmp_path, rows) as profile:
        assert times(profile) == {
            "1:main": (570, 0),
            "1:main/work": (570, 0),
            "1:main/work/leaf": (570, 570),
        }
        check_sums(profile)


def test_what_had_begun_before_and_regions_cost_nothing_themselves(tmp_path: Path) -> None:
    rows: Rows = [
        (0, "main", {"seeded": 1, "ticks": 1000}),
        (1, "[epoch]", {"calls": 3, "ticks": 600}),
        (2, "leaf", {"calls": 10, "ticks": 300}),
    ]
    with compensated(tmp_path, rows) as profile:
        assert times(profile) == {
            "1:main": (1000 - 10 * 10, 400),
            "1:main/epoch": (600 - 10 * 10, 300 - 6 * 10),
            "1:main/epoch/leaf": (260, 260),
        }


def test_once_is_enough(tmp_path: Path) -> None:
    with compensated(tmp_path, TREE) as profile:
        assert times(compensate(profile)) == times(profile)


def test_views_are_marked(tmp_path: Path) -> None:
    with compensated(tmp_path, TREE) as profile:
        summary = summarize(profile, [], ["another note"])
        assert summary.compensated
        assert summary.notes == [COMPENSATED, "another note"]
        by_name = {each.name.split(" ")[0]: each for each in summary.functions}
        assert by_name["leaf"].exact_total_ns == 280 + 42
        assert by_name["leaf"].exact_self_ns == 280 + 42
        assert f"desc: View: {COMPENSATED}" in Callgrind().lines(profile)
        figures = {key[2]: row[2:4] for key, row in PStats().stats(profile).items()}
        assert figures["main"] == pytest.approx((204e-9, 626e-9))


def test_what_is_not_compensated_is_not_marked(tmp_path: Path) -> None:
    with trace(tmp_path, TREE, **COST) as profile:
        summary = summarize(profile, [], [])
        assert not summary.compensated
        assert COMPENSATED not in summary.notes
        assert not any("desc:" in line for line in Callgrind().lines(profile))
        assert times(profile)["1:main"] == (1000, 250)


def test_the_summary_says_what_counting_took(tmp_path: Path) -> None:
    rows: Rows = [
        (0, "main", {"calls": 1, "ticks": 1}),
        (1, "gen", {"calls": 10**6, "resumes": 3 * 10**6 - 1}),
    ]
    with trace(tmp_path, rows, call_cost_ns=30.5) as profile:
        summary = summarize(profile, [], [])
        cost = [*shown(quality_listing(quality_report(profile)))]
    assert summary.calls
    assert (summary.calls.turns, summary.cost.call_ns) == (4 * 10**6, 30.5)
    assert summary.cost.counting_ns == 122_000_000
    line = "cost      counting 4,000,000 calls and resumes: about 0.12 s, 8.1% of the CPU time"
    assert line in cost
    stream = io.StringIO()
    print_summary(summary, stream)
    assert "counting" not in stream.getvalue()  # it is little


def test_the_first_screen_says_where_counting_took_much(tmp_path: Path) -> None:
    rows: Rows = [(0, "main", {"calls": 10**7})]
    with trace(tmp_path, rows, call_cost_ns=30.5) as profile:
        stream = io.StringIO()
        print_summary(summarize(profile, [], []), stream)
    line = "caution  counting calls took about 0.30 s, 20.3% of the CPU time"
    assert line in stream.getvalue().splitlines()


def test_what_some_callbacks_took_is_on_top(tmp_path: Path) -> None:
    """Those below C code, and of new paths, are timed in the run."""
    rows: Rows = [(0, "main", {"calls": 1}), (1, "gen", {"calls": 10**6 - 1})]
    with trace(tmp_path, rows, call_cost_ns=30.0, counting_more_ns=170_000_000) as profile:
        assert summarize(profile, [], []).cost.counting_ns == 200_000_000


def test_an_unknown_cost_is_not_guessed(tmp_path: Path) -> None:
    with trace(tmp_path, TREE) as profile:
        summary = summarize(profile, [], [])
        calls, cost = summary.calls, summary.cost
        assert calls and (calls.turns, cost.call_ns, cost.counting_ns) == (38, None, None)
        stream = io.StringIO()
        print_summary(summary, stream)
        assert "counting" not in stream.getvalue()
        with pytest.raises(PyhybridError, match="was not measured"):
            compensate(profile)


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, list[str]]:
    """The exit code, what the command line prints, and its lines of errors."""
    with pytest.raises(SystemExit) as exit:
        main(list(arguments))
    said = capsys.readouterr()
    return exit.value.code, said.out, said.err.splitlines()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace(tmp_path, TREE, **COST).close()
    part = str(tmp_path / "x.part")
    code, out, err = lines_of(capsys, "report", "--compensate", part)
    assert (code, err) == (0, [])
    assert f"note     {COMPENSATED}" in out
    code, out, _ = lines_of(capsys, "report", "--compensate", "--json", part)
    assert json.loads(out)["compensated"] is True
    target = tmp_path / "callgrind.out"
    options = ("-f", "callgrind", "-o", str(target), part)
    code, _, err = lines_of(capsys, "export", "--compensate", *options)
    assert (code, err) == (0, [f"pyhybrid: {COMPENSATED}", f"pyhybrid: wrote {target}"])
    assert "totals: 626\n" in target.read_text()
    code, _, err = lines_of(capsys, "export", "--compensate", "-f", "folded", part)
    assert (code, err) == (2, ["pyhybrid: --compensate is for pstats and callgrind"])


@pytest.mark.parametrize("command", [("report",), ("export", "-f", "pstats")])
@pytest.mark.parametrize(
    ("rows", "reason"), [(TREE, "was not measured there"), ([], "no calls were traced")]
)
def test_not_possible_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    rows: Rows,
    reason: str,
) -> None:
    trace(tmp_path, rows).close()
    code, out, (line,) = lines_of(capsys, *command, "--compensate", str(tmp_path / "x.part"))
    assert (code, out) == (1, "")
    assert reason in line
    assert [path.name for path in tmp_path.iterdir()] == ["x.part"]
