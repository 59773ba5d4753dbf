"""Work for a fork of this process, which does it beside what this one does next."""

import fcntl
import marshal
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, BinaryIO

GRACE_MS = 200  # for what a child does as it is interrupted
PIPE_BYTES = 1 << 20  # the most that a user may ask for, where the system has it so


class _Fork:
    """Fork this process; the fork sends what some works return: numbers, texts, and lists, tuples
    and dictionaries of them.

    If the block is interrupted, so is the fork; else it ends first.
    """

    def __init__(self) -> None:
        self._child = 0
        self._pipe: BinaryIO | None = None  # from the child

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._child and isinstance(error, KeyboardInterrupt):
            self._interrupt()
        elif self._pipe and not self._pipe.closed:
            self._pipe.read()
        self._end()

    def _begin(self, works: Sequence[Callable[[], Any]]) -> bool:
        """Is there a fork?  It does the works, one after the other."""
        if _may_fork():
            with suppress(OSError):
                self._fork(works)
        if not self._child:
            self._end()
        return self._child != 0

    def _result(self) -> list[Any]:
        """Return what the next work returned; none: the fork was killed, or failed."""
        if self._pipe:
            with suppress(EOFError, ValueError, TypeError):
                return [marshal.load(self._pipe)]
        return []

    def _fork(self, works: Sequence[Callable[[], Any]]) -> None:
        """Fork, and do the works in the child.  Raises OSError."""
        ours, theirs = os.pipe()
        self._pipe = open(ours, "rb")  # noqa: SIM115  (closed by _end)
        # An interrupt is not to find the child where it would go on as its parent.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._child = os.fork()
            if not self._child:
                _be_child(works, theirs, before)
        finally:
            os.close(theirs)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _interrupt(self) -> None:
        """Interrupt the child until it has ended: what comes just before it sleeps wakes nobody."""
        with suppress(OSError):
            while self._child:
                os.kill(self._child, signal.SIGINT)
                for _ in range(GRACE_MS):
                    if os.waitpid(self._child, os.WNOHANG)[0]:
                        self._child = 0
                        break
                    time.sleep(0.001)

    def _end(self) -> None:
        """Close the pipe; no child is there any more."""
        if self._pipe:
            self._pipe.close()
        if self._child:
            with suppress(OSError):  # SIGCHLD is ignored: it has gone; or a filter refuses
                os.waitpid(self._child, 0)
        self._pipe, self._child = None, 0


def _be_child(works: Sequence[Callable[[], Any]], pipe: int, mask: Iterable[int]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with suppress(OSError):  # so that it need not wait for the reader
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with open(pipe, "wb") as file:
            for work in works:
                file.write(marshal.dumps(work()))
                file.flush()
    finally:
        os._exit(0)


class ForkedWork[T](_Fork):
    """Do `work` in a fork, and return what it returns.

    `with ForkedWork(work) as found:` begins it, and `found.value()` waits for it.  Where a second
    process would not help, or harm, this one does the work at once.  Of a process that came to
    nothing it does the work again, when it is asked for the value.
    """

    def __init__(self, work: Callable[[], T], is_long: bool = True, can_wait: bool = False) -> None:
        """Take the work; `is_long`: so that it is worth a process.

        `can_wait`: long work that has no process of its own is done when the value is asked for.
        """
        super().__init__()
        self._work, self._is_long, self._can_wait = work, is_long, can_wait
        self._done: list[T] = []

    def __enter__(self) -> "ForkedWork[T]":
        forked = self._is_long and self._begin([self._work])
        if not forked and not (self._is_long and self._can_wait):
            self._done.append(self._work())
        return self

    def is_done_within(self, seconds: float) -> bool:
        """Is value() ready without a wait, after so long at most?"""
        if self._pipe and not self._done:
            return bool(select.select([self._pipe], [], [], seconds)[0])
        return bool(self._done)

    def value(self) -> T:
        """Return what the work returned, or raised here."""
        if not self._done:
            self._done += self._result()
            self._end()
            self._done = self._done or [self._work()]
        return self._done[0]


class Prefetch(_Fork):
    """Do some works one after the other in another process only, for what is also found without
    them.

    `with Prefetch(work, another) as found:` begins them, and `found.value(0)` waits for the first.
    """

    def __init__(self, *works: Callable[[], Any]) -> None:
        super().__init__()
        self._works = works
        self._done: list[Any] = []

    def __enter__(self) -> "Prefetch":
        if self._works:
            self._begin(self._works)
        self._works = ()  # and what they hold: the fork has it
        return self

    def value(self, at: int) -> Any:
        """Return what the work at this place returned; None: there is no such process, or it came
        to nothing before."""
        while len(self._done) <= at and (result := self._result()):
            self._done += result
        return self._done[at] if at < len(self._done) else None


def _may_fork() -> bool:
    """Is there a processor for it, and no other thread, for whose locks it would wait for ever?"""
    try:
        n_threads = len(os.listdir("/proc/self/task"))
    except OSError:  # no /proc: it is not known
        return False
    return n_threads == 1 and len(os.sched_getaffinity(0)) > 1
