"""`pyhybrid completion SHELL`: what a shell completes, and the manual page, of the options' tables.

Nothing is declared here a second time: the options of a run are in options/table.py, those of the
other commands and of the views in their parsers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyhybrid import __version__
from pyhybrid.base.terminal_text import write_lines
from pyhybrid.cli import SUBCOMMANDS, command
from pyhybrid.cli.help_text import DESCRIPTION, EPILOG, explained, spelled
from pyhybrid.cli.parser import Parser
from pyhybrid.cli.report_views import VIEWS
from pyhybrid.options.kinds import Option, Switch
from pyhybrid.options.table import GROUPS, Options


class Completion:
    """Prints what makes a shell complete pyhybrid's commands and options, or the manual page:
    `eval "$(pyhybrid completion bash)"`, `pyhybrid completion fish | source`,
    `pyhybrid completion man | man -l -`.
    """

    name = "completion"
    words = "SHELL"
    help = "print completions of a shell, or the manual page"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("shell", choices=list(_TEXTS), metavar="SHELL", help=", ".join(_TEXTS))

    def run(self, args: argparse.Namespace) -> int:
        """Print it; returns the exit code."""
        write_lines(_TEXTS[args.shell](), sys.stdout)
        return 0


@dataclass
class Flags:
    """Hold one option: its spellings, what its value may be, its help."""

    flags: list[str]
    takes_value: bool
    values: list[str]
    shown: str  # as it is typed, with its value
    help: str


@dataclass
class Line:
    """Hold what may stand behind `pyhybrid` and these words: others of them, options, a file."""

    words: tuple[str, ...]
    further: dict[str, str]  # and their help
    options: list[Flags]
    help: str


def lines() -> list[Line]:
    """Return the run, each other command, and each view."""
    run = [_of_run(each) for each in Options.options.values() if each.flags and each.help]
    run.append(Flags(["-h", "--help"], False, [], "-h, --help", "print the commonest options"))
    run.append(Flags(["--help-all"], False, [], "--help-all", "print all options"))
    run.append(Flags(["--version"], False, [], "--version", "print the version"))
    commands = {name: command(name) for name in SUBCOMMANDS}
    found = [Line((), {name: each.help for name, each in commands.items()}, run, DESCRIPTION)]
    for name, each in commands.items():
        views = {view: made.help for view, made in VIEWS.items()} if name == "report" else {}
        found.append(_of_parser((name,), each.prepare_parser, views, each.help))
        for view, text in views.items():
            found.append(_of_parser((name, view), VIEWS[view]().prepare_parser, {}, text))
    return found


def _of_run(option: Option) -> Flags:
    flags = list(option.flags)
    if isinstance(option.kind, Switch):
        flags += [f"--no-{each.removeprefix('--')}" for each in option.flags]
    values = [str(each) for each in getattr(option.kind, "known", ())]
    return Flags(flags, option.kind.takes_value, values, spelled(option), explained(option))


def _of_parser(
    words: tuple[str, ...],
    prepare: Callable[[argparse.ArgumentParser], None],
    further: dict[str, str],
    help_: str,
) -> Line:
    parser = Parser(prog=" ".join(("pyhybrid", *words)))
    prepare(parser)
    options = []
    for action in parser._actions:
        values = [str(each) for each in action.choices or ()]
        if not action.option_strings:
            further = further | dict.fromkeys(values, "")
        elif action.help != argparse.SUPPRESS:
            takes = action.nargs != 0
            text = (action.help or "") % {**vars(action), "prog": parser.prog}
            name = action.metavar or (f"{{{','.join(values)}}}" if values else action.dest.upper())
            shown = ", ".join(action.option_strings) + (f" {name}" if takes else "")
            options.append(Flags(list(action.option_strings), takes, values, shown, text))
    return Line(words, further, options, help_)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def bash() -> Iterator[str]:
    """Yield a script that bash evaluates."""
    yield '# Completions of pyhybrid: eval "$(pyhybrid completion bash)"'
    yield "_pyhybrid() {"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at= i"
    yield "    for ((i = 1; i < COMP_CWORD && i < 3; i++)); do"
    yield '        case "$at ${COMP_WORDS[i]}" in'
    known = [_quoted(" " + " ".join(each.words)) for each in lines() if each.words]
    yield f'        {" | ".join(known)}) at="$at ${{COMP_WORDS[i]}}" ;;'
    yield "        *) break ;;"
    yield "        esac"
    yield "    done"
    yield "    COMPREPLY=()"
    yield '    case "$at:$before" in'
    for line in lines():
        start = "".join(f" {word}" for word in line.words)
        for option in line.options:
            if option.takes_value:
                names = " | ".join(_quoted(f"{start}:{flag}") for flag in option.flags)
                words = _quoted(" ".join(option.values))
                yield f'    {names}) COMPREPLY=($(compgen -W {words} -- "$word")); return ;;'
    yield "    esac"
    yield '    case "$at" in'
    for line in lines():
        start = "".join(f" {word}" for word in line.words)
        flags = [flag for option in line.options for flag in option.flags]
        yield f"    {_quoted(start)})"
        yield '        case "$word" in'
        yield f'        -*) COMPREPLY=($(compgen -W {_quoted(" ".join(flags))} -- "$word")) ;;'
        place = "COMP_CWORD == 1" if not line.words else "1"
        words = _quoted(" ".join(line.further))
        yield f'        *) (({place})) && COMPREPLY=($(compgen -W {words} -- "$word")) ;;'
        yield "        esac ;;"
    yield "    esac"
    yield "}"
    yield "complete -o bashdefault -o default -F _pyhybrid pyhybrid"


def zsh() -> Iterator[str]:
    """Yield a script that zsh evaluates, or finds in its `fpath` as `_pyhybrid`."""

    def escaped(text: str) -> str:
        return "".join(f"\\{each}" if each in "[]:\\" else each for each in text)

    yield "#compdef pyhybrid"
    yield '# Completions of pyhybrid: eval "$(pyhybrid completion zsh)"'
    yield "_pyhybrid() {"
    yield "    local at="
    yield "    ((CURRENT > 2)) && at=$words[2]"
    yield '    ((CURRENT > 3)) && at+=" $words[3]"'
    yield '    case "$at" in'
    for line in sorted(lines(), key=lambda line: -len(line.words)):
        n, start = len(line.words), _quoted(" ".join(line.words))
        yield "    " + ("*", f"{start} | {start}' '*", start)[n] + ")"
        if n:
            yield f"        shift {n} words; ((CURRENT -= {n}))"
        yield "        _arguments -S \\"
        for option in line.options:
            value = f":value:({' '.join(option.values)})" if option.values else ":value:_files"
            for flag in option.flags:
                entry = f"*{flag}[{escaped(option.help)}]{value * option.takes_value}"
                yield f"            {_quoted(entry)} \\"
        if line.further:
            words = " ".join(
                f"{name}\\:{_quoted(escaped(text))}" if text else name
                for name, text in line.further.items()
            )
            yield f"            {_quoted(f'1:word:(({words}))')} \\"
        yield "            '*:file:_files' ;;"
    yield "    esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = _pyhybrid ]; then _pyhybrid "$@"'
    yield "else compdef _pyhybrid pyhybrid; fi"


def fish() -> Iterator[str]:
    """Yield a script that fish evaluates."""

    def escaped(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    yield "# Completions of pyhybrid: pyhybrid completion fish | source"
    for line in lines():
        others = " ".join(line.further)
        where = f"__fish_seen_subcommand_from {line.words[-1]}" if line.words else ""
        if len(line.words) == 2:
            where = f"__fish_seen_subcommand_from {line.words[0]}; and {where}"
        elif line.further:
            not_yet = f"not __fish_seen_subcommand_from {others}"
            where = f"{where}; and {not_yet}" if where else not_yet
        start = f"complete -c pyhybrid -n {escaped(where)}"
        for name, text in line.further.items():
            yield f"{start} -a {name}" + (f" -d {escaped(text)}" if text else "")
        for option in line.options:
            flags = "".join(
                f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}"
                for flag in option.flags
            )
            values = f" -x -a {escaped(' '.join(option.values))}" if option.values else " -r"
            yield f"{start}{flags}{values * option.takes_value} -d {escaped(option.help)}"


def man() -> Iterator[str]:
    """Yield the manual page, in roff."""

    def escaped(text: str) -> str:
        text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
        return f"\\&{text}" if text.startswith((".", "'")) else text

    def entries(options: list[Flags]) -> Iterator[str]:
        for option in options:
            yield from (".TP", f"\\fB{escaped(option.shown)}\\fR", escaped(option.help))

    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()))
    yield f'.TH PYHYBRID 1 "{time.strftime("%Y-%m-%d", when)}" "pyhybrid {__version__}"'
    yield from (".SH NAME", "pyhybrid \\- profile Python and the C++ below it, in one call tree")
    yield ".SH SYNOPSIS"
    yield "\\fBpyhybrid\\fR [\\fIoptions\\fR] \\fIscript.py\\fR [\\fIargument\\fR...]"
    yield ".br"
    yield (
        "\\fBpyhybrid\\fR [\\fIoptions\\fR] "
        "{\\-m \\fImodule\\fR | \\-c \\fIcode\\fR | \\fIcommand\\fR} [\\fIargument\\fR...]"
    )
    yield ".br"
    yield "\\fBpyhybrid\\fR \\fICOMMAND\\fR ..."
    yield from (".SH DESCRIPTION", escaped(DESCRIPTION), ".PP", escaped(EPILOG))
    run, *others = lines()
    yield ".SH OPTIONS"
    groups = {flag: each.group for each in Options.options.values() for flag in each.flags}
    for group in (*GROUPS, None):
        of_group = [each for each in run.options if groups.get(each.flags[0]) == group]
        yield f".SS {escaped(group or 'help')}"
        yield from entries(of_group)
    yield ".SH COMMANDS"
    for line in others:
        yield from (f".SS {' '.join(line.words)}", escaped(line.help))
        yield from entries(line.options)
    yield ".SH EXIT STATUS"
    yield "That of the program; 2 for usage and unsupported systems, 1 for other errors."


_TEXTS = {"bash": bash, "zsh": zsh, "fish": fish, "man": man}
