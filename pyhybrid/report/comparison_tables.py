"""The tables of a comparison of runs: what is in their rows, whatever they are printed as."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from pyhybrid.report.change_texts import (
    change_text,
    interval_text,
    number_text,
    percent_text,
    relative_text,
    time_text,
)
from pyhybrid.report.terminal import DIM, STRONG
from pyhybrid.views.comparison.run_comparison import Comparison, FunctionChange
from pyhybrid.views.comparison.significance import Change
from pyhybrid.views.comparison.step_changes import LEAST_STEPS, StepChange

N_WITHIN = 5  # functions that do not differ


@dataclass(slots=True)
class Section:
    """A heading, and a table; each row has a style.  The last column is to the left."""

    title: str
    columns: list[str]
    rows: list[tuple[list[str], str]] = field(default_factory=list)


def sections(comparison: Comparison, n: int) -> Iterator[Section]:
    """The tables, of at most `n` rows each."""
    calls = [each for each in comparison.functions if each.calls]
    if calls:
        yield _calls(calls, n)
    timed = [each for each in comparison.functions if each.per_call]
    if timed:
        yield _times(timed, comparison.by_runs, n)
    if comparison.steps:
        yield from _steps(comparison.steps)
    if comparison.tested:
        yield from _sampled(comparison, n)


def _calls(counted: list[FunctionChange], n: int) -> Section:
    changed = [each for each in counted if each.calls_differ]
    changed.sort(key=lambda each: -abs(sum(_calls_of(each, 1)) - sum(_calls_of(each, 0))))
    text = f"{len(changed):,} of {len(counted):,} functions are called more or less often"
    new = sum(not any(_calls_of(each, 0)) for each in changed)
    gone = sum(not any(_calls_of(each, 1)) for each in changed)
    parts = [f"{new:,} new" * (new > 0), f"{gone:,} gone" * (gone > 0)]
    text += "".join(f", {part}" for part in parts if part)
    section = Section(f"calls: {text}", ["before", "after", "change", "function"])
    for each in changed[:n]:
        before, after = (sum(side) / len(side) for side in (each.calls or ([0], [0])))
        cells = [number_text(before), number_text(after), relative_text(before, after)]
        section.rows.append(([*cells, each.function.label], ""))
    return _shortened(section, len(changed))


def _calls_of(each: FunctionChange, side: int) -> list[int]:
    return each.calls[side] if each.calls else []


def _times(timed: list[FunctionChange], by_runs: bool, n: int) -> Section:
    def weight(each: FunctionChange) -> float:
        change = each.per_call
        return abs(change.after - change.before) * sum(_calls_of(each, 1)) if change else 0

    timed = sorted(timed, key=lambda each: (not each.per_call_differs, -weight(each)))
    differing = sum(each.per_call_differs or False for each in timed)
    title = f"{differing:,} of {len(timed):,} differ by more than noise"
    if not by_runs:
        title = "one run a side does not tell what is noise: three do"
    columns = ["before", "after", "change", *(["95 % interval"] if by_runs else []), "function"]
    section = Section(f"exact time of a call: {title}", columns)
    for each in timed[:n]:
        if change := each.per_call:
            cells = [time_text(change.before), time_text(change.after), percent_text(change.change)]
            cells += [interval_text(change)] if by_runs else []
            section.rows.append(
                ([*cells, each.function.label], "" if each.per_call_differs else DIM)
            )
    return _shortened(section, len(timed))


def _steps(changes: list[StepChange]) -> Iterator[Section]:
    """The median and the mean; a phase that takes nothing in most steps has no median."""
    before, after = (sum(side) / len(side) for side in changes[0].n_steps)
    title = f"steps of a training ({number_text(before)} -> {number_text(after)})"
    for name, rows in (
        ("median time", [(each.name, each.median, each.median_differs) for each in changes]),
        ("mean time", [(each.name, each.mean, each.mean_differs) for each in changes]),
    ):
        rows = [row for row in rows if row[1].before or row[1].after]
        differing = sum(differs or False for _, _, differs in rows)
        text = f"{differing} of {len(rows)} differ by more than noise"
        if all(differs is None for *_, differs in rows):
            text = f"fewer than {LEAST_STEPS} do not tell what is noise"
        section = Section(f"{title}, {name}: {text}", [*_WITH_ERRORS[:-1], "of a step"])
        section.rows = [
            ([*_figures(change), step], STRONG if differs else DIM)
            for step, change, differs in rows
        ]
        yield section


_WITH_ERRORS = ["before", "after", "change", "95 % interval", "visible", "function"]


def _sampled(comparison: Comparison, n: int) -> Iterator[Section]:
    tested = comparison.tested
    differing = [each for each in tested if each.differs]
    differing.sort(key=lambda each: -abs(each.own_difference_ns))
    title = f"{len(differing):,} of {len(tested):,} functions differ by more than noise"
    section = Section(f"sampled time: {title}", _WITH_ERRORS)
    section.rows = [(_sampled_row(each), STRONG) for each in differing[:n]]
    yield _shortened(section, len(differing))
    rest = [each for each in tested if not each.differs]
    rest.sort(key=lambda each: -(each.total.after if each.total else 0))
    section = Section("sampled time, within noise", _WITH_ERRORS)
    section.rows = [(_sampled_row(each), DIM) for each in rest[: min(n, N_WITHIN)]]
    if rest:
        yield _shortened(section, len(rest))


def _sampled_row(each: FunctionChange) -> list[str]:
    return [*_figures(each.total), each.function.label] if each.total else []


def _figures(change: Change) -> list[str]:
    """What stands in _WITH_ERRORS, but for the last column."""
    sees = percent_text(change.visible, sign=False) if isfinite(change.visible) else ""
    means = time_text(change.before), time_text(change.after)
    return [*means, change_text(change), interval_text(change), sees]


def _shortened(section: Section, n_all: int) -> Section:
    if n_all > len(section.rows) > 0:
        blank = [""] * (len(section.columns) - 1)
        section.rows.append(([*blank, f"and {n_all - len(section.rows):,} more (-n)"], DIM))
    return section
