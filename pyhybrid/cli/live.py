"""`pyhybrid live`: where time goes now, in a process that runs."""

import argparse
import gc
import json
import time
from contextlib import suppress
from typing import Any

from pyhybrid.cli.parser import DURATION, Parser
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.live.model import WINDOW_S, Question
from pyhybrid.live.model import Live as Model
from pyhybrid.live.source import Started, spool_of_process, spool_of_run

LEAST_S = 0.05
SHARE = 0.02  # of a processor that reading may take: else it is done less often
MOST_S = 10.0
BEGINS_S = 60.0


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else float(DURATION(text)) / 1e9


class Live:
    """Shows where time goes now: in a run that records (its PREFIX, or its .part), in a process
    (its number: it is attached to, unless it is profiled already), or in a program that is started
    for it, with options as of a run.
    """

    name = "live"
    words = "PID | PREFIX | PROGRAM"
    help = "show where time goes now"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = "pyhybrid live [options] {PID | PREFIX | script.py [args...]}"
        assert isinstance(parser, Parser)
        parser.passes_on = True
        parser.add_argument(
            "--json",
            action="store_true",
            help="print a line of JSON each time instead of a screen (needs nothing installed)",
        )
        parser.add_argument(
            "--interval",
            type=_seconds,
            default=1.0,
            metavar="TIME",
            help="how often it is read anew, in seconds, or 500ms (default: 1; less often where "
            f"reading takes more than {SHARE:.0%} of a processor)",
        )
        parser.add_argument(
            "--window",
            type=_seconds,
            default=WINDOW_S,
            metavar="TIME",
            help="of how long ago shares and rates are (default: %(default)g seconds)",
        )
        parser.add_argument(
            "--most",
            type=int,
            default=50,
            metavar="N",
            help="of how many functions JSON has lines (default: %(default)s; 0: all)",
        )
        parser.add_argument(
            "--log",
            default="",
            metavar="FILE",
            help="where the output of a program goes that is started",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Show; returns the exit code.  Raises PyhybridError."""
        path = _spool(args.words, args.log)
        model = Model(path, args.window)
        try:
            return _lines(model, args) if args.json else _screen(model, args)
        finally:
            model.close()


def _spool(words: list[str], log: str) -> str:
    if not words:
        raise UsageError("what to show is missing: a process, a prefix, or a program (see --help)")
    if len(words) == 1 and (path := spool_of_run(words[0])):
        return path
    if words[-1].isdecimal():
        return spool_of_process(int(words[-1]))
    started = Started(words, log)
    until = time.monotonic() + BEGINS_S
    while not (path := started.spool) and time.monotonic() < until:
        time.sleep(LEAST_S)
    return path


def _screen(model: Model, args: argparse.Namespace) -> int:
    try:
        from pyhybrid.live.terminal import Terminal, has_terminal
    except ImportError:
        raise UsageError(
            "the screen needs textual: pip install 'pyhybrid[live]'; --json does not"
        ) from None
    if not has_terminal():
        raise UsageError("this is no terminal: --json prints a line of JSON each time")
    gc.enable()  # the screen makes what refers to itself
    while not model.is_begun and model.runs:
        model.read()
        time.sleep(LEAST_S)
    why = Terminal(model, args.words[-1], args.interval, lambda: "not yet").run()
    if why:
        raise PyhybridError(why)
    return 0


def _lines(model: Model, args: argparse.Namespace) -> int:
    with suppress(KeyboardInterrupt):
        while True:
            begin, cpu = time.monotonic(), time.process_time()
            runs = model.runs
            model.read()
            if model.is_begun:
                now = model.answer(Question(most=args.most))
                now.ended = not runs
                now.reader_s = time.process_time() - cpu
                print(json.dumps(plain(now)), flush=True)
            if not runs:
                return 0
            least = (time.process_time() - cpu) / SHARE
            pause = min(max(args.interval, least), max(args.interval, MOST_S))
            time.sleep(max(0.0, begin + pause - time.monotonic()))
    return 0


def plain(value: Any) -> Any:
    """Return it as JSON has it."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "__match_args__"):
        return {name: plain(getattr(value, name)) for name in value.__match_args__}
    return value
