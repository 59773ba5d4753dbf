"""`pyhybrid ranks`: many ranks of a training, and one verdict."""

import argparse
import json
import os
import sys

from pyhybrid.base.terminal_text import say, write_lines
from pyhybrid.cli.parser import Parser, word
from pyhybrid.cli.report import Report
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters.destination import replacing
from pyhybrid.options.kinds import Number
from pyhybrid.ranks import store
from pyhybrid.ranks.compact import compact
from pyhybrid.ranks.screen import query_listing, verdict_listing
from pyhybrid.ranks.store import closing
from pyhybrid.ranks.tables import TABLES
from pyhybrid.ranks.verdict import judge, judged
from pyhybrid.report.table import plain, shown
from pyhybrid.views.processes import RANK

COMPACT, DUCKDB, SPARK = "compact", "duckdb", "spark"
MOST = 10_000_000


class Ranks:
    """Prints which ranks of a run are slow, by how much, in which phase and why, then a table of
    ranks; times are those of a step.  DIR has profiles of ranks, or their tables; a profile of
    several ranks will do.  `ranks compact DIR` makes one sorted file of each table's.
    """

    name = "ranks"
    words = "[compact] DIR"
    help = "tell which of many ranks are slow, and why"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = "pyhybrid ranks [options] DIR, or pyhybrid ranks compact DIR"
        parser.add_argument("words", nargs="+", metavar="DIR", help="a folder, or a profile")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--sql",
            metavar="QUERY",
            help="the answer to a query of the tables " + ", ".join(TABLES),
        )
        what.add_argument(
            "--rank",
            type=word(Number(0, MOST)),
            metavar="N",
            help="the summary of that rank's profile, as of `report`",
        )
        what.add_argument(
            "--page",
            metavar="FILE",
            help="write a page for a browser: the verdict, and a heat map of ranks and steps",
        )
        parser.add_argument(
            "--engine",
            default=DUCKDB,
            metavar="NAME",
            help="duckdb, or spark[=MASTER] (PyPI's pyspark), which reads tables from wherever it "
            "can: spark://host:7077 s3a://bucket/run (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="as JSON")
        parser.add_argument(
            "-n", type=word(Number(1, MOST)), metavar="N", help="rows of the table of ranks"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        *before, path = args.words
        if before not in ([], [COMPACT]):
            raise UsageError(f"ranks takes one folder: {' '.join(args.words)}")
        if before:
            with closing(store.Ranks(path)) as tables:
                say(compact(tables))
            return 0
        with closing(_engine(args.engine, path)) as ranks:
            if args.rank is not None:
                return _report(ranks, args.rank)
            if args.page is not None:
                _write_page(ranks, args.page)
            elif args.sql is not None:
                _print_answer(ranks, args.sql, args.json)
            elif args.json:
                json.dump(plain(judge(ranks)), sys.stdout, indent=2)
                print()
            else:
                write_lines(shown(verdict_listing(judge(ranks), args.n)), sys.stdout)
        return 0


def _engine(name: str, path: str) -> store.Engine:
    """Return the folder, as that engine reads it.  Raises UsageError, PyhybridError."""
    engine, _, master = name.partition("=")
    if engine == DUCKDB and not master:
        return store.Ranks(path)
    if engine != SPARK:
        raise UsageError(f"--engine is {DUCKDB} or {SPARK}[=MASTER], not {name}")
    from pyhybrid.ranks.spark import SparkRanks

    return SparkRanks(path, master)


def _print_answer(ranks: store.Engine, sql: str, as_json: bool) -> None:
    names, rows = ranks.named(sql)
    if as_json:
        answer = [dict(zip(names, row, strict=True)) for row in rows]
        json.dump(answer, sys.stdout, indent=2, default=str)
        print()
    else:
        write_lines(shown(query_listing(names, rows)), sys.stdout)


def _write_page(ranks: store.Engine, path: str) -> None:
    from pyhybrid.ranks.page import page_of

    text = page_of(judged(ranks))
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    say(f"wrote {path}")


def _report(ranks: store.Engine, rank: int) -> int:
    """Print the summary of a rank's profile."""
    files = [each.file for each in judge(ranks).ranks if each.rank == rank]
    if not files:
        raise PyhybridError(f"{ranks.folder}: nothing is there of rank {rank}")
    path = os.path.normpath(os.path.join(ranks.folder, files[0]))
    if not os.path.exists(path):
        raise PyhybridError(f"the profile of rank {rank} is no more there: {path}")
    report = Report()
    parser = Parser(prog="pyhybrid ranks --rank")
    report.prepare_parser(parser)
    return report.run(parser.parse_args([path, "--process", f"{RANK}{rank}"]))
