"""Which words are the program's; and to run it without us, where nothing can be profiled.

Imports nothing but `os`, `sys` and the options: there may be no memory for more.
"""

import os
import sys

from pyhybrid.options.table import followed_by_a_value

TAKE_VALUES = followed_by_a_value()  # the parser is not to be had where there is no memory


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Where our options end and the program begins."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] in ("-m", "-c", "-"):
            break
        if arguments[at] == "--":
            return arguments[:at], arguments[at + 1 :]
        at += 2 if arguments[at] in TAKE_VALUES else 1
    return arguments[:at], arguments[at:]


def run_bare(program: list[str]) -> None:
    """Become `python ... PROGRAM`.  Returns where we do not know how: started by another launcher.

    A process of its own memory again, with the interpreter's options as they were.
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
    """The words of `python -X dev -m pyhybrid`, or `python /usr/bin/pyhybrid`, before our own."""
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
