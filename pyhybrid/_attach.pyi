"""Other processes, from outside (src/attach/): loaded by `pyhybrid attach`, `dump`, `ps` only."""

from typing import final

# "": done, "gone", "denied", "traced", "stopped", "unsafe", "busy", "failed"; an errno; nanoseconds
# for which the thread stood still.
def inject(
    pid: int,
    tid: int,
    functions: dict[str, int],
    runtime: int,
    text: str,
    file: str,
    pending: bool = False,
) -> tuple[str, int, int]:
    """Let a process run a text of Python, by a thread of it that is borrowed for a moment.

    `file`: the name under which it is compiled.
    Without `pending` the thread must sleep where it has no lock, and makes a thread that runs it;
    with it, it is the main thread, which runs it where Python next looks for such calls.
    Raises OSError, LookupError (a function is missing), ValueError (the text is too long).
    """

def interpreter(pid: int, runtime: int) -> tuple[bool, bool, int, list[tuple[int, int, bool]]]:
    """Return whether it is there, whether it ends, how often the GIL changed hands, and threads:
    (native id, thread state, does it hold the GIL).  Raises OSError."""

def gil(pid: int, runtime: int) -> tuple[int, int, int]:
    """Return the thread state that has the GIL, or 0, and where that struct begins and ends: who
    sleeps on a futex in it waits for the GIL.  Raises OSError."""

def withdraw(pid: int, state: int) -> None:
    """Take back what sys.remote_exec asks of a thread, if it has not begun.  Raises OSError."""

def frames(pid: int, state: int) -> list[tuple[int, int, int]]:
    """Return a thread's Python frames, innermost first: (code, address, offset in code units).

    A code of 0 is the entry frame of an eval loop.  Raises OSError.
    """

def code(pid: int, address: int) -> tuple[str, str, int, bytes]:
    """Return a code object's qualified name, file, first line and line table.  Raises OSError."""

def locals(pid: int, frame: int) -> list[tuple[str, str]]:
    """Return the variables of a Python frame that have a value, each with a text for it, which its
    exact type tells; what cannot be read by then is left out."""

def stop(tid: int) -> tuple[str, int]:
    """Stop a thread: as inject's first two."""

def release(tid: int) -> None:
    """Let it go on."""

@final
class Unwind:
    """Unwinds native stacks of one process.  Raises RuntimeError where its files cannot be read."""

    def __new__(cls, pid: int) -> Unwind: ...
    def frames(self, tid: int) -> tuple[list[tuple[int, int, str | None, int]], str]:
        """Return the native frames of a stopped thread, innermost first: (instruction, stack
        pointer or 0, file, address in it), and why they end before the last one, or "".  Files are
        those of /proc/PID/root."""
