"""`report waits`: who waited, and what other threads ran meanwhile."""

from __future__ import annotations

from pyhybrid.report.table import Column, Listing, Table, seconds, share, text
from pyhybrid.views.wait_pairs import WaitPair, WaitPairs


def wait_listing(report: WaitPairs, most: int) -> Listing:
    """Yield a row a pair, the longest first."""
    if not report.pairs:
        yield "nothing is known to have waited for other threads"
        return
    of = f" in {report.n_steps:,} steps of a training" if report.n_steps else ""
    yield f"waited {seconds(report.waited_ns).strip()}{of}, of all threads together"
    if not report.by_samples:
        yield "by exact times less CPU time: with --clock wall both sides have their lines"
    columns = [
        Column("waited", 10, "waited_ns", seconds),
        Column("", 8, lambda row: row.waited_ns / report.waited_ns, share),
        text("who waited", _waiter, 30),
        text("meanwhile another thread ran", _other),
    ]
    yield Table(columns, report.pairs[:most])
    if more := len(report.pairs) - most:
        yield f"and {more:,} more (-n)" if more > 0 else ""


def _waiter(row: WaitPair) -> str:
    shown = row.waits_for if row.waits_for not in ("", row.function) else ""
    return _place(row.function, row.at) + (f", for {shown}" if shown else "")


def _other(row: WaitPair) -> str:
    return _place(row.other, row.other_at) or "nothing of the program"


def _place(function: str, at: str) -> str:
    return f"{function} ({at})" if at else function
