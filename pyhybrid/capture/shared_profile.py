"""Profiles that calls of decorated functions share: begun by the first one, written at the end.

Whatever goes wrong here, the call goes on.
"""

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from pyhybrid._native import open_windows, running, session
from pyhybrid.capture import api
from pyhybrid.capture.profiling_run import Profiling
from pyhybrid.capture.std_streams import say
from pyhybrid.errors import PyhybridError

if TYPE_CHECKING:
    from pyhybrid.tables.profile import Profile

_lock = threading.RLock()  # a signal handler may call a decorated function, too
_all: "list[SharedProfile]" = []
_current: "list[SharedProfile]" = []  # at most one: whose profiler has been started
_ended = False  # the process ends, or is a forked child


class SharedProfile(api.Profiler):
    """Make one profile for all functions that are decorated with equal `options`."""

    _usual: ClassVar = {"formats": ("folded",), "summary": True}

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(**options)
        self.options = options
        self.names = self._settings.decorated  # of the functions
        self.session = 0  # the native session, from the first call to the end
        self._over = ""  # why no calls count any more
        self._reported: set[str] = set()

    def begin(self, name: str) -> int:
        """Start, idle, when function `name` is called; returns the session.  0 is just a call."""
        with _lock:
            if self.session or _ended:
                return self.session
            if self._over:
                self._report(self._over)
                return 0
            if not api.lock.acquire(blocking=False):
                return 0
            try:
                return self._begin(name) if api.is_alone() else 0
            finally:
                api.lock.release()

    def _begin(self, name: str) -> int:
        if running():
            others = [other.first for other in _current]
            if not end_idle(f"{name} was called, with other options"):
                for other in others:
                    self._report(f"while {other} runs, with other options")
                return 0
        try:
            profiling = self._start(self._output or self.options.get("output", name))
        except PyhybridError as error:
            self._over = str(error)
            self._report(self._over)
            return 0
        if self._settings.wall_threads and isinstance(profiling, Profiling):
            profiling._name_threads()
        _current[:] = [self]
        self.session = session()
        return self.session

    def detach(self, over: str = "") -> None:
        """Count nothing from here on; its next call begins another one, unless it is `over`."""
        _current.clear()
        self.session = 0
        self._over = over

    def begin_anew(self) -> None:
        """Let its next call begin another one, even if it is over."""
        self._over = ""
        self._reported.clear()

    def write(self, *, opens: bool = False) -> "Profile | None":
        """Make the files; returns the profile if it `opens` it.  Raises PyhybridError."""
        if profiling := self._current():
            self._finish(profiling, opens=opens)
        return self._profile

    @property
    def first(self) -> str:
        """Return the function that was decorated first."""
        return next(iter(self.names))

    def _report(self, why: str) -> None:
        if why not in self._reported:
            say(f"calls of {self.first} are not profiled: {why}")
        self._reported.add(why)


def shared_by(options: dict[str, Any], name: str) -> SharedProfile:
    """Return that of the functions with such options, of which `name` is one."""
    with _lock:
        for shared in _all:
            if shared.options == options:
                break
        else:
            shared = SharedProfile(options)
            _all.append(shared)
        shared.names[name] = None
        return shared


def end_idle(because: str) -> bool:
    """End the profile that has been started, for another one.  It is false where it is not idle."""
    with _lock:
        if not _current or open_windows():
            return False
        shared = _current[0]
        shared.detach(f"their profile ended when {because}; write_profile() lets them begin anew")
    shared.write()
    return True


def write_profile() -> "Profile | None":
    """Write the files of the profile of decorated functions (`@profile`) now, and return it.

    The next call begins another one, whose files replace these, also of functions whose profile had
    to end before.  None: no call was profiled, or the file could not be made, and why has been
    reported on stderr.
    """
    with api.lock:
        api.check_alone()
        with _lock:
            for each in _all:
                each.begin_anew()
            if not _current:
                return None
            shared = _current[0]
            shared.detach()
        return shared.write(opens=True)


def _at_exit() -> None:
    global _ended
    with _lock:
        _ended = True
        ending = list(_current)
        for shared in ending:
            shared.detach()
    for shared in ending:
        shared.write()


def _in_forked_child() -> None:
    global _lock, _ended
    _lock = threading.RLock()
    _ended = True
    _current.clear()
    for shared in _all:
        shared.session = 0


api.makes_way.append(end_idle)
atexit.register(_at_exit)  # now: what is registered later runs before, and may be decorated
os.register_at_fork(after_in_child=_in_forked_child)
