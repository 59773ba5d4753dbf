"""The pytest plugin: options, markers and fixtures.  PYTEST_DONT_REWRITE

What profiles (profiled_tests.py) is imported where something asks for it: `--pyhybrid`, or a test
by its fixture.  Without that the plugin has no hook that runs during tests.
"""

import glob
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import pyhybrid

if TYPE_CHECKING:
    from pyhybrid.pytest_plugin.profiled_tests import ProfiledTests
    from pyhybrid.pytest_plugin.profiles import TestProfile

_NAME = "pyhybrid-tests"  # under which pytest knows what profiles
MARKERS = (
    "limit_calls(name, n): with --pyhybrid, or the fixture pyhybrid_profile, the test fails if it "
    "calls this function more often",
    "limit_time(name, time): with --pyhybrid, or the fixture pyhybrid_profile, the test fails if "
    "it is in this function for longer",
)


def _keep_as_they_are() -> None:
    """Have pytest rewrite none of our modules: no uninstall knows the files that this leaves.

    It rewrites all that come with a plugin.  The two that led here are written: they go.
    """
    names: set[str] = getattr(__spec__.loader, "_must_rewrite", set())
    names -= {"pyhybrid", __name__}
    for folder in (*pyhybrid.__path__, *__path__):
        written = os.path.join(glob.escape(folder), "__pycache__", "__init__.*-pytest-*.pyc")
        for path in glob.iglob(written):
            with suppress(OSError):
                os.unlink(path)


_keep_as_they_are()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; pytest calls it."""
    group = parser.getgroup("pyhybrid", "pyhybrid: a profile of the tests")
    group.addoption(
        "--pyhybrid",
        action="store_true",
        help="profile all tests, without their fixtures, and end with a table of them",
    )
    group.addoption(
        "--pyhybrid-lines",
        action="store_true",
        help="count and time each line of all functions that profiled tests call, too",
    )
    group.addoption(
        "--pyhybrid-html",
        metavar="DIR",
        help="write a page for a browser of each profile, too, into this folder",
    )
    group.addoption(
        "--pyhybrid-output",
        metavar="PREFIX",
        help="what the names of all profiles begin with (default: out; of a test with the fixture "
        "pyhybrid_profile the test's name)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the markers and the plugin; pytest calls it."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    if any(config.getoption(f"pyhybrid{which}") for which in ("", "_html", "_output")):
        _profiled_tests(config)


def _profiled_tests(config: pytest.Config) -> "ProfiledTests":
    from pyhybrid.pytest_plugin.profiled_tests import ProfiledTests

    known: ProfiledTests | None = config.pluginmanager.get_plugin(_NAME)
    if known is None:
        known = ProfiledTests(config)
        config.pluginmanager.register(known, _NAME)
    return known


@pytest.fixture
def pyhybrid_profile(request: pytest.FixtureRequest) -> "TestProfile":
    """This test is profiled, and nothing of pytest: its file is named after the test.

    With `python -m pyhybrid`, or `--pyhybrid`, it is a region of that profile instead.
    """
    return _profiled_tests(request.config).ask(request.node)


@pytest.fixture
def tracy_profile(request: pytest.FixtureRequest) -> None:
    """Do the same where `python -m pyhybrid` runs pytest, or with `--pyhybrid`; else nothing."""
    from pyhybrid.capture import profiling_run

    if profiling_run.of_command_line or request.config.getoption("pyhybrid"):
        _profiled_tests(request.config).ask(request.node)
