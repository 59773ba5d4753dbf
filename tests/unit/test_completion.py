"""Completions in real shells, and the manual page: of the options that there are."""

from __future__ import annotations

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
# It asks a zsh with a terminal of its own, since completion is the line editor's.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f
zpty -w shell 'autoload -U compinit; compinit -u -D; source ./completions; PS1=; print READY'
zpty -r shell found '*READY*READY*'
zpty -w -n shell "$1"$'\\t\\t'
zpty -r -m shell found "*$2*" && print -r -- "$found"
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
    [("pyhybrid rep", "report "), ("pyhybrid --clock w", "wall "), ("pyhybrid report stac", "*")],
)
def test_zsh(tmp_path: Path, typed: str, wanted: str) -> None:
    (tmp_path / "completions").write_text("\n".join(zsh()))
    assert typed in run(tmp_path, "zsh", "-f", "-c", ZSH, "zsh", typed, wanted)


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
