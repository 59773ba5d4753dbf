"""`report requests`: what a server's requests waited for, and why the slowest were slow."""

from __future__ import annotations

from functools import partial

from pyhybrid.report.table import Column, Listing, Table, number, seconds, share, text
from pyhybrid.views.labels import short_time
from pyhybrid.views.serving.requests import RequestPart, RequestPlace, Requests, SlowRequest
from pyhybrid.views.serving.turn_samples import (
    ASLEEP,
    AWAITED,
    GIL,
    LOCKS,
    LOOP_BUSY,
    NOT_RUN,
    QUEUES,
    RAN,
    REST,
)

SHOWN_PLACES, SHOWN_IN_MODEL = 8, 2
LEAST_IN_MODEL = 0.05  # of their time
# What a part is in a sentence.
_WHY = {
    RAN: "on the CPU",
    GIL: "waiting for the GIL",
    LOCKS: "waiting for a lock",
    QUEUES: "waiting for another thread",
    ASLEEP: "asleep, in a system call, or without a processor",
    NOT_RUN: "not running",
    LOOP_BUSY: "until its event loop came to it",
    AWAITED: "awaiting, while its loop ran nothing",
    REST: "waiting, for what is not known",
}


def request_listing(report: Requests) -> Listing:
    """Yield a column a part, where they waited, the model's calls, then the slowest ones."""
    whole = report.whole
    yield (
        f"{report.n:,} requests, the calls of {report.function}: {report.per_second:,.3g} a second,"
        f" at most {report.most_open:,} at once; median {short_time(whole.p50_ns)}, "
        f"p95 {short_time(whole.p95_ns)}, p99 {short_time(whole.p99_ns)}"
    )
    figures = [whole, *report.parts]
    columns = [Column(each.part, 13, partial(_cell, each)) for each in figures]
    yield Table([text("", lambda row: row, 6), *columns], ["p50", "p95", "p99", "share"])
    if not report.cpu_is_exact:
        yield f"{RAN}: by samples; with --usage cpu it is exact"
    if not report.by_samples:
        yield f"{NOT_RUN}: with --clock wall it is known what for: the GIL, locks, queues"
    if any(each.part == LOOP_BUSY for each in report.parts):
        yield f"{LOOP_BUSY}: the event loop was busy: with other requests, or tasks of these"
    least_ns = 0.01 * sum(each.total_ns for each in report.places)
    if places := [each for each in report.places if each.total_ns >= least_ns][:SHOWN_PLACES]:
        yield Table(_PLACE_COLUMNS, places)
    if report.model:
        yield from _model(report)
    yield "slowest, and why:"
    for each in report.slowest:
        yield f"  {why_slow(each, whole.p50_ns)}"
    if report.others:
        yield f"kept, too (--of NAME): {', '.join(report.others)}"


def _cell(of: RequestPart, row: str) -> str:
    if row == "share":
        return share(of.share)
    ns: int = getattr(of, f"{row}_ns")
    return short_time(ns) if ns else ""


def _where(row: RequestPlace | SlowRequest) -> str:
    place = f"{row.function} ({row.at})" if row.at else row.function
    return place + (f", for {row.waits_for}" if row.waits_for else "")


def _other(row: RequestPlace | SlowRequest) -> str:
    if not row.other:
        return ""
    return f"{row.other} ({row.other_at}) on {row.other_thread}"


_PLACE_COLUMNS = (
    Column("waited", 10, "total_ns", seconds),
    text("for", "part", 11),
    text("where", _where, 30),
    text("meanwhile another thread was at", _other),
)


def _model(report: Requests) -> Listing:
    model = report.model
    assert model
    tokens = f", {number(model.tokens_p50)} tokens" if model.tokens_p50 else ""
    yield (
        f"model: {model.calls:,} calls while requests were open; at each a median of "
        f"{model.open_p50:,} open, at most {model.open_max:,}{tokens}"
    )
    if model.of_request_p50:
        yield (
            f"of a request, p50: {model.of_request_p50:,} calls in its time, "
            f"{short_time(model.before_p50_ns)} before the first (p95 "
            f"{short_time(model.before_p95_ns)}), {short_time(model.in_p50_ns)} in them"
        )
    least_ns = LEAST_IN_MODEL * model.total_ns
    if waited := [each for each in model.waited if each.total_ns >= least_ns][:SHOWN_IN_MODEL]:
        yield f"in the model's calls, {seconds(model.total_ns)} of all together:"
        yield Table(_PLACE_COLUMNS, waited)


def why_slow(slow: SlowRequest, median_ns: int) -> str:
    """Return how long it took, and why."""
    line = f"{short_time(slow.total_ns)} at {slow.begin_ns / 1e9:.3f} s on {slow.thread}"
    if median_ns:
        line += f", {slow.total_ns / median_ns:.1f} x the median"
    line += f": {short_time(max(0, slow.more_ns))} more {_WHY[slow.part]}"
    if slow.function:
        line += f", in {_where(slow)}"
    if slow.other:
        line += f"; meanwhile {_other(slow)}"
    return f"{line} {slow.attributes or ''}".rstrip()
