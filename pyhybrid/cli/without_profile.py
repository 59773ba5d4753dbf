"""Which words are the program's, is there room beside it, and to run it without us where not.

Imports nothing but `os` and `sys`: there may be no memory for more.
"""

import os
import sys

from pyhybrid.errors import PyhybridError

# Is there room beside the program? What we take it must not miss.

# By the name in /proc/PID/limits: what we take.  Tables are reserved for all nodes there may be.
_FILES = {"Max open files": 8}
_MEMORY = {"Max address space": 160 << 20, "Max data size": 160 << 20}
_LIMITS_BYTES = 4096  # the file has some 1,400
_SHARE = 4  # of the limit, one in so many is ours at most
_TO_BEGIN = 48 << 20  # what the interpreter takes that imports all that we need, and some more


def _limits() -> dict[str, int]:
    try:  # without a buffer, for which there may be no memory
        file = os.open("/proc/self/limits", os.O_RDONLY)
        try:
            lines = os.read(file, _LIMITS_BYTES).decode().splitlines()
        finally:
            os.close(file)
    except OSError:  # no /proc, or no descriptor: what comes next finds out
        return {}
    soft = {line[:26].rstrip(): line[26:].split()[:1] for line in lines}
    return {name: int(n) for name, (n,) in soft.items() if n.isdigit()}


def check_room() -> None:
    """Raise PyhybridError where limits leave the program too little beside us."""
    limits = _limits()
    for name, ours in {**_FILES, **_MEMORY}.items():
        limit = limits.get(name)
        if limit is not None and limit < ours * _SHARE:
            raise PyhybridError(
                f"{name[0].lower()}{name[1:]} is {limit} here (ulimit), and profiling takes "
                f"{ours}: that leaves the program too little"
            )


def check_memory() -> None:
    """Check the same, before more is imported: where there is no memory CPython may loop for ever.

    Its eval loop does (3.12: exception_unwind), where it cannot make the number of an instruction.
    """
    limits = _limits()
    if any(limits.get(name, _TO_BEGIN) < _TO_BEGIN for name in _MEMORY):
        check_room()


# Options whose next word is their value, as options/table.py has them, for which there may be no
# memory either; a test compares.
TAKE_VALUES = (
    *(
        "-o",
        "--output",
        "-t",
        "--function",
        "--arguments",
        "--children",
        "--clock",
        "--config",
        "--emit",
    ),
    *("--emit-value", "--engine", "--exclude", "--format", "--hz", "--include", "--keep"),
    *("--keep-last", "--snapshot-when"),
    *(
        "--max-calls",
        "--max-children-disk",
        "--max-depth",
        "--max-nodes",
        "--max-timeline",
        "--mode",
        "--ranks",
        "--regions",
        "--start-at",
    ),
    *("--ring-bytes", "--torch", "--tracy", "--unwinder", "--usage", "--wall-thread"),
)


def split(arguments: list[str], more: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Split where our options end and the program begins; `more` options take values, too."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] in ("-m", "-c", "-"):
            break
        if arguments[at] == "--":
            return arguments[:at], arguments[at + 1 :]
        at += 2 if arguments[at] in TAKE_VALUES + more else 1
    return arguments[:at], arguments[at:]


def run_bare(program: list[str]) -> None:
    """Become `python ... PROGRAM`.  Returns where we do not know how: started by another launcher.

    It is a process of its own memory again, with the interpreter's options as they were.
    """
    ours = len(sys.argv) - 1
    command = _without_us(sys.orig_argv[: len(sys.orig_argv) - ours])
    if command and sys.executable:
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
        try:
            os.execv(sys.executable, [*command, *program])
        except OSError:
            return


def _without_us(words: list[str]) -> list[str] | None:
    """Return `python -X dev -m pyhybrid`, or `python /usr/bin/pyhybrid`, the words before ours."""
    if len(words) < 2:
        return None
    options, last = words[:-1], words[-1]
    if last == "pyhybrid" and options[-1].startswith("-") and options[-1].endswith("m"):
        clustered = options.pop()[:-1]  # -Pm
    elif last.startswith("-") and last.endswith("mpyhybrid"):
        clustered = last.removesuffix("mpyhybrid")
    elif os.path.basename(last) == "pyhybrid":
        return options
    else:
        return None
    return options if clustered == "-" else [*options, clustered]
