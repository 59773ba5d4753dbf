"""The tests that are profiled: all (`--pyhybrid`), or those that ask by their fixture.

Three profiles are possible: that of `python -m pyhybrid`, which runs pytest; one of the whole run
(whole_run.py); one of each test that asks.  Whatever cannot be profiled runs, and why is reported
at the end.
"""

import inspect
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from _pytest.unittest import TestCaseFunction

from pyhybrid._native import session
from pyhybrid.capture import profiling_run
from pyhybrid.capture.output_lock import check_folder, check_writable
from pyhybrid.errors import PyhybridError
from pyhybrid.pytest_plugin.limits import Limit, checked, limits_of
from pyhybrid.pytest_plugin.profiles import Idle, IdleProfile, TestProfile, profiled
from pyhybrid.pytest_plugin.whole_run import WholeRun

_KEY = "pyhybrid"  # in what a worker of xdist's gets, and reports at its end


class ProfiledTests:
    """Profile the tests of one session in one process, as a plugin of pytest's."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._all: bool = config.getoption("pyhybrid")
        self._lines: bool = config.getoption("pyhybrid_lines")
        self._prefix: str | None = config.getoption("pyhybrid_output")
        self._folder = str(config.invocation_params.dir)  # a test may be in another one
        self._pages: str | None = config.getoption("pyhybrid_html")
        if self._prefix:
            try:
                check_folder(os.path.abspath(self._prefix), makes=False)
            except PyhybridError as error:
                raise pytest.UsageError(f"--pyhybrid-output: {error}") from None
        if self._pages:
            _check_new_folder(os.path.join(self._folder, self._pages))
        worker: dict[str, Any] = getattr(config, "workerinput", {})
        self._argv: list[str] | None = worker.get("mainargv")
        self._run = WholeRun(
            os.path.join(self._folder, self._prefix or "out"),
            *(self._lines, self._argv, worker.get("workerid"), worker.get(_KEY)),
        )
        self._pid = os.getpid()
        self._asked: dict[pytest.Item, TestProfile] = {}
        self._limits: dict[pytest.Item, list[Limit]] = {}
        self._why_not = "this process is a forked child"  # a test is not profiled
        self._names: set[str] = set()  # of files for single tests
        self._tests: set[str] = set()
        self._paths: list[str] = []
        self._notes: dict[str, int] = {}  # why tests were not profiled: how many

    def ask(self, item: pytest.Item) -> TestProfile:
        """Ask that this one is profiled.  It fails for a limit that is none."""
        if _of_command_line():
            why = "the profile of `python -m pyhybrid` is made when the program ends"
        elif self._all:
            why = "the profile of the whole run (--pyhybrid) is made at its end"
        else:
            why = "the test has not ended"
        if item not in self._asked:
            self._limits[item] = limits_of(item)
        return self._asked.setdefault(item, TestProfile(why))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Treat a limit that is none as an error."""
        if self._all:
            self._limits[item] = limits_of(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run a test function, of which plugins may make another one later, or a test of another
        kind: in docstrings, of plugins."""
        with self._profiled(item, *_called(item)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Forget it after the teardown: it may run again."""
        try:
            return (yield)
        finally:
            self._asked.pop(item, None)
            self._limits.pop(item, None)

    @contextmanager
    def _profiled(self, item: pytest.Item, owner: Any, attribute: str) -> Iterator[None]:
        """Profile calls of the function that this attribute has, meanwhile."""
        if not self._all and item not in self._asked:
            yield
            return
        with self._profile_for(item) as idle, self._checked(item, idle):
            if idle is None:
                yield
                return
            function = getattr(owner, attribute)
            setattr(owner, attribute, profiled(function, item.nodeid, idle))
            try:  # as pytest does it for its `--trace`
                yield
            finally:
                if owner is item:
                    setattr(item, attribute, function)
                else:
                    delattr(owner, attribute)

    @contextmanager
    def _checked(self, item: pytest.Item, idle: Idle | None) -> Iterator[None]:
        settings = idle.settings if idle else None
        with checked(self._limits.get(item, []), settings, self._why_not):
            yield

    @contextmanager
    def _profile_for(self, item: pytest.Item) -> Iterator[Idle | None]:
        run = _of_command_line()
        if run:
            yield Idle(session() if run.paused else 0, run.settings)
        elif profiling_run.of_command_line:
            yield None  # a forked child: the profile is the parent's
        elif self._all:
            with self._run.profile(self._begun) as idle:
                yield idle
        else:
            profile = IdleProfile(self._prefix_of(item), self._lines, self._argv)
            try:
                yield self._begun(profile)
            finally:
                profile.end()
                self._asked[item].path = profile.path
                if profile.path:
                    self._paths.append(profile.path)
                else:
                    self._asked[item].is_missing("it was not profiled: the run's end says why")

    def _begun(self, profile: IdleProfile) -> Idle | None:
        try:
            profile.begin()
        except PyhybridError as error:
            self._why_not = str(error)
            self._notes[self._why_not] = self._notes.get(self._why_not, 0) + 1
            return None
        return Idle(profile.session, profile.settings)

    def _prefix_of(self, item: pytest.Item) -> str:
        """Return the test's name, as it can be a file's."""
        file, _, test = item.nodeid.partition("::")
        name = ".".join((file.removesuffix(".py").replace("/", "."), *test.split("::")))
        name = re.sub(r"[^\w.=+-]+", "-", name)[:150].strip("-.")
        if self._prefix:
            name = f"{self._prefix}-{name}"
        unique, n = name, 1
        while unique in self._names:
            n += 1
            unique = f"{name}-{n}"
        self._names.add(unique)
        return os.path.join(self._folder, unique)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the test: where xdist has the tests run by others their reports come here."""
        if report.when == "call":
            self._tests.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Make the file; a worker sends the controller the names of single tests' files."""
        if os.getpid() != self._pid:
            return
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        self._paths += self._run.end(makes_one=output is None)
        if output is not None:
            output[_KEY] = self._paths, self._notes

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Prepare a worker of xdist's, which begins."""
        node.workerinput[_KEY] = self._run.parts

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of xdist's made, which has ended."""
        paths, notes = getattr(node, "workeroutput", {}).get(_KEY, ((), {}))
        self._paths += paths
        for note, n in notes.items():
            self._notes[note] = self._notes.get(note, 0) + n

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of tests, and where the profiles are."""
        if not (self._paths or self._notes or (self._all and _of_command_line())):
            return
        from pyhybrid.pytest_plugin.run_end import test_table

        terminalreporter.section("pyhybrid")
        lines = list(test_table(self._paths, self._tests)) if self._all else []
        lines += [f"not profiled: {n} tests: {note}" for note, n in self._notes.items()]
        lines += self._run.notes
        if _of_command_line():
            lines.append("the tests are regions of the profile that `python -m pyhybrid` makes")
        for path in self._paths:
            lines.append(f"profile: {os.path.relpath(path, self._folder)}")
        if self._pages:
            from pyhybrid.pytest_plugin.run_end import write_pages

            lines += write_pages(self._paths, os.path.join(self._folder, self._pages))
        for line in lines:
            terminalreporter.write_line(line)


def _check_new_folder(folder: str) -> None:
    """Can it be made, or written to?  Raises UsageError: now, not after an hour of tests."""
    there = folder
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        if not os.path.isdir(there):
            raise PyhybridError(f"{there!r} is not a folder")
        check_writable(there)
    except PyhybridError as error:
        raise pytest.UsageError(f"--pyhybrid-html: {error}") from None


def _called(item: pytest.Item) -> tuple[Any, str]:
    """Return whose attribute the test function is, and which: it is called by that."""
    if not isinstance(item, pytest.Function):
        return item, "runtest"
    if isinstance(item, TestCaseFunction) and inspect.iscoroutinefunction(item.obj):
        return item.instance, item.name  # by unittest itself, on an object that is made for it
    return item, "obj"


def _of_command_line() -> profiling_run.Profiling | None:
    """Return the run of `python -m pyhybrid` that profiles this process."""
    run = profiling_run.of_command_line
    return run if run and run.pid == os.getpid() else None
