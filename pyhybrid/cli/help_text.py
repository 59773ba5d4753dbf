"""What `--help` and `--help-all` print: the commands, as they describe themselves, and options.

The first fits a screen: it has the options that have a `brief` (options/table.py), the second all.
"""

import textwrap
from collections.abc import Iterable, Iterator
from shutil import get_terminal_size

from pyhybrid.options.kinds import Choice, Log, Option, Switch
from pyhybrid.options.table import GROUPS, Options

PROGRAM = "python -m pyhybrid"
DESCRIPTION = "Profile a Python program: Python and native frames of all threads in one tree."
EPILOG = (
    "A run ends with a summary, and out.pyhybrid, out.folded, perf.data.  Then: `perf report`, "
    "`flamegraph.pl out.folded > flame.svg`, or a command above."
)
MIN_COLUMNS, MAX_COLUMNS = 80, 100
COLUMN, FULL_COLUMN = 25, 8  # of options' help in the first and in the second


def brief_help() -> str:
    """Return a screen of 80 columns."""
    shown = [each for each in Options.options.values() if each.brief]
    lines = [*_head(), "", "options (--help-all has all of them):"]
    lines += _table(map(_briefly, shown), COLUMN)
    return "\n".join([*lines, "", *textwrap.wrap(EPILOG, _columns())]) + "\n"


def full_help() -> str:
    """Return all options that are shown at all."""
    return "\n".join([*_head(), "", *option_lines(Options.options.values())]) + "\n"


def option_lines(options: Iterable[Option]) -> Iterator[str]:
    """Yield those that have flags, by group."""
    known = [each for each in options if each.flags and each.help is not None]
    for group in GROUPS:
        of_group = [each for each in known if each.group == group]
        if of_group:
            yield f"{group}:"
            yield from _table(((spelled(each), explained(each)) for each in of_group), FULL_COLUMN)
            yield ""


def spelled(option: Option) -> str:
    """Return it as it is typed: `-o, --output PREFIX`."""
    flags, kind = list(option.flags), option.kind
    if isinstance(kind, Switch):
        flags += [f"--no-{each.removeprefix('--')}" for each in flags]
    names = ", ".join(sorted(flags, key=len))
    if isinstance(kind, Log):
        return f"{names}[={option.metavar}]"
    if isinstance(kind, Choice) and not option.metavar:
        return f"{names} {{{','.join(kind.known)}}}"
    return f"{names} {option.metavar}" if kind.takes_value else names


def explained(option: Option) -> str:
    """Return its help."""
    text = (option.help or "").replace("%(default)s", str(option.at_command_line))
    text = text.replace("%%", "%")
    return text + ("; repeatable" if option.kind.repeatable else "")


def _briefly(option: Option) -> tuple[str, str]:
    return spelled(option), option.brief.replace("%(default)s", str(option.at_command_line))


def _head() -> Iterator[str]:
    """Yield how programs are run, and the other commands."""
    from pyhybrid.cli import SUBCOMMANDS, command

    yield f"usage: {PROGRAM} [options] script.py [args...]"
    yield f"       {PROGRAM} [options] {{-m module | -c code | command}} [args...]"
    yield f"       {PROGRAM} COMMAND ..."
    yield ""
    yield from textwrap.wrap(DESCRIPTION, _columns())
    yield ""
    yield "commands (each has a --help):"
    commands = map(command, SUBCOMMANDS)
    yield from _table(((f"{each.name} {each.words}", each.help) for each in commands), COLUMN)


def _table(entries: Iterable[tuple[str, str]], column: int) -> Iterator[str]:
    for left, right in entries:
        yield from _entry(left, right, column)


def _entry(left: str, right: str, column: int) -> Iterator[str]:
    """Yield `left`, and beside it from a column on, or below it, `right`."""
    lines = textwrap.wrap(right, _columns() - column)
    if len(left) + 4 <= column:
        yield f"  {left:<{column - 2}}{lines.pop(0)}"
    else:
        yield f"  {left}"
    yield from (" " * column + line for line in lines)


def _columns() -> int:
    return max(MIN_COLUMNS, min(get_terminal_size().columns, MAX_COLUMNS))
