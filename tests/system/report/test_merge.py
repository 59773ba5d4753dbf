"""`pyhybrid merge`, of real runs: nothing of what they measured is missing, and it adds up."""

from __future__ import annotations

import json
import pstats
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from support import check_invariants, made_once, printed

from pyhybrid.tables.profile import Profile

PROGRAM = """
import re, sys, threading
from pyhybrid import region

def leaf(n): return sum(range(n))

def generator(n):
    for i in range(n): yield leaf(i)

class Model:
    def forward(self, n):
        with region("step", n=n): return list(generator(n))

def countdown(n): return n and countdown(n - 1)

def work(n):
    for i in range(n): Model().forward(i)
    countdown(n)
    try: raise ValueError
    except ValueError: return re.compile("a" * n)

def only_first(): leaf(1)
def only_second(): leaf(2)

threads = [threading.Thread(target=work, args=(20,)) for _ in range(2)]
for thread in threads: thread.start()
work(int(sys.argv[1]))
for thread in threads: thread.join()
only_first() if sys.argv[1] == "30" else only_second()
"""
OPTIONS = (
    *(
        "--keep",
        "Model.forward",
        "--keep",
        "generator",
        "--usage",
        "cpu,memory",
        "--events",
        "--c-calls",
    ),
    *("--lines", "--include", "__main__", "--arguments", "Model.forward", "-q"),
)
SHARED = {
    "module",
    "segment",
    "frame",
    "node",
    "stack",
    "meta",
    "code",
    "c_function",
    "recursive_node",
}


def make(folder: Path) -> None:
    # Another name for the spool, which is there until all else is made of it.
    kept = "import glob, os\n(part,) = glob.glob('*.part')\nos.link(part, part[0] + '.spool')\n"
    (folder / "program.py").write_text(PROGRAM + kept)
    for name, n in (("a", 30), ("b", 40)):
        printed(folder, *OPTIONS, "-o", name, "--format", "pstats", "program.py", n)
    printed(folder, "merge", "a.pyhybrid", "b.pyhybrid", "-o", "all")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "merge", make)


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    """What one makes there, no other test meets."""
    for path in recorded.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.fixture
def profiles(folder: Path) -> Iterator[list[Profile]]:
    """Of both, and the merged one."""
    with ExitStack() as stack:
        names = ("a", "b", "all")
        yield [stack.enter_context(Profile.open(f"{folder}/{name}.pyhybrid")) for name in names]


def test_no_row_is_missing(profiles: list[Profile]) -> None:
    a, b, whole = profiles
    check_invariants(whole)
    tables = {name for (name,) in whole.query("SELECT name FROM sqlite_schema WHERE type='table'")}
    for table in tables - SHARED - {"process_meta"}:
        n = [p.query(f"SELECT count(*) FROM {table}")[0][0] for p in (a, b, whole)]
        assert n[2] == n[0] + n[1], table
    for used in ("exact", "call", "usage", "turn", "line", "call_time", "event_log"):
        assert whole.query(f"SELECT 1 FROM {used}"), used


def test_spools_make_the_same_file(folder: Path) -> None:
    printed(folder, "merge", "a.spool", "b.spool", "-o", "of-spools")

    def dump(name: str) -> Counter[str]:
        with closing(sqlite3.connect(folder / f"{name}.pyhybrid")) as database:
            rows = Counter(database.iterdump())
        # What only the process that finished its own spool knows.
        return Counter({row: n for row, n in rows.items() if "'end_cpu_ns'" not in row})

    assert dump("of-spools") == dump("all")


def test_functions_add_up(folder: Path, profiles: list[Profile]) -> None:
    columns = ("calls", "resumes", "raised", "seeded", "total_ns", "self_ns")
    found: list[Counter[tuple[object, ...]]] = []
    for profile in profiles:
        figures: Counter[tuple[object, ...]] = Counter()
        for name, file, line, total_ns in profile.query(
            "SELECT name, file, line, total_ns FROM function"
        ):
            figures["the view", name, file, line] += total_ns
        for row in profile.exact:
            frame = profile.frames[profile.nodes.frame[row.node]]
            for name in columns:
                key = frame.kind, frame.name, frame.file, frame.address, name
                figures[key] += getattr(row, name)
        found.append(figures)
    assert found[2] == found[0] + found[1]
    assert all(profile.query("SELECT 1 FROM recursive_node") for profile in profiles)
    named = {key[1:3] for key in found[2]}
    program = str((folder / "program.py").resolve())
    assert {("only_first", program), ("only_second", program)} < named


@pytest.mark.further
def test_lines_add_up(profiles: list[Profile]) -> None:
    found: list[Counter[tuple[object, ...]]] = []
    for profile in profiles:
        sql = "SELECT name, file, line, hits, total_ns FROM hot_line"
        figures: Counter[tuple[object, ...]] = Counter()
        for name, file, line, hits, total_ns in profile.query(sql):
            figures[name, file, line, "hits"] += hits
            figures[name, file, line, "ns"] += total_ns
        found.append(figures)
    assert found[2] == found[0] + found[1]


@pytest.mark.further
def test_single_calls_are_the_same(profiles: list[Profile]) -> None:
    def calls(profile: Profile) -> Counter[tuple[object, ...]]:
        told = {call.id: call for call in profile.calls}
        return Counter(
            (
                profile.frames[profile.nodes.frame[call.node]].name,
                *(call.begin_ns, call.end_ns, call.busy_ns, call.state, call.attributes),
                told[call.parent].begin_ns if call.parent else None,
                profile.pid_of(call.thread),
                *profile.usage[call.id][1:],
            )
            for call in profile.calls
        )

    a, b, whole = map(calls, profiles)
    assert whole == a + b


@pytest.mark.further
def test_events_are_the_same(profiles: list[Profile]) -> None:
    def events(profile: Profile) -> Counter[tuple[object, ...]]:
        return Counter(
            (
                *(profile.threads[event.thread].tid, event.time_ns, event.kind),
                profile.frames[profile.nodes.frame[event.node]].name,
            )
            for event in profile.events()
        )

    a, b, whole = map(events, profiles)
    assert whole == a + b


def test_reports_are_of_all(folder: Path) -> None:
    printed(folder, "export", "-f", "pstats", "all.pyhybrid")
    a, b, whole = (pstats.Stats(f"{folder}/{name}.pstats").stats for name in ("a", "b", "all"))  # type: ignore[attr-defined]
    assert whole.keys() == a.keys() | b.keys()
    for function, (_, calls, *_) in whole.items():
        parts = [each[function][1] for each in (a, b) if function in each]
        assert calls == sum(parts), function
    printed(folder, "report", "all.pyhybrid")
    assert "2 times program.py" in printed(folder, "report", "processes", "all.pyhybrid")
    for view, shown in (("tree", "work"), ("lines", "leaf"), ("calls", "Model.forward")):
        assert shown in printed(folder, "report", view, "all.pyhybrid")


def exported(folder: Path, form: str, *words: object) -> list[str]:
    printed(folder, "export", "-f", form, "-o", "exported", *words)
    return sorted((folder / "exported").read_text("utf-8", "replace").splitlines())


@pytest.mark.further
@pytest.mark.parametrize("name", ["a", "b"])
def test_one_process_of_a_merged_profile_is_as_before(folder: Path, name: str) -> None:
    with Profile.open(f"{folder}/{name}.pyhybrid") as profile:
        pid = profile.process.pid
        began = profile.calls[len(profile.calls) // 2].begin_ns - (profile.process.start_ns or 0)
    alone, chosen = (f"{name}.pyhybrid",), ("--process", pid, "all.pyhybrid")
    for options in ((), ("--thread", "Main*"), ("--from", f"{began}ns")):
        one, other = (
            json.loads(printed(folder, "report", "--json", *options, *words))
            for words in (alone, chosen)
        )
        other["notes"].remove(f"only process {pid}")
        for told in (one, other):
            for key in ("file", "functions", "paths"):  # of what is equal only some are listed
                del told[key]
        assert one == other
        assert exported(folder, "folded", *options, *alone) == exported(
            folder, "folded", *options, *chosen
        )
    tables = []
    for words in (alone, chosen):
        printed(folder, "export", "-f", "pstats", "-o", "exported", *words)
        tables.append(pstats.Stats(f"{folder}/exported").stats)  # type: ignore[attr-defined]
    assert tables[0] == tables[1]
    calls = []
    for words in (alone, chosen):
        told = json.loads(printed(folder, "report", "calls", "--json", *words))
        for rows in told["results"].values():
            for row in rows:
                del row["serial"], row["parent"]
        calls.append(told)
    assert calls[0] == calls[1]


@pytest.mark.further
def test_processes_by_name(folder: Path, profiles: list[Profile]) -> None:
    pids = [profile.process.pid for profile in profiles[:2]]

    def shown(*names: object) -> set[object]:
        options = [word for name in names for word in ("--process", name)]
        told = json.loads(printed(folder, "report", "calls", "--json", *options, "all.pyhybrid"))
        return {row["pid"] for rows in told["results"].values() for row in rows}

    assert shown("*program.py 40") == {pids[1]}
    assert shown("program.py") == shown(*pids) == set(pids)
    for form in ("html", "chrome"):
        words = ("export", "-f", form, "-o", f"one.{form}", "--process", pids[0], "all.pyhybrid")
        printed(folder, *words)
    events = json.loads((folder / "one.chrome").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {pids[0]}
    printed(folder, "export", "-f", "chrome", "-o", "all.chrome", "all.pyhybrid")
    events = json.loads((folder / "all.chrome").read_text())["traceEvents"]
    titles = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [titles[pid].split()[-2:] for pid in pids] == [["program.py", n] for n in ("30", "40")]
