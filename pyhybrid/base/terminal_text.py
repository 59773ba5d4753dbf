"""Text for people to look at: what a terminal would obey, or turn around, is shown as an escape.

Names come from the program, and so may terminal sequences, line ends and what changes the direction
of writing.  All that we print for people goes through here: messages, and the lines of every view.
Files for machines keep names as they are.

Imports little: the program waits for it.
"""

import sys

TYPE_CHECKING = False  # without `typing`, as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


def visible(text: str) -> str:
    r"""Return it with `\x1b`, `\n`, `\u202e` for what Python would escape in a `repr`."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def say(message: str) -> None:
    """Write one line of ours to standard error, if that is open."""
    if sys.stderr:
        sys.stderr.write(f"pyhybrid: {visible(message)}\n")
        sys.stderr.flush()


def write_lines(lines: "Iterable[str]", stream: "TextIO") -> None:
    """Write the lines; a line end within one of them is shown."""
    stream.writelines(f"{visible(line)}\n" for line in lines)
