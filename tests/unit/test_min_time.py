"""--min-time: what took less is left out, and no sum changes by that."""

import json
import marshal
from collections import Counter
from pathlib import Path

import pytest
from example_profile import WEIGHT, example, fake_symbols
from traces import Rows, trace

from pyhybrid.assemble import open_profile
from pyhybrid.cli import main
from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.folded import Folded
from pyhybrid.options.kinds import Duration
from pyhybrid.report.summary import summarize
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.calls.function_calls import ROOT, function_calls
from pyhybrid.views.labels import Labels, short_time

# main calls small, which calls big, which calls small and tiny; main also calls big.
ROWS: Rows = [
    (0, "main", {"calls": 1, "ticks": 1000}),
    (1, "small", {"calls": 2, "ticks": 60}),
    (2, "big", {"calls": 3, "ticks": 45}),
    (3, "small", {"calls": 4, "ticks": 20}),
    (3, "tiny", {"calls": 5, "ticks": 10}),
    (1, "big", {"calls": 6, "ticks": 800}),
]


@pytest.mark.parametrize(
    ("text", "ns"),
    [("100ns", 100), ("500us", 500_000), ("1ms", 10**6), ("1.5ms", 1_500_000), ("2s", 2 * 10**9),
     ("5m", 300 * 10**9), ("0s", 0), ("0.1us", 100)],
)  # fmt: skip
def test_durations(text: str, ns: int) -> None:
    assert Duration().parse(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "1", "ms", "1 ms", "-1ms", "1d", ".5s", "1.s", "1e3s", "1msx", "٣ms", "9" * 30 + "s"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        Duration().parse(text)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1500, "1.5 us"), (10**6, "1 ms"), (2 * 10**9, "2 s")],
)
def test_durations_as_text(ns: int, text: str) -> None:
    assert short_time(ns) == text


def by_name(profile: Profile, min_time_ns: int = 0) -> dict[str, tuple[int, int, dict[str, int]]]:
    """(total, self, {caller: time of the calls that entered the function}) by function."""
    names = {frame.id: frame.name for frame in profile.frames.values()} | {ROOT: "-"}
    return {
        names[frame]: (
            f.total_ns,
            f.self_ns,
            {names[c]: t.entered_ns for c, t in f.callers.items()},
        )
        for frame, f in function_calls(profile, min_time_ns).items()
    }


def test_small_functions_are_part_of_their_callers(tmp_path: Path) -> None:
    with trace(tmp_path, ROWS) as profile:
        whole, cut = by_name(profile), by_name(profile, 100)
    assert whole["small"] == (60, 15 + 20, {"main": 60, "big": 0})
    assert whole["main"] == (1000, 140, {"-": 1000})
    assert cut == {
        "main": (1000, 140 + 15, {"-": 1000}),
        "big": (845, (800 + 15) + 20 + 10, {"main": 845}),
    }


def test_recursion_through_a_small_function_stays_recursion(tmp_path: Path) -> None:
    rows: Rows = [
        (0, "main", {"calls": 1, "ticks": 1000}),
        (1, "big", {"calls": 1, "ticks": 900}),
        (2, "small", {"calls": 1, "ticks": 30}),
        (3, "big", {"calls": 1, "ticks": 20}),
    ]
    with trace(tmp_path, rows) as profile:
        cut = by_name(profile, 100)
    assert cut == {
        "main": (1000, 100, {"-": 1000}),
        "big": (900, 870 + 10 + 20, {"main": 900, "big": 0}),
    }


def test_a_function_without_a_caller_stays(tmp_path: Path) -> None:
    """There is none to take its time."""
    first: Rows = [
        (0, "<module>", {"calls": 1, "ticks": 50}),
        (1, "tiny", {"calls": 1, "ticks": 10}),
    ]
    with trace(tmp_path, first, ROWS) as profile:
        cut = by_name(profile, 200)
        whole = by_name(profile)
    assert cut.keys() == {"<module>", "main", "big"}
    assert cut["<module>"] == (50, 50, {"-": 50})
    assert sum(f[1] for f in cut.values()) == sum(f[1] for f in whole.values()) == 1050


def test_exports_keep_their_sums(tmp_path: Path) -> None:
    def total(exporter: Callgrind) -> tuple[str, ...]:
        return tuple(line for line in exporter.lines(profile) if line.startswith(("totals", "fn=")))

    with trace(tmp_path, ROWS) as profile:
        exporter = Callgrind()
        exporter.min_time_ns = 100
        assert total(Callgrind())[-1] == total(exporter)[-1] == "totals: 1000"
        assert len(total(exporter)) == len(total(Callgrind())) - 2
        text = "functions below 100 ns are part of their callers"
        assert f"desc: View: {text}" in exporter.lines(profile)


def folded(profile: Profile, min_time_ns: int) -> dict[str, int]:
    """What is written: count by line, the files and lines of frames left out."""
    exporter = Folded()
    exporter.min_time_ns = min_time_ns
    lines = exporter.lines(profile, FoldedTree(profile), Labels(profile).of_frame)
    counts: Counter[str] = Counter()
    for line in lines:
        path, _, count = line.rpartition(" ")
        counts[";".join(frame.split(" ")[0] for frame in path.split(";"))] += int(count)
    return dict(counts)


def test_folded_paths_are_part_of_those_above(tmp_path: Path) -> None:
    rows = [(p, n, {**c, "ticks": c["ticks"] * 1000}) for p, n, c in ROWS]
    other: Rows = [(0, "main", {"calls": 1, "ticks": 30_000})]
    with trace(tmp_path, rows, other, other) as profile:
        assert folded(profile, 0) == {
            "MainThread;main": 140,
            "python;main": 30 + 30,
            "MainThread;main;small": 15,
            "MainThread;main;small;big": 15,
            "MainThread;main;small;big;small": 20,
            "MainThread;main;small;big;tiny": 10,
            "MainThread;main;big": 800,
        }
        assert folded(profile, 45_000) == {
            "python": 30 + 30,
            "MainThread;main": 140,
            "MainThread;main;small": 15,
            "MainThread;main;small;big": 45,
            "MainThread;main;big": 800,
        }
        assert folded(profile, 100_000) == {
            "python": 30 + 30, "MainThread;main": 200, "MainThread;main;big": 800,
        }  # fmt: skip


def test_folded_samples_keep_their_sum(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        whole = folded(profile, 0)
        for min_time_ns in (2_000_000, 5_000_000, 10**12):
            cut = folded(profile, min_time_ns)
            assert sum(cut.values()) == WEIGHT
            assert len(cut) < len(whole)
    assert cut == {"MainThread": 13, "loader:1": 2}


def test_the_summary_leaves_functions_out_and_says_how_many(tmp_path: Path) -> None:
    with trace(tmp_path, ROWS) as profile:
        summary = summarize(profile, [], [], 100)
    assert {each.name.split(" ")[0] for each in summary.functions} == {"big", "main"}
    assert (summary.min_time_ns, summary.left_out) == (100, 2)
    assert summary.notes == ["2 functions below 100 ns are left out"]
    assert summary.calls and (summary.calls.n_traced, summary.calls.calls) == (4, 21)


def test_without_calls_samples_decide(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        whole, cut = summarize(profile, [], []), summarize(profile, [], [], 5_000_000)
    assert {f.name for f in whole.functions if f.total_ns >= 5_000_000} == {
        f.name for f in cut.functions
    }
    assert cut.left_out == len(whole.functions) - len(cut.functions) > 0
    assert whole.left_out == 0


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace(tmp_path, ROWS).close()
    part, target = str(tmp_path / "x.part"), str(tmp_path / "x.pstats")

    def run(*arguments: str) -> object:
        with pytest.raises(SystemExit) as exit:
            main(list(arguments))
        return exit.value.code

    assert run("report", part, "--json", "--min-time", "100ns") == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == 2
    assert run("export", part, "-f", "pstats", "-o", target, "--min-time", "0.1us") == 0
    stats = marshal.loads(Path(target).read_bytes())
    assert {key[2] for key in stats} == {"main", "big"}
    assert sum(row[2] for row in stats.values()) == pytest.approx(1000e-9)
    capsys.readouterr()
    for arguments, said in (
        (("report", part, "--min-time", "soon"), "argument --min-time: 'soon' is not a time"),
        (("export", part, "-f", "perf", "--min-time", "1ms"), "--min-time is for folded, pstats"),
    ):
        assert run(*arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"pyhybrid: {said}")
