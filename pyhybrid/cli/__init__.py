"""The command line: `pyhybrid [options] script.py args...`, `pyhybrid report`, `pyhybrid export`...

The first word decides: those in SUBCOMMANDS are subcommands, anything else is a program to run.
Only what is needed for that is imported: the profiled program waits for it.  And nothing but `os`
and `sys` is imported here: the current folder may have a module of any name.
"""

import sys

from pyhybrid.base import own_modules
from pyhybrid.base.terminal_text import say
from pyhybrid.cli.named_program import as_interpreter_takes
from pyhybrid.errors import PyhybridError, not_built

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable
    from typing import Never, Protocol

    from pyhybrid.capture.run_program import Program

    class Command(Protocol):
        """Run a subcommand; its docstring is what its --help prints first."""

        name: str
        words: str  # behind its name, for --help
        help: str

        def prepare_parser(self, parser: ArgumentParser) -> None:
            """Declare the arguments."""

        def run(self, args: Namespace) -> int:
            """Do it; returns the exit code.  Raises PyhybridError."""


# Their modules.
SUBCOMMANDS = {
    "attach": "attach",
    "dump": "dump",
    "ps": "ps",
    "snapshot": "snapshot",
    "live": "live",
    "report": "report",
    "ask": "ask",
    "page": "page",
    "export": "export",
    "diff": "diff",
    "compare-cprofile": "compare_cprofile",
    "config": "config",
    "import": "import_gpu",
    "merge": "merge",
    "probes": "probes",
    "ranks": "ranks",
    "completion": "completion",
}


def command(name: str) -> "Command":
    """Return the subcommand of that name."""
    from importlib import import_module

    module = SUBCOMMANDS[name]
    name_of_class = "".join(word.capitalize() for word in module.split("_"))
    made: Command = getattr(import_module(f"pyhybrid.cli.{module}"), name_of_class)()
    return made


def _subcommand(name: str, arguments: list[str]) -> int:
    from io import TextIOWrapper

    from pyhybrid.cli.parser import Parser

    if sys.stdout is None:
        raise PyhybridError("standard output is closed")
    if isinstance(sys.stdout, TextIOWrapper):  # whatever names hold, and whatever it can show
        sys.stdout.reconfigure(errors="backslashreplace")
    found = command(name)
    if name == "report":
        from pyhybrid.cli.report import Report

        found, arguments = Report().view(arguments)
        name = name if found.name == name else f"{name} {found.name}"
    parser = Parser(prog=f"pyhybrid {name}", description=found.__doc__)
    found.prepare_parser(parser)
    try:
        return _result(found, parser, arguments)
    except Exception as error:
        code = getattr(found, "error_code", None)  # of all errors: its others mean something
        if code and isinstance(error, PyhybridError):
            error.exit_code = code
        elif code:
            import traceback

            traceback.print_exc()
            return int(code)
        raise


def _result(found: "Command", parser: "ArgumentParser", arguments: list[str]) -> int:
    """Run it; returns the exit code."""
    import gc
    from signal import SIGPIPE

    gc.disable()  # among a profile's rows it takes up to half the time, and finds nothing
    try:
        code = found.run(parser.parse_args(arguments))
        sys.stdout.flush()
    except OSError as error:  # all files' errors are PyhybridErrors
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush at exit
        if isinstance(error, BrokenPipeError):  # `| head` has seen enough
            return 128 + SIGPIPE
        raise PyhybridError(f"cannot write on standard output: {error.strerror}") from None
    except PyhybridError as error:
        if isinstance(error.__cause__, BrokenPipeError):  # `export -o - | head`
            return 128 + SIGPIPE
        raise
    finally:
        gc.enable()
    return code


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 2 for usage and unsupported systems, 1 for other errors."""
    arguments = sys.argv[1:] if arguments is None else arguments
    own_modules.begin()
    try:
        if arguments and arguments[0] in SUBCOMMANDS:
            sys.exit(_subcommand(arguments[0], arguments[1:]))
        program, begin = _begin(arguments)
    except PyhybridError as error:
        _fail(error)
    except ImportError as error:
        if (error.name or "").startswith("pyhybrid"):
            _fail(not_built(error))
        raise
    program.run(begin)


def _fail(error: PyhybridError) -> "Never":
    say(str(error))
    sys.exit(error.exit_code)


def _begin(arguments: list[str]) -> "tuple[Program, Callable[[], None]]":
    """Run as `run`, unless there is no room to run the program under us: then it runs."""
    from pyhybrid.cli.without_profile import check_memory  # while there is memory for it

    try:
        check_memory()
    except (PyhybridError, MemoryError) as error:
        _without_a_profile(arguments, str(error) or "no memory")
    try:
        from pyhybrid.cli.run import run

        return run(arguments)
    except (MemoryError, OSError, SystemError) as error:  # the last where there is no memory, too
        _without_a_profile(arguments, getattr(error, "strerror", None) or "no memory")


def _without_a_profile(arguments: list[str], reason: object) -> "Never":
    from pyhybrid.cli.without_profile import run_bare, split

    ours, program = split(arguments)
    if program and "--strict" not in ours:
        say(f"{reason}: the program runs without a profile")
        run_bare(as_interpreter_takes(program))
    raise PyhybridError(f"cannot start: {reason}")
