"""Limits on changes, for continuous integration: `total(train_step) > +5%`.

A limit is exceeded only where the lower end of the change's interval is beyond it: noise is no
failure.  Where the files could not have shown a change as large as the limit, it is not known.
"""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import NamedTuple

from pyhybrid.tables.schema import Record
from pyhybrid.views.diff.runs import Comparison, FunctionChange
from pyhybrid.views.diff.significance import Change, without_error
from pyhybrid.views.diff.step_changes import LEAST_STEPS

METRICS = {
    "total": "sampled time of the function and what it calls",
    "self": "of itself alone",
    "below": "of itself and native code that it calls",
    "calls": "how often it is called, exactly",
    "time": "the exact time of one call",
    "step": "of a training: the median time of a step (step(total)) or of a phase of it",
    "mean_step": "the same, the mean",
}
ALL = "*"  # the whole program, of `total`
STEPS = ("step", "mean_step")
WITHIN, EXCEEDED, UNSURE = "within", "exceeded", "cannot tell"
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
            raise ValueError(f"{text!r} is no limit like 'total(train_step) > +5%' ({known})")
        return cls(found[1], found[2].strip(), float(found[3]))

    def __str__(self) -> str:
        return f"{self.metric}({self.name}) > +{self.percent:g}%"


class Verdict(Record):
    """Hold WITHIN, EXCEEDED or UNSURE, the change, and a word on why where it is not known."""

    limit: str
    state: str
    change: Change | None
    why: str = ""


_UNKNOWN_ERROR = {
    "time": "one run a side does not tell the error: three are needed",
    **dict.fromkeys(STEPS, f"too few steps: {LEAST_STEPS} are needed"),
}


def judge(comparison: Comparison, limit: Limit) -> Verdict:
    """Is the limit exceeded?"""
    found, why = _change(comparison, limit)
    if found is None:
        return Verdict(str(limit), UNSURE, None, why)
    least = limit.percent / 100 + ROUNDING
    if found.low > least:
        return Verdict(str(limit), EXCEEDED, found)
    if found.high <= least or found.visible <= least:
        return Verdict(str(limit), WITHIN, found)
    if not isfinite(found.visible):
        why = _UNKNOWN_ERROR.get(limit.metric, "too few samples")
        return Verdict(str(limit), UNSURE, found, why)
    why = f"these files show changes from {found.visible:.1%} on: longer runs or more of them would"
    return Verdict(str(limit), UNSURE, found, why)


def _change(comparison: Comparison, limit: Limit) -> tuple[Change | None, str]:
    if limit.name == ALL and limit.metric == "total":
        return comparison.all, "there are no samples"
    if limit.metric in STEPS:
        return _of_steps(comparison, limit)
    matching = [each for each in comparison.functions if _is_named(each, limit.name)]
    if len(matching) != 1:
        labels = ", ".join(each.function.label for each in matching[:4])
        return (
            None,
            f"several have that name: {labels}" if matching else "there is no such function",
        )
    (of_it,) = matching
    if limit.metric == "calls":
        return _of_calls(of_it), "its calls were not counted in all runs"
    if limit.metric == "time":
        return of_it.per_call, "its calls were not timed in all runs, or take less than 1 ms"
    found = {"total": of_it.total, "self": of_it.self, "below": of_it.below}[limit.metric]
    return found, f"it has {of_it.samples} samples"


def _of_steps(comparison: Comparison, limit: Limit) -> tuple[Change | None, str]:
    if not comparison.steps:
        return None, "not all runs have steps of a training"
    for each in comparison.steps:
        if each.name == limit.name:
            return each.median if limit.metric == "step" else each.mean, ""
    known = ", ".join(each.name for each in comparison.steps)
    return None, f"there is no such phase: there are {known}"


def _is_named(each: FunctionChange, name: str) -> bool:
    """Is it named by its qualified name or the end of that, or by its whole label?"""
    function = each.function
    qualified = function.name.replace("<locals>.", "")
    short = name.replace("<locals>.", "")
    return name == function.label or qualified == short or qualified.endswith(f".{short}")


def _of_calls(each: FunctionChange) -> Change | None:
    """Return the exact change: the interval is what the runs themselves show."""
    if each.calls is None:
        return None
    before, after = each.calls
    found = without_error(sum(before) / len(before), sum(after) / len(after))
    low = min(after) / max(before) - 1 if max(before) else found.change
    high = max(after) / min(before) - 1 if min(before) else (inf if max(after) else 0.0)
    return Change(found.before, found.after, found.change, low, high, found.p, high - low)
