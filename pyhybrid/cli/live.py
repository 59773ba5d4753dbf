"""`pyhybrid live`: where time goes now, in a process that runs."""

import argparse
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress

from pyhybrid.attach.session import ends_in_order
from pyhybrid.base.terminal_text import say, visible
from pyhybrid.capture.output_lock import PART
from pyhybrid.cli.attach import Attach, files_of, prepared
from pyhybrid.cli.parser import Parser, seconds
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.live.model import WINDOW_S, Question
from pyhybrid.live.model import Live as Model
from pyhybrid.live.pace import Pace
from pyhybrid.live.source import Started, check_records, spool_of_process, spool_of_run
from pyhybrid.options.table import Options
from pyhybrid.report.table import plain

LOOK_S = 0.05
AS_LONG_AS_IT_RUNS_S = 10 * 86400.0
DIGITS = 6  # of a number in JSON
LAST_LINES = 5  # of a program's output that are shown where it ended at once


class Live:
    """Shows where time goes now, in a run that records (its PREFIX, or its .part), in a process
    (its number: it is attached to, unless it is profiled already), or in a program that is started
    for it, with options as of a run.
    """

    name = "live"
    words = "PID | PROGRAM"
    help = "show where time goes now"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = (
            "pyhybrid live [options] {PREFIX | [options of attach] PID | "
            "[options of a run] script.py [args...]}"
        )
        if isinstance(parser, Parser):
            parser.passes_on = True
        parser.add_argument(
            "--json",
            action="store_true",
            help="print a line of JSON each time instead of a screen, which needs textual",
        )
        parser.add_argument(
            "--interval",
            type=seconds,
            default=1.0,
            metavar="TIME",
            help="how often it is read anew, in seconds, or 500ms (default: 1; less often where "
            f"that takes more than {Pace.SHARE:.0%}% of a processor)",
        )
        parser.add_argument(
            "--window",
            type=seconds,
            default=WINDOW_S,
            metavar="TIME",
            help="how long ago what shares and rates are of began (default: 5 seconds)",
        )
        parser.add_argument(
            "--most",
            type=int,
            default=50,
            metavar="N",
            help="how many functions a line of JSON has (default: %(default)s; 0: all)",
        )
        parser.add_argument(
            "--log",
            default="",
            metavar="FILE",
            help="where the output of a program goes that is started (default: a file in /tmp)",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Show; returns the exit code.  Raises PyhybridError."""
        program = args.program
        if not program:
            raise UsageError("what to show is missing: a process, a prefix, or a program")
        if not args.json:
            _check_terminal()
        if len(args.words) == 1 and (path := spool_of_run(program[0])):
            check_records(path)
            return _show(path, args)
        if len(program) == 1 and program[0].isdecimal() and not os.path.lexists(program[0]):
            pid = int(program[0])
            if path := spool_of_process(pid):
                return _show(path, args)
            return _attached(pid, args)
        return _started(args)


def _attached(pid: int, args: argparse.Namespace) -> int:
    parser = Parser(prog="pyhybrid live")
    Attach().prepare_parser(parser)
    asked = parser.parse_args(args.words)
    given = {name: value for name, value in vars(asked).items() if name in Options.options}
    folder = "" if "output" in given else tempfile.mkdtemp(prefix="pyhybrid-live-")
    ends_in_order()
    try:
        if folder:
            given["output"] = os.path.join(folder, "live")
        profile = prepared(pid, given, force=asked.force)
        with profile.begun(AS_LONG_AS_IT_RUNS_S):
            code = _show(profile.claim.spool, args)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # it takes a moment to give it back
        return code if folder else files_of(profile)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _started(args: argparse.Namespace) -> int:
    started = Started(args.words, args.log)
    while not (path := started.spool):
        if started.process.poll() is not None:
            for line in started.last_lines(LAST_LINES):
                print(visible(line), file=sys.stderr)
            say(f"it ended with {started.process.returncode} before it was profiled")
            return started.process.returncode or 1
        time.sleep(LOOK_S)
    _show(path, args)
    with suppress(KeyboardInterrupt):
        if started.is_ending(path):
            started.process.wait()
    code = started.process.poll()
    if code is None:
        say(f"it goes on as process {started.process.pid}; its output: {started.log}")
        return 0
    say(f"it ended with {code}; its output: {started.log}")
    return code if code >= 0 else 128 - code


def _show(path: str, args: argparse.Namespace) -> int:
    model = Model(path, args.window)
    try:
        return _lines(model, args) if args.json else _screen(model, args)
    finally:
        model.close()


def _check_terminal() -> None:
    try:
        import textual  # noqa: F401
    except ImportError:
        raise UsageError(
            "the screen needs textual: pip install 'pyhybrid[live]'; --json does not"
        ) from None
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("this is no terminal: --json prints a line of JSON each time")


def _screen(model: Model, args: argparse.Namespace) -> int:
    from pyhybrid.live.freeze import Freezing
    from pyhybrid.live.terminal import Terminal

    gc.enable()  # the screen makes what refers to itself
    prefix = os.path.basename(model.path).removesuffix(PART)
    freezing = Freezing(model, prefix if model.path.endswith(PART) else "live")
    why = None
    with suppress(KeyboardInterrupt):  # SIGTERM: it has given the terminal back
        why = Terminal(model, " ".join(args.words), Pace(args.interval), freezing).run()
    if made := freezing.wait():
        say(made)
    if why:
        raise PyhybridError(why)
    return 0


def _lines(model: Model, args: argparse.Namespace) -> int:
    pace = Pace(args.interval)
    with suppress(KeyboardInterrupt):
        while True:
            pace.begin()
            runs = model.runs
            model.read()
            now = model.answer(Question(most=args.most)) if model.is_begun else None
            if now:
                now.ended = not runs
                now.reader = pace.share
                print(json.dumps(plain(now, DIGITS)), flush=True)
            if not runs:
                break
            time.sleep(pace.pause_s)
    return 0
