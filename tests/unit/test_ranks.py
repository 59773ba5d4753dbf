"""Verdicts on ranks, of tables that are made for it: what is slow is named, and nothing else."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest
from example_profile import example, fake_symbols
from many_ranks import HOUR_NS, N_STEPS, STEP_NS, rank_rows, row, save
from trainings import Training

from pyhybrid.cli import main
from pyhybrid.errors import PyhybridError
from pyhybrid.finish.finish import finish
from pyhybrid.ranks import page, store
from pyhybrid.ranks.changes import changes
from pyhybrid.ranks.compact import compact
from pyhybrid.ranks.screen import verdict_listing
from pyhybrid.ranks.store import Ranks
from pyhybrid.ranks.tables import PHASES, TABLES, rows_of
from pyhybrid.ranks.verdict import GARBAGE, Verdict, judge, judged
from pyhybrid.report.table import plain, shown
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.phases import all_phases

pytestmark = pytest.mark.needs("ranks")
MS = 1_000_000
QUERIES = sorted(Path(store.__file__).parent.glob("*.sql"))
# What DuckDB and Spark both have, and answer alike.
PORTABLE = {"cast", "count", "sum", "max", "min", "coalesce", "percentile_disc", "max_by"}
KEYWORDS = {"as", "and", "or", "not", "in", "group", "over", "then", "when", "by", "select", "on"}


def verdict(folder: Path) -> Verdict:
    return judge(Ranks(str(folder)))


def test_healthy_ranks_are_even(tmp_path: Path) -> None:
    save(tmp_path, (rank_rows(rank, 6) for rank in range(6)))
    found = verdict(tmp_path)
    assert found.slow == [] and found.missing == [] and found.runs == 1 and not found.garbage
    assert [each.rank for each in found.ranks] == [*range(6)]
    assert "no rank is slow" in "\n".join(shown(verdict_listing(found)))


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    ("phase", "cpu", "how"),
    [
        ("other", 0, "waits"),
        ("forward", 1, "computes"),
        ("data", 0, "waits"),
        ("backward", 1, "computes"),
    ],
)
@pytest.mark.parametrize("size", [8, 2, 3])
def test_the_slow_one_is_named(tmp_path: Path, phase: str, cpu: float, how: str, size: int) -> None:
    """Though all steps are equally long: it waits least."""
    slow = rank_rows(1, size, 12 * MS + 4 * MS * (phase == "backward"), phase, cpu)
    save(tmp_path, (slow if rank == 1 else rank_rows(rank, size) for rank in range(size)))
    found = verdict(tmp_path)
    assert [each.rank for each in found.slow] == [1]
    (reason,) = found.slow[0].reasons
    assert (reason.phase, reason.how, reason.steps) == (phase, how, N_STEPS)
    assert reason.in_steps >= 0.8 * N_STEPS
    assert abs(found.slow[0].more_ns - 12 * MS) < 8 * MS
    if phase == "other":
        assert reason.function == "log_metrics (train.py:20)"
    text = "\n".join(shown(verdict_listing(found)))
    assert text.splitlines()[1].startswith("slow     rank 1 (pid 101 on node0): ")


@pytest.mark.parametrize(("cpu", "how"), [(0.1, "computes"), (0.0, "waits")])
def test_where_processors_lack_what_computes_grows_alike(
    tmp_path: Path, cpu: float, how: str
) -> None:
    """It has a processor for a tenth of the time, with longer inputs as without."""
    slow = rank_rows(1, 4, 12 * MS, "forward", cpu, ran=0.1)
    save(tmp_path, [slow, *(rank_rows(rank, 4, ran=0.1) for rank in (0, 2, 3))])
    (found,) = verdict(tmp_path).slow
    assert [(each.phase, each.how) for each in found.reasons] == [("forward", how)]


def test_tokens_are_shown_and_are_why(tmp_path: Path) -> None:
    usual = [rank_rows(rank, 4, tokens=1000) for rank in (0, 2, 3)]
    save(tmp_path, [rank_rows(1, 4, 12 * MS, "forward", 1, tokens=1900), *usual])
    found = verdict(tmp_path)
    assert [each.tokens_per_s for each in found.ranks] == [5000, 9500, 5000, 5000]
    assert found.slow[0].tokens_ratio == 1.9
    found.slow[0].reasons.append(found.slow[0].reasons[0].replaced(phase="backward"))
    text = "\n".join(shown(verdict_listing(found)))
    assert "in as many calls (1.9 x the tokens)" in text and "tokens/s" in text


def test_garbage_of_one_rank_and_of_ranks_in_turn(tmp_path: Path) -> None:
    one, most, turns = tmp_path / "one", tmp_path / "most", tmp_path / "turns"
    of_most = tuple(range(0, N_STEPS, 2))
    save(one, (rank_rows(r, 4, gc_steps=range(0, N_STEPS, 4) if r == 2 else ()) for r in range(4)))
    found = verdict(one)
    assert [each.rank for each in found.slow] == [2]
    assert [each.phase for each in found.slow[0].reasons] == [GARBAGE]
    assert found.slow[0].reasons[0].in_steps == N_STEPS // 4
    save(most, (rank_rows(r, 4, gc_steps=(3,) if r == 1 else of_most * (r == 2)) for r in range(4)))
    assert verdict(most).garbage_ranks == 0  # one step is no turn
    save(turns, (rank_rows(r, 4, gc_steps=range(r, N_STEPS, 4)) for r in range(4)))
    found = verdict(turns)
    assert found.slow == [] and found.garbage_ranks == 4
    assert found.garbage == pytest.approx(20 / 200, rel=0.01)
    assert "4 ranks in turn" in "\n".join(shown(verdict_listing(found)))


@pytest.mark.parametrize(("every", "slow"), [(2, [1]), (4, [1]), (N_STEPS, [])])
def test_a_loader_that_brings_several_batches_at_once(
    tmp_path: Path, every: int, slow: list[int]
) -> None:
    """It is waited for in some steps; in one alone is no sign."""
    more = {1: {"more_ns": 30 * MS * every, "phase": "data", "every": every}}
    save(tmp_path, (rank_rows(rank, 4, **more.get(rank, {})) for rank in range(4)))
    found = verdict(tmp_path)
    assert [each.rank for each in found.slow] == slow
    for each in found.slow:
        (reason,) = each.reasons
        assert (reason.phase, reason.how) == ("data", "waits")
        assert reason.in_steps == N_STEPS // every - 2


def test_clocks_of_hosts(tmp_path: Path) -> None:
    """By the ends of what all wait in; one that is off by less than can be seen is no line."""
    ahead = {"a": 0, "b": 7 * MS, "c": -40 * MS, "d": 10_000}
    ranks = [(rank, "abcd"[rank // 2]) for rank in range(8)]
    save(tmp_path, [rank_rows(r, 8, host=host, clock_ns=ahead[host]) for r, host in ranks])
    found = verdict(tmp_path)
    assert [each.host for each in found.clocks] == ["b", "c", "d"]
    for each in found.clocks:
        assert each.ends == N_STEPS and 0 < each.spread_ns < 300_000
        assert abs(each.ahead_ns - ahead[each.host]) < 200_000
    lines = [line for line in shown(verdict_listing(found)) if line.startswith("clock ")]
    assert [line.split()[3] for line in lines] == ["c", "b"]
    assert "behind that of rank 0's host, by 20 common ends" in lines[0]
    assert found.slow == []


def test_missing_ranks_and_two_runs(tmp_path: Path) -> None:
    """Of the older run nothing is in the answer."""
    save(
        tmp_path,
        (rank_rows(rank, 8, host="old", more_ns=50 * MS * (rank == 3)) for rank in range(8)),
    )
    newer = [rank_rows(rank, 8, began_ns=2 * HOUR_NS) for rank in range(8) if rank not in (2, 5)]
    save(tmp_path, newer, "newer")
    found = verdict(tmp_path)
    assert found.runs == 2 and found.missing == [2, 5] and found.slow == []
    assert {each.host for each in found.ranks} == {"node0"}
    text = "\n".join(shown(verdict_listing(found)))
    assert "nothing is there of 2 of 8 ranks: 2, 5" in text and "2 runs" in text


def test_restarts_and_a_launcher(tmp_path: Path) -> None:
    """The launcher lives on; of the ranks that it has started again the last ones count."""
    launcher = {
        "process": 1,
        "began_ns": HOUR_NS - 1,
        "wall_ns": 3 * HOUR_NS,
        "pid": 1,
        "host": "h",
    }
    rows = [rank_rows(rank, 2, began_ns=n * HOUR_NS) for rank in range(2) for n in (1, 2)]
    rows[0]["process"].append(row("process", **launcher, rank=None, steps=0, file="out.pyhybrid"))
    save(tmp_path, rows)
    found = verdict(tmp_path)
    assert found.runs == 2 and found.notes == [] and found.began_ns == 2 * HOUR_NS


def test_waits_that_are_not_known(tmp_path: Path) -> None:
    """As where a profile is older than the rule for what ranks wait in."""
    ranks = [rank_rows(rank, 2) for rank in range(2)]
    for rows in ranks:
        rows["step"] = [(*each[:5], 0, *each[6:]) for each in rows["step"]]
    save(tmp_path, ranks)
    (note,) = verdict(tmp_path).notes
    assert note.startswith("no waits of ranks for one another are known")


def test_two_runs_at_once(tmp_path: Path) -> None:
    save(tmp_path, (rank_rows(rank, 2, host=host) for rank in range(2) for host in "ab"))
    (note,) = verdict(tmp_path).notes
    assert note.startswith("2 ranks are there more than once")


def test_no_ranks(tmp_path: Path) -> None:
    alone = {"process": 1, "began_ns": HOUR_NS, "wall_ns": 1, "command": "python a.py"}
    save(tmp_path, [{**rank_rows(0, 1), "process": [row("process", **alone, rank=None)]}])
    found = verdict(tmp_path)
    assert found.ranks == [] and found.notes[0].startswith("no process has a rank")
    assert "\n".join(shown(verdict_listing(found))).startswith("ranks    0 ranks of a.py")


def test_what_cannot_be_read_is_a_line(tmp_path: Path) -> None:
    save(tmp_path, (rank_rows(rank, 4, 12 * MS * (rank == 1)) for rank in range(4)))
    whole = (tmp_path / "step/node.parquet").read_bytes()
    (tmp_path / "step/half.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "process/empty.parquet").write_bytes(b"")
    (tmp_path / "rank-9.pyhybrid").write_text("no profile")
    ranks = Ranks(str(tmp_path))
    assert [each.rank for each in judge(ranks).slow] == [1]
    assert len(ranks.problems) == 3
    assert all("\n" not in line for line in ranks.problems)
    with pytest.raises(PyhybridError, match=r"the query failed: .*nothing"):
        ranks.execute("SELECT nothing FROM step")


def test_names_of_any_kind(tmp_path: Path) -> None:
    """Of functions, hosts and commands, which programs choose."""
    odd = 'a "b", c\n\x1b[31m\u202e; \ud800 \x01 NULL'
    rows = rank_rows(0, 1)
    rows["function"] = [row("function", process=1, function=1, name=odd, file=None, kind="")]
    save(tmp_path, [rows])
    ranks = Ranks(str(tmp_path))
    ((name, file, kind),) = ranks.execute("SELECT name, file, kind FROM function")
    assert name == odd.replace("\ud800", "\\ud800") and file is None and kind == ""


def test_nothing_is_there(tmp_path: Path) -> None:
    with pytest.raises(PyhybridError, match="neither profiles nor tables"):
        Ranks(str(tmp_path))
    with pytest.raises(PyhybridError, match="no such folder, and no profile"):
        Ranks(str(tmp_path / "none.ranks"))


def test_without_duckdb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(PyhybridError, match=r"pip install 'pyhybrid\[ranks\]'"):
        Ranks(str(tmp_path))


def test_older_and_newer_schemas_together(tmp_path: Path) -> None:
    """A column that a file lacks is null, one that it has besides is there."""
    for rank in range(2):
        save(tmp_path, [rank_rows(rank, 2)], f"node-{rank}")
    path = tmp_path / "process/node-1.parquet"
    connection = store.connect()
    connection.execute(
        f"COPY (SELECT * EXCLUDE (maker), 2::SMALLINT AS also FROM read_parquet('{path}')) "
        f"TO '{path}.new' (FORMAT parquet)"
    )
    os.replace(f"{path}.new", path)
    ranks = Ranks(str(tmp_path))
    assert ranks.execute("SELECT maker, also FROM process ORDER BY rank") == [
        (None, None),
        (None, 2),
    ]
    assert judge(ranks).slow == []


def test_compacted_the_answer_is_the_same(tmp_path: Path) -> None:
    save(tmp_path, (rank_rows(rank, 5, 12 * MS * (rank == 1)) for rank in range(5)))
    before = plain(verdict(tmp_path))
    compact(Ranks(str(tmp_path)))
    assert [each.name for each in (tmp_path / "step").iterdir()] == ["compacted.parquet"]
    assert plain(verdict(tmp_path)) == before
    compact(Ranks(str(tmp_path)))
    assert plain(verdict(tmp_path)) == before


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, (rank_rows(rank, 3, 12 * MS * (rank == 1)) for rank in range(3)))

    def printed(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(["ranks", *words, str(tmp_path)])
        assert end.value.code == 0
        return capsys.readouterr().out

    assert printed().splitlines()[1].startswith("slow     rank 1 ")
    assert json.loads(printed("--json"))["slow"][0]["rank"] == 1
    assert printed("--sql", "SELECT count(*) AS n FROM process").split() == ["n", "3"]
    assert json.loads(printed("--json", "--sql", "SELECT max(rank) AS r FROM process")) == [
        {"r": 2}
    ]


def test_a_page_of_many_ranks_and_steps(tmp_path: Path) -> None:
    """Rows are as many as there is room for, the slow rank's is the first; cells are means."""
    save(tmp_path, (rank_rows(rank, 300, 12 * MS * (rank == 123)) for rank in range(300)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(page, "MOST_COLUMNS", 6)
        text = page.page_of(judged(Ranks(str(tmp_path))))
    index = json.loads(re.search(r'id="index">(.*?)</script>', text)[1])
    packed = re.search(r'id="data">(.*?)</script>', text)[1]
    data = gzip.decompress(base64.b64decode(packed))
    at, n, _ = index["meta"]
    meta = json.loads(data[at : at + n])
    assert meta["ranks"][0] == 123 and len(set(meta["ranks"])) == len(meta["ranks"]) == 151
    assert (meta["every"], meta["columns"]) == (4, 5)
    at, n, width = index["cell.0"]
    assert n == 151 * 5
    own = [sum(data[at + n * byte + i] << 8 * byte for byte in range(width)) for i in range(5)]
    assert all(abs(each - 110 * MS) < 15 * MS for each in own)
    assert "151 of 300 ranks are shown" in meta["about"]


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By phase and by function: all ranks of the second one take more between the phases."""
    before, after = tmp_path / "a", tmp_path / "b"
    save(before, (rank_rows(rank, 4) for rank in range(4)))
    save(after, (rank_rows(rank, 4, 30 * MS) for rank in range(4)))
    found = changes(Ranks(str(before)), Ranks(str(after)))
    other = {each.name: each for each in found.phases}["between"]
    assert round(other.after_ns - other.before_ns) == 30 * MS and other.more_in == other.ranks == 4
    assert {each.more_in for each in found.phases if each.name in ("forward", "step")} == {0}
    assert {each.name: round(each.after_ns - each.before_ns) for each in found.functions} == {
        "step (train.py:10)": 30 * MS,
        "log_metrics (train.py:20)": 30 * MS,
    }
    with pytest.raises(SystemExit) as end:
        main(["diff", str(before), str(after)])
    assert end.value.code == 0
    assert "4 of 4  between" in capsys.readouterr().out
    assert changes(Ranks(str(after)), Ranks(str(after))).functions == []


def test_a_profiles_rows_are_its_figures(tmp_path: Path) -> None:
    """Of the run's only process, which is made a rank."""
    spool = example()
    spool.meta(rank=3, world_size=4)
    path = finish(spool.save(tmp_path / "a.part"), str(tmp_path / "a"), fake_symbols())
    with Profile.open(path) as profile:
        rows = rows_of(profile, "a.pyhybrid")
        weight = sum(each.weight_ns for each in profile.sampled)
        calls = sum(profile.exact.calls)
    assert len(rows["process"]) == 1
    asked = Ranks(str(tmp_path))
    assert asked.execute("SELECT rank, world_size FROM process") == [(3, 4)]
    assert asked.execute("SELECT sum(self_ns)::BIGINT, sum(calls)::BIGINT FROM function") == [
        (weight, calls)
    ]
    assert asked.execute(
        "SELECT count(*) FROM path WHERE parent <> 0 AND parent NOT IN (SELECT path FROM path)"
    ) == [(0,)]


@pytest.mark.parametrize(
    ("name", "wait_ns"), [("c10d::Reducer::finalize_backward()", 3 * MS), ("at::mul()", 0)]
)
def test_waits_in_a_backward_pass_are_found_by_samples(
    tmp_path: Path, name: str, wait_ns: int
) -> None:
    """Whatever wraps the model: what did not run there waited, if gradients are exchanged."""
    training = Training(rank=0, world_size=2)
    for _ in range(3):
        training.step(("forward", 1), ("backward/native", 2), ("backward/native", 3, False))
    with training.profile(tmp_path / "a.part") as profile:
        (frame,) = (each for each in profile.frames.values() if each.name == "native")
        native = frame._replace(kind="native", name=name, file=None)
        rows = rows_of(profile.replaced(frames={**profile.frames, frame.id: native}), "a")
    at = [*TABLES["step"].columns].index("wait_ns") - 1  # without `schema`
    assert [row[at] for row in rows["step"]] == [wait_ns] * 3


def test_every_phase_has_columns() -> None:
    assert set(PHASES) == set(all_phases())


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_queries_are_of_the_common_subset(path: Path) -> None:
    """So that another engine answers them, too: Spark's words are not DuckDB's."""
    text = re.sub(r"--.*", "", path.read_text())
    assert not re.search(r"::|\bFILTER\b|\bQUALIFY\b|\bEXCLUDE\b|[^<>]=>|\[|\"|//", text)
    called = {name.lower() for name in re.findall(r"\b(\w+)\s*\(", text)} - KEYWORDS
    assert called - PORTABLE <= set(re.findall(r"(\w+) AS \(", text))


def test_steps_are_equally_long() -> None:
    """Of the test's own ranks: else a slow one would show by that alone."""
    slow = rank_rows(1, 4, 12 * MS)
    walls = {each[3] for rows in (slow, rank_rows(0, 4)) for each in rows["step"]}
    assert walls == {2 * STEP_NS}
