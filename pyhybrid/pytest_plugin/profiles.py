"""Profiles that the plugin makes: of the whole run, or of one test.

A profile counts only in windows (_native.window), which `profiled` opens.
"""

import atexit
import functools
import inspect
import os
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyhybrid
from pyhybrid._native import call_apart, launcher, running, session, window
from pyhybrid.capture import api
from pyhybrid.capture.api import region
from pyhybrid.capture.decorator import Awaited, marked
from pyhybrid.capture.output_lock import PROFILE
from pyhybrid.errors import PyhybridError
from pyhybrid.options.settings import Settings

if TYPE_CHECKING:
    from pyhybrid.tables.profile import Profile


# How a test's function is called so that it, and nothing of pytest, is profiled.
#
#     pytest's frames | apart: the profile begins here | window | region of the test | the test
#
# Functions of this package have no figures in a profile (`own` of _native.start), views leave out
# what is `marked`, and pytest leaves all of them out of tracebacks.


class Idle:
    """Hold a profile that counts in windows of `session` alone; 0: it counts all the time."""

    def __init__(self, session: int, settings: Settings) -> None:
        self.session, self.settings = session, settings

    def begin(self, name: str) -> int:
        """Return the session: it has begun."""
        return self.session


def profiled(function: Callable[..., Any], name: str, idle: Idle) -> Callable[..., Any]:
    """Return `function`, whose calls count, in a region of this name.

    Each turn of a coroutine function counts.
    """
    make = _coroutine if inspect.iscoroutinefunction(function) else _function
    return functools.wraps(function)(make(function, name, idle))


def _function(function: Callable[..., Any], name: str, idle: Idle) -> Callable[..., Any]:
    @marked
    def inside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with window(idle.session), region(name):
            return function(*args, **kwargs)

    @marked
    def outside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        outer = launcher()
        try:
            return call_apart(inside, *args, **kwargs)
        finally:
            launcher(*outer)

    is_main = threading.current_thread() is threading.main_thread()
    return outside if idle.session and is_main else inside


def _coroutine(function: Callable[..., Any], name: str, idle: Idle) -> Callable[..., Any]:
    @marked
    async def inside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with region(name):
            return await function(*args, **kwargs)

    @marked
    async def outside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return await Awaited(inside(*args, **kwargs), idle, name)

    return outside


class IdleProfile(api.Profiler):
    """Make files `PREFIX.pyhybrid`; it makes way when the program starts a Profiler of its own."""

    _waits = True

    def __init__(self, prefix: str, lines: bool, argv: list[str] | None) -> None:
        super().__init__(output=prefix, lines=lines)
        self._argv = argv
        self.path: str | None = None  # of the file, when it is made

    @property
    def settings(self) -> Settings:
        """Return what it collects."""
        return self._settings

    def begin(self) -> None:
        """Start, idle.  Raises PyhybridError."""
        if running():
            raise PyhybridError("another profiler runs")
        self._start_and(lambda run: None)
        self.session = session()
        api.makes_way.append(self._make_way)

    def end(self) -> None:
        """Make the file; what goes wrong is reported on stderr.  If it has ended do nothing."""
        with api.lock:
            api.check_alone()
            self._make_way("")

    def _make_way(self, because: str) -> None:
        if self._make_way in api.makes_way:
            api.makes_way.remove(self._make_way)
        profiling = self._current()
        if profiling is None:
            return
        atexit.unregister(self._stop_if_running)
        self._finish(profiling, opens=False)
        path = profiling.prefix + PROFILE
        if os.path.exists(path):
            self.path = path


class TestProfile:
    """Hold what the fixture `pyhybrid_profile` gives: after the test, `profile` and its `path`.

    A test is over for those who use it in their teardown: fixtures that ask for this one.
    """

    __test__ = False  # pytest takes it for none of its own

    def __init__(self, why: str) -> None:
        self._why = why
        self.path: str | None = None

    def is_missing(self, why: str) -> None:
        """Note that there is no file, for this reason."""
        self._why = why

    @cached_property
    def profile(self) -> "Profile":
        """Return the profile, opened.  Raises PyhybridError where there is none (yet)."""
        if self.path is None:
            raise PyhybridError(self._why)
        return pyhybrid.load(self.path)
