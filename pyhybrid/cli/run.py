"""Run a program under the profiler: options, then the program and its own arguments."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pyhybrid import __version__
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.children import rank_of_several
from pyhybrid.capture.output_lock import RANKS, prefix_of
from pyhybrid.capture.profiling_run import Profiling
from pyhybrid.capture.run_program import Program
from pyhybrid.cli.named_program import as_interpreter_takes
from pyhybrid.cli.parser import Parser, add_options
from pyhybrid.cli.without_profile import check_room, run_bare, split
from pyhybrid.errors import OutputError, PyhybridError, UsageError
from pyhybrid.options.config_file import Configuration, of_command_line
from pyhybrid.options.settings import CommandLineSettings
from pyhybrid.options.table import COUNTING, SAMPLING, TORCH_KIND, Options

# Begins profiling as asked, or as far as it is to be had: the program runs in any case.


def _mode_alone(asked: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return this mode, without the options that do not go with it."""
    others = (each for each in Options.options.values() if mode not in each.modes)
    less = {each.name: each.default for each in others}
    if mode not in COUNTING:
        less["torch"] = TORCH_KIND.without_counts(asked["torch"])
    return {"mode": mode, **less}


def begin(asked: dict[str, Any], argv: list[str]) -> Profiling | None:
    """Start profiling with the options asked, or with less; None where nothing is to be had.

    What is missing has been reported then.  Raises UsageError; with the option `strict`
    PyhybridError for all that is missing.
    """
    try:
        return _attempt(asked, argv)
    except UsageError:
        raise
    except PyhybridError as error:
        if asked["strict"]:
            raise
        reason = str(error)
        nowhere = isinstance(error, OutputError)
    for changes, left in () if nowhere else _less(asked):
        try:
            profiling = _attempt({**asked, **changes}, argv)
        except PyhybridError:
            continue
        say(f"{reason}: {left}")
        return profiling
    say(f"{reason}: the program runs without a profile")
    return None


def _attempt(asked: dict[str, Any], argv: list[str]) -> Profiling:
    settings = CommandLineSettings(**asked)
    try:
        check_room()
        profiling = Profiling(settings, argv)
        profiling.start()
    except OSError as error:
        raise PyhybridError(f"cannot start: {error.strerror or error}") from None
    except MemoryError:
        raise PyhybridError("cannot start: no memory") from None
    return profiling


def _less(asked: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what may be had where that is not."""
    if asked["engine"] != "auto":
        yield {"engine": "auto"}, "another engine drives the samples"
    if asked["mode"] == "hybrid":
        yield _mode_alone(asked, "trace"), "calls are counted, nothing is sampled"
        yield _mode_alone(asked, "sample"), "stacks are sampled, calls are not counted"


class RunParser(Parser):
    """Parse the words of a run; `--help` fits a screen; `--help-all` has all options."""

    def format_help(self) -> str:
        """Return the few that most people use."""
        from pyhybrid.cli.help_text import brief_help

        return brief_help()


class _HelpAll(argparse.Action):
    def __call__(self, *_: Any) -> None:
        from pyhybrid.cli.help_text import full_help

        print(full_help(), end="")
        sys.exit()


def make_parser(*, defaults: bool = True) -> Parser:
    """Make the parser of the words before the program; without `defaults`, of given ones alone."""
    parser = RunParser(prog="pyhybrid", allow_abbrev=False)
    add_options(parser, Options.options.values(), defaults=defaults)
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"pyhybrid {__version__}")
    return parser


def in_force(given: dict[str, Any], files: Configuration) -> dict[str, Any]:
    """Return each option's value: as `given` in words, or else by files, or else the usual one."""
    usual = {each.name: each.at_command_line for each in Options.options.values()}
    return {**usual, **files.values, **given, "config": files.files}


def of_rank(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the options as one of several ranks takes them, each of which is a run of its own:
    its profile goes into a folder of all of them, and it prints no summary."""
    rank = rank_of_several()
    if rank is None or asked["mode"] not in COUNTING + SAMPLING:
        return asked
    folder = prefix_of(asked["output"]) + RANKS
    if rank == 0 and asked["summary"]:
        say(f"each rank's profile goes into {folder}: `pyhybrid ranks {folder}`")
    formats = () if asked["formats"] is None else asked["formats"]
    output = os.path.join(folder, f"rank-{rank}")
    return {**asked, "output": output, "formats": formats, "summary": False}


def _activate_trampoline(quiet: bool) -> None:
    from pyhybrid.capture.perf_trampoline import activate

    advice = activate()
    if not quiet:
        say(advice)


def _named_as_interpreter() -> None:
    """Give the process the name that `python script.py` has, where it has that of our command:
    native threads of the program inherit it, and would look like the profiler's."""
    with suppress(OSError), open("/proc/self/comm", "r+b", buffering=0) as file:
        if file.read(64) == b"pyhybrid\n":
            file.write(os.fsencode(os.path.basename(sys.executable))[:15])


def run(arguments: list[str]) -> tuple[Program, Callable[[], None]]:
    """Parse, start profiling, and return the program to run, and what to call when it begins.

    Raises PyhybridError.
    """
    ours, program = split(arguments)
    given = vars(make_parser(defaults=False).parse_args(ours))
    if not program:
        raise UsageError("a program to run is missing (see --help)")
    asked = of_rank(in_force(given, of_command_line(given)))
    settings = CommandLineSettings(**asked)  # before anything is done
    program = as_interpreter_takes(program)
    _named_as_interpreter()
    job = Program(program)
    if asked["perf_trampoline"]:
        _activate_trampoline(quiet=not asked["summary"])
    wanted = settings.wants_rank(rank_of_several())
    profiling = begin(asked, [sys.executable, *program]) if wanted else None
    if profiling:
        profiling.native.mark_launcher()
        profiling.finish_at_exit()
    else:
        run_bare(program)
    job.prepare()
    return job, profiling.begin if profiling else lambda: None
