"""The plugin beside others of pytest's: each test is profiled, what they do around it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pytest_support import calls_by_test, run_pytest

PROGRAM = '''
def child(n): return sum(range(n))

def documented():
    """
    >>> documented()
    3
    """
    child(1)
    return child(3)
'''

SUITE = """
import asyncio, time, unittest
import pytest
from hypothesis import given, settings, strategies
from program import child

@pytest.fixture
def anyio_backend(): return "asyncio"

@pytest.mark.asyncio
async def test_asyncio():
    child(1); await asyncio.sleep(0); child(2)

@pytest.mark.anyio
async def test_anyio():
    child(1); await asyncio.sleep(0); child(2); child(3)

@given(strategies.integers())
@settings(max_examples=7, database=None)
def test_given(n): child(1)

@pytest.mark.asyncio
@given(strategies.integers())
@settings(max_examples=7, database=None)
async def test_given_asyncio(n): child(1)

runs = []

@pytest.mark.limit_calls("program.child", 1)
@pytest.mark.flaky(reruns=2)
def test_runs_again():
    child(1); runs.append(1)
    assert len(runs) == 3

@pytest.mark.limit_calls("program.child", 1)
@pytest.mark.flaky(reruns=1)
def test_exceeds_its_limit_twice(): child(1); child(2)

@pytest.mark.timeout(600)
def test_in_time(): child(1)

@pytest.mark.timeout(2)
def test_late():
    child(1)
    while True: time.sleep(0.01)

class TestUnits(unittest.TestCase):
    @classmethod
    def setUpClass(cls): child(1)
    def setUp(self): child(1)
    def tearDown(self): child(1)
    def test_one(self):
        child(1)
        for i in range(3):
            with self.subTest(i=i): child(i)
    @unittest.skip("so")
    def test_skipped(self): child(1)
    @unittest.expectedFailure
    def test_expected(self): child(1); self.fail()

class TestAwaited(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self): child(1)
    async def test_one(self): child(1); await asyncio.sleep(0); child(1)

class TestFixtures:
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def of_class(cls): child(1); yield; child(1)
    @pytest.fixture(autouse=True)
    def of_each(self, pyhybrid_profile): child(1); yield; child(1)
    @pytest.mark.parametrize("n", [1, 2], ids=["a/b", "c\\td"])
    def test_many(self, n):
        for _ in range(n): child(1)
"""

CALLS = {
    "test_asyncio": 2,
    "test_anyio": 3,
    "test_given": 7,
    "test_given_asyncio": 7,
    "test_runs_again": 3,
    "test_exceeds_its_limit_twice": 4,
    "test_in_time": 1,
    "test_late": 1,
    "TestUnits::test_one": 4,
    "TestUnits::test_expected": 1,
    "TestAwaited::test_one": 2,
    "TestFixtures::test_many[a/b]": 1,
    "TestFixtures::test_many[c\\td]": 2,
    "program.py::program.documented": 2,
}
RESULT = "2 failed, 11 passed, 1 skipped, 1 xfailed"


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param(0, marks=[pytest.mark.version, pytest.mark.further]),
        pytest.param(2, marks=pytest.mark.slow),
    ],
)
def test_each_test_is_profiled_and_nothing_around_it(tmp_path: Path, workers: int) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ("--pyhybrid", "--doctest-modules", "--cov=program", "-n", workers)
    said = run_pytest(tmp_path, *options, "test_suite.py", "program.py", code=1, with_plugins=True)
    assert RESULT in said
    assert "3 rerun" in said
    assert re.search(r"program\.py +\d+ +0 +100%", said)
    profiles = [path.name for path in tmp_path.glob("*.pyhybrid")]
    assert profiles == ["out.pyhybrid"]
    assert calls_by_test(tmp_path / "out.pyhybrid") == CALLS


@pytest.mark.further
def test_coroutines_alone(tmp_path: Path) -> None:
    """Neither the loop that runs them nor its callbacks are part of them."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "test_suite.py").write_text(SUITE)
    chosen = "test_asyncio or test_anyio or TestAwaited"
    options = ("--pyhybrid", "-k", chosen, "--pyhybrid-output=all", "--pyhybrid-lines")
    said = run_pytest(tmp_path, *options, with_plugins=True)
    calls = {
        test: int(calls) for calls, test in re.findall(r"(\d+)  test_suite\.py::(\S+)$", said, re.M)
    }
    # With the test's own call, `sleep` and what that calls.
    assert calls == {"test_asyncio": 5, "test_anyio": 6, "TestAwaited::test_one": 5}
