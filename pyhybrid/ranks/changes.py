"""`pyhybrid diff DIR DIR`: two runs of ranks, phase by phase and function by function.

Figures are those of a step, means over ranks.  A rank is compared with the one of its number.
"""

from __future__ import annotations

from typing import Any

from pyhybrid.ranks.store import Engine
from pyhybrid.ranks.verdict import IN_PHASES, Judged, Verdict, judged, label
from pyhybrid.report.table import Column, Listing, Table, text
from pyhybrid.tables.schema import Record
from pyhybrid.views.labels import short_time

LEAST = 0.005  # of a step: what a function has to take more or less
SAMPLED_RANKS = 64  # whose functions are looked at


class Change(Record):
    """Hold the times of a phase or function in a step, wall-clock and CPU; of functions the latter
    is not known.  `more_in` of `ranks` that both runs have took more time."""

    name: str
    before_ns: float
    after_ns: float
    before_cpu_ns: float | None
    after_cpu_ns: float | None
    more_in: int | None
    ranks: int


class Changes(Record):
    """Hold both verdicts, and what changed: all phases, and functions, the largest change first."""

    before: Verdict
    after: Verdict
    phases: list[Change]
    functions: list[Change]


def changes(before: Engine, after: Engine) -> Changes:
    """Compare the last runs of two folders.  Raises PyhybridError."""
    one, other = judged(before), judged(after)
    sums = [{each.rank_of[key]: row for key, row in each.sums.items()} for each in (one, other)]
    both = sorted(sums[0].keys() & sums[1].keys())
    names = ("wall", "wait", "gc", *IN_PHASES)
    phases = [_phase(name, sums[0], sums[1], both) for name in names]
    functions = [_functions(each) for each in (one, other)]
    found = []
    for key in functions[0].keys() | functions[1].keys():
        name, a = functions[0].get(key, ("", 0.0))
        other_name, b = functions[1].get(key, ("", 0.0))
        if abs(b - a) >= LEAST * max(one.step_ns, other.step_ns, 1):
            found.append(Change(name or other_name, a, b, None, None, None, len(both)))
    found.sort(key=lambda each: (-abs(each.after_ns - each.before_ns), each.name))
    return Changes(one.verdict(), other.verdict(), phases, found)


def _phase(
    name: str, before: dict[int, dict[str, Any]], after: dict[int, dict[str, Any]], both: list[int]
) -> Change:
    def mean(sums: dict[int, dict[str, Any]], column: str) -> float | None:
        each = [row[column] / row["steps"] for row in sums.values() if column in row]
        return sum(each) / len(each) if each else None

    def of(row: dict[str, Any]) -> float:
        return float(row[f"{name}_ns"] / row["steps"])

    cpu = "cpu_ns" if name == "wall" else f"{name}_cpu_ns"
    more = sum(of(after[rank]) > of(before[rank]) for rank in both)
    return Change(
        name=_NAMES.get(name, name),
        before_ns=mean(before, f"{name}_ns") or 0.0,
        after_ns=mean(after, f"{name}_ns") or 0.0,
        before_cpu_ns=mean(before, cpu),
        after_cpu_ns=mean(after, cpu),
        more_in=more,
        ranks=len(both),
    )


_NAMES = {"wall": "step", "wait": "waits for ranks", "gc": "(gc)", "other": "between"}


def _functions(run: Judged) -> dict[tuple[str, str], tuple[str, float]]:
    """Return the program's functions by what they are, with their time in a step."""
    keys = sorted(run.sums)
    keys = keys[:: max(1, len(keys) // SAMPLED_RANKS)]
    if not keys:
        return {}
    steps = sum(run.sums[key]["steps"] for key in keys)
    run.ranks.keep("near_path", "path", keys)
    rows = {row["function"]: row for row in run.ranks.ask("functions")}
    found = {}
    for name in run.ranks.ask("names", processes=keys, functions=rows):
        row = rows[name["function"]]
        if name["own"] and 2 * row["calls"] >= steps:
            found[name["name"], name["file"]] = label(name), row["total_ns"] / steps
    return found


def changes_listing(found: Changes, most: int) -> Listing:
    """Yield both runs, phases, and so many functions."""
    for side, verdict in (("before", found.before), ("after", found.after)):
        slow = ", ".join(f"rank {each.rank}" for each in verdict.slow[:3]) or "none"
        n = f"{len(verdict.ranks):,} ranks, steps of {short_time(verdict.step_ns)}"
        yield f"{side:<9}{n}; slow: {slow}"
    yield "note     of one run a side it is not known how much runs differ by themselves"
    yield ""
    yield Table([*_TIMES, *_CPU, _MORE_IN, text("phase", "name")], found.phases)
    if found.functions:
        yield ""
        yield Table([*_TIMES, text("function of the program", "name")], found.functions[:most])


def _change(before: float, after: float) -> str:
    sign = "-" if after < before else "+"
    return f"{sign}{short_time(round(abs(after - before)))}"


def _time(ns: float) -> str:
    return short_time(round(ns))


_TIMES = [
    Column("before", 10, "before_ns", _time),
    Column("after", 10, "after_ns", _time),
    Column("change", 11, lambda row: _change(row.before_ns, row.after_ns)),
]
_CPU = [
    Column("CPU", 10, "before_cpu_ns", _time),
    Column("after", 10, "after_cpu_ns", _time),
]
_MORE_IN = Column("more in", 11, lambda row: f"{row.more_in} of {row.ranks}")
