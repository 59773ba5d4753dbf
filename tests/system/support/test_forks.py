"""What these tests run in forks (fork_support.py) does as a process of its own would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import support
from support import command, made_once

from pyhybrid.cli import SUBCOMMANDS

pytestmark = pytest.mark.once

PROGRAM = """
import time

def work():
    end = time.thread_time() + 0.1
    while time.thread_time() < end: sum(range(1000))

work()
"""
PROFILE = "out.pyhybrid"
COMMANDS = [
    ("report",),
    ("report", "tree", PROFILE),
    ("ask",),
    ("page", "--no-open"),
    ("report", "none.pyhybrid"),
    ("report", "--no-such-option"),
    ("export", "-f", "folded", "-f", "callgrind"),
    ("diff", PROFILE, PROFILE),
    ("compare-cprofile", "nothing.py"),
    ("attach", "4194304"),
    ("dump", "4194304"),
    ("ps", "--no-such-option"),
    ("live", "--json", "4194304"),
    ("config",),
    ("import", "kineto", "none.json"),
    ("import", "memory", "none.pickle"),
    ("merge", PROFILE, PROFILE, "-o", "merged"),
    ("probes",),
    ("snapshot", "nowhere"),
    ("ranks", "nowhere.ranks"),
    ("completion", "bash"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        (folder / "nothing.py").touch()
        command(folder, "-q", "--format", "pstats", "program.py")

    return made_once(tmp_path_factory, "forks", make)


def test_all_subcommands_are_here() -> None:
    assert {subcommand for subcommand, *_ in COMMANDS} == {*SUBCOMMANDS}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_they_do_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Their exit code, what they print and what they write."""
    here = tmp_path / "here"
    found = []
    for views in (support.views, None):
        monkeypatch.setattr(support, "views", views)
        shutil.copytree(folder, here)
        done = command(here, *words, check=False)
        files = {path.name: path.read_bytes() for path in here.iterdir()}
        found.append((done.returncode, done.stdout, done.stderr, files))
        shutil.rmtree(here)
    in_fork, alone = found
    assert in_fork[0] in (0, 1, 2)
    assert in_fork == alone
