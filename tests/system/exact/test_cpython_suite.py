"""CPython's own tests end under the events as without us: the same ones pass, fail, skip."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from exact_support import check_exact
from support import PATIENCE_S

from pyhybrid.tables.profile import Profile

pytestmark = [
    pytest.mark.version,
    pytest.mark.skipif(
        not (importlib.util.find_spec("test") and importlib.util.find_spec("test.test_generators")),
        reason="this interpreter came without the package `test`",
    ),
    pytest.mark.once,
]

MODULES = {
    "generators": ["test_generators"],
    "coroutines": ["test_coroutines"],
    "exceptions": ["test_exceptions"],
    "monitoring": ["test_monitoring"],
    "threading": ["test_threading"],
    "sys_settrace": ["test_sys_settrace"],
    # Of test_asyncio, which takes three minutes, what is about tasks and what waits for them.
    "asyncio": [
        f"test_asyncio.test_{name}"
        for name in ("futures", "locks", "pep492", "queues", "tasks", "taskgroups", "timeouts")
    ],
}

# Tests that may end in another way, with the reason.
EXCEPTED: dict[str, str] = {}

RUNNER = """\
import json, os, sys, unittest
main, outcomes = os.getpid(), {}

# test_monitoring demands before each test that no tool at all is at work, and takes ids that may be
# taken.  Here, in both runs, it looks at its own only, and has those that we leave.
def let_others_be():
    from test import test_monitoring as tests
    monitoring = sys.monitoring
    tests.TEST_TOOL, tests.TEST_TOOL2, tests.TEST_TOOL3 = tools = 0, 1, 2
    def check_quiet(self):
        for tool in tools:
            self.assertEqual(monitoring.get_events(tool), 0)
    def take(self):
        check_quiet(self)
        for number, tool in enumerate(tools):
            self.assertIs(monitoring.get_tool(tool), None)
            monitoring.use_tool_id(tool, f"test {number}")
    def give_back(self):
        check_quiet(self)
        for tool in tools:
            monitoring.free_tool_id(tool)
    tests.MonitoringTestBase.setUp = take
    tests.MonitoringTestBase.tearDown = give_back
    everything = monitoring._all_events
    def our_own():
        return {k: v & 7 for k, v in everything().items() if v & 7}
    monitoring._all_events = our_own
if "test.test_monitoring" in sys.argv:
    let_others_be()

class Result(unittest.TestResult):
    def addSuccess(self, test):
        outcomes.setdefault(test.id(), "passed")
    def addError(self, test, error):
        outcomes[test.id()] = f"error: {error[1]!r}"[:300]
    def addFailure(self, test, error):
        outcomes[test.id()] = f"failed: {error[1]!r}"[:300]
    def addSkip(self, test, reason):
        outcomes[test.id()] = f"skipped: {reason}"
    def addExpectedFailure(self, test, error):
        outcomes[test.id()] = "failed as expected"
    def addUnexpectedSuccess(self, test):
        outcomes[test.id()] = "passed unexpectedly"
    def addSubTest(self, test, part, error):
        if error:
            outcomes[part.id()] = f"failed: {error[1]!r}"[:300]
unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:]).run(Result())
if os.getpid() == main:
    with open(sys.argv[1], "w") as file:
        json.dump(outcomes, file)
"""


LONG = ("threading", "asyncio")
SLOW = [pytest.mark.slow, pytest.mark.long("so many of its tests wait, bare and profiled")]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", [pytest.param(m, marks=SLOW) if m in LONG else m for m in MODULES])
def test_outcomes(name: str, tmp_path: Path) -> None:
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    modules = [f"test.{module}" for module in MODULES[name]]

    def outcomes(*launcher: str) -> dict[str, str]:
        file = tmp_path / "outcomes.json"
        folder = tmp_path / ("profiled" if launcher else "alone")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-P", *launcher, runner, file, *modules],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(file.read_text())

    def differences() -> dict[str, tuple[str | None, str | None]]:
        alone = outcomes()
        ours = outcomes("-m", "pyhybrid", "-q", "--format", "pstats", "--mode", "trace")
        assert len(alone) >= 40
        return {
            test: (alone.get(test), ours.get(test))
            for test in sorted(alone.keys() | ours.keys())
            if alone.get(test) != ours.get(test) and test not in EXCEPTED
        }

    different = differences()
    if different:  # some wait for so many milliseconds, and fail by chance, bare as well
        again = differences()
        different = {test: each for test, each in different.items() if test in again}
    assert not different
    with Profile.open(str(tmp_path / "profiled" / "out.pyhybrid")) as profile:
        check_exact(profile)
