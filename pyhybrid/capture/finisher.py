"""The finishing process (`pyhybrid.cli.finish`), as the profiled one sees it: spawned, waited for.

Imports nothing but `os` and `sys`: the program waits for it.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from pyhybrid.errors import PyhybridError

_SIGINT = 2  # without importing `signal`
# SIGINT is blocked until it can be told from a failure: while the interpreter starts it would print
# a traceback of ours.  The process lives for a second or two: garbage is not sought, nor memory
# given back.
_FINISH = """\
import sys
import _signal
sys.path[:0] = [sys.argv.pop(1)]
spool = sys.argv[-2]
try:
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
    import gc, os
    os.umask(int(sys.argv.pop(1)))
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the program's
    gc.disable()
    from pyhybrid.cli.finish import main
    code = main()
    sys.stderr.flush()
    os._exit(code)
except KeyboardInterrupt:
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    shown = repr(spool)[1:-1]
    sys.stderr.write(f"pyhybrid: interrupted; `pyhybrid report {shown}` still reads it\\n")
    sys.exit(130)
"""
_INTERRUPTED = 130
NO_INTERPRETER = "no Python interpreter is known here that could make the profile"
EXPORT_FAILED = 3  # the profile is whole, an export could not be made


def _streams() -> list[tuple[Any, ...]]:
    """File actions that leave the finisher our standard error, if it is open, and nothing else."""
    try:
        os.fstat(2)
        closed = [0, 1]
    except OSError:
        closed = [0, 1, 2]
    return [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in closed]


# Of a finishing process: nothing is profiled there.  Should it be a program that profiles itself
# after all, it ends there.
_MARKER = "PYHYBRID_FINISHING"


def is_finisher() -> bool:
    """Is this process one?"""
    return _MARKER in os.environ


def environment() -> dict[str, str]:
    """As far as it can be passed on: names may be empty, and the program may have replaced it."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if isinstance(name, str) and isinstance(value, str) and name
        if "=" not in name[1:] and "\0" not in name + value
    }
    return {**passed, _MARKER: "1"}


def _command(python: str | None, umask: int, arguments: list[str]) -> list[str]:
    """Raises PyhybridError where there is nothing that could run it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not python:
        raise PyhybridError(NO_INTERPRETER)
    try:  # in another root folder it is not there, as another user it may be closed
        os.stat(python)
    except OSError as error:
        raise PyhybridError(f"{python}: {error.strerror}") from None
    if not os.path.exists(os.path.join(package, "cli", "finish.py")):
        raise PyhybridError("pyhybrid is not installed here, but part of a program")
    # Without `site`, which would read the .pth files of all that is installed.
    alone = ["-S"] if _has_extensions(package) else []
    return [python, "-I", *alone, "-c", _FINISH, os.path.dirname(package), str(umask), *arguments]


def _has_extensions(package: str) -> bool:
    """Is this interpreter's extension from there?  Otherwise `site` lets it be found elsewhere."""
    file = getattr(sys.modules.get("pyhybrid._native"), "__file__", None)
    return file is not None and os.path.dirname(os.path.abspath(file)) == package


def spawn(python: str | None, umask: int, arguments: list[str], lock: int) -> int:
    """Start `pyhybrid.cli.finish` with `arguments`; returns its pid.

    Raises OSError, PyhybridError.

    The spool's lock, if `lock` is not -1, is its own from then on, too.
    """
    command = _command(python, umask, arguments)
    actions = _streams()
    if 0 <= lock < os.sysconf("SC_OPEN_MAX"):  # else it is refused
        actions.append((os.POSIX_SPAWN_DUP2, lock, 3))
    return os.posix_spawn(
        command[0], command, environment(), file_actions=actions, setsigmask=[_SIGINT]
    )


def spawn_apart(
    spawn_orphan: Callable[..., bool],
    python: str | None,
    umask: int,
    arguments: list[str],
    lock: int,
) -> bool:
    """The same by `_native.spawn_orphan`, without streams: the program is not to know of it.

    False where it would find a child.
    """
    command = [os.fsencode(word) for word in _command(python, umask, arguments)]
    variables = [os.fsencode(f"{name}={value}") for name, value in environment().items()]
    return spawn_orphan(command, variables, lock)


def wait_for(finisher: int, spool: str) -> bool:
    """Until it has ended: is there a profile?  If not, it has said why.

    Raises OSError if it was killed, KeyboardInterrupt if interrupted.
    """
    while True:
        try:
            status = os.waitpid(finisher, 0)[1]
            break
        except KeyboardInterrupt:
            os.kill(finisher, _SIGINT)  # from a terminal it has got it, too
        except ChildProcessError:  # the program ignores SIGCHLD: the kernel reaped it
            return not os.path.exists(spool)  # removed at the end
    if os.WIFSIGNALED(status):
        raise OSError(0, f"killed by signal {os.WTERMSIG(status)}")
    code = os.waitstatus_to_exitcode(status)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    return code in (0, EXPORT_FAILED)
