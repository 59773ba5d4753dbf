"""A child of a run that was started as a program of its own: by subprocess, a shell, spawn, exec.

`pyhybrid.pth` (Python 3.12 to 3.14) and `pyhybrid.start` (from 3.15 on, PEP 829) lie beside the
package.  Where the variable of a run is set they let `begin` run as the interpreter starts, maybe
twice; otherwise they do nothing.  It never raises, and prints nothing: the program is not ours.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyhybrid.capture.children import Parts
    from pyhybrid.capture.profiling_run import Profiling

# Processes that others need to run theirs: what follows a word of the command line, and what it is.
# They are counted, not profiled; the children that a fork server forks are.
INFRASTRUCTURE = (
    ("from multiprocessing.resource_tracker import main", "resource tracker"),
    ("from joblib.externals.loky.backend.resource_tracker import main", "resource tracker"),
    ("from multiprocessing.forkserver import main", "fork server"),
    ("torch/_inductor/compile_worker/__main__.py", "compile worker"),
    ("ray/_private/workers/setup_worker.py", "Ray's own"),
    ("ray/_private/log_monitor.py", "Ray's own"),
    ("ray/_private/runtime_env/agent/main.py", "Ray's own"),
    ("ray/dashboard/", "Ray's own"),
    ("ray/autoscaler/", "Ray's own"),
    ("ray/util/client/server", "Ray's own"),
)
FORK_SERVER = "fork server"

_begun = False


def begin() -> None:
    """Go on with the run that the variable names, if it is one of this interpreter's version.

    An interrupt that comes meanwhile is the program's, and comes when that begins.
    """
    global _begun
    if _begun:
        return
    _begun = True
    if "PYHYBRID_LISTEN" in os.environ:  # (of listening.py, which is not imported for nothing)
        from pyhybrid.capture.listening import listen_if_asked

        listen_if_asked()
    if "PYHYBRID_RUN" not in os.environ:
        return
    try:
        import _signal  # type: ignore[import-not-found]

        from pyhybrid.base import own_modules

        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
        own_modules.begin_before_program()
        begun = False
        try:
            begun = _begin(_signal.SIGINT not in before)
        finally:
            own_modules.hand_back()
            if not begun:
                _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    except Exception:
        pass


def _begin(lets_through: bool) -> bool:
    """Begin; `lets_through`: interrupts are to come when the program begins.  Returns whether they
    will."""
    from pyhybrid.capture import children

    named = children.named_run(os.environ.get(children.VARIABLE, ""))
    if not named:
        return False
    parts, run = named
    program = children.program_of(sys.orig_argv)
    if what := never_profiled(sys.orig_argv):
        parts.leave_out(what)
        if what == FORK_SERVER:
            _serve(run, parts)
        return False
    profiling = _prepared(run)
    settings = profiling.settings
    if not (settings.wants_child(program) and settings.wants_rank(children.rank_of_several())):
        parts.leave_out(children.UNWANTED)
        return False
    return profiling.start_as_child(parts, "start", run, lets_through=lets_through)


def never_profiled(argv: Sequence[str]) -> str:
    """Return what such a process is, if it is never profiled as a child; "": it may be."""
    from pyhybrid.capture.children import program_of

    if program_of(argv).partition(".")[0] == "pyhybrid":
        return "run of its own"
    words = " ".join(argv)
    return next((is_ for part, is_ in INFRASTRUCTURE if part in words), "")


def _serve(run: dict[str, Any], parts: Parts) -> None:
    """Let each process that this one forks be profiled: from there on it looks to its own."""
    from pyhybrid.base.light import suppress
    from pyhybrid.capture.children import MULTIPROCESSING

    server = os.getpid()
    profiling = _prepared(run)  # now: in a child nothing is imported

    def record() -> None:
        if os.getppid() == server and profiling.settings.wants_child(MULTIPROCESSING):
            with suppress(Exception):
                profiling.start_as_child(parts, "fork", run)

    os.register_at_fork(after_in_child=record)


def _prepared(run: dict[str, Any]) -> Profiling:
    from pyhybrid.capture.profiling_run import Profiling
    from pyhybrid.options.settings import CommandLineSettings

    return Profiling(CommandLineSettings(**run["options"]), sys.orig_argv, is_child=True)
