"""The flight recorder: of a program that runs for days the last minutes are kept (`--keep-last`).

What is recorded goes into a new spool each quarter of that time, and older ones are removed: so
disk and memory are bounded, and counts and sums are of the time that is kept.  Each is a session of
its own (Profiling.renew); the profile is one again (merge/joined.py).  A thread that sleeps most
of the time does that, and looks whether a snapshot is wanted: by the program, a signal, or a rule
(`--snapshot-when`).

Imports are few and light: the program waits for them.
"""

from __future__ import annotations

import os
from _thread import RLock, allocate_lock, get_native_id, start_new_thread
from posix import getpid
from time import monotonic, monotonic_ns, process_time, strftime

from pyhybrid.base.light import suppress
from pyhybrid.capture import children, start_at
from pyhybrid.capture.finisher import SNAPSHOT
from pyhybrid.capture.output_lock import PART
from pyhybrid.capture.std_streams import say
from pyhybrid.errors import PyhybridError
from pyhybrid.options.lists import SnapshotRules

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyhybrid.capture.profiling_run import Profiling

PER_TIME = 4  # windows in the time that is kept: a fifth one is being recorded
LOOK_S = 1.0  # how often rules are looked at
FOR_LOOKS = 3  # so many in a row the CPU time is to be beyond what a rule names
MOST_SNAPSHOTS = 100  # that rules make in a run
STEPS_KNOWN, FEW_STEPS = 64, 10  # of whose times the median is; before so many it is not known


class FlightRecorder:
    """Begin the session of a run, or of a child of it, anew, and make snapshots, in its own thread.

    `lock` is held while the session ends or begins: who else ends it takes that before.
    """

    def __init__(self, profiling: Profiling) -> None:
        """Begin with the first window, which is being recorded."""
        self._profiling = profiling
        self._keep_s = profiling.settings.keep_last or 0.0
        self.lock = RLock()
        self.identity = f"{getpid()}:{monotonic_ns()}"  # of all windows
        self._began_ns = monotonic_ns()
        self.kept: list[tuple[str, float]] = []  # spools, and when they ended
        self._wake = allocate_lock()
        self._wake.acquire()
        self._ends = False
        self._rules = _Rules(profiling.settings.snapshot_when, self) if not profiling.how else None
        self._wanted: list[str] = []  # why snapshots are wanted, that are not made yet
        self._n_made = 0
        self.n_modules = 0  # when names of methods were sought last

    def begin(self) -> None:
        """Start the thread."""
        with suppress(RuntimeError):  # no thread can be started: what is recorded is kept whole
            start_new_thread(self._record, (self._profiling.native, getpid()))

    def want(self, why: str) -> None:
        """Let the thread make a snapshot; async-safe as Python code of a signal handler is."""
        self._wanted.append(why)
        with suppress(RuntimeError):  # it has been woken up already
            self._wake.release()

    def end(self) -> None:
        """Let the thread do nothing more, once the lock is free."""
        self._ends = True

    def _record(self, native: Any, pid: int) -> None:
        import _signal  # type: ignore[import-not-found]

        with suppress(Exception):
            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        with suppress(Exception):
            native.call_as_own(self._keep_on, pid)

    def _keep_on(self, pid: int) -> None:
        self._name()
        due = monotonic() + self._keep_s / PER_TIME
        while not self._ends and getpid() == pid:
            left = due - monotonic()
            if left <= 0:
                with self.lock:
                    if self._ends or not self._renewed():
                        return
                due = monotonic() + self._keep_s / PER_TIME
                continue
            self._wake.acquire(True, min(left, LOOK_S) if self._rules else left)
            if self._rules:
                self._rules.look()
            while self._wanted and not self._ends:
                self._make(self._wanted.pop(0))

    def _renewed(self) -> bool:
        """Begin a new window; is profiling going on?"""
        profiling = self._profiling
        if profiling.paused or not profiling.native.running():
            return bool(profiling.paused)
        before = monotonic()
        self.kept = [each for each in self.kept if not self._is_old(*each, before)]
        kept = profiling.renew(self._began_ns)
        if kept:
            self.kept.append((kept, monotonic()))
        self._began_ns = monotonic_ns()
        self._name()
        return profiling.started

    def _name(self) -> None:
        with suppress(Exception):
            self._profiling.native.name_thread(get_native_id(), children.OWN_THREAD)

    def _is_old(self, path: str, ended: float, now: float) -> bool:
        """Is it of before the time that is kept?  It is removed then."""
        if now - ended < self._keep_s:
            return False
        with suppress(OSError):
            os.unlink(path)
        return True

    def _make(self, why: str) -> None:
        if self._n_made >= MOST_SNAPSHOTS:
            return
        self._n_made += 1
        with suppress(Exception):
            path = snapshot_of(self._profiling, None, why)
            if self._profiling.settings.summary:
                say(f"{why}: the last {self._keep_s:g} s are in {path}")


def keep(descriptor: int, folder: str, began_ns: int) -> str:
    """Move what the spool at `descriptor` has to a file in the `folder`, and leave it empty: its
    name, its lock and who waits for its end stay as they are.  Raises OSError."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o777)
    path = os.path.join(folder, f"{getpid()}-{began_ns}{children.PART}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    target, at = os.open(f"{path}.tmp", flags, 0o666), 0
    try:
        while sent := os.sendfile(target, descriptor, at, 1 << 24):
            at += sent
    finally:
        os.close(target)
    os.rename(f"{path}.tmp", path)
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return path


def snapshot_of(profiling: Profiling, output: str | None, why: str) -> str:
    """Make a profile of what has been recorded so far, in another process, and wait for it.

    Returns its path: PREFIX-DATE-TIME.pyhybrid, or that of `output`.  Raises PyhybridError.
    """
    spool = profiling.parts.of_run if profiling.parts else profiling.spool
    prefix = output or f"{spool.removesuffix(PART)}-{strftime('%Y%m%d-%H%M%S')}"
    prefix = os.path.abspath(prefix.removesuffix(".pyhybrid"))
    path, number = f"{prefix}.pyhybrid", 1
    while output is None and os.path.lexists(path):
        number += 1
        path = f"{prefix}-{number}.pyhybrid"
    ended, held = os.pipe2(os.O_CLOEXEC)  # it holds the other end as long as it lives
    try:
        arguments = [SNAPSHOT, why, spool, path.removesuffix(".pyhybrid")]
        try:
            began = profiling.finisher.spawn_apart(arguments, held, goes_on=False)
        finally:
            os.close(held)
        if not began:
            raise PyhybridError("no process can be started here that is no child of the program")
        os.read(ended, 1)
    except OSError as error:
        raise PyhybridError(f"no snapshot: {error.strerror}") from None
    finally:
        os.close(ended)
    if not os.path.exists(path):
        raise PyhybridError(f"no snapshot: `pyhybrid snapshot {getpid()}` reports why")
    return path


class _Rules:
    """Look at what `--snapshot-when` asks for."""

    def __init__(self, texts: Sequence[str], recorder: FlightRecorder) -> None:
        self._recorder = recorder
        self._levels = [_Level(*rule) for rule in SnapshotRules.levels(texts)]
        self._steps_ns: list[int] = []
        self._last_step_ns = self._quiet_until = 0.0
        self._times, self._rule = SnapshotRules.step(texts)
        if self._times:
            start_at.on_steps(self._step)
        for number, rule in SnapshotRules.signals(texts):
            self._handle(number, rule)

    def __bool__(self) -> bool:
        return bool(self._levels)

    def _handle(self, number: int, rule: str) -> None:
        import _signal

        with suppress(ValueError, OSError):
            _signal.signal(number, lambda *_: self._recorder.want(rule))

    def look(self) -> None:
        """Want a snapshot where a level has been passed since the last look."""
        for level in self._levels:
            if level.passed():
                self._want(level.rule)

    def _want(self, rule: str) -> None:
        """Want one, unless the last one's time has much of it."""
        now = monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + self._recorder._keep_s
            self._recorder.want(rule)

    def _step(self) -> None:
        """Note a step, in the program's thread."""
        now = monotonic_ns()
        took, self._last_step_ns = now - self._last_step_ns, now
        if took == now:  # the first
            return
        known = self._steps_ns
        if len(known) >= FEW_STEPS and took > self._times * sorted(known)[len(known) // 2]:
            self._want(self._rule)
        known.append(int(took))
        del known[:-STEPS_KNOWN]


class _Level:
    """Look whether the process uses more than so much of something."""

    def __init__(self, what: str, most: float, rule: str) -> None:
        self._what, self._most, self.rule = what, most, rule
        self._above = 0
        self._cpu_s, self._at = process_time(), monotonic()

    def passed(self) -> bool:
        """Has it been passed now?  It has not been above it before."""
        looks = FOR_LOOKS if self._what == "cpu" else 1
        self._above = self._above + 1 if self._now() > self._most else 0
        return self._above == looks

    def _now(self) -> float:
        if self._what == "cpu":
            cpu_s, at = process_time(), monotonic()
            used = (cpu_s - self._cpu_s) / max(at - self._at, 1e-9)
            self._cpu_s, self._at = cpu_s, at
            return 100 * used
        with suppress(OSError, ValueError, IndexError):
            file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return int(os.read(file, 200).split()[1]) * os.sysconf("SC_PAGE_SIZE")
            finally:
                os.close(file)
        return 0.0
