"""One run of the profiler in this process: files claimed, sampler started, results finished.

Imports are few and light: the program waits for them.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from gc import get_threshold
from posix import getpid, strerror  # at the end `os` may have others

from pyhybrid.base.clock_pair import clock_pair
from pyhybrid.base.light import suppress, to_json
from pyhybrid.capture import children, flight_recorder, machine, start_at
from pyhybrid.capture.finisher import (
    Finisher,
    as_bytes,
    find_interpreter,
    is_finisher,
    is_running,
    wait_for,
)
from pyhybrid.capture.jit_files import jit_files
from pyhybrid.capture.live_outputs import LiveOutputs, watch_forks
from pyhybrid.capture.machine import Children, ProcessorWaits
from pyhybrid.capture.metadata import describe, notebook_cells
from pyhybrid.capture.output_lock import (
    PROFILE,
    Claim,
    NoClaim,
    check_folder,
    prefix_of,
    remove_folders,
)
from pyhybrid.capture.std_streams import keep_whole, release, say
from pyhybrid.errors import PyhybridError, UsageError, not_built
from pyhybrid.options.kinds import Part
from pyhybrid.options.settings import GPU, Settings
from pyhybrid.options.table import FORKED_CHILDREN, NO_CHILDREN

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from typing import Any

    from pyhybrid.capture.attached import GivenClaim

# A library that is there is not loaded for want of memory or descriptors (glibc's dlerror).
_SHORT = ("annot allocate memory", "failed to map segment", "oo many open files")


LONGEST_VARIABLE = 32 << 10  # bytes: an exec takes 128 KB at most (execve(2), MAX_ARG_STRLEN)

of_command_line: Profiling | None = None  # the run of `python -m pyhybrid`
_starting: dict[int, Profiling] = {}  # by process: a forked child's may go on as the parent's does


class Profiling:
    """Run the profiler: `start`, then `finish` (or `finish_at_exit`).  Raises PyhybridError."""

    def __init__(
        self,
        settings: Settings,
        argv: list[str],
        *,
        makes_folders: bool = True,
        is_child: bool = False,
        claim: GivenClaim | None = None,
    ) -> None:
        """Take `claim` where another process, which attached to this one, makes the profile."""
        if is_finisher():
            raise PyhybridError("this process makes a profile: nothing is profiled in it")
        self.settings = settings
        self.argv = argv
        self.executable = sys.executable
        self.python = find_interpreter()  # now: the program may change what leads to it
        self.umask = os.umask(0o077)
        os.umask(self.umask)
        try:
            self.cwd = os.getcwd()
        except OSError as error:
            raise PyhybridError(f"the current folder cannot be read: {error.strerror}") from None
        self.pid = os.getpid()
        self.started = self.paused = self._settles = False
        # A child of another run began, or who attached did; "": this is a run of its own.
        self.how = "attach" if claim else ""
        self.remarks: list[str] = []  # of what went wrong, where this is no run of its own
        self._given = claim
        self.parts: children.Parts | None = None  # where its children record
        self.parts_cpu_ns = 0  # what Profilers within it took
        self.recorder: flight_recorder.FlightRecorder | None = None  # of --keep-last
        self.streams: list[io.FileIO] = []
        self.prefix = ""
        self._made_folders: list[str] = []
        if is_child or claim or not settings.counts:
            return
        prefix = os.path.abspath(prefix_of(settings.output))
        self._made_folders = check_folder(prefix, makes=makes_folders)
        self.prefix = prefix

    def start(self) -> None:
        """Claim the spool and start the clocks, paused.

        Nothing is left if it fails, or if a signal handler of the program's raises meanwhile.  One
        starts at a time: what fails must know whether the session that runs then is its own.
        """
        process = getpid()
        try:
            if _starting.setdefault(process, self) is not self:  # in another thread
                raise PyhybridError("cannot start: a profiler is already running")
            self._start()
        finally:
            if process in _starting and _starting[process] is self:  # no calls: none may raise
                del _starting[process]

    def _start(self) -> None:
        try:
            from pyhybrid import _native
        except ImportError as error:
            if any(sign in str(error) for sign in _SHORT):
                raise PyhybridError(f"cannot start: {error}") from None
            raise not_built(error) from None
        self.native = _native
        self.finisher = Finisher(_native, self.python, self.umask)
        self.outputs = LiveOutputs(self.settings, self.python)
        other = _native.session()
        self.claim: Claim | NoClaim | children.PartClaim | GivenClaim = self._given or (
            NoClaim() if not self.settings.counts else Claim(self.prefix, self.pid)
        )
        try:
            self.claim.keep()
            self._hardware = machine.describe()
            self.processor: ProcessorWaits | None = ProcessorWaits()
            self.children = Children()
            self.outputs.open_sinks()
            self.outputs.open_tools()
            if self.settings.keep_last:
                self.recorder = flight_recorder.FlightRecorder(self)
            started = self._start_native()
            if self.settings.counts:
                self._watch_frameworks()
            if isinstance(self.claim, NoClaim):
                self.claim.close()
            self.prefix, self.spool = self.claim.prefix, self.claim.spool
            self.paused = True
            watch_forks(self)
            _native.on_leaving(self.leave)
            if self.settings.samples:
                keep_whole(_native.whole_write, self.streams)
            self._write_meta(started)
            self._started, self.started = started, True
        except BaseException:
            if self.outputs.capture:
                _native.drop_companion()
            if _native.session() in (0, other):
                if not other:
                    _native.close_emit()
                self._give_up()
            else:
                self.abandon()
            raise

    def abandon(self) -> None:
        """End as if it had not been started: nothing is left."""
        self.started = False
        self.native.stop()
        release(self.streams)
        watch_forks(None)
        self._give_up()

    def _give_up(self) -> None:
        self.native.dismiss_watcher()
        self.claim.give_up()
        remove_folders(self._made_folders)

    def _start_native(self, **known: Any) -> dict[str, Any]:
        settings = self.settings
        arguments = settings.native()
        if not settings.samples:
            arguments["engine"] = self.native.ENGINE_NONE
        backend = None
        if settings.unwinder == "libunwind":
            backend = os.path.join(os.path.dirname(self.native.__file__), "_libunwind.so")
        try:
            return self.native.start(
                self.claim.descriptor,
                **arguments,
                exact=settings.traces,
                counts=settings.counts,
                filter=settings.filter,
                keep=settings.kept,
                lines_of=settings.lines_of,
                arguments_of=settings.arguments_of,
                usage_of=settings.usage_of,
                own=os.path.join(os.path.dirname(os.path.dirname(__file__)), ""),
                backend=backend,
                module_table=settings.unwinder == "table",
                **known,
                paused=True,  # what we do from here on is not the program's
            )
        except (OSError, RuntimeError) as error:
            code = getattr(error, "errno", 0)
            kind = UsageError if code == errno.ENOTSUP else PyhybridError
            reason = error.strerror if isinstance(error, OSError) else error
            raise kind(f"cannot start: {reason}") from None

    def _watch_frameworks(self) -> None:
        from pyhybrid.frameworks import hooks

        with suppress(Exception):  # it is profiled without their terms
            asked = self.settings.of_torch
            gpu = Part.numbers(asked[GPU]) if GPU in asked else None
            modules, steps = "modules" in asked, "steps" in asked
            compilers, shapes = "compilers" in asked, "shapes" in asked
            awaits = self.settings.begins_later or start_at.awaited
            begins = start_at.package_begins if awaits else None
            memory = ("" if self.how else self.claim.prefix) if "memory" in asked else None
            what = modules, steps, compilers, shapes, memory, gpu
            hooks.watch(self.native, *what, children.ranks, begins)

    def _pause_frameworks(self) -> None:
        hooks = sys.modules.get("pyhybrid.frameworks.hooks")
        if hooks:
            with suppress(Exception):
                hooks.pause()

    def _profile_children(self) -> None:
        """Let the program's children be profiled from now on, too, as the options want."""
        settings, started = self.settings, self._started
        leaves_out = settings.children == NO_CHILDREN
        if isinstance(self.claim, NoClaim) or (leaves_out and not self.recorder):
            return
        parts = children.Parts(self.spool, settings.max_children_disk)
        known = {
            "known_period_ns": started["period_ns"],
            "known_cost_ns": started["cost_ns"],
            "call_cost": started["call_cost"],
        }
        facts = {"options": settings.of_children(), "known": known, "hardware": self._hardware}
        try:
            parts.set_aside()
            starts = settings.children not in (NO_CHILDREN, FORKED_CHILDREN)
            named = parts.run(facts) if starts else ""
            if len(named) > LONGEST_VARIABLE:
                say("started children are not profiled: the options are too long for a variable")
            elif named:
                os.environ[children.VARIABLE] = named
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            say(f"children are not profiled: {parts.path}: {reason}")
            return
        self.parts = parts

    def in_forked_child(self) -> None:
        """Forget the parent's run; where its children are profiled, go on with this process."""
        self.native.forget()
        self.claim.close()
        records = self.settings.children != NO_CHILDREN
        if self.parts and records and self.native.child_records():
            paused = self.paused and (self.settings.paused or not self.settings.begins_later)
            with suppress(Exception):
                if not self._wants(children.forked_name()):
                    self.parts.leave_out(children.UNWANTED)
                    return
                self.settings, self.outputs.capture = self.settings.for_children(), None
                self._record_as_child(self.parts, "fork", {"inherits": True})
                if not paused:
                    self.native.resume()
                    self.paused = False

    def _wants(self, name: str) -> bool:
        return self.settings.wants_child(children.program_of(self.argv, self.executable), name)

    def start_as_child(
        self, parts: children.Parts, how: str, run: dict[str, Any], *, lets_through: bool = False
    ) -> bool:
        """Begin in a process that was started as a program of its own, or that a fork server made.

        `run` is what the parent of all has found out.  With `lets_through` interrupts, which are
        blocked, come from where the interpreter hands over to the program: does it?  Raises
        PyhybridError, OSError, RuntimeError.
        """
        import _signal  # type: ignore[import-not-found]
        import atexit

        from pyhybrid import _native

        global of_command_line
        self.native = _native
        self.finisher = Finisher(_native, self.python, self.umask)
        self.outputs = LiveOutputs(self.settings, self.python)
        self._hardware = run["hardware"]
        if os.uname().nodename != self._hardware.get("hostname"):
            self._hardware = machine.describe()
        self.parts, of_command_line = parts, self
        self._record_as_child(parts, how, run["known"])
        self._n_enabled = int(not self.settings.paused)
        atexit.register(self.native.at_exit, _signal, self._finish_and_go)
        if how == "start":
            runs_programs = is_running(sys.executable)  # else it is embedded, and no program comes
            lets_through = lets_through and runs_programs
            self.native.await_program(not self.settings.paused, lets_through)
            self.paused = self.settings.paused
            return lets_through
        children.await_name(self._write_name)
        if not self.settings.paused:
            self.native.resume()
            self.paused = False
        return False

    def _write_name(self, name: str) -> None:
        if getpid() == self.pid:
            self.native.write_meta(to_json({"name": name}).encode())

    def _record_as_child(self, parts: children.Parts, how: str, known: dict[str, Any]) -> None:
        """Start, paused, with a spool in the folder; what is `known` is not measured."""
        self.claim, self.started = parts.claim(), False
        try:
            self.pid, self.how, self.spool = getpid(), how, self.claim.spool
            self.processor, self.children, self.parts_cpu_ns = None, Children(), 0
            self.claim.keep()
            if self.settings.keep_last:
                self.recorder = flight_recorder.FlightRecorder(self)
            self._begin_session(**known)
            self.started = True
            if self.recorder:
                self.recorder.begin()
        except BaseException:
            self.native.stop()
            self.claim.give_up()
            raise

    def _begin_session(self, **known: Any) -> None:
        """Start, paused, with the spool that is claimed; what is `known` is not measured."""
        started = self._start_native(**known)
        self.paused = True
        self._watch_frameworks()
        watch_forks(self)
        self.native.on_leaving(self.leave)
        self._write_meta(started)

    def renew(self, began_ns: int) -> str:
        """Let what is recorded go into a new spool from now on, and return where the last one is.

        `began_ns` is when that began.  It is called with the recorder's lock, while this runs;
        where it fails, nothing is recorded any more.  Raises PyhybridError, OSError.
        """
        recorder, parts = self.recorder, self.parts
        assert recorder and parts
        n_modules = len(sys.modules)
        seeks, recorder.n_modules = n_modules != recorder.n_modules, n_modules
        if not self._end_session(seeks and self.how != "fork"):
            self.started = False
            return ""
        try:
            if self.how:
                assert isinstance(self.claim, children.PartClaim)
                kept = self.spool
                self.claim.close()
                self.claim = parts.claim()
                self.claim.keep()
                self.spool = self.claim.spool
            else:
                kept = flight_recorder.keep(self.claim.descriptor, parts.path, began_ns)
            self.processor = ProcessorWaits() if self.processor else None
            self.children = Children()
            self._begin_session(inherits=True)
            if self.settings.samples and not self.how:
                keep_whole(self.native.whole_write, self.streams)
            self.resume()
        except BaseException as error:
            self.started = False
            if not self.how and self.settings.summary:
                why = error.strerror if isinstance(error, OSError) else None
                say(f"recording ends: {why or error}")
            raise
        return kept

    def _write_meta(self, started: dict[str, Any]) -> None:
        meta = {
            "argv": self.argv,
            "executable": self.executable,
            "cwd": self.cwd,
            "pid": self.pid,
            "prefix_suffix": self.claim.suffix,
            **self._hardware,
            **children.identity(self.how or "root"),
            **({children.RECORDER: self.recorder.identity} if self.recorder else {}),
            **(self._given.facts if self._given else {}),
            **describe(self.settings, started, clock_pair(self.native)),
        }
        self.native.write_meta(to_json(meta).encode())

    def finish_at_exit(self) -> None:
        """Finish when the interpreter ends: this is registered first, so it runs last."""
        import _signal
        import atexit

        global of_command_line
        of_command_line = self
        self._n_enabled = int(not self.settings.begins_later)
        self._profile_children()
        self.native.prepare_exit()
        atexit.register(self.native.at_exit, _signal, self._finish_and_go)
        if not self.settings.leave_part and not isinstance(self.claim, NoClaim):
            summary = ["--summary"] if self.settings.summary else []
            self.finisher.watch([*summary, *self._arguments()], self.claim.descriptor)
        if self.recorder and self.parts:
            self.recorder.begin()

    def _finish_and_go(self, ends: bool) -> None:
        """Finish; where the interpreter `ends`, while it is taken down."""
        self.finish(waits=not ends)

    def begin(self) -> None:
        """Begin with the program, or as the options want."""
        if self.settings.start_at is not None:
            if start_at.await_step(self.settings.start_at, self.enable):
                return
            start_at.await_moment(self.settings.start_at)
        if not self.settings.paused:
            self.resume()

    def pause(self) -> None:
        """Record neither samples nor events until `resume`."""
        self.native.pause()
        self._pause_frameworks()
        self.paused = True
        if self.processor:
            self.processor.end()

    def resume(self) -> None:
        """Begin, or go on after `pause`."""
        if self.processor:
            self.processor.begin()
        self.native.resume()
        self.paused = False
        if self.settings.wall_threads:
            self._name_threads()

    def enable(self) -> None:
        """Profile until as many `disable` have come; is called with the lock of api.py."""
        self._n_enabled += 1
        self._settle()

    def disable(self) -> None:
        """End what the last `enable` began, or, without one, profiling; else there is nothing."""
        self._n_enabled = max(self._n_enabled - 1, 0)
        self._settle()

    def _settle(self) -> None:
        """Pause or resume, as is wanted by now: a signal handler within may want something else."""
        if self._settles:
            return
        self._settles = True
        try:
            while bool(self._n_enabled) == self.paused:
                (self.resume if self.paused else self.pause)()
        finally:
            self._settles = False

    def _name_threads(self) -> None:
        """Name them as far as they can be had: `name` and `enumerate` may be the program's own."""
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

    def stop(self) -> bool:
        """End, and report what went wrong; the spool is whole.  False: no run is here."""
        if getpid() != self.pid:
            return False
        if self.recorder:
            with self.recorder.lock:
                self.recorder.end()
                return self._stop()
        return self._stop()

    def _stop(self) -> bool:
        # What C calls its methods the parent knows, which has the same.
        result = self._end_session(self.how != "fork")
        if result is None:
            return self._has_windows()
        watch_forks(None)
        if self.how == "attach":
            self.remarks = self._remarks(result)
        if self.how:
            return True
        if self.outputs.capture:
            self.outputs.capture.settle()
        for remark in self._remarks(result):
            say(remark)
        return True

    def _end_session(self, seeks_names: bool) -> dict[str, Any] | None:
        """End it; None: there is none any more.  Names of C methods are sought if asked to."""
        if not self.native.running():
            return None
        self.native.pause()
        self._pause_frameworks()
        self._name_threads()
        # Now: later the jitdumps' markers may be unmapped, and the map may be replaced by our own.
        result: dict[str, Any] | None = self.native.stop(
            lambda known: to_json(self._last_meta(known)).encode(), seeks_names
        )
        release(self.streams)
        return result

    def _remarks(self, result: dict[str, Any]) -> list[str]:
        """Return what there is to report of a run that has stopped so."""
        remarks = []
        if result["write_error"]:
            reason = strerror(-result["write_error"])
            if result["write_error"] == -errno.EFBIG:
                reason += " (the program's RLIMIT_FSIZE): the profile is of what came before"
            remarks.append(f"{self.spool} is not complete: {reason}")
        remarks += result["remarks"]
        if not self.settings.summary:
            return remarks
        if result["n_not_ready"]:
            remarks.append(f"{result['n_not_ready']} signals met an unknown thread")
        if result["signal_taken"]:
            remarks.append("the program took SIGPROF: sampling ended there")
        if result["spare_signal"]:
            remarks.append(
                "the program took SIGPROF: sampled by timers from there on, "
                f"with signal {result['spare_signal']}"
            )
        if result["trap_lost"]:
            remarks.append(f"{result['trap_lost']}: sampled by perf_event from there on")
        return remarks

    def finish(self, *, waits: bool = True) -> str | None:
        """Stop, and let another process make the profile file, the exports and the summary.

        Returns the profile's path; None where there is none, and why has been reported on stderr.
        Without `waits` there is none yet: the files come before this process ends (`prepare_exit`).
        """
        if not self._stops() or isinstance(self.claim, NoClaim):
            return None
        if self.how:  # the run's end makes the files
            self.claim.close()
            return None
        if self.native.never_began() and not self._has_windows():  # what another run left stays
            self._give_up()
            if self.settings.summary:
                say("the program never began: there is no profile of it")
            return None
        arguments = [*(["--summary"] if self.settings.summary else []), *self._arguments()]
        path = None
        try:
            finisher = self.finisher.spawn(arguments, self.claim.descriptor, sends_end=not waits)
            if not waits:
                self.native.wait_at_exit(finisher, as_bytes(self.spool))
            elif wait_for(finisher, self.spool):
                path = self.prefix + PROFILE
        except KeyboardInterrupt:
            path = None  # the finisher has reported it
        except Exception as error:
            self._say_unfinished(error)
        finally:
            self.native.dismiss_watcher()
            self.claim.close()  # the finisher has it, too
        return path

    def _has_windows(self) -> bool:
        """Are there spools of before this one?"""
        return bool(self.recorder and self.recorder.kept and not self.how)

    def _stops(self) -> bool:
        """Stop as `stop` does; what goes wrong is reported, with what there is to read."""
        try:
            return self.stop()
        except Exception as error:  # of what the program has put in the place of something
            self._say_unfinished(error)
            return False

    def _last_meta(self, known: dict[str, Any]) -> dict[str, Any]:
        decorated = list(self.settings.decorated)
        now = dict(zip(("stop_ns", "stop_unix_ns"), clock_pair(self.native), strict=True))
        meta = {
            **now,
            **jit_files(maps=self.how != "fork"),
            "cells": notebook_cells(),
            "decorated": decorated,
            "gc_threshold": get_threshold()[0],
            **known,
        }
        meta |= self.children.figures() | (self.processor.figures() if self.processor else {})
        if self.how:
            meta |= {"name": name} if (name := children.current_name()) else {}
            with suppress(Exception):  # the program may have taken `os.environ` apart
                meta |= children.ranks()  # of workers that get theirs when they have begun (Ray)
        meta |= {"parts_cpu_ns": self.parts_cpu_ns} if self.parts_cpu_ns else {}
        hooks = sys.modules.get("pyhybrid.frameworks.hooks")
        with suppress(Exception):  # it is profiled without their terms
            measures = not (self.how or self.recorder)
            meta |= hooks.metadata(self.native, measures) if hooks else {}
        return meta

    def leave(self, execs: bool) -> None:
        """Finish: the program ends by os._exit, which waits as exit() does, or by exec.

        The new program's output is its own: nothing is printed later.
        """
        if not execs:
            self.finish(waits=False)
            return
        if not self._stops() or isinstance(self.claim, NoClaim):
            return
        if self.how:
            self.claim.close()
            return
        goes_on = children.VARIABLE in os.environ  # the new program is as a child of the run
        unprofiled = "" if goes_on else ", which is not profiled"
        made = f"{self.spool}: `python -m pyhybrid report` makes the files of it"
        try:
            if self.finisher.spawn_apart(self._arguments(), self.claim.descriptor, goes_on):
                made = f"{self.prefix}{PROFILE} is made {'at its end' if goes_on else 'meanwhile'}"
            if self.settings.summary:
                say(f"the program becomes another one{unprofiled}: {made}")
        except Exception as error:
            self._say_unfinished(error)
        finally:
            self.native.dismiss_watcher()
            self.claim.close()

    def _arguments(self) -> list[str]:
        formats = (word for name in self.settings.formats for word in ("--format", name))
        parts = ["--children", self.parts.path] if self.parts else []
        return [*formats, *parts, self.spool, self.prefix]

    def _say_unfinished(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else error or type(error).__name__
        say(
            f"{self.spool} could not be finished: {reason}; "
            "`python -m pyhybrid report` reads it by its name"
        )
