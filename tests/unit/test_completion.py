"""Completions in real shells, and the manual page: of the options that there are."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from pyhybrid.cli import SUBCOMMANDS
from pyhybrid.cli.completion import bash, fish, man, zsh
from pyhybrid.cli.report_views import VIEWS
from pyhybrid.options.table import Options

SHOWN = [each for each in Options.options.values() if each.flags and each.help]
BASH = """source ./completions
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_pyhybrid
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=50, check=True)
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("r", ["report", "ranks"]),
        ("--clo", ["--clock"]),
        ("--clock ", ["cpu", "wall"]),
        ("report st", ["steps"]),
        ("report tree --js", ["--json"]),
        ("export -f pp", ["pprof"]),
        ("report tree s", []),
        ("train.py r", []),
    ],
)
def test_bash(tmp_path: Path, typed: str, found: list[str]) -> None:
    (tmp_path / "completions").write_text("\n".join(bash()))
    words = run(tmp_path, "bash", "-c", BASH, "bash", "pyhybrid", *typed.split(" ")).split()
    assert sorted(words) == sorted(found)


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish(tmp_path: Path) -> None:
    (tmp_path / "completions").write_text("\n".join(fish()))
    for typed, wanted in (
        ("r", {"report", "ranks"}),
        ("--clock ", {"cpu", "wall"}),
        ("report st", {"steps"}),
        ("report tree --js", {"--json"}),
    ):
        asked = f"source completions; complete -C 'pyhybrid {typed}'"
        lines = run(tmp_path, "fish", "--no-config", "-c", asked).splitlines()
        assert {line.split("\t")[0] for line in lines} == wanted


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("pyhybrid rep", "pyhybrid report "),
        ("pyhybrid --clock w", "pyhybrid --clock wall "),
        ("pyhybrid report quali", "pyhybrid report quality "),
    ],
)
def test_zsh(tmp_path: Path, typed: str, wanted: str) -> None:
    """By its line editor, so on a terminal."""
    (tmp_path / "completions").write_text("\n".join(zsh()))
    ours, its = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "HOME": str(tmp_path)},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    ) as shell:
        os.close(its)
        begin = b"PS1=; autoload -U compinit; compinit -u -D; . ./completions; echo REA''DY\n"
        os.write(ours, begin)
        shown = read_until(ours, "READY\r\n")
        os.write(ours, f"{typed}\t".encode())
        shown = read_until(ours, wanted)
        shell.kill()
    os.close(ours)
    assert wanted in shown


def read_until(terminal: int, wanted: str) -> str:
    """What it shows, without what moves the cursor, and nothing more for twenty seconds."""
    shown = ""
    while wanted not in shown and select.select([terminal], [], [], 20)[0]:
        shown += os.read(terminal, 4096).decode()
        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x07", "", shown)
    return shown


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_the_manual_page(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("\n".join(man()) + "\n")
    shown = run(tmp_path, "groff", "-man", "-ww", "-Tascii", "-P-cbou", "page")
    for each in SHOWN:
        assert each.flag in shown
    for name in SUBCOMMANDS:
        assert f"\n   {name}\n" in shown
    for name in VIEWS:
        assert f"\n   report {name}\n" in shown
