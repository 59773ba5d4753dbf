"""The options of `report` and `export` that choose samples."""

import argparse

from pyhybrid.cli.parser import Duration
from pyhybrid.slow import SlowerThan


def slower_than(text: str) -> SlowerThan:
    """`NAME=50ms`.  Raises ArgumentTypeError."""
    name, equals, least = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DURATION (train_step=50ms)")
    return SlowerThan(name, Duration()(least))


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
