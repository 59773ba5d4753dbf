"""Profiles that the plugin makes: of the whole run, or of one test.

A profile counts only in windows (_native.window), which profiled_call.py opens.
"""

import atexit
import os
from functools import cached_property
from typing import TYPE_CHECKING

import pyhybrid
from pyhybrid._native import running, session
from pyhybrid.capture import api
from pyhybrid.capture.output_lock import PROFILE
from pyhybrid.errors import PyhybridError
from pyhybrid.options.settings import Settings

if TYPE_CHECKING:
    from pyhybrid.tables.profile import Profile


class IdleProfile(api.Profiler):
    """Files `PREFIX.pyhybrid`; it makes way when the program starts a Profiler of its own."""

    _waits = True

    def __init__(self, prefix: str, lines: bool, argv: list[str] | None) -> None:
        super().__init__(output=prefix, lines=lines)
        self._argv = argv
        self.path: str | None = None  # of the file, when it is made

    @property
    def settings(self) -> Settings:
        """What it collects."""
        return self._settings

    def begin(self) -> None:
        """Start, idle.  Raises PyhybridError."""
        if running():
            raise PyhybridError("another profiler runs")
        self._start_and(lambda run: None)
        self.session = session()
        api.makes_way.append(self._make_way)

    def end(self) -> None:
        """Make the file; what went wrong has been said on stderr.  If it has ended do nothing."""
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
    """What the fixture `pyhybrid_profile` gives: after the test, `profile` and the file's `path`.

    A test is over for those who use it in their teardown: fixtures that ask for this one.
    """

    __test__ = False  # pytest takes it for none of its own

    def __init__(self, why: str) -> None:
        self._why = why
        self.path: str | None = None

    def is_missing(self, why: str) -> None:
        """There is no file, for this reason."""
        self._why = why

    @cached_property
    def profile(self) -> "Profile":
        """The profile, opened.  Raises PyhybridError where there is none (yet)."""
        if self.path is None:
            raise PyhybridError(self._why)
        return pyhybrid.load(self.path)
