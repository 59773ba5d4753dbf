"""pytest in several processes, workers of xdist's and forked children: the run has one profile."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from pytest_support import calls_by_test, names, run_pytest, suite

from pyhybrid.assemble import open_profile

SUITE = """
import os, signal
import pytest
from program import child, threads

@pytest.mark.parametrize("n", range(12))
def test_many(n):
    for _ in range(n): child(1000)

def test_threads(): threads(3)

def test_profiles_itself():
    import pyhybrid
    child(1)
    with pyhybrid.Profiler(mode="trace"): child(1)

@pytest.mark.xdist_group("one")
def test_last(): child(1)
"""
CALLS = {f"test_many[{n}]": n for n in range(12)} | {
    "test_threads": 0,
    "test_profiles_itself": 1,
    "test_last": 1,
}


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {
        *("conftest.py", "program.py", "test_suite.py", "__pycache__"),
    }


def table(said: str) -> int:
    """How many tests it is of."""
    (n,) = re.findall(r"10 of (\d+) tests by time", said)
    return int(n)


def test_workers_of_xdist_have_one_profile(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    options = ("--pyhybrid", "--pyhybrid-output=p/all", "-n", 2, "--pyhybrid-html", "pages")
    said = run_pytest(suite(tmp_path, SUITE), *options)
    assert files(tmp_path) == {"p", "pages"}
    assert files(tmp_path / "p") == {"all.pyhybrid"}
    assert files(tmp_path / "pages") == {"all.html"}
    assert calls_by_test(tmp_path / "p/all.pyhybrid") == CALLS
    assert table(said) == len(CALLS)
    assert said.count("profile: ") == said.count("profile: p/all.pyhybrid") == 1
    with open_profile(str(tmp_path / "p/all.pyhybrid")) as profile:
        assert len({row.pid for row in profile.processes.values()}) == 2
        assert len(profile.processes) in (2, 3)  # the profile after the test that profiles itself
        assert all("pytest" in row.argv[0] for row in profile.processes.values())
        functions = Counter(
            (row.name, row.file) for row in profile.frames.values() if row.kind == "python"
        )
        assert functions["child", str(tmp_path / "program.py")] == 1


@pytest.mark.further
def test_a_worker_that_is_killed_is_in_the_profile(tmp_path: Path) -> None:
    """With what it had written until then; another worker goes on."""
    killed = SUITE + "def test_killed(): os.kill(os.getpid(), signal.SIGKILL)\n"
    said = run_pytest(suite(tmp_path, killed), "--pyhybrid", "-n", 1, code=1)
    assert "crashed while running" in said
    assert files(tmp_path) == {"out.pyhybrid"}
    with open_profile(str(tmp_path / "out.pyhybrid")) as profile:
        assert not profile.meta["complete"]
        assert {row.end_ns is None for row in profile.processes.values()} == {True, False}


@pytest.mark.further
def test_the_first_failure_ends_all_workers(tmp_path: Path) -> None:
    failing = SUITE.replace("    for _ in", "    assert n != 3\n    for _ in")
    said = run_pytest(suite(tmp_path, failing), "--pyhybrid", "-n", 2, "-x", code=2)
    assert said.count("profile: ") == 1
    assert files(tmp_path) == {"out.pyhybrid"}
    found = calls_by_test(tmp_path / "out.pyhybrid")
    assert {test: n for test, n in found.items() if test != "test_many[3]"}.items() <= CALLS.items()


# As pytest-forked does it.
FORKS = """
import json, os
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        reports = runtestprotocol(item, log=False)
        data = [hook.pytest_report_to_serializable(config=item.config, report=r) for r in reports]
        with os.fdopen(write, "w") as file: json.dump(data, file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file: data = json.load(file)
    os.waitpid(pid, 0)
    for each in data:
        report = hook.pytest_report_from_serializable(config=item.config, data=each)
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""

FEW = """
import pytest
from program import child

@pytest.mark.limit_calls("program.child", 2)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_many(n):
    for _ in range(n): child(1000)
"""


@pytest.mark.further
@pytest.mark.parametrize("options", [(), ("-n", 2)])
def test_forked_tests_are_in_the_profile(tmp_path: Path, options: tuple[object, ...]) -> None:
    suite(tmp_path, FEW)
    (tmp_path / "conftest.py").write_text(FORKS)
    said = run_pytest(tmp_path, "--pyhybrid", *options, code=1)
    assert "1 failed, 2 passed" in said
    assert "limit_calls('program.child', 2): 3 calls" in said
    assert files(tmp_path) == {"out.pyhybrid"}
    path = tmp_path / "out.pyhybrid"
    assert calls_by_test(path) == {f"test_many[{n}]": n for n in (1, 2, 3)}
    assert not names(path) & {"pytest_pyfunc_call", "_multicall", "runtestprotocol"}


@pytest.mark.further
def test_a_forked_test_with_the_fixture(tmp_path: Path) -> None:
    suite(
        tmp_path,
        FEW.replace("test_many(n)", "test_many(n, pyhybrid_profile)").replace(
            "[1, 2, 3]", "[1, 2]"
        ),
    )
    (tmp_path / "conftest.py").write_text(FORKS)
    run_pytest(tmp_path)
    for n in (1, 2):
        found = calls_by_test(tmp_path / f"test_suite.test_many-{n}.pyhybrid")
        assert found == {f"test_many[{n}]": n}
