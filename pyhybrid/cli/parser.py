"""What all subcommands' options have in common."""

import argparse
import re

from pyhybrid.errors import UsageError
from pyhybrid.slow import SlowerThan

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


class Parser(argparse.ArgumentParser):
    """Errors are one line, exit code 2."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise UsageError instead of printing the usage."""
        raise UsageError(f"{message} (see --help)")


class Number:
    """The type of an option that is a whole number from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __call__(self, text: str) -> int:
        """Parse; raises ArgumentTypeError."""
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not self.low <= number <= self.high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {self.low} to {self.high}"
            )
        return number


def duration(text: str) -> int:
    """`50ms` in nanoseconds; the units are ns, us, ms and s.  Raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?) ?(ns|us|ms|s)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration like 50ms, 2s or 0.5us")
    return round(float(match[1]) * UNITS[match[2]])


def slower_than(text: str) -> SlowerThan:
    """`NAME=50ms`.  Raises ArgumentTypeError."""
    name, equals, least = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DURATION (train_step=50ms)")
    return SlowerThan(name, duration(least))


def add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that choose samples: read them with `select`."""
    parser.add_argument(
        "--slower-than",
        action="append",
        type=slower_than,
        default=[],
        metavar="NAME=TIME",
        help="only samples within calls of this function (chosen with -t) or region that took so "
        "long (50ms); repeatable",
    )
    parser.add_argument(
        "--any-thread",
        action="store_true",
        help="with --slower-than: samples of all threads at that time, not only of the call's",
    )
