"""What each live output is told of alike: chosen functions and regions, on all threads, in parts.

Each is heard by its real counterpart; what is each one's own is in test_emit_NAME.py.
"""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from lttng_support import ENDS, Lttng
from perfstubs_support import build_tool, counted
from support import PATIENCE_S, TARGETS
from tracy_support import capturing, client
from usdt_support import LIBRARY, counts, instructions_of_a_call, traced

SESSIONS = 2
TOLD = {"called": 3 * SESSIONS, "epoch": 3 * SESSIONS}


class Program:
    """tests/targets/told_in_parts.py, which has begun its first session."""

    def __init__(
        self,
        folder: Path,
        *outputs: str,
        environment: Mapping[str, str] = {},
        within: Sequence[str] = (),
    ) -> None:
        program = TARGETS / "told_in_parts.py"
        self.process = subprocess.Popen(
            [*within, sys.executable, "-P", "-W", "ignore", str(program), *outputs],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == "started\n", self.process.communicate()

    def end(self) -> None:
        """After its last session."""
        said = self.process.communicate("\n" * SESSIONS, timeout=PATIENCE_S)
        assert (self.process.returncode, said[1]) == (0, ""), said


def printed(folder: Path) -> Mapping[str, int]:
    texts = [(folder / f"calls-{number}.txt").read_text() for number in range(SESSIONS)]
    lines = "".join(texts).splitlines()
    return collections.Counter(line.split(" : ")[1].split(" -> ")[-1] for line in lines)


def timed(folder: Path) -> Mapping[str, int]:
    """By a tool of PerfStubs."""
    figures, timers = counted(folder / "counts")
    assert (figures["wrong"], figures["open"]) == (0, 0)
    return {name.partition(" [{")[0]: n for name, n in timers.items()}


def by_print(folder: Path, _: pytest.FixtureRequest) -> Mapping[str, int]:
    Program(folder, "print:calls-%d.txt").end()
    return printed(folder)


def by_print_tree(folder: Path, _: pytest.FixtureRequest) -> Mapping[str, int]:
    Program(folder, "print:tree:calls-%d.txt").end()
    texts = [(folder / f"calls-{number}.txt").read_text() for number in range(SESSIONS)]
    ends = [line.partition("} ")[2] for line in "".join(texts).splitlines()]
    return collections.Counter(end.strip("[]") for end in ends if end)


def by_bpftrace(folder: Path, _: pytest.FixtureRequest) -> Mapping[str, int]:
    program = Program(folder, "usdt")
    script = "\n".join(
        f"usdt:{LIBRARY}:pyhybrid:{probe} {{ @[str(arg0)] = count(); }}"
        for probe in ("PY_START", "REGION_BEGIN")
    )
    with traced(folder, script, "-p", program.process.pid) as tracer:
        program.end()
        tracer.process.wait(PATIENCE_S)
    return counts(tracer.output.read_text())


def by_lttng(folder: Path, request: pytest.FixtureRequest) -> Mapping[str, int]:
    lttng: Lttng = request.getfixturevalue("lttng")
    lttng.record("pyhybrid:*")
    Program(folder, "lttng", environment=lttng.env, within=lttng.command).end()
    assert not lttng.stop()
    fields = [event.fields for event in lttng.events() if event.name in ENDS]
    return collections.Counter(each.get("qualname") or each["name"] for each in fields)


def by_perfstubs(folder: Path, request: pytest.FixtureRequest) -> Mapping[str, int]:
    tool = build_tool(request.getfixturevalue("tmp_path_factory"))
    Program(folder, f"perfstubs:{tool}", environment={"PS_COUNTS": "counts"}).end()
    return timed(folder)


def by_tracy(folder: Path, _: pytest.FixtureRequest) -> Mapping[str, int]:
    """All are counted as one."""
    with capturing(folder / "t.tracy") as (captured, environment):
        Program(folder, f"tracy:{client()}", environment=environment).end()
    assert "failure" not in captured.output.lower()
    names = captured.names()
    assert [name for name in ("called", "epoch", "left_out") if name.encode() in names] == [*TOLD]
    return {"zones": captured.zones}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("told_by", "expected"),
    [
        (by_print, TOLD),
        (by_print_tree, TOLD),
        pytest.param(
            by_bpftrace, TOLD, marks=[pytest.mark.needs("root", "bpftrace"), pytest.mark.once]
        ),
        pytest.param(by_lttng, TOLD, marks=pytest.mark.needs("lttng")),
        (by_perfstubs, TOLD),
        pytest.param(
            by_tracy,
            {"zones": sum(TOLD.values())},
            marks=[pytest.mark.needs("tracy"), pytest.mark.once],
        ),
    ],
)
def test_parts_of_a_program(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    told_by: Callable[[Path, pytest.FixtureRequest], Mapping[str, int]],
    expected: Mapping[str, int],
) -> None:
    """Paused, stopped and begun again, with threads and a child; by name and by pattern."""
    assert told_by(tmp_path, request) == expected


@pytest.mark.further
@pytest.mark.needs("tracy")
@pytest.mark.once
def test_several_at_once(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outputs = ("print:calls-%d.txt", f"perfstubs:{build_tool(tmp_path_factory)}", "usdt")
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        environment["PS_COUNTS"] = "counts"
        Program(tmp_path, *outputs, f"tracy:{client()}", environment=environment).end()
    assert printed(tmp_path) == timed(tmp_path) == TOLD
    assert captured.zones == sum(TOLD.values())


@pytest.mark.further
@pytest.mark.version
@pytest.mark.needs("lttng")
def test_nobody_who_listens_costs_no_instruction(tmp_path: Path) -> None:
    of = instructions_of_a_call(tmp_path)
    assert of["usdt"] == of["lttng"] == of["nothing"] < of["print"] - 100, of
