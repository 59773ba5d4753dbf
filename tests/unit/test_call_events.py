"""Begins and ends of calls, balanced and nested whatever is missing, and how pfw writes them."""

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from traces import trace

from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.perfflowaspect import PerfflowOptions, Pfw
from pyhybrid.tables import Call, Event, Turn
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.call_events import edges

Told = list[tuple[int, int, str, int]]  # thread, time, how, node


def kept(number: int, node: int, begin: int, end: int, state: str = "returned") -> Call:
    """A call of thread 1."""
    rest: dict[str, Any] = {"attributes": None, "parent": None, "weight": 1}
    return Call(number, 1, node, begin, end, end - begin, state, **rest)


def told(
    calls: Iterable[Call] = (), turns: Iterable[Turn] = (), events: Iterable[Any] = ()
) -> Told:
    """The edges of a profile with these kept calls, or with this log."""
    log = [Event(*each) for each in events]
    profile = SimpleNamespace(
        query=lambda sql: log,
        events=lambda: iter(log),
        calls=list(calls),
        turns=list(turns),
        threads={1: None, 2: None},
    )
    return [edge[:4] for edge in edges(cast(Profile, profile))]


def test_kept_calls_nest_where_their_times_are_equal() -> None:
    calls = [
        kept(1, 2, 10, 20),
        kept(2, 1, 10, 20),
        kept(3, 2, 20, 20, "raised"),
        kept(4, 1, 20, 30),
    ]
    assert told(calls) == [
        (1, 10, "call", 1),
        (1, 10, "call", 2),
        (1, 20, "return", 2),
        (1, 20, "return", 1),
        (1, 20, "call", 1),
        (1, 20, "call", 2),
        (1, 20, "raise", 2),
        (1, 30, "return", 1),
    ]


def test_a_call_in_turns_is_there_in_each() -> None:
    calls = [kept(1, 1, 0, 90), kept(2, 2, 10, 60, "partial")]
    turns = [Turn(2, 1, 10, 20), Turn(2, 2, 30, 40), Turn(2, 1, 50, 60)]
    assert told(calls, turns) == [
        (1, 0, "call", 1),
        (1, 10, "call", 2),
        (1, 20, "yield", 2),
        (1, 50, "resume", 2),
        (1, 60, "cut", 2),
        (1, 90, "return", 1),
        (2, 30, "resume", 2),
        (2, 40, "yield", 2),
    ]


def test_a_log_that_lacks_events_is_balanced() -> None:
    log = [
        (1, 5, "return", 9),  # it began before
        (1, 10, "call", 1),
        (1, 20, "call", 2),
        (1, 30, "gap", 7),
        (1, 40, "raise", 1),  # the end of 2 is in the gap
        (1, 50, "call", 3),
        (2, 15, "call", 1),
        (3, 15, "call", 1),  # of a thread that is not chosen
    ]
    assert told(events=log) == [
        (1, 10, "call", 1),
        (1, 20, "call", 2),
        (1, 30, "gap", 7),
        (1, 40, "cut", 2),
        (1, 40, "raise", 1),
        (1, 50, "call", 3),
        (1, 50, "cut", 3),
        (2, 15, "call", 1),
        (2, 15, "cut", 1),
    ]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """main calls f twice, for 100 ns each."""
    rows = [(0, "main", {"calls": 1, "ticks": 900}), (1, "f", {"calls": 2, "ticks": 200})]
    made = trace(tmp_path, rows, hostname="node7", pid=4242)
    calls = [
        kept(1, 1, 1_000_000_000, 1_000_000_900),
        kept(2, 2, 1_000_000_000, 1_000_000_100),
        kept(3, 2, 1_000_000_200, 1_000_000_300),
    ]
    return made.replaced({Call: calls})


def write_pfw(profile: Profile, monkeypatch: pytest.MonkeyPatch, options: str) -> tuple[Any, Any]:
    """What is written, and the notes."""
    monkeypatch.setenv("PERFFLOW_OPTIONS", options)
    exporter = Pfw()
    output = export_to(exporter, profile, exporter.default_path(profile, "out"))
    return output.path and json.loads(Path(output.path).read_text()), output.notes


def test_doubles_tell_the_nesting(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = f"log-dir={tmp_path}/deep/er:log-event=COMPACT:log-format=Object"
    written, notes = write_pfw(profile, monkeypatch, options)
    assert (notes, written["displayTimeUnit"]) == ([], "us")
    first, second, main = written["traceEvents"]
    assert [each["name"] for each in (first, second, main)] == ["f", "f", "main"]
    assert main["ts"] == 1_700_000_000_000_000.0
    for each in first, second:
        assert main["ts"] < each["ts"]
        assert each["ts"] + each["dur"] < main["ts"] + main["dur"]
    assert first["ts"] + first["dur"] <= second["ts"]
    assert main["dur"] < 2


def test_options_choose_the_file(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFFLOW_OPTIONS", "")
    assert Pfw().default_path(profile, "out") == "perfflow.node7.4242.pfw"
    environment = {
        "PERFFLOW_OPTIONS": "name=solver:log-filename-include=name,instance-path:log-dir=a",
        "PERFFLOW_INSTANCE_PATH": "f1",
        "FLUX_JOB_ID": "f2",
    }
    assert PerfflowOptions(environment).path("h", 1) == "a/perfflow.solver.{f1.f2}.pfw"
    del environment["PERFFLOW_INSTANCE_PATH"], environment["FLUX_JOB_ID"]
    environment |= {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    assert PerfflowOptions(environment).path("h", 1) == "a/perfflow.solver.{5e56ceb6}.pfw"


def test_options_that_are_not_there(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, notes = write_pfw(profile, monkeypatch, f"log-dir={tmp_path}:caliper-enable=true")
    assert [note.partition(" leaves")[2] for note in notes] == [
        " caliper-enable of PERFFLOW_OPTIONS alone"
    ]
    assert write_pfw(profile, monkeypatch, "log-enable=False")[0] is None
    first, second, third = profile.calls
    profile = profile.replaced({Call: [first, second._replace(weight=8), third]})
    _, notes = write_pfw(profile, monkeypatch, f"log-dir={tmp_path}")
    assert [note.partition(" lacks")[2] for note in notes] == [
        " about 7 calls that were not kept (--max-calls)"
    ]
    with pytest.raises(UsageError, match="log-event is one of verbose, compact"):
        write_pfw(profile, monkeypatch, "log-event=x")
    profile = profile.replaced({Call: []})
    with pytest.raises(PyhybridError, match="no single calls"):
        write_pfw(profile, monkeypatch, f"log-dir={tmp_path}")
