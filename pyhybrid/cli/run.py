"""Run a program under the profiler: options, then the program and its own arguments."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from pyhybrid import __version__
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.run_program import Program
from pyhybrid.cli.named_program import as_interpreter_takes
from pyhybrid.cli.parser import Parser, add_options
from pyhybrid.cli.start import begin
from pyhybrid.cli.without_profile import run_bare, split
from pyhybrid.errors import UsageError
from pyhybrid.options.config_file import Configuration, of_command_line
from pyhybrid.options.settings import CommandLineSettings
from pyhybrid.options.table import Options


class RunParser(Parser):
    """Its `--help` fits a screen; `--help-all` has all options."""

    def format_help(self) -> str:
        """The few that most people use."""
        from pyhybrid.cli.help_text import brief_help

        return brief_help()


class _HelpAll(argparse.Action):
    def __call__(self, *_: Any) -> None:
        from pyhybrid.cli.help_text import full_help

        print(full_help(), end="")
        sys.exit()


def make_parser(*, defaults: bool = True) -> Parser:
    """Of the words before the program; without `defaults` it tells what they give alone."""
    parser = RunParser(prog="pyhybrid", allow_abbrev=False)
    add_options(parser, Options.options.values(), defaults=defaults)
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"pyhybrid {__version__}")
    return parser


def in_force(given: dict[str, Any], files: Configuration) -> dict[str, Any]:
    """Each option's value: as `given` in words, or else by files, or else the usual one."""
    usual = {each.name: each.at_command_line for each in Options.options.values()}
    return {**usual, **files.values, **given, "config": files.files}


def _activate_trampoline(quiet: bool) -> None:
    from pyhybrid.capture.perf_trampoline import activate

    advice = activate()
    if not quiet:
        say(advice)


def run(arguments: list[str]) -> tuple[Program, Callable[[], None]]:
    """Parse, start profiling, and return the program to run, and what to call when it begins.

    Raises PyhybridError.
    """
    ours, program = split(arguments)
    given = vars(make_parser(defaults=False).parse_args(ours))
    if not program:
        raise UsageError("a program to run is missing (see --help)")
    asked = in_force(given, of_command_line(given))
    CommandLineSettings(**asked)  # before anything is done
    program = as_interpreter_takes(program)
    job = Program(program)
    if asked["perf_trampoline"]:
        _activate_trampoline(quiet=not asked["summary"])
    profiling = begin(asked, [sys.executable, *program])
    if profiling:
        profiling.native.mark_launcher()
        profiling.finish_at_exit()
    else:
        run_bare(program)
    job.prepare()
    return job, profiling.resume if profiling and not asked["paused"] else lambda: None
