"""One run of the profiler in this process: files claimed, sampler started, results finished.

Imports are few and light: the program waits for them.
"""

import errno
import os
import sys
from typing import Any

from pyhybrid import host
from pyhybrid.claim import check_folder, claim
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.finisher import spawn, wait_for
from pyhybrid.forks import QuietFork
from pyhybrid.jit_files import jit_files
from pyhybrid.meta import describe
from pyhybrid.settings import CLOCKS, ENGINES, NO_SAMPLES, Settings
from pyhybrid.streams import keep_whole, release
from pyhybrid.visible import visible

of_command_line: "Profiling | None" = None  # the run of `python -m pyhybrid`


def _say(line: str) -> None:
    """One line on the process's standard error; `sys.stderr` is the program's, and may be gone."""
    for write in (
        lambda: sys.stderr.flush(),
        lambda: os.write(2, f"pyhybrid: {visible(line)}\n".encode()),
    ):
        try:
            write()
        except Exception:
            continue


_watched: "list[Profiling]" = []  # at most one: the run that forks concern
_quiet: list[QuietFork] = []  # the one that is registered, if any is


def _before_fork() -> None:
    if _watched:
        _quiet[0].before()


def _in_forked_child() -> None:
    _quiet[0].forget()
    for run in _watched:
        run.native.forget()
        run._close_lock()
    _watched.clear()


def _watch_forks(run: "Profiling") -> None:
    """Such callbacks cannot be taken back, so they are registered once, and look for the run."""
    _watched[:] = [run]
    if not _quiet:
        _quiet.append(QuietFork())
        os.register_at_fork(before=_before_fork, after_in_child=_in_forked_child)


class Profiling:
    """The run: `start`, then `finish` (or `finish_at_exit`).  Raises PyhybridError."""

    def __init__(self, settings: Settings, argv: list[str]) -> None:
        self.settings = settings
        self.argv = argv
        self.python = sys.executable
        self.umask = os.umask(0o077)
        os.umask(self.umask)
        try:
            self.cwd = os.getcwd()
        except OSError as error:
            raise PyhybridError(f"the current folder cannot be read: {error.strerror}") from None
        self.pid = os.getpid()
        prefix = os.path.abspath(settings.prefix or "out")
        if settings.prefix and settings.prefix.endswith(os.sep):
            prefix = os.path.join(prefix, "out")
        check_folder(prefix)
        self.prefix = prefix
        self.suffix = ""  # what `prefix` gained because another process uses it
        self.paused = False

    def _open_spool(self) -> int:
        try:
            descriptor = claim(self.prefix + ".pyhybrid.part")
            if descriptor is None:
                self.suffix = f".{self.pid}"
                self.prefix += self.suffix
                descriptor = claim(self.prefix + ".pyhybrid.part")
        except OSError as error:
            raise PyhybridError(
                f"cannot write {self.prefix}.pyhybrid.part: {error.strerror}"
            ) from None
        if descriptor is None:
            raise PyhybridError(f"{self.prefix}.pyhybrid.part is in use")
        return descriptor

    def start(self) -> None:
        """Claim the spool and start the clocks, paused; nothing is left if it fails."""
        self._import_early()
        try:
            from pyhybrid import _native
        except ImportError as error:
            raise UsageError(f"not built for this interpreter or system: {error}") from None
        settings = self.settings
        self.native = _native
        self.lock = self._open_spool()
        self.spool = self.prefix + ".pyhybrid.part"
        backend = None
        if settings.unwinder == "libunwind":
            backend = os.path.join(os.path.dirname(_native.__file__), "_libunwind.so")
        machine = host.describe()
        try:
            started = _native.start(
                self.lock,
                period_ns=1_000_000_000 // settings.hz,
                clock=CLOCKS[settings.clock],
                wall_threads=b"".join(each + b"\0" for each in settings.wall_threads),
                engine=NO_SAMPLES if settings.mode == "trace" else ENGINES[settings.engine],
                max_frames=settings.max_depth,
                ring_bytes=settings.ring_bytes,
                max_nodes=settings.max_nodes,
                exact=settings.mode != "sample",
                c_calls=settings.c_calls,
                filter=settings.filter,
                own=os.path.join(os.path.dirname(__file__), ""),
                lines=settings.lines,
                backend=backend,
                events=settings.events,
                keep_events_ns=settings.keep_events_ns,
                module_table=settings.unwinder == "table",
                paused=True,  # what we do from here on is not the program's
                kernel_frames={None: 0, True: 1, False: -1}[settings.kernel],
            )
        except (OSError, RuntimeError) as error:
            os.unlink(self.spool)
            os.close(self.lock)
            code = getattr(error, "errno", 0)
            kind = UsageError if code in (errno.ENOTSUP, errno.ENOSYS) else PyhybridError
            reason = error.strerror if isinstance(error, OSError) else error
            raise kind(f"cannot start: {reason}") from None
        self.paused = True
        self.streams = keep_whole(_native.whole_write) if settings.mode != "trace" else []
        self._hold_lock()
        self._write_meta(started, machine)

    def _import_early(self) -> None:
        """What is needed after the clocks start, so that it is not sampled as the program's."""
        import fcntl  # noqa: F401
        import json  # noqa: F401

    def _hold_lock(self) -> None:
        """Keep the spool's lock until it is finished, out of the program's way, not in children."""
        import fcntl

        low = self.lock
        floor = min(256, os.sysconf("SC_OPEN_MAX") // 2)
        self.lock = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, floor)
        self.locked = os.fstat(self.lock)
        os.close(low)
        _watch_forks(self)

    def _close_lock(self) -> None:
        """Also in a forked child: the profile is the parent's.

        The program may have closed it and use its number itself (daemons do).
        """
        if self._holds_lock():
            os.close(self.lock)
        self.lock = -1

    def _holds_lock(self) -> bool:
        try:
            return self.lock >= 0 and os.path.samestat(os.fstat(self.lock), self.locked)
        except OSError:
            return False

    def _write_meta(self, started: dict[str, Any], machine: dict[str, Any]) -> None:
        import json

        meta = {
            "argv": self.argv,
            "executable": self.python,
            "cwd": self.cwd,
            "pid": self.pid,
            "prefix_suffix": self.suffix,
            **machine,
            **describe(self.settings, started),
        }
        self.native.write_meta(json.dumps(meta).encode())
        self._to_json = json.dumps  # at the end imports may be forbidden

    def finish_at_exit(self) -> None:
        """Finish when the interpreter ends: registered first, so it runs last."""
        import _signal  # type: ignore[import-not-found]
        import atexit

        global of_command_line
        of_command_line = self
        self.native.prepare_exit()
        atexit.register(self.native.at_exit, _signal, self._finish_and_go)

    def _finish_and_go(self, ends: bool) -> None:
        """Finish; where the interpreter `ends`, while it is taken down."""
        self.finish(waits=not ends)

    def pause(self) -> None:
        """Neither samples nor events until `resume`."""
        self.native.pause()
        self.paused = True

    def resume(self) -> None:
        """Begin, or go on after `pause`."""
        self.native.resume()
        self.paused = False
        if self.settings.wall_threads:
            self._name_threads()

    def _name_threads(self) -> None:
        """As far as they can be had: `name` and `enumerate` may be the program's own."""
        threading = sys.modules.get("threading")
        try:
            threads = threading.enumerate() if threading else []
        except Exception:
            return
        for thread in threads:
            try:
                if thread.native_id:
                    self.native.name_thread(thread.native_id, thread.name)
            except Exception:  # (no contextlib: the program may have forbidden imports)
                continue

    def finish(self, *, waits: bool = True) -> str | None:
        """Stop, and let another process make the profile file, the exports and the summary.

        Returns the profile's path; None where there is none, and why has been said on stderr.
        Without `waits` there is none yet: the files come before this process ends (`prepare_exit`).
        """
        if os.getpid() != self.pid or not self.native.running():
            return None
        self.native.pause()
        self._name_threads()
        # Now: later the jitdumps' markers may be unmapped, and the map may be replaced by our own.
        result = self.native.stop(lambda: self._to_json(self._last_meta()).encode())
        release(self.streams)
        if result is None:
            return None
        if result["write_error"]:
            reason = os.strerror(-result["write_error"])
            _say(f"{self.spool} is not complete: {reason}")
        if result["n_not_ready"] and self.settings.summary:
            _say(f"{result['n_not_ready']} signals met an unknown thread")
        if result["signal_taken"] and self.settings.summary:
            _say("the program took SIGPROF: sampling ended there")
        if result["trap_lost"] and self.settings.summary:
            _say(f"{result['trap_lost']}: sampled by perf_event from there on")
        path = None
        try:
            finisher = self._spawn_finisher()
            if not waits:
                self.native.wait_at_exit(finisher, os.fsencode(self.spool))
            elif wait_for(finisher, self.spool):
                path = self.prefix + ".pyhybrid"
        except OSError as error:
            _say(f"{self.spool} could not be finished: {error.strerror}")
        except KeyboardInterrupt:
            path = None  # the finisher has said so
        finally:
            self._close_lock()  # the finisher has it, too
            _watched.clear()
        return path

    def _last_meta(self) -> dict[str, Any]:
        return {**jit_files(), "decorated": list(self.settings.decorated)}

    def _spawn_finisher(self) -> int:
        arguments = [self.spool, self.prefix]
        for name in self.settings.formats:
            arguments += ["--format", name]
        if self.settings.summary:
            arguments.append("--summary")
        umask = os.umask(self.umask)
        try:
            return spawn(self.python, arguments, self.lock if self._holds_lock() else -1)
        finally:
            os.umask(umask)
