"""Profiling from within a program.

    with pyhybrid.Profiler(hz=999, mode="hybrid") as p:
        train()
    p.profile.exact

One profiler runs in a process at a time; it sees all threads, whichever one started it.
"""

import atexit
import os
import re
import shutil
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Self

import pyhybrid
from pyhybrid._native import enter_caller, region
from pyhybrid.base.clock_pair import THREAD_CPU
from pyhybrid.base.pseudo_frames import STEP_MARK
from pyhybrid.capture import profiling_run, start_at
from pyhybrid.capture.finisher import NO_INTERPRETER
from pyhybrid.capture.flight_recorder import snapshot_of
from pyhybrid.capture.profiling_run import Profiling
from pyhybrid.capture.run_part import RunPart
from pyhybrid.errors import PyhybridError
from pyhybrid.options.config_file import with_files
from pyhybrid.options.kinds import Choice, Declared, Option
from pyhybrid.options.lists import Words
from pyhybrid.options.settings import Settings
from pyhybrid.options.table import ProfilerOptions

if TYPE_CHECKING:
    import inspect

    from pyhybrid.tables.profile import Profile


__all__ = ["Profiler", "disable", "enable", "region", "snapshot", "step"]

lock = threading.RLock()  # of starting and stopping

# Called before a Profiler starts: ends a profile that is idle (shared_profile.py).
makes_way: list[Callable[[str], object]] = []


def _new_lock() -> None:
    """Make a new lock in a forked child: the thread that held it is not here."""
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


def is_alone() -> bool:
    """Is nobody else at work with the lock?  A signal handler within that is not alone."""
    return bool(lock._recursion_count() == 1)  # type: ignore[attr-defined]


def check_alone() -> None:
    """Raise PyhybridError where this is not."""
    if not is_alone():
        raise PyhybridError(
            "a signal handler came while its own thread starts or stops a profiler, and cannot, too"
        )


# The options as keywords of a function: its signature, and how its documentation describes them.

_FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)(?: (\w+))?")


def with_keywords_of[**P](
    options: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Let type checkers see an `__init__` with the keywords that these options are made with."""
    return lambda init: init


class Signature:
    """Make a class's `__signature__`: these options as keywords.  It is made on demand."""

    def __init__(self, options: type[Declared]) -> None:
        self._options = options

    def __get__(self, instance: object, owner: type) -> "inspect.Signature":
        import inspect

        keyword = inspect.Parameter.KEYWORD_ONLY
        types = inspect.get_annotations(self._options)
        return inspect.Signature(
            [
                inspect.Parameter(name, keyword, default=each.default, annotation=types[name])
                for name, each in self._options.options.items()
            ]
        )


def documented(text: str, options: type[Declared]) -> str:
    """Return the docstring `text`, in which `{options}` stands for a definition list of them."""
    by_flag = {flag: each for each in options.options.values() for flag in each.flags}
    lines = []
    for name, each in options.options.items():
        about = each.keyword_help or each.help or ""
        about = _FLAG.sub(lambda found: _keyword(found, by_flag), about)
        about %= {"default": each.default}
        lines += [name, textwrap.fill(about, 92, initial_indent="    ", subsequent_indent="    ")]
    return text.replace("{options}", textwrap.indent("\n".join(lines), "    ").lstrip())


def _keyword(found: re.Match[str], by_flag: dict[str, Option]) -> str:
    """Return ``mode="none"`` for `--mode none`, ``include`` for `--include`."""
    flag, value = found.groups()
    each = by_flag.get(flag)
    if each is None:
        return found[0]
    if value and isinstance(each.kind, Choice | Words) and value in each.kind.known:
        return f'`{each.name}="{value}"`'
    return f"`{each.name}`" + (f" {value}" if value else "")


class Profiler:
    __doc__ = documented(
        """Profiles the process between `start` and `stop`, or within `with`.

    {options}

    All methods raise PyhybridError, in one line, for what the caller can mend: another profiler
    runs, a folder is not writable, `stop` without `start`.  They may be called from any thread.
    A profile of decorated functions that is idle ends, with its files, when a Profiler starts.

    In a run of `python -m pyhybrid` it is a part of that, any number of which may overlap: a region
    `Profiler` in the run's profile, where it is used by `with`, and a result of its own, recorded
    with the options of the run.  Each start and stop copies the run's `.part` then; what they do is
    in neither profile.
    """,
        ProfilerOptions,
    )
    __signature__ = Signature(ProfilerOptions)

    _usual: ClassVar[dict[str, Any]] = {}  # where neither keywords nor files choose

    _waits = False  # it begins paused, as with -p
    _argv: list[str] | None = None  # of the run, where this process's own have nothing of it

    @with_keywords_of(ProfilerOptions)
    def __init__(self, **options: Any) -> None:
        given = ProfilerOptions(**{**self._usual, **with_files(options, ProfilerOptions)})
        self._settings = Settings(**vars(given), paused=self._waits)
        self._output = given.output
        # Whoever names a folder here can make it; a file that does is for many programs.
        self._makes_folders = "output" not in options
        self._profiling: Profiling | RunPart | None = None
        self._profile: Profile | None = None
        self._region: region | None = None

    def start(self) -> None:
        """Begin; what was measured before is forgotten."""
        _as_own(self._start_and, Profiling.resume)

    def _start_and(self, then: Callable[[Profiling], object]) -> None:
        """Start, and do this with the run, which is paused."""
        before: Profiling | RunPart | Profiler | None = self
        try:
            with lock:
                check_alone()
                if self._current():
                    raise PyhybridError("this profiler is already running")
                for make_way in makes_way if not _command_line() else ():
                    make_way("a Profiler was started")
                before = self._profiling
                profiling = self._start(self._output)
                if isinstance(profiling, Profiling):
                    then(profiling)
                atexit.register(self._stop_if_running)
        except BaseException:  # of a signal handler, perhaps
            if before is not self and self._profiling and self._profiling is not before:
                atexit.unregister(self._stop_if_running)
                self._abandon(self._profiling, self._folder)
            raise

    def _start(self, output: str | None) -> Profiling | RunPart:
        """Return the run, paused; within one of the command line the part of it that begins now."""
        if run := _command_line():
            self._profiling = RunPart(run, self._settings, makes_folders=self._makes_folders)
            self._folder = self._profile = None
            return self._profiling
        profiling = folder = None
        try:
            if output is None and self._settings.counts:
                folder = _temporary_folder()
            self._settings.output = os.path.join(folder, "out") if folder else output
            profiling = Profiling(
                self._settings, self._argv or _argv(), makes_folders=self._makes_folders
            )
            if folder and not profiling.python:
                raise PyhybridError(f"{NO_INTERPRETER}: name an output, to read it elsewhere")
            profiling.start()
            self._folder = folder
            self._profiling, self._profile = profiling, None
            if folder:
                profiling.native.on_leaving(lambda _: self._discard())
        except BaseException:
            self._abandon(profiling, folder)
            raise
        return profiling

    def _abandon(self, profiling: Profiling | RunPart | None, folder: str | None) -> None:
        """Leave nothing of what may have been started."""
        if profiling and (isinstance(profiling, RunPart) or profiling.started):
            self._profiling = None
            profiling.abandon()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self) -> None:
        """End, and make the files; `profile` is there when it returns."""
        _as_own(self._stop)

    def _stop(self) -> None:
        with lock:
            check_alone()
            profiling = self._current()
            if profiling is None:
                raise PyhybridError("this profiler does not run")
            atexit.unregister(self._stop_if_running)
            self._finish(profiling)

    def _finish(self, profiling: Profiling | RunPart, *, opens: bool = True) -> None:
        self._profiling = None
        try:
            path = profiling.finish()
            if path is not None and opens:
                # What reads profiles is no part of capture: it comes into the process only here.
                self._profile = pyhybrid.load(path)
        finally:
            for folder in (self._folder, getattr(profiling, "folder", None)):
                if folder:
                    shutil.rmtree(folder, ignore_errors=True)

    def pause(self) -> None:
        """Record neither samples nor events until `resume`; nothing counts meanwhile."""
        _as_own(self._pause)

    def _pause(self) -> None:
        with lock:
            check_alone()
            profiling = self._current()
            if profiling is None or profiling.paused:
                raise PyhybridError("this profiler does not run, or is paused already")
            profiling.pause()

    def resume(self) -> None:
        """Go on after `pause`.  Functions that run now count as if profiling had begun now."""
        _as_own(self._resume)

    def _resume(self) -> None:
        with lock:
            check_alone()
            profiling = self._current()
            if profiling is None or not profiling.paused:
                raise PyhybridError("this profiler is not paused")
            profiling.resume()

    @property
    def running(self) -> bool:
        """Has it been started, and not stopped?  In a forked child it has not."""
        return self._current() is not None

    def _current(self) -> Profiling | RunPart | None:
        profiling = self._profiling
        return profiling if profiling and profiling.pid == os.getpid() else None

    @property
    def profile(self) -> "Profile":
        """Return the result of the last run."""
        if self._profile is None:
            raise PyhybridError(
                "there is no result: the profiler has not run, is still running, or its file could "
                "not be made"
            )
        return self._profile

    def _stop_if_running(self) -> None:
        if self.running:
            self.stop()

    def _discard(self) -> None:
        """Discard the run: the program ends by os._exit, or execs: nobody asks for the result."""
        if self._profiling and self._profiling.stop() and self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        if isinstance(self._profiling, RunPart):  # in the command line's profile it is a region
            self._region = enter_caller(region("Profiler"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._region:
            self._region.__exit__(None, None, None)
            self._region = None
        self._stop_if_running()


def _temporary_folder() -> str:
    try:
        return tempfile.mkdtemp(prefix="pyhybrid-")
    except OSError as error:
        raise PyhybridError(f"no temporary folder can be made: {error.strerror}") from None


def _argv() -> list[str]:
    return [sys.executable or "python", *getattr(sys, "argv", ())]


def _command_line() -> Profiling | None:
    """Return the run of `python -m pyhybrid` in this process."""
    run = profiling_run.of_command_line
    return run if run and run.pid == os.getpid() and run.native.running() else None


def _as_own(function: Callable[..., object], *args: Any) -> None:
    """Call it; within a run of the command line it is no part of that one's profile."""
    run = _command_line()
    if run is None:
        function(*args)
        return
    cpu_ns = run.native.read_clock(THREAD_CPU)
    try:
        run.native.call_as_own(function, *args)
    finally:
        run.parts_cpu_ns += run.native.read_clock(THREAD_CPU) - cpu_ns


def enable() -> None:
    """Go on after `disable`, or begin where `python -m pyhybrid -p` waits for it.

    Calls nest: each `disable` ends what one `enable` began.  Where a run of the command line
    profiles from its begin (without `-p`), or where there is none, nothing changes.
    """
    with lock:
        run = _command_line()
        if run:
            run.enable()


def disable() -> None:
    """End what the last `enable` began, in a run of `python -m pyhybrid`.

    Neither samples nor events from then on until the next one, unless others want them.  Without an
    `enable` before it, it ends what the command line began.  Without such a run, or where profiling
    is disabled already, it does nothing.
    """
    with lock:
        run = _command_line()
        if run:
            run.disable()


def step(*, tokens: int | None = None, batch: int | None = None) -> None:
    """Note how many `tokens`, and how many samples as `batch`, this step of a training takes.

    Call it in the loop, before or after the work; of several calls in a step (batches of which
    gradients are added up) the sums count.  Does nothing while no profiler runs, or where regions
    are not kept.
    """
    known = {"tokens": tokens, "batch": batch}
    mark = region(STEP_MARK, **{name: n for name, n in known.items() if n is not None})
    enter_caller(mark).__exit__(None, None, None)
    start_at.mark()


def snapshot(output: str | None = None) -> str | None:
    """Make a profile of what a run of `python -m pyhybrid` has recorded so far; return its path.

    With `--keep-last` that is the last minutes.  The path is PREFIX-DATE-TIME.pyhybrid, unless
    `output` names another prefix.  Another process makes it; this thread waits.  Without a run
    nothing is made, and None is returned.  Raises PyhybridError.
    """
    run = profiling_run.of_command_line
    if not run or not run.started or run.pid != os.getpid() or not run.spool:
        return None
    return snapshot_of(run, output, "pyhybrid.snapshot()")


def switch(on: bool) -> None:
    """Profile, or do not, in a run of `python -m pyhybrid -p`.  Without such a run do nothing."""
    with lock:
        run = _command_line()
        if run and run.settings.paused and run.paused == on:
            (run.enable if on else run.disable)()
