"""examples/lttng: recorded by its script, read by its analysis, as docs/live-outputs.md has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lttng_support import BEGINS, ENDS, Lttng

EXAMPLE = Path(__file__).parents[3] / "examples" / "lttng"
STEPS = 20
FUNCTIONS = {"run_workload": 1, "train_step": STEPS, "forward_pass": STEPS}


def run(lttng: Lttng, folder: Path, *words: object) -> str:
    done = subprocess.run(
        [*lttng.command, *map(str, words)],
        cwd=folder,
        env={**os.environ, **lttng.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record(lttng: Lttng, folder: Path, *command: object) -> str:
    said = run(lttng, folder, EXAMPLE / "record.sh", folder / "trace", sys.executable, *command)
    assert "Discarded events: 0\n" in said
    return run(lttng, folder, "/usr/bin/python3", EXAMPLE / "analyze.py", folder / "trace")


@pytest.mark.further
@pytest.mark.needs("lttng", "bt2", "torch")
def test_calls_and_when_they_ran(lttng: Lttng, tmp_path: Path) -> None:
    options = ("--mode", "none", "--emit", "lttng", "--include", "workload")
    said = record(lttng, tmp_path, "-P", "-m", "pyhybrid", *options, EXAMPLE / "workload.py", STEPS)
    table, _, rest = said.partition("\n\n")
    rows = {line.split()[-1]: line.split() for line in table.splitlines()[1:]}
    assert {name: int(rows[name][0]) for name in FUNCTIONS} == FUNCTIONS
    for name in FUNCTIONS:  # total and self time, ms; of one call: median, p99, longest, us
        total, own, p50, p99, longest = map(float, rows[name][1:6])
        assert 0 < own <= total
        assert 0 < p50 <= p99 <= longest <= total * 1e3 + 1
    shown = re.findall(r"^( *)(\S+) +\|(.{60})\|$", rest, re.MULTILINE)
    depth = {name: len(indent) for indent, name, _ in shown}
    assert depth["main"] < depth["run_workload"] < depth["train_step"] < depth["forward_pass"]
    assert [row for _, name, row in shown if name == "<module>"] == ["@" * 60]
    assert "0 events were discarded, 0 turns have one end only\n" in said


@pytest.mark.slow
@pytest.mark.needs("lttng", "bt2", "torch")
def test_a_profiler_of_ones_own(lttng: Lttng, tmp_path: Path) -> None:
    said = record(lttng, tmp_path, EXAMPLE / "sysmon_profiler.py", STEPS)
    rows = [line.split() for line in said.splitlines()]
    found = {row[3]: int(row[0]) for row in rows if len(row) == 4 and row[0].isdigit()}
    assert {name: found[name] for name in FUNCTIONS} == FUNCTIONS


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_the_comparison_with_cprofile() -> None:
    """Calls are equal; the table is that of docs/live-outputs.md."""
    command = [sys.executable, EXAMPLE / "compare.py", str(STEPS), "1"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    heads = shown.splitlines()[:2]
    docs = (EXAMPLE.parents[1] / "docs" / "live-outputs.md").read_text().splitlines()
    at = docs.index(heads[0])
    assert docs[at + 1] == heads[1]
    row = re.compile(
        r"\| `(\w+)` \| (\d+) \| (\d+) \| \+0\.0 % \| [\d.]+ s \| [\d.]+ s \| [-+][\d.]+ % \|"
    )
    assert {m[1]: (int(m[2]), int(m[3])) for m in row.finditer(shown)} == {
        name: (calls, calls) for name, calls in FUNCTIONS.items()
    }
    assert [m[1] for m in map(row.fullmatch, docs[at + 2 : at + 5]) if m] == list(FUNCTIONS)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["call-stack.xml", "time-graph.xml"])
def test_trace_compass_knows_each_event(name: str) -> None:
    """What begins pushes its name, what ends pops."""
    tree = ElementTree.parse(EXAMPLE / "tracecompass" / name)
    value = {a.get("id"): next(a.iter("stateValue")) for a in tree.iter("action")}
    does = {t.get("event"): value[t.get("action")] for t in tree.iter("transition")}
    assert set(does) == {f"pyhybrid:{event}" for event in BEGINS | ENDS}
    for event in BEGINS:
        field = "name" if event.startswith("region") else "qualname"
        pushed = does[f"pyhybrid:{event}"]
        assert (pushed.get("stack"), pushed.get("value")) == ("push", field)
    assert Counter(does[f"pyhybrid:{event}"].get("stack") for event in ENDS) == {"pop": len(ENDS)}
