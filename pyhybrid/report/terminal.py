"""Lines for a terminal: their styles, and how many columns and lines they may take.

A line is a list of (text, style).  Styles are for terminals, where neither $NO_COLOR (no-color.org)
nor $TERM is against them; elsewhere it is plain text.
"""

import os
from collections.abc import Callable
from textwrap import wrap
from typing import TextIO

from pyhybrid.base.terminal_text import visible
from pyhybrid.report.ellipsis import middle

Line = list[tuple[str, str]]

MIN_COLUMNS, USUAL_COLUMNS = 80, 100
PLAIN_COLUMNS = 1000  # of what is no terminal: nothing is cut but the longest paths of calls
MIN_HEIGHT, MAX_HEIGHT = 23, 50  # of what fills a terminal, without the line of its prompt
FACT_COLUMNS, NOTE_LINES = 9, 3
DIM, STRONG, WARN = "2", "1", "33"  # ECMA-48, 8.3.117 SGR: faint, bold, yellow


def show(make: Callable[[int], list[Line]], stream: TextIO) -> None:
    """Print the lines that `make` returns for a number of columns, with all in them visible.

    Raises OSError where the stream does not take them.
    """
    terminal = stream.isatty()
    lines = make(_columns(stream, terminal))
    lines = [[(visible(text), style) for text, style in line] for line in lines]
    styled = terminal and _has_styles()
    stream.write("".join("".join(_part(*each, styled) for each in line) + "\n" for line in lines))
    stream.flush()


def _columns(stream: TextIO, terminal: bool) -> int:
    """Return the width by $COLUMNS, or as a terminal is wide; files and pipes have room for all."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return max(MIN_COLUMNS, int(asked))
    if not terminal:
        return PLAIN_COLUMNS
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return USUAL_COLUMNS
    return max(MIN_COLUMNS, columns)


def height_of(stream: TextIO) -> int:
    """Return the lines of a terminal, less that of its prompt; the largest where it is none."""
    try:
        lines = os.get_terminal_size(stream.fileno()).lines - 1
    except OSError:
        return MAX_HEIGHT
    return max(MIN_HEIGHT, min(lines, MAX_HEIGHT))


def _has_styles() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _part(text: str, style: str, styled: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and styled else text


def fact(name: str, text: str, warn: bool = False) -> Line:
    """Return a line that begins with a name."""
    return [(f"{name:<{FACT_COLUMNS}}", DIM), (text, WARN if warn else "")]


def note_lines(
    name: str, text: str, columns: int, style: str, most: int = NOTE_LINES
) -> list[Line]:
    """Return a fact that may take several lines; in one its middle is left out."""
    parts = [middle(text, columns - FACT_COLUMNS)]
    if most > 1:
        parts = _wrapped(text, columns - FACT_COLUMNS, most)
    return [[*fact("" if i else name, "")[:1], (part, style)] for i, part in enumerate(parts)]


def lines_of(text: str, columns: int) -> int:
    """Return how many lines it takes."""
    return len(_wrapped(text, columns))


def _wrapped(text: str, columns: int, most: int | None = None) -> list[str]:
    """Wrap it, not at hyphens: those of paths and options."""
    return wrap(text, columns, max_lines=most, placeholder=" …", break_on_hyphens=False)


def cut_line(line: Line, columns: int) -> Line:
    """Return a line's text up to `columns`."""
    cut: Line = []
    left = columns
    for text, style in ((visible(text), style) for text, style in line):
        shown = text if len(text) <= left else text[: max(0, left - 1)] + "…" * (left > 0)
        left -= len(shown)
        cut.append((shown, style))
    return cut
