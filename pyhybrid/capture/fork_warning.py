"""Forks of the profiled process: the child forgets the run, and nobody is warned of our threads.

A process with several threads is warned when it forks (CPython Modules/posixmodule.c,
warn_about_fork_with_threads, which counts those in /proc/self/stat).  Ours count too, but are
harmless: they take no lock of the program's, and children do not need them.  Neither does one that
the kernel still takes down: the program has joined it, and the kernel closes its clocks, so it is
there for longer than without us.  So where there are no others, a filter for exactly that warning
stands first for as long as the process forks.
"""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyhybrid.capture.profiling_run import Profiling

TEXT = "This process (pid={}) is multi-threaded, use of {}() may lead to deadlocks in the child."


def _n_threads() -> int:
    """0: they cannot be counted; no descriptor is free, or the program forbids it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[17])  # man 5 proc: field 20
    except Exception:
        return 0


_ENDING = 0x4  # linux/sched.h, PF_EXITING


def _live_threads_are(number: int) -> bool:
    """Without those that end."""
    n_threads = _n_threads()
    if n_threads <= number:  # as nearly always
        return n_threads == number
    n_live = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/stat", "rb") as file:
                flags = int(file.read().rpartition(b")")[2].split()[6])  # field 9
        except (FileNotFoundError, ProcessLookupError):
            continue
        n_live += not flags & _ENDING
        if n_live > number:  # there may be thousands
            break
    return n_live == number


_of_outputs = 0  # threads of live outputs' libraries, which stay to the end


def load_output(load: Callable[..., str], *arguments: object) -> str:
    """What `load(*arguments)` returns; the threads that it starts are ours."""
    global _of_outputs
    before = _n_threads()
    said = load(*arguments)
    _of_outputs += max(_n_threads() - before, 0)
    return said


class QuietFork:
    """Callbacks for os.register_at_fork; they run in the children of children, too."""

    def __init__(self) -> None:
        pid = os.getpid()
        self.pid = pid
        self.entries = [
            ("ignore", TEXT.format(pid, name), DeprecationWarning, None, 0)
            for name in ("fork", "forkpty")
        ]
        self.filters: list[Any] = []  # the list that has them

    def before(self, n_ours: int) -> None:
        """Add the filter, or take it away where the program has threads of its own."""
        self.forget()
        try:
            if os.getpid() != self.pid or not _live_threads_are(1 + n_ours):
                return
            import _warnings  # without `warnings`, its list is the one that counts

            self.filters = getattr(sys.modules.get("warnings", _warnings), "filters", [])
            # Not announced (_filters_mutated): that would show the program's own warnings again.
            self.filters[:0] = self.entries
        except Exception:  # no descriptor is free, or the program forbids it
            return

    def forget(self) -> None:
        """Take the filter away; in the parent only at the next fork: the warning comes last."""
        self.filters[:] = [each for each in self.filters if each not in self.entries]


_watched: "list[Profiling]" = []  # at most one: the run that forks concern
_quiet: list[QuietFork] = []  # the one that is registered, if any is


def _before_fork() -> None:
    if _watched or _of_outputs:
        _quiet[0].before(_of_outputs + len(_watched))


def _in_forked_child() -> None:
    _quiet[0].forget()
    for run in _watched:
        run.in_forked_child()
    _watched.clear()


def watch(run: "Profiling | None") -> None:
    """Such callbacks cannot be taken back, so they are registered once, and look for the run."""
    _watched[:] = [run] if run else []
    if run and not _quiet:
        _quiet.append(QuietFork())
        os.register_at_fork(before=_before_fork, after_in_child=_in_forked_child)
