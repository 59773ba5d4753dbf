"""Names with terminal sequences, line ends and changes of direction: nothing that people look at
has them raw, files for machines have."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run, command

FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ODD = "q\x1b[2J';\nROW\x00Y;\r\tsemi \u202edesrever\u2066\x9b31m\x7f\u2028\udc80"

PROGRAM = f"""
import sys, threading, time, types
import pyhybrid
ODD = {ODD!r}
def tabbed():
	n = 1	# of the source, too: \f\x1b[2J\u202e
	return n
tabbed()
source = "def g():\\n end = time.process_time() + 0.15\\n"
source += " while time.process_time() < end: sorted(range(300))\\n"
code = compile(source, "/x/\\x1b]0;title\\x07\\n\\x9b2J.py", "exec").co_consts[0]
code = code.replace(co_name=ODD, co_qualname=ODD)
g = types.FunctionType(code, {{"time": time, "sorted": sorted, "range": range}})
g()
thread = threading.Thread(target=g, name=ODD)
thread.start(); thread.join()
with pyhybrid.region(ODD, key=ODD): g()
"""

VIEWS = (
    ("report",),
    ("report", "tree"),
    ("report", "tree", "--all-frames", "--full-names"),
    ("report", "quality"),
    ("ask",),
    ("report", "lines"),
    ("report", "--thread", "no\x1b[2J\nsuch"),
    ("report", "no\x1b[31m\nfile"),
    ("export", "-f", "folded", "-o", "fol\x1b[31m\nder/x"),
    ("export", "-f", "folded", "-o", "fol\x1b[31m\nded"),
    ("export", "-f", "\x1b[31m"),
    ("diff", "out.pyhybrid", "out.pyhybrid"),
    ("diff", "--markdown", "out.pyhybrid", "out.pyhybrid"),
    ("diff", "no\x1b[31m\nfile", "out.pyhybrid"),
    ("compare-cprofile", "no\x1b[31m\nscript.py"),
)

TREE_ROW = re.compile(r"(?: {10}|[ \d.]{8} s)  [ \d,]{10}  [ \d.%]{7}  |\(and more")


def check(text: str) -> None:
    found = FORBIDDEN.search(text)
    assert not found, (found, text)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder where a run of PROGRAM left its files, all names odd; and what it said."""
    folder = tmp_path_factory.mktemp("odd") / "fol\x1b[31mder\n"
    folder.mkdir()
    (folder / "odd\x1b[2J\n.py").write_text(PROGRAM)
    options = ["--lines", "--include", r"J\s*\.py$"]
    command = [sys.executable, "-P", "-m", "pyhybrid", *options, "odd\x1b[2J\n.py", "\x1b[1m"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return folder, done.stderr


def test_the_end_of_a_run(odd: tuple[Path, str]) -> None:
    _, said = odd
    check(said)
    assert r"q\x1b[2J';\nROW" in said
    late = said.count("\nwrote ") - 1  # on a busy machine exports follow the summary, in a line
    assert len(said.splitlines()) <= 24 + late


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("view", VIEWS)
def test_views_and_messages(odd: tuple[Path, str], view: tuple[str, ...]) -> None:
    done = command(odd[0], *view, check=False)
    check(done.stdout)
    check(done.stderr)
    assert done.stdout or done.stderr
    if done.returncode:
        assert done.stderr.startswith("pyhybrid: ")
        assert done.stderr.count("\n") == 1
    if "lines" in view:
        assert r"        n = 1   # of the source, too: \x0c\x1b[2J\u202e" in done.stdout
    if "tree" in view:
        rows = done.stdout.splitlines()
        assert rows[0].split() == ["total", "calls", "samples", "function"]
        assert all(TREE_ROW.match(row) for row in rows[1:]), rows
        assert sum(r"\nROW\x00Y" in row for row in rows) >= 3


@pytest.mark.further
def test_on_a_terminal(odd: tuple[Path, str]) -> None:
    """What is not text is styles and line ends."""
    for view in VIEWS:
        main, other = pty.openpty()
        command = [sys.executable, "-P", "-m", "pyhybrid", *view]
        with subprocess.Popen(command, cwd=odd[0], stdout=other, stderr=other) as process:
            os.close(other)
            printed = b""
            while True:
                try:
                    part = os.read(main, 1 << 16)
                except OSError:  # the other side is closed
                    break
                printed += part
        os.close(main)
        assert process.returncode is not None
        text = printed.decode().replace("\r\n", "\n")
        check(re.sub("\x1b\\[[0-9;]*m", "", text))
        assert not re.search("\x1b\\[31m|\x1b\\[2J", text)


@pytest.mark.further
def test_files_for_machines_keep_names(odd: tuple[Path, str]) -> None:
    folded = (odd[0] / "out.folded").read_bytes().decode()
    assert "q\x1b[2J':" in folded  # a semicolon and line ends would cut a path
    assert all(line.rpartition(" ")[2].isdigit() for line in folded.removesuffix("\n").split("\n"))


@pytest.mark.further
def test_errors_before_the_program_runs(pyhybrid: Callable[..., Run]) -> None:
    for arguments in (
        ("no\x1b[31m\nscript.py",),
        ("--hz", "\x1b[31m", "x.py"),
        ("-t", "f", "--mode", "\x9b2J", "x"),
    ):
        done = pyhybrid(*arguments, check=False).result
        check(done.stderr)
        assert done.stderr.startswith("pyhybrid: ")
        assert done.stderr.count("\n") == 1
