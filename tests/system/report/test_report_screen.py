"""`pyhybrid report` on one screen: what it shows, its height and width, imports as one line."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run, command, made_once, printed

pytestmark = pytest.mark.once

MODULE = """
import time
def inside(): return 1
end = time.thread_time() + 0.2
while time.thread_time() < end: pass
for _ in range(1000): inside()
"""
PROGRAM = """
import slow_module, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass

def step():
    slow_module.inside()
    burn(0.02)

def main():
    for _ in range(20): step()

main()
"""


@pytest.fixture(scope="module", params=["hybrid", "trace"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """out.pyhybrid of the program."""

    def make(folder: Path) -> None:
        (folder / "slow_module.py").write_text(MODULE)
        (folder / "program.py").write_text(PROGRAM)
        options = ("-q", "--format", "folded", "--mode", request.param)
        command(folder, *options, "program.py", PYTHONPATH=str(folder))

    return made_once(tmp_path_factory, f"report-screen-{request.param}", make)


def report(folder: Path, *options: str) -> list[str]:
    return printed(folder, "report", "--no-inlines", *options).splitlines()


def in_terminal(folder: Path, lines: int, columns: int) -> list[str]:
    """What it prints on a terminal of this size."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    command = [sys.executable, "-P", "-m", "pyhybrid", "report", "--no-inlines"]
    env = {**os.environ, "TERM": "dumb"}
    env.pop("COLUMNS", None)
    with subprocess.Popen(command, cwd=folder, env=env, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().splitlines()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # EIO: all others have closed it
        return b""


def calls_of(lines: list[str], function: str) -> list[int]:
    """In the tables of functions."""
    end = next(i for i, line in enumerate(lines) if "hot paths" in line)
    rows = [line.split() for line in lines[:end] if f" {function} (" in line]
    return [int(row[-3].replace(",", "")) for row in rows]


@pytest.mark.first_cases(1)
def test_parts_in_order(folder: Path) -> None:
    text = "\n".join(report(folder))
    parts = [
        "pyhybrid ",
        "began 20",
        "calls    ",
        "   self      time   total",
        "hot paths",
        "step > burn (",
    ]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)


LINES = """
import slow_module, textwrap, time

def helper():
    return textwrap.fill("some words " * 20)

def main():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        helper()

main()
"""


def test_lines_of_the_program(tmp_path: Path) -> None:
    """Each has what it called in libraries, however deep, and none what imports ran."""
    (tmp_path / "slow_module.py").write_text(MODULE)
    (tmp_path / "lines.py").write_text(LINES)
    command(tmp_path, "-q", "--format", "folded", "lines.py", PYTHONPATH=str(tmp_path))
    told = json.loads(printed(tmp_path, "report", "--json"))["program_lines"]
    assert {Path(line["file"]).name for line in told} == {"lines.py"}
    slow = told[0]
    assert (slow["line"], slow["function"]) == (5, "helper")
    assert slow["text"] == 'return textwrap.fill("some words " * 20)'
    assert slow["weight_ns"] > 0.5 * sum(line["weight_ns"] for line in told)
    shown = report(tmp_path)
    (row,) = (line for line in shown if f"lines.py:5  {slow['text']}" in line)
    assert "line of the program" in shown[shown.index(row) - 1]


@pytest.mark.further
def test_imports_are_one_line(folder: Path) -> None:
    lines, whole = report(folder), report(folder, "--imports")
    (row, *_), (hot,) = (
        [line for line in lines if f"[import slow_module] ({what}" in line]
        for what in ("", "lines with --imports")
    )
    assert "functions: --imports)" in row
    assert hot in lines[lines.index(row) :]
    assert not any("[import" in line for line in whole)
    assert any("_find_and_load" in line for line in whole)


@pytest.mark.further
def test_calls_are_those_outside_of_imports(folder: Path) -> None:
    """As all other figures of a row."""
    assert set(calls_of(report(folder, "--height", "200"), "inside")) <= {20}
    whole = json.loads(printed(folder, "report", "--json"))
    (inside,) = (each for each in whole["functions"] if each["name"].startswith("inside ("))
    assert inside["calls"] == 1020


@pytest.mark.first_cases(1)
def test_the_heaviest_paths(folder: Path) -> None:
    lines = report(folder)
    hot = lines[next(i for i, line in enumerate(lines) if "hot paths" in line) + 1 :]
    assert ["<module> (program.py:1)" in line for line in hot].index(True) == 0
    (step,) = (line for line in hot if "step > burn (program.py:" in line)
    assert step.partition(" step > ")[0].split()[-1] == "20"


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(("lines", "columns"), [(24, 80), (40, 120), (70, 60)])
def test_fits_into_a_terminal(folder: Path, lines: int, columns: int) -> None:
    shown = in_terminal(folder, lines, columns)
    assert 10 <= len(shown) <= min(lines - 1, 50)
    assert max(map(len, shown)) <= max(columns, 80)
    assert any("hot paths" in line for line in shown)


@pytest.mark.further
def test_the_same_wherever_it_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = report(folder)
    for name, value in (("LINES", "10"), ("TZ", "Asia/Tokyo")):
        monkeypatch.setenv(name, value)
    assert report(folder) == lines
    assert len(lines) <= 50


@pytest.mark.further
def test_as_wide_as_columns_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that a pipe gets all."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert not any("…" in line for line in report(folder) if " > " not in line)
    monkeypatch.setenv("COLUMNS", "100")
    assert 80 < max(map(len, report(folder))) <= 100


@pytest.mark.further
def test_of_a_long_note_a_small_screen_has_both_ends(
    pyhybrid: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    options = tmp_path / ("x" * 120 + ".toml")
    options.write_text("hz = 500\n")
    pyhybrid("-q", "--format", "folded", "--config", options, "-c", "pass")
    small, large = (pyhybrid("report", "--height", height).result.stdout for height in (23, 50))
    (line,) = (line for line in small.splitlines() if line.startswith("note "))
    assert line.startswith("note     options from /")
    assert line.endswith("xxx.toml")
    assert "…" in line
    assert "x" * 120 in "".join(each[9:] for each in large.splitlines())


@pytest.mark.further
@pytest.mark.parametrize("view", ["tree", "quality"])
def test_height_is_of_the_summary(pyhybrid: Callable[..., Run], view: str) -> None:
    run = pyhybrid("report", view, "--height", "30", check=False)
    assert "--height goes with report summary" in run.result.stderr
