"""The pytest plugin, in real runs of pytest: what is profiled, and what a run says of it."""

from __future__ import annotations

import base64
import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_support import PROGRAM, calls_by_test, names, run_pytest, suite
from support import ON_STACK, Run, environment, made_once

from pyhybrid.assemble import open_profile
from pyhybrid.tables.profile import Profile

SUITE = """
import asyncio, os, sys, unittest
import pytest, pyhybrid
from program import child, threads

def test_plain():
    for _ in range(5): child(1000)

class TestClass:
    @pytest.mark.parametrize("n", [2, 30])
    def test_many(self, for_class, n):
        for _ in range(n): child(1000)

class TestOfUnittest(unittest.TestCase):
    def setUp(self): child(1)
    def test_one(self): child(1000)

def test_fails():
    child(1000)
    raise ValueError("as it should")

@pytest.mark.skip
def test_skipped(): child(1)

async def test_without_a_plugin(): child(1)

async def wait():
    child(1000)
    await asyncio.sleep(0)
    child(1000)

def test_loop(): asyncio.run(wait())

def test_threads(): threads(3)

def test_forks():
    pid = os.fork()
    if not pid:
        child(1)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    child(1000)

def test_takes_a_tool():
    events = sys.monitoring
    events.use_tool_id(events.PROFILER_ID, "own")
    called = []
    start = events.events.PY_START
    events.register_callback(events.PROFILER_ID, start, lambda *a: called.append(a))
    events.set_local_events(events.PROFILER_ID, child.__code__, start)
    child(1000)
    events.free_tool_id(events.PROFILER_ID)
    assert len(called) == 1

def test_profiles_itself():
    child(1)
    with pyhybrid.Profiler(mode="trace", include=["child"]) as p:
        child(1000)
    assert [row.calls for row in p.profile.exact if row.calls] == [1]

def test_after_that(): child(1000)
"""

# Calls of `child` by the test itself, in its thread.
CALLS = {
    "test_plain": 5,
    "TestClass::test_many[2]": 2,
    "TestClass::test_many[30]": 30,
    "TestOfUnittest::test_one": 1,
    "test_fails": 1,
    "test_loop": 2,
    "test_threads": 0,
    "test_forks": 1,
    "test_takes_a_tool": 1,
    "test_profiles_itself": 1,
    "test_after_that": 1,
}
RESULT = "2 failed, 10 passed, 1 skipped"


def table(said: str) -> dict[str, int]:
    """The calls that the table at a run's end tells, by test."""
    rows = re.findall(r"([\d,]+)  test_suite\.py::(\S+)$", said, re.MULTILINE)
    return {test: int(calls.replace(",", "")) for calls, test in rows}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the suite ran with `--pyhybrid`; what was said is in `said`."""

    def make(folder: Path) -> None:
        options = ("--pyhybrid", "--pyhybrid-html", "pages")
        (folder / "said").write_text(run_pytest(suite(folder, SUITE), *options, code=1))

    return made_once(tmp_path_factory, "pytest-whole", make)


@pytest.mark.version
def test_every_test_is_a_region_of_its_own_calls(whole: Path) -> None:
    """Not of its fixtures'.  A test's own Profiler ends the profile, and another one follows: the
    file has both."""
    said = (whole / "said").read_text()
    assert RESULT in said
    assert [path.name for path in whole.glob("out*")] == ["out.pyhybrid"]
    found = calls_by_test(*whole.glob("*.pyhybrid"))
    assert {test: n for test, n in found.items() if test in CALLS} == CALLS
    assert "test_without_a_plugin" not in found


@pytest.mark.further
def test_nothing_of_pytest_is_profiled(whole: Path) -> None:
    """But what tests call: of a failed comparison."""
    assert not names(whole / "out.pyhybrid") & {"pytest_pyfunc_call", "_multicall", "for_all"}


@pytest.mark.further
@pytest.mark.needs("plain_build")
def test_no_library_of_ours_lies_below_a_test(tmp_path: Path) -> None:
    text = f"{ON_STACK}\ndef test_it(): assert not [f for f in on_stack() if '_native' in f]\n"
    assert "1 passed" in run_pytest(suite(tmp_path, text), "--pyhybrid")


def test_the_table(whole: Path) -> None:
    said = (whole / "said").read_text()
    assert "10 of 11 tests by time" in said
    assert "10 of 11 tests by calls" in said
    found = table(said)
    assert found["test_plain"] == 6
    assert found["TestClass::test_many[30]"] == 31
    assert said.count("profile: out.pyhybrid") == said.count("profile: ") == 1


@pytest.mark.further
def test_pages_of_the_profiles(whole: Path) -> None:
    assert [path.name for path in (whole / "pages").iterdir()] == ["out.html"]
    page = (whole / "pages" / "out.html").read_text()
    (data,) = re.findall(r'id="data">([^<]*)<', page)
    assert b"test_plain" in gzip.decompress(base64.b64decode(data))


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--pyhybrid-html=file/pages", "file' is not a folder"),
        ("--pyhybrid-html=closed/pages", "closed' is not writable"),
        ("--pyhybrid-output=closed/out", "closed' is not writable"),
        ("--pyhybrid-output=not/there", "not' does not exist"),
    ],
)
def test_where_nothing_can_be_written_no_test_begins(
    tmp_path: Path, option: str, said: str
) -> None:
    suite(tmp_path, SUITE)
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o555)
    if "closed" in option and os.geteuid() == 0:
        pytest.skip("to whom has all privileges no folder is closed")
    for more in ((), ("--pyhybrid",), ("--pyhybrid", "-n", 2)):
        errors = run_pytest(tmp_path, option, *more, code=4)
        name, _ = option.split("=")
        assert re.search(f"^ERROR: {name}: .*{re.escape(said)}$", errors, re.MULTILINE), errors
        assert " in " not in errors


@pytest.mark.further
def test_a_failed_tests_traceback_is_its_own(whole: Path) -> None:
    said = (whole / "said").read_text()
    assert "ValueError: as it should" in said
    assert "pytest_plugin" not in said


@pytest.mark.further
def test_the_first_failure_ends_the_run(tmp_path: Path) -> None:
    said = run_pytest(suite(tmp_path, SUITE), "--pyhybrid", "--pyhybrid-lines", "-x", code=1)
    assert calls_by_test(tmp_path / "out.pyhybrid").keys() == {
        *("test_plain", "TestClass::test_many[2]", "TestClass::test_many[30]"),
        *("TestOfUnittest::test_one", "test_fails"),
    }
    assert "5 tests by time" not in said
    assert len(table(said)) == 5
    with open_profile(str(tmp_path / "out.pyhybrid")) as profile:
        name = {
            node: profile.frames[frame].name
            for node, frame in enumerate(profile.nodes.frame)
            if node
        }
        assert {row.hits for row in profile.lines if name[row.node] == "child"} == {5, 2, 30, 1}


OFF = """
import sys
def test_off(request):
    assert "pyhybrid._native" not in sys.modules
    assert not request.config.pluginmanager.has_plugin("pyhybrid-tests")
    assert [sys.monitoring.get_tool(each) for each in range(6)] == [None] * 6
"""


@pytest.mark.further
def test_nothing_happens_unless_asked(tmp_path: Path) -> None:
    said = run_pytest(suite(tmp_path, OFF), "--strict-markers")
    assert "1 passed" in said
    assert "= pyhybrid =" not in said
    assert not list(tmp_path.glob("*.pyhybrid"))


MARKED = """
import pytest, pyhybrid
from program import child

@pytest.fixture
def looks(pyhybrid_profile):
    with pytest.raises(pyhybrid.errors.PyhybridError, match="has not ended"):
        pyhybrid_profile.profile
    yield
    rows = pyhybrid_profile.profile.exact
    print("in all", sum(row.calls for row in rows))

class TestMarked:
    @pytest.mark.parametrize("text", ["a b", "a/b"])
    def test_one(self, looks, text):
        for _ in range(3): child(1000)

def test_other(): child(1)

def test_two(tracy_profile):
    for _ in range(4): child(1000)
"""


@pytest.mark.version
def test_a_fixture_profiles_one_test(tmp_path: Path) -> None:
    """Into a file named after it; fixtures that use this one have it when the test ends."""
    said = run_pytest(suite(tmp_path, MARKED), "-s")
    assert said.count("in all 5") == 2  # with the region, and the test's function
    files = {path.name for path in tmp_path.glob("*.pyhybrid")}
    assert files == {
        "test_suite.TestMarked.test_one-a-b.pyhybrid",
        "test_suite.TestMarked.test_one-a-b-2.pyhybrid",
    }
    for name in files:
        assert list(calls_by_test(tmp_path / name).values()) == [3]
        assert "pytest_pyfunc_call" not in names(tmp_path / name)


@pytest.mark.further
@pytest.mark.parametrize("way", ["-p", "whole"])
def test_marked_tests_of_a_profiled_pytest(
    pyhybrid: Callable[..., Run], tmp_path: Path, way: str
) -> None:
    """With `-p` nothing else is profiled, without it they are regions of the run's profile."""
    program = suite(
        tmp_path,
        MARKED.replace("has not ended", "when the program ends").replace(
            "    rows", "    return\n    rows"
        ),
    )
    options = ["--mode", "trace", *(["-p"] if way == "-p" else [])]
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_suite.py"]
    variables = {**environment(), "PYTHONPATH": str(program)}
    run = pyhybrid(*options, *arguments, env=variables)
    assert "4 passed" in run.result.stdout
    assert "RewriteWarning" not in run.result.stdout
    tests = ("TestMarked::test_one[a b]", "TestMarked::test_one[a/b]", "test_two")
    assert calls_by_test(tmp_path / "out.pyhybrid") == dict(zip(tests, (3, 3, 4), strict=True))
    assert ("pytest_pyfunc_call" in names(tmp_path / "out.pyhybrid")) == (way == "whole")
    in_all = sum(calls for _, calls in _calls_of(run.profile(), "child"))
    assert in_all == 10 + (way == "whole")


def _calls_of(profile: Profile, function: str) -> list[tuple[int, int]]:
    frames, nodes = profile.frames, profile.nodes
    return [
        (row.node, row.calls)
        for row in profile.exact
        if frames[nodes.frame[row.node]].name == function
    ]


@pytest.mark.further
def test_lines_of_a_marked_test(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """`-p -l`: of all functions that it calls."""
    program = suite(tmp_path, MARKED)
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_suite.py", "-k", "test_two"]
    run = pyhybrid(
        *("-p", "-l", "--mode", "trace"), *arguments, env={**environment(), "PYTHONPATH": program}
    )
    profile = run.profile()
    name = {number: frame.name for number, frame in profile.frames.items()}
    hits = {(name[profile.nodes.frame[row.node]], row.hits) for row in profile.lines}
    assert hits == {("child", 4), ("test_two", 1)}


LIMITS = """
import functools, threading
import pytest, program
from program import child, threads

limit_calls, limit_time = pytest.mark.limit_calls, pytest.mark.limit_time

@limit_calls("program.child", 3)
class TestCalls:
    def test_within(self):
        for _ in range(3): child(10)
    def test_beyond(self):
        for _ in range(4): child(10)
        caller()
    @limit_calls("program.child", 5)
    def test_the_closest_holds(self):
        for _ in range(5): child(10)
    def test_fails_by_itself(self):
        for _ in range(4): child(10)
        assert False, "its own"
    def test_in_threads(self):
        threads(5)
    @pytest.mark.parametrize("n", [3, 4])
    def test_many(self, n):
        for _ in range(n): child(10)

def caller():
    for _ in range(1000): child(1)

@limit_calls("program.child", 1)
def test_threads_that_ended(request):
    for _ in range(40): threads(1)

@limit_time("program.child", "10s")
@limit_calls("program.Class.method", 1)
@limit_calls("program.Class.fixed", 0)
@limit_calls("program.wrapped", 2)
def test_kinds():
    child(1)
    program.Class().method()
    program.wrapped(); program.wrapped()

@limit_time("program.child", "1us")
def test_time(): child(200_000)

@limit_time("program.recursive", "1ns")
def test_recursion(): program.recursive(3)

@limit_calls("program.chlid", 1)
def test_unknown(): pass
@limit_calls("no_such_module.f", 1)
def test_no_module(): pass
@limit_calls("os.getpid", 1)
def test_of_c(): pass
@limit_time("program.child", 5)
def test_no_time(): pass
@limit_calls("program.child")
def test_no_limit(): pass
@limit_calls("program.child", -1)
def test_no_number(): pass
@limit_calls("program.child", True)
def test_no_bool(): pass

@limit_calls("program.child", 1)
def test_ends_the_profile():
    import pyhybrid
    with pyhybrid.Profiler(mode="trace"): pass

@pytest.mark.xfail(strict=True)
@limit_calls("program.child", 0)
def test_is_expected_to(): child(1)
"""

KINDS = """
import functools
class Class:
    def method(self): child(1)
    @staticmethod
    def fixed(): child(1)
def decorator(f):
    @functools.wraps(f)
    def wrapper(): return f()
    return wrapper
@decorator
def wrapped(): pass
def recursive(n): return n and recursive(n - 1)
"""

FAILED = {
    "TestCalls::test_beyond": "limit_calls('program.child', 3): 1,004 calls",
    "TestCalls::test_fails_by_itself": "its own",
    "TestCalls::test_in_threads": "limit_calls('program.child', 3): 5 calls",
    "TestCalls::test_many[4]": "limit_calls('program.child', 3): 4 calls",
    "test_threads_that_ended": "limit_calls('program.child', 1): 40 calls",
    "test_time": "limit_time('program.child', '1us'): ",
    "test_recursion": "limit_time('program.recursive', '1ns'): ",
    "test_ends_the_profile": "cannot be checked: the profile ended during the test",
}
ERRORS = {
    "test_unknown": "limit_calls('program.chlid', 1): there is no 'chlid' in it",
    "test_no_module": "limit_calls('no_such_module.f', 1): there is no module",
    "test_of_c": "limit_calls('os.getpid', 1): os.getpid is not a Python function",
    "test_no_time": "limit_time('program.child', 5): '5' is not a time",
    "test_no_number": "limit_calls('program.child', -1): -1 is not a number of calls",
    "test_no_bool": "limit_calls('program.child', True): True is not a number of calls",
    "test_no_limit": "limit_calls('program.child'): it takes a function's name and a limit",
}


@pytest.mark.version
def test_limits(tmp_path: Path) -> None:
    """They fail tests that exceed them, saying from where; what is no limit is an error."""
    suite(tmp_path, LIMITS)
    (tmp_path / "program.py").write_text(PROGRAM + KINDS)
    said = run_pytest(tmp_path, "--pyhybrid", "--strict-markers", "-rfE", code=1)
    for kind, tests in (("FAILED", FAILED), ("ERROR", ERRORS)):
        found = dict(re.findall(rf"^{kind} test_suite.py::(.*?) - (.*)", said, re.MULTILINE))
        assert found.keys() == tests.keys(), said
        for test, why in tests.items():
            assert why.removesuffix(": ") in said, test
    assert "    1,000 calls from caller (test_suite.py:" in said
    assert "    4 calls from TestCalls.test_beyond (test_suite.py:" in said
    assert "in 4 calls\n" in said  # of the recursion
    assert "1 xfailed" in said


FIXTURE_LIMITS = """
import pytest
from program import child

@pytest.fixture
def profiled(pyhybrid_profile): child(1); yield; child(1)

pytestmark = pytest.mark.limit_calls("program.child", 2)

def test_within(profiled): child(1); child(1)
def test_beyond(profiled):
    for _ in range(3): child(1)
@pytest.mark.limit_time("program.child", "1ns")
def test_time(tracy_profile, pyhybrid_profile): child(1000)
@pytest.mark.limit_calls("program.chlid", 2)
def test_unknown(pyhybrid_profile): pass
def test_without_it():
    for _ in range(3): child(1)
"""


@pytest.mark.further
@pytest.mark.parametrize("way", ["alone", "-p"])
def test_limits_of_a_test_with_the_fixture(
    pyhybrid: Callable[..., Run], tmp_path: Path, way: str
) -> None:
    """They hold for it, and for no other test."""
    suite(tmp_path, FIXTURE_LIMITS)
    if way == "alone":
        said = run_pytest(tmp_path, "-rfE", code=1)
    else:
        arguments = ["-m", "pytest", "-rfE", "-p", "no:cacheprovider", "test_suite.py"]
        variables = {**environment(), "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
        run = pyhybrid("-p", "--mode", "trace", *arguments, env=variables, check=False)
        said = run.result.stdout
    found = dict(re.findall(r"^(?:FAILED|ERROR) test_suite.py::(\S+) - (.*)", said, re.MULTILINE))
    assert found.keys() == {"test_beyond", "test_time", "test_unknown"}, said
    assert "limit_calls('program.child', 2): 3 calls" in found["test_beyond"]
    assert "limit_time('program.child', '1ns')" in found["test_time"]
    assert "there is no 'chlid' in it" in found["test_unknown"]


@pytest.mark.further
def test_limits_do_nothing_unless_asked(tmp_path: Path) -> None:
    suite(tmp_path, LIMITS)
    (tmp_path / "program.py").write_text(PROGRAM + KINDS)
    said = run_pytest(tmp_path, "--strict-markers", "-rf", code=1)
    failed = re.findall(r"^FAILED test_suite.py::(\S+)", said, re.MULTILINE)
    assert set(failed) == {"TestCalls::test_fails_by_itself", "test_is_expected_to"}
