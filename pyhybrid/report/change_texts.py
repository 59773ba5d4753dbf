"""Changes from one figure to another, as text."""

from math import isfinite

from pyhybrid.views.comparison.significance import Change
from pyhybrid.views.labels import short_time


def number_text(n: float) -> str:
    return f"{n:,.0f}" if n == round(n) else f"{n:,.1f}"


def time_text(ns: float) -> str:
    return short_time(round(ns)) if ns else "0"


def relative_text(before: float, after: float) -> str:
    if not before or not after:
        return "new" if after else "gone"
    return percent_text(after / before - 1)


def change_text(change: Change) -> str:
    return relative_text(change.before, change.after)


def percent_text(share: float, sign: bool = True) -> str:
    if share >= 10:
        return f"x {share + 1:.3g}"
    return f"{share:+.1%}" if sign else f"{share:.1%}"


def interval_text(change: Change) -> str:
    low = percent_text(change.low) if isfinite(change.low) else "?"
    return f"{low} to {percent_text(change.high) if isfinite(change.high) else '?'}"
