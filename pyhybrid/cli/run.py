"""Run a program under the profiler: options, then the program and its own arguments."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from pyhybrid import __version__
from pyhybrid.capture.config_file import Configuration, of_command_line
from pyhybrid.capture.options import Options
from pyhybrid.capture.run_program import Program
from pyhybrid.capture.settings import CommandLineSettings
from pyhybrid.cli.named_program import as_interpreter_takes
from pyhybrid.cli.parser import Parser, add_options
from pyhybrid.cli.start import begin
from pyhybrid.cli.without_profile import run_bare, split
from pyhybrid.errors import UsageError
from pyhybrid.terminal_text import say

USAGE = """\
python -m pyhybrid [options] script.py [args...]
       python -m pyhybrid [options] -m module [args...]
       python -m pyhybrid [options] -c code [args...]
       python -m pyhybrid [options] command [args...]
       python -m pyhybrid report [FILE]          print the summary of a profile again
       python -m pyhybrid export [FILE] -f NAME  write it in another format
       python -m pyhybrid compare-cprofile [options] script.py [args...]
       python -m pyhybrid config [options]       print which options are in force
       python -m pyhybrid probes"""

DESCRIPTION = "Profile a Python program: Python and native frames of all threads in one call tree."

EPILOG = """\
Without options: out.pyhybrid, out.folded, perf.data and /tmp/perf-PID.map are written when the
program ends, and a summary is printed on stderr.  Then `perf report`, or
`flamegraph.pl out.folded > flame.svg`."""


def make_parser(*, defaults: bool = True) -> Parser:
    """Of the words before the program; without `defaults` it tells what they give alone."""
    parser = Parser(
        prog="pyhybrid",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(parser, Options.options.values(), defaults=defaults)
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
