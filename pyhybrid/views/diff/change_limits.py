"""Limits on changes, for continuous integration: `share(train_step) > +5%`.

A limit is exceeded only where the lower end of the change's interval is beyond it: noise is no
failure.  Where the files could not have shown a change as large as the limit, or show one that may
be above it or below, it is not known; how many runs could is known from how far these differ.
"""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import NamedTuple

from pyhybrid.tables.schema import Record
from pyhybrid.views.diff.function_figures import Function
from pyhybrid.views.diff.runs import Comparison, FunctionChange
from pyhybrid.views.diff.significance import Change, runs_needed, without_error
from pyhybrid.views.diff.step_changes import LEAST_STEPS

METRICS = {
    "share": "sampled time of the function and what it calls, over that of the rest of the run",
    "total": "the same in seconds, which is noise on a busy machine",
    "self": "of itself alone",
    "below": "of itself and native code that it calls",
    "calls": "how often it is called, exactly",
    "time": "the exact wall-clock time of one call, with all waits: noise on a busy machine",
    "step": "of a training: the median time of a step (step(total)) or of a phase of it",
    "mean_step": "the same, the mean",
}
ALL = "*"  # the whole program, of `total`
STEPS = ("step", "mean_step")
WITHIN, EXCEEDED, UNSURE = "within", "exceeded", "cannot tell"
WRONG = "no such thing"  # there is none of that name: no runs would tell
ROUNDING = 1e-9  # 11 calls are 10 % more than 10
_LIMIT = re.compile(rf"({'|'.join(METRICS)})\((.+)\)\s*>\s*\+?(\d+(?:\.\d*)?)\s*%")


class Limit(NamedTuple):
    """Hold a limit, `metric(name) > +percent%`."""

    metric: str
    name: str
    percent: float

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Parse it; raises ValueError."""
        found = _LIMIT.fullmatch(text.strip())
        if not found:
            known = ", ".join(METRICS)
            raise ValueError(f"{text!r} is no limit like 'share(train_step) > +5%' ({known})")
        return cls(found[1], found[2].strip(), float(found[3]))

    def __str__(self) -> str:
        return f"{self.metric}({self.name}) > +{self.percent:g}%"


class Verdict(Record):
    """Hold WITHIN, EXCEEDED, UNSURE or WRONG, the change, and a word on why where it is not known.

    `name` is the limit's, `function` what that names; `runs`: so many a side would tell, as far as
    these show.
    """

    limit: str
    metric: str
    name: str
    state: str
    change: Change | None
    why: str = ""
    function: Function | None = None
    runs: int | None = None

    @property
    def more_runs_tell(self) -> bool:
        """Return whether it is not known for want of runs: there is something to compare."""
        return self.state == UNSURE and self.change is not None and self.metric != "calls"


_UNKNOWN_ERROR = {
    "calls": "runs of one side differ in it",
    "time": "one run a side does not tell the error: three are needed",
    **dict.fromkeys(STEPS, f"too few steps: {LEAST_STEPS} are needed"),
}


class _Wrong(Exception):
    """The limit is on nothing."""


def judge(comparison: Comparison, limit: Limit) -> Verdict:
    """Is the limit exceeded?"""
    words = str(limit), limit.metric, limit.name
    try:
        of_it = _function(comparison, limit)
        found, why = _change(comparison, limit, of_it)
    except _Wrong as error:
        return Verdict(*words, WRONG, None, str(error))
    function = of_it.function if of_it else None
    if found is None:
        return Verdict(*words, UNSURE, None, why, function)
    state, runs = _state(found, limit.percent / 100 + ROUNDING)
    why = ""
    if state == UNSURE:
        why = _UNKNOWN_ERROR.get(limit.metric, "too few samples")
        if isfinite(found.error):
            why = _for_want_of_runs(found, f"{limit.percent:g} %", runs)
    elif state == EXCEEDED and limit.metric == "total" and of_it:
        why = _of_the_whole(of_it)
    return Verdict(*words, state, found, why, function, runs)


def _state(found: Change, least: float) -> tuple[str, int | None]:
    """Return the state, and how many runs a side would tell where these cannot."""
    if found.low > least:
        return EXCEEDED, None
    is_changed = found.low > 0
    if found.high <= least or (found.visible <= least and not is_changed):
        return WITHIN, None
    return UNSURE, runs_needed(found, abs(found.change - least) if is_changed else least)


def _for_want_of_runs(found: Change, limit: str, runs: int | None) -> str:
    some = f"{found.runs} runs a side show" if found.runs > 1 else "1 run a side shows"
    needed = f"{runs:,} would" if runs else "no number would"
    if found.low > 0:
        return f"{some} a change, but not whether it is above the limit: {needed}"
    return f"{some} changes from {found.visible:.1%} on: {needed} show {limit}"


def _of_the_whole(of_it: FunctionChange) -> str:
    """Return a word where the rest takes longer as well."""
    if of_it.share and of_it.share.low <= 0:
        return "its share of the run is within noise, so the rest, or the machine, got slower, too"
    return ""


def _function(comparison: Comparison, limit: Limit) -> FunctionChange | None:
    """Return whose limit it is; None: the whole program's, or a step's."""
    if limit.metric in STEPS or (limit.name == ALL and limit.metric == "total"):
        return None
    if limit.name == ALL and limit.metric == "share":
        raise _Wrong("the whole program is no share of itself: total(*)")
    likeness = [(_likeness(each, limit.name), each) for each in comparison.functions]
    most = max((like for like, _ in likeness), default=0)
    matching = [each for like, each in likeness if like == most]
    if not most:
        raise _Wrong("there is no such function in these files")
    if len(matching) > 1:
        labels = ", ".join(each.function.label for each in matching[:4])
        raise _Wrong(f"several have that name: {labels}")
    return matching[0]


def _change(
    comparison: Comparison, limit: Limit, of_it: FunctionChange | None
) -> tuple[Change | None, str]:
    if limit.metric in STEPS:
        return _of_steps(comparison, limit)
    if of_it is None:
        return comparison.all, "there are no samples"
    if limit.metric == "calls":
        return _of_calls(of_it), "its calls were not counted in all runs"
    if limit.metric == "time":
        return of_it.per_call, "its calls were not timed in all runs, or take less than 1 ms"
    found: Change | None = getattr(of_it, limit.metric)
    why = f"it has {of_it.samples} samples"
    if limit.metric == "share" and of_it.total and not of_it.share:
        why = f"hardly anything runs beside it, of which it is a share: total({limit.name})"
    return found, why


def _of_steps(comparison: Comparison, limit: Limit) -> tuple[Change | None, str]:
    if not comparison.steps:
        return None, "not all runs have steps of a training"
    for each in comparison.steps:
        if each.name == limit.name:
            return each.median if limit.metric == "step" else each.mean, ""
    known = ", ".join(each.name for each in comparison.steps)
    raise _Wrong(f"there is no such phase: there are {known}")


def _likeness(each: FunctionChange, name: str) -> int:
    """Return 3 where it is named by its whole label, 2 by its qualified name, 1 by that one's end,
    else 0."""
    function = each.function
    qualified = function.name.replace("<locals>.", "")
    short = name.replace("<locals>.", "")
    if name == function.label:
        return 3
    return 2 if qualified == short else int(qualified.endswith(f".{short}"))


def _of_calls(each: FunctionChange) -> Change | None:
    """Return the exact change: the interval is what the runs themselves show."""
    if each.calls is None:
        return None
    before, after = each.calls
    found = without_error(sum(before) / len(before), sum(after) / len(after))
    low = min(after) / max(before) - 1 if max(before) else found.change
    high = max(after) / min(before) - 1 if min(before) else (inf if max(after) else 0.0)
    return Change(found.before, found.after, found.change, low, high, found.p, high - low)
