"""`report waits`: who waited, and what other threads ran meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Run

FIGHT = """
import queue, threading, time
def parse(n): return sum(i * i for i in range(n))
def prefetch(answers):
    for _ in range(30):
        parse(150_000)
        answers.put(1)
def compute():
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end: pass
def main():
    answers = queue.Queue(1)
    threading.Thread(target=prefetch, args=(answers,), name="prefetch").start()
    for _ in range(30):
        answers.get()
        compute()
main()
"""


GET = "fight.py:15"


def pairs(run: Run, pyhybrid: Callable[..., Run]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(pyhybrid("report", "waits", "--json").result.stdout)
    assert report["waited_ns"] == sum(row["waited_ns"] for row in report["pairs"])
    return report


@pytest.mark.parametrize("mode", ["hybrid", pytest.param("sample", marks=pytest.mark.further)])
def test_lines_of_both(pyhybrid: Callable[..., Run], tmp_path: Path, mode: str) -> None:
    """The main thread waits for the queue, and for the GIL, which the other one's parser has."""
    (tmp_path / "fight.py").write_text(FIGHT)
    report = pairs(pyhybrid("--clock", "wall", "--mode", mode, "fight.py"), pyhybrid)
    assert report["by_samples"]
    by = Counter[tuple[str, str, str]]()
    for row in report["pairs"]:
        by[row["at"], row["waits_for"].split(" (")[0], row["other_at"]] += row["waited_ns"]
    gets = Counter[str]()
    for (at, _, other), ns in by.items():
        gets[other] += ns * (at == GET and bool(other))
    assert gets["fight.py:3"] > 0.8 * gets.total() > 0
    assert {what for at, what, _ in by if at == GET} <= {"Queue.get", "the GIL", ""}
    assert any(what == "Queue.get" for at, what, _ in by if at == GET)
    text = pyhybrid("report", "waits").result.stdout
    assert "main (fight.py:15), for Queue.get" in text


def test_functions_by_exact_times(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Without samples of waits the one side has no lines."""
    text = FIGHT.replace("answers.get()", "wait()").replace("Queue(1)", "Queue()")
    (tmp_path / "fight.py").write_text(f"import time\ndef wait(): time.sleep(0.02)\n{text}")
    run = pyhybrid("fight.py")
    report = pairs(run, pyhybrid)
    assert not report["by_samples"]
    assert not any(row["at"] for row in report["pairs"])
    delay_ns = run.profile().meta.get("main_delay_ns") or 0
    if 2 * delay_ns < 30 * 0.02e9:  # else it is not known whether it waited
        assert {row["function"].split(" (")[0] for row in report["pairs"]} >= {"wait"}
        assert any(row["other_at"] == "fight.py:5" for row in report["pairs"])


def test_nothing_waited(pyhybrid: Callable[..., Run]) -> None:
    pyhybrid("-c", "sum(range(10**6))")
    text = pyhybrid("report", "waits").result.stdout
    assert text == "nothing is known to have waited for other threads\n"
