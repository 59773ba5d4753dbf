"""Work for a fork of this process, which does it beside what this one does next."""

import marshal
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO


class Beside[T]:
    """What `work` returns: numbers, texts, and lists and tuples of them.

    `with Beside(work) as found:` begins it, and `found.value()` waits for it.  Where a second
    process would not help, or harm, this one does the work at once.  Of a process that came to
    nothing it does the work again, when it is asked for the value.  If the block is interrupted, so
    is the other process; else it ends first.
    """

    def __init__(self, work: Callable[[], T], is_long: bool = True) -> None:
        """`is_long`: so that it is worth a process."""
        self._work, self._is_long = work, is_long
        self._done: list[T] = []
        self._child = 0
        self._pipe: BinaryIO | None = None  # from the child

    def __enter__(self) -> "Beside[T]":
        if self._is_long and _may_fork():
            with suppress(OSError):
                self._fork()
        if not self._child:
            self._end()
            self._done.append(self._work())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._child and isinstance(error, KeyboardInterrupt):
            os.kill(self._child, signal.SIGINT)
        elif self._pipe:
            self._pipe.read()
        self._end()

    def value(self) -> T:
        """What the work returned, or raised here."""
        if self._pipe:
            said = self._pipe.read()
            self._end()
            try:
                self._done += marshal.loads(said)
            except (EOFError, ValueError, TypeError):  # it was killed, or failed
                self._done.append(self._work())
        return self._done[0]

    def _fork(self) -> None:
        """Raises OSError."""
        ours, theirs = os.pipe()
        self._pipe = open(ours, "rb")  # noqa: SIM115  (closed by _end)
        # An interrupt is not to find the child where it would go on as its parent.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._child = os.fork()
            if not self._child:
                self._be_child(theirs, before)
        finally:
            os.close(theirs)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _be_child(self, pipe: int, mask: Iterable[int]) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            said = marshal.dumps([self._work()])
            with open(pipe, "wb") as file:
                file.write(said)
        finally:
            os._exit(0)

    def _end(self) -> None:
        """No child is there any more."""
        if self._pipe:
            self._pipe.close()
        if self._child:
            with suppress(ChildProcessError):  # SIGCHLD is ignored: it has gone by itself
                os.waitpid(self._child, 0)
        self._pipe, self._child = None, 0


def _may_fork() -> bool:
    """Is there a processor for it, and no other thread, for whose locks it would wait for ever?"""
    try:
        n_threads = len(os.listdir("/proc/self/task"))
    except OSError:  # no /proc: it is not known
        return False
    return n_threads == 1 and len(os.sched_getaffinity(0)) > 1
