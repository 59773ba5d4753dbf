"""Runs of pytest with the plugin, and what their profiles say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import PATIENCE_S, environment

from pyhybrid.assemble import open_profile
from pyhybrid.tables.profile import Profile

CONFTEST = """
import pytest
from program import child

@pytest.fixture(scope="session")
def for_all(): child(1); yield; child(1)

@pytest.fixture(scope="module")
def for_module(for_all): child(1); yield; child(1)

@pytest.fixture(scope="class")
def for_class(for_module): child(1); yield; child(1)
"""

PROGRAM = """
import threading
def child(n): return sum(range(n))
def threads(n):
    each = [threading.Thread(target=child, args=(1,)) for _ in range(n)]
    for thread in each: thread.start()
    for thread in each: thread.join()
"""


def run_pytest(folder: Path, *arguments: object, code: int = 0, with_plugins: bool = False) -> str:
    """pytest there, in a process of its own; what it said."""
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)]
    variables = {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    if with_plugins:
        variables["PYTEST_ADDOPTS"] = ""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "RewriteWarning" not in done.stdout, done.stdout
    return done.stdout + done.stderr


def suite(folder: Path, text: str) -> Path:
    for name, each in (("conftest", CONFTEST), ("program", PROGRAM), ("test_suite", text)):
        (folder / f"{name}.py").write_text(each)
    return folder


def calls_by_test(*profiles: Path, function: str = "child") -> dict[str, int]:
    """Exact calls of a function below each test's region."""
    found: dict[str, int] = {}
    for path in profiles:
        with open_profile(str(path)) as profile:
            for test, calls in _calls(profile, function):
                found[test] = found.get(test, 0) + calls
    return found


def _calls(profile: Profile, function: str) -> list[tuple[str, int]]:
    return [(str(name), int(calls)) for name, calls in profile.query(CALLS_BELOW, function)]


CALLS_BELOW = """
WITH RECURSIVE below (test, node) AS (
    SELECT frame.name, node.id FROM node JOIN frame ON frame.id = node.frame
    WHERE frame.kind = 'region'
    UNION ALL
    SELECT test, node.id FROM below JOIN node ON node.parent = below.node)
SELECT replace(test, 'test_suite.py::', ''),
       sum(CASE WHEN frame.name = ? THEN exact.calls ELSE 0 END)
FROM below JOIN node ON node.id = below.node JOIN frame ON frame.id = node.frame
LEFT JOIN exact ON exact.node = node.id GROUP BY test
"""


def names(path: Path) -> set[str]:
    with open_profile(str(path)) as profile:
        return {frame.name for frame in profile.frames.values() if frame.kind != "native"}
