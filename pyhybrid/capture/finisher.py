"""The finishing process (`pyhybrid.finish.finish`), as the profiled one has it: spawned, awaited.

All it needs is found when the run starts: at the end the program may have replaced anything, as
debuggers replace `os.posix_spawn`.  Functions are those of `posix`, by themselves, or in C.

Imports little: the program waits for it.
"""

import os
import sys
from posix import WIFSIGNALED, WTERMSIG, kill, waitpid, waitstatus_to_exitcode
from posix import stat as status_of
from types import ModuleType

from pyhybrid.errors import PyhybridError

# The interpreter that finishes a profile: a file that is one, found without running it.
#
# `sys.executable` need not be one: frozen applications and programs that embed CPython are their
# own, and started as an interpreter they would run themselves again.  Servers that embed it (uWSGI)
# name themselves or nothing.  So what is taken is called as an interpreter of this version is, and
# has its standard library where the interpreter looks for it (CPython Modules/getpath.py).

_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
_NAME = f"python{_VERSION}{sys.abiflags}"
_NAMES = {_NAME, f"python{_VERSION}", "python3", "python"}
_IN_BUILD_FOLDER = "pybuilddir.txt"  # of an interpreter that is run where it was made


def find_interpreter() -> str | None:
    """Return the path of an interpreter of this version; None where none is known."""
    # The second one where that is a virtual environment's.
    named = [sys.executable, getattr(sys, "_base_executable", None)]
    if getattr(sys, "frozen", False):
        named = []
    usual = [
        os.path.join(prefix, "bin", _NAME) for prefix in (sys.base_prefix, sys.base_exec_prefix)
    ]
    return next((path for path in (*named, *usual) if path and _is_one(path)), None)


def _is_one(path: str) -> bool:
    try:
        real = os.path.realpath(path, strict=True)
    except (OSError, ValueError):
        return False
    folder, name = os.path.split(real)
    # Without a version in its name it may be any: but not the one that runs.
    if name not in _NAMES or not (_VERSION in name or is_running(real)):
        return False
    if not os.access(real, os.X_OK) or not os.path.isfile(real):
        return False
    if os.path.exists(os.path.join(folder, _IN_BUILD_FOLDER)):
        return True
    prefix = os.path.dirname(folder)
    libraries = {sys.platlibdir, "lib"}
    return any(
        os.path.exists(os.path.join(prefix, library, f"python{_VERSION}", "os.py"))
        for library in libraries
    )


def is_running(real: str) -> bool:
    """Is this the file that this process runs?"""
    try:
        return os.path.samefile(real, "/proc/self/exe")
    except OSError:
        return False


KILLED = "--killed"  # of one that the watcher has become, with the process that it waited for
BECOMES = "--becomes"  # the profiled process has become another program, which records, too
SNAPSHOT = "--snapshot"  # of what a program that runs has recorded so far, and why
UNTIL_END = "--until-end"  # of the finishing process: it receives what the program's end took
_SIGINT = 2  # without importing `signal`
EXPORT_FAILED = 3  # the profile is whole, an export could not be made
HAS_REPORTED = 4  # there is no profile, and why has been reported
_INTERRUPTED = 130  # this, too.  All four are known to exit_wait.c
# SIGINT is blocked until it is no failure any more: while the interpreter starts it would print
# a traceback of ours.  The process lives for a second or two: garbage is not sought, nor memory
# given back.
_FINISH = """\
import sys
import _signal
sys.path[:0] = [sys.argv.pop(1)]
spool = sys.argv[-2]
try:
    try:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
    except OSError:  # a filter of the program's refuses it (seccomp)
        pass
    import gc, os
    os.umask(int(sys.argv.pop(1)))
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the program's
    gc.disable()
    from resource import RLIMIT_FSIZE, getrlimit, setrlimit
    setrlimit(RLIMIT_FSIZE, getrlimit(RLIMIT_FSIZE)[1:] * 2)  # the program may have lowered it
    import pyhybrid
    sys.path.append(sys.path.pop(0))  # what lies beside it hides no module of the standard library
    from pyhybrid.finish.finish import main
    code = main()
    if code not in (0, 3):
        code = 4
    sys.stderr.flush()
    os._exit(code)  # 1 is that of an interpreter that fails
except KeyboardInterrupt:
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    shown = repr(spool)[1:-1]
    sys.stderr.write(f"pyhybrid: interrupted; `pyhybrid report {shown}` still reads it\\n")
    sys.exit(130)
"""
# The watcher (src/python/ending/companion.c).  A line on its standard input dismisses it.  Who ends
# a group of processes, or all of a service, means the program: the files are to be made all the
# same.
_WATCH = "trap '' HUP INT TERM; cd /; read -r line && exit; exec \"$@\" </dev/null"
_SHELL = "/bin/sh"
NO_INTERPRETER = "no Python interpreter is known here that could make the profile"

# Of a finishing process: nothing is profiled there.  Should it be a program that profiles itself
# after all, it ends there.
_MARKER = "PYHYBRID_FINISHING"


def is_finisher() -> bool:
    """Is this process one?"""
    return _MARKER in os.environ


# What brings other code into a process, or words of its own; sanitizers' libraries stay, for an
# extension of ours that is built with one needs it.
_INJECTING = frozenset(
    {"LD_AUDIT", "LD_PROFILE", "LD_DEBUG", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}
    | {"INTEL_LIBITTNOTIFY64", "INTEL_JIT_PROFILER64", "COVERAGE_PROCESS_START"}
    | {"PYHYBRID_RUN"}
)
_PRELOADED = "LD_PRELOAD"
_SANITIZERS = ("libasan.", "libtsan.", "libubsan.", "libclang_rt.")


def environment() -> list[bytes]:
    """Return the variables of a process of ours: the program's, without what others put into it.

    They are those that can be passed on: names may be empty, and the program may have replaced
    them.
    """
    passed = {
        name: value
        for name, value in os.environ.items()
        if isinstance(name, str) and isinstance(value, str) and name
        if "=" not in name and "\0" not in name + value and name not in _INJECTING
    }
    libraries = passed.pop(_PRELOADED, "").replace(":", " ").split()
    kept = [each for each in libraries if each.rpartition("/")[2].startswith(_SANITIZERS)]
    if kept:
        passed[_PRELOADED] = ":".join(kept)
    return [os.fsencode(f"{name}={value}") for name, value in {**passed, _MARKER: "1"}.items()]


_ENCODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()


def as_bytes(path: str) -> bytes:
    """Encode as `os.fsencode`, which calls what may have been replaced."""
    return path.encode(*_ENCODING)


class Finisher:
    """Start it: what starts it is found now, and used at the end."""

    def __init__(self, native: ModuleType, python: str | None, umask: int) -> None:
        self._native, self._python = native, python
        self._environment = environment()
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self._is_installed = os.path.exists(os.path.join(package, "finish", "finish.py"))
        # Without `site`, which would read the .pth files of all that is installed.
        alone = ["-S"] if _has_extensions(package) else []
        words = [python or "", "-I", *alone, "-c", _FINISH, os.path.dirname(package), str(umask)]
        self.command = [os.fsencode(word) for word in words]

    def _command(self, arguments: list[str]) -> list[bytes]:
        """Return the command.  Raises PyhybridError where there is nothing that could run it."""
        if not self._python:
            raise PyhybridError(NO_INTERPRETER)
        try:  # in another root folder it is not there, as another user it may be closed
            status_of(self._python)
        except OSError as error:
            raise PyhybridError(f"{self._python}: {error.strerror}") from None
        if not self._is_installed:
            raise PyhybridError("pyhybrid is not installed here, but part of a program")
        return [*self.command, *(as_bytes(word) for word in arguments)]

    def spawn(self, arguments: list[str], lock: int, sends_end: bool) -> int:
        """Start `pyhybrid.finish.finish` with `arguments`; returns its pid.

        Raises OSError, PyhybridError.  The spool's lock, if `lock` is not -1, is its own from then
        on, too.  `sends_end`: this process ends, and will send what that took.
        """
        command = self._command([*([UNTIL_END] if sends_end else []), *arguments])
        pid: int = self._native.spawn(command, self._environment, lock, sends_end)
        return pid

    def watch(self, arguments: list[str], lock: int) -> None:
        """Let `pyhybrid.finish.finish` run with `arguments` where this process is killed.

        Without it nothing is wrong: what a killed process leaves can be read.
        """
        try:
            command = self._command([KILLED, f"{os.getpid()}:{_start_ticks()}", *arguments])
            words = [os.fsencode(word) for word in (_SHELL, "-c", _WATCH, "pyhybrid")]
            self._native.watch_end([*words, *command], self._environment, lock)
        except (OSError, PyhybridError):
            pass

    def spawn_apart(self, arguments: list[str], lock: int, goes_on: bool) -> bool:
        """Start the same without streams, and no child: the program is not to know of it.

        It waits where the run `goes_on` in what this process becomes.  It is false where the
        program would find a child.
        """
        waits = [BECOMES, f"{os.getpid()}:{_start_ticks()}"] if goes_on else []
        command = self._command([*waits, *arguments])
        return bool(self._native.spawn_orphan(command, self._environment, lock))


def _start_ticks() -> str:
    """Return when this process began, in the kernel's ticks: process numbers come again."""
    with open("/proc/self/stat", "rb") as file:
        return start_ticks(file.read())


def start_ticks(stat: bytes) -> str:
    """Return the field starttime of a file `/proc/PID/stat` (man 5 proc_pid_stat)."""
    return stat.rpartition(b")")[2].split()[19].decode()


def _has_extensions(package: str) -> bool:
    """Is this interpreter's extension from there?  Otherwise `site` lets it be found elsewhere."""
    file = getattr(sys.modules.get("pyhybrid._native"), "__file__", None)
    return file is not None and os.path.dirname(os.path.abspath(file)) == package


def wait_for(finisher: int, spool: str) -> bool:
    """Wait until it has ended: is there a profile?  If not, it has reported why.

    Raises OSError if it was killed, PyhybridError if it has ended without a word,
    KeyboardInterrupt if interrupted.
    """
    while True:
        try:
            status = waitpid(finisher, 0)[1]
            break
        except KeyboardInterrupt:
            kill(finisher, _SIGINT)  # from a terminal it has got it, too
        except ChildProcessError:  # the program ignores SIGCHLD: the kernel reaped it
            return _is_removed(spool)
    if WIFSIGNALED(status):
        raise OSError(0, f"killed by signal {WTERMSIG(status)}")
    code = waitstatus_to_exitcode(status)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (0, EXPORT_FAILED, HAS_REPORTED):
        raise PyhybridError(f"exit code {code} of the process that makes the profile")
    return code != HAS_REPORTED


def _is_removed(spool: str) -> bool:
    """Is it removed, as it is at the end?"""
    try:
        status_of(spool)
    except OSError:
        return True
    return False
