"""`pyhybrid ranks`: the verdict as text, on one screen, and a table of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyhybrid.capture.children import program_of
from pyhybrid.ranks.verdict import GARBAGE, RankFigures, Reason, SlowRank, Verdict
from pyhybrid.report.table import Column, Listing, Table, share, text
from pyhybrid.views.labels import short_time
from pyhybrid.views.training.phases import BACKWARD, FORWARD, OTHER

MORE_TOKENS = 1.05  # times those of others: from there on they are why it computes more
LESS = 0.95  # of what others wait: what waits less by chance is no sign
CLOCK_NS = 1_000_000  # clocks that differ by less are no line
SLOW_SHOWN, RANKS_SHOWN, MISSING_SHOWN, LABEL = 5, 16, 12, 9


def verdict_listing(verdict: Verdict, most: int | None = None) -> Listing:
    """Yield the verdict, then ranks, the slow ones first, at most so many."""
    n = len(verdict.ranks)
    steps = max((each.steps for each in verdict.ranks), default=0)
    head = f"{n:,} rank{'s' * (n != 1)} of {program_of(verdict.command.split())}"
    if steps:
        head += f", {steps:,} steps of {short_time(verdict.step_ns)}"
        head += f"; {share(verdict.wait_share)} of the time ranks waited for one another"
    yield _line("ranks", head)
    for at, slow in enumerate(verdict.slow[:SLOW_SHOWN]):
        yield from _slow_lines(slow, at == 0, _waits(verdict, slow.rank))
    if len(verdict.slow) > SLOW_SHOWN:
        yield _line(
            "", f"and {len(verdict.slow) - SLOW_SHOWN} more ranks, less slow (--json has all)"
        )
    if not verdict.slow and steps and verdict.compared > 1 and not verdict.too_short:
        yield _line(
            "even", "no rank is slow: none takes 2% of a step more than is usual, step by step"
        )
    if verdict.garbage:
        yield _line(
            "garbage",
            f"{share(verdict.garbage)} of all steps goes to garbage collections of "
            f"{verdict.garbage_ranks} ranks in turn, for which the others wait: "
            "collect in all at the same step (gc.disable(), gc.collect())",
        )
    yield from _clock_lines(verdict)
    if verdict.missing:
        shown = ", ".join(map(str, verdict.missing[:MISSING_SHOWN]))
        more = ", ..." if len(verdict.missing) > MISSING_SHOWN else ""
        of = f"of {len(verdict.missing):,} of {verdict.world_size:,} ranks"
        yield _line("missing", f"nothing is there {of}: {shown}{more}")
    if verdict.runs > 1:
        yield _line("note", f"{verdict.runs} runs (or restarts) are there: this is the last one")
    for note in verdict.notes:
        yield _line("note", note)
    yield ""
    noted = any(each.tokens_per_s is not None for each in verdict.ranks)
    yield Table(_columns(noted), _ordered(verdict)[: most or RANKS_SHOWN])
    if n > (most or RANKS_SHOWN):
        yield f"{n - (most or RANKS_SHOWN):,} more ranks (-n)"


def _clock_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the hosts whose clocks are furthest from the first one's, where that can be seen."""
    off = [each for each in verdict.clocks if abs(each.ahead_ns) > max(each.spread_ns, CLOCK_NS)]
    off.sort(key=lambda each: (-abs(each.ahead_ns), each.host))
    for each in off[:SLOW_SHOWN]:
        side = "ahead of" if each.ahead_ns > 0 else "behind"
        by = f"{short_time(abs(each.ahead_ns))} {side} that of rank {verdict.ranks[0].rank}'s host"
        sure = f"by {each.ends:,} common ends, of which half lie in {short_time(each.spread_ns)}"
        yield _line("clock", f"that of {each.host} is {by}, {sure}")
    if len(off) > SLOW_SHOWN:
        yield _line("", f"and {len(off) - SLOW_SHOWN:,} more hosts' (--json has all)")


def _line(name: str, words: str) -> str:
    return f"{name:<{LABEL}}{words}"


def _waits(verdict: Verdict, rank: int) -> str:
    """Return how long it waits for others, and these, where it waits less."""
    own = next(each.wait_ns for each in verdict.ranks if each.rank == rank)
    others = sorted(each.wait_ns for each in verdict.ranks if each.rank != rank)
    usual = others[len(others) // 2] if others else 0
    return f"; it waits {short_time(own)} for others, these {short_time(usual)}" * (
        own < LESS * usual
    )


def _slow_lines(slow: SlowRank, is_first: bool, waits: str) -> Iterator[str]:
    more = f"{short_time(slow.more_ns)} of each step ({share(slow.share)}) more than is usual"
    where = f"rank {slow.rank} (pid {slow.pid} on {slow.host})"
    yield _line("slow" if is_first else "", f"{where}: {more}{waits}")
    computes = [each for each in slow.reasons if each.how == "computes"]
    longer = {each.phase for each in computes} >= {FORWARD, BACKWARD}
    for reason in slow.reasons:
        yield _line("", "  " + reason_text(reason, longer, slow.tokens_ratio or 0))


def reason_text(reason: Reason, longer: bool = False, tokens_ratio: float = 0) -> str:
    """Return `data +20 ms in 39 of 40 steps, not running (...): decode (train.py:46)`.

    `longer`: the forward and the backward pass both compute more; `tokens_ratio`: for so many times
    the tokens of other ranks, 0: that is not known.
    """
    phase = "between the phases" if reason.phase == OTHER else reason.phase
    words = (
        f"{phase} +{short_time(reason.more_ns)} in {reason.in_steps:,} of {reason.steps:,} steps"
    )
    if reason.phase == GARBAGE:
        words += ", most objects that live on are made in" if reason.function else ""
        return f"{words}: {reason.function}" if reason.function else words
    if reason.in_worker:
        words += ", for a worker of its loader"
    elif reason.how == "waits":
        words += ", not running (it sleeps, or waits for a file or a lock)"
    else:
        words += f", {short_time(reason.more_cpu_ns)} more CPU time"
        if reason.calls_more:
            words += " in more calls"
        elif longer and reason.phase in (FORWARD, BACKWARD):
            words += " in as many calls"
            more = f" ({tokens_ratio:.1f} x the tokens)" if tokens_ratio >= MORE_TOKENS else ""
            words += more or " (longer inputs?)" * (not tokens_ratio)
    return f"{words}: {reason.function}" if reason.function else words


def _ordered(verdict: Verdict) -> list[tuple[RankFigures, str]]:
    why = {each.rank: each.reasons[0].phase for each in verdict.slow}
    more = {each.rank: each.more_ns for each in verdict.slow}
    ranks = sorted(
        verdict.ranks, key=lambda each: (-more.get(each.rank, 0), -each.own_ns, each.rank)
    )
    return [(each, why.get(each.rank, "")) for each in ranks]


def _time(title: str, name: str) -> Column:
    return Column(title, 10, lambda row: getattr(row[0], name), short_time)


def _columns(with_tokens: bool) -> list[Column]:
    columns = [
        Column("rank", 6, lambda row: row[0].rank),
        Column("steps", 8, lambda row: row[0].steps),
        _time("step", "step_ns"),
        _time("own", "own_ns"),
        _time("waits", "wait_ns"),
        _time("CPU", "cpu_ns"),
        _time("gc", "gc_ns"),
        _time("loader", "data_ns"),
        text("host", lambda row: row[0].host + ("" if row[0].complete else " (cut off)"), 14),
        text("slow in", lambda row: row[1]),
    ]
    if with_tokens:
        columns.insert(3, Column("tokens/s", 10, lambda row: _rate(row[0].tokens_per_s)))
    return columns


def _rate(tokens_per_s: float | None) -> str:
    return "" if tokens_per_s is None else f"{tokens_per_s:,.0f}"


def query_listing(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Listing:
    """Return the answer to a query as a table."""

    def column(at: int) -> Column:
        is_text = any(isinstance(row[at], str) for row in rows)
        return Column(names[at], 0, lambda row: row[at], left=is_text)

    columns = [column(at) for at in range(len(names))]
    widths = [
        max([len(names[at]), *(len(columns[at].cell(row)) for row in rows)])
        for at in range(len(names))
    ]
    yield Table(
        [
            each._replace(width=width + 2 * (not each.left))
            for each, width in zip(columns, widths, strict=True)
        ],
        rows,
    )
