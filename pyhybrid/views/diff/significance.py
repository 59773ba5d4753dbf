"""Is a change between two means more than noise?  The statistics of `pyhybrid diff`.

Pure functions.  A mean has a variance and degrees of freedom: from the error of counting samples
(Poisson, infinitely many), from how runs differ (Welch's t test), or from a series of times in one
run, which follow each other and are not independent (batch means).  Both means of a pair make one
test, whose interval is of the ratio (Fieller's theorem), so that the interval is without 0
exactly where the test is significant.  Of many tests Benjamini and Hochberg's rule decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import exp, inf, isinf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

from pyhybrid.base.quantiles import quantile
from pyhybrid.tables.schema import Record

ALPHA = 0.05  # of intervals, and of false discoveries among what is reported to differ
POWER = 0.8  # a change of the smallest visible size is found so often
# What runs of one program on a quiet machine differ by, beyond the error of counting, which one run
# does not show.  A machine that is busier in one of two runs changes more: several runs show it.
RUN_TO_RUN = 0.025
# Of a series: of more batches the spread is known better, but they are less independent.
LEAST_BATCHES, MOST_BATCHES = 5, 30
FEW_RUNS = 3  # from so many a side on, the runs themselves show their spread

_NORMAL = NormalDist()


class Mean(Record):
    """Hold a mean over runs; `variance` is its own, with `freedom` degrees of freedom."""

    value: float
    variance: float
    freedom: float = inf


class Change(Record):
    """Hold the change from one mean to another; changes are relative: 0.05 is 5 % more.

    `low` and `high` are the ends of the 95 % interval.  `visible` is the smallest change that such
    data show four times in five.  All are infinite where nothing is known.
    """

    before: float
    after: float
    change: float
    low: float
    high: float
    p: float  # of a difference at least as large, if nothing had changed
    visible: float


def of_counts(values: Sequence[float], variances: Sequence[float]) -> Mean:
    """Return a few runs' mean, by the error of counting alone, and what runs differ by at least."""
    n = len(values)
    value = sum(values) / n
    return Mean(value, sum(variances) / n**2 + (RUN_TO_RUN * value) ** 2 / n)


def of_runs(values: Sequence[float], variances: Sequence[float]) -> Mean:
    """Return several runs' mean, by how they differ, or the error of counting if it is larger."""
    n = len(values)
    value = sum(values) / n
    spread = sum((each - value) ** 2 for each in values) / (n - 1)
    return Mean(value, max(spread / n, sum(variances) / n**2), n - 1)


def mean_of_series(values: Sequence[float]) -> Mean:
    """Return the mean of times in the order in which they were taken, at least two.

    A slow one may be among other slow ones: batches of them are nearly independent (Conway, 1963).
    """
    n = len(values)
    value = sum(values) / n
    spread = sum((each - value) ** 2 for each in values) / (n - 1)
    variance, freedom = _batches(values)
    return Mean(value, max(variance, spread / n), freedom)


def median_of_series(values: Sequence[float]) -> Mean:
    """Return the median of the same: quantiles that lie as far from the median as the share of
    values below it is uncertain (Woodruff, 1952)."""
    median = quantile(values, 0.5)
    variance, freedom = _batches([float(each <= median) for each in values])
    error = min(0.5, sqrt(max(variance, 0.25 / len(values))))
    width = quantile(values, 0.5 + error) - quantile(values, 0.5 - error)
    return Mean(median, (width / 2) ** 2, freedom)


def _batches(values: Sequence[float]) -> tuple[float, float]:
    """Return the variance of their mean, and its degrees of freedom."""
    n = len(values)
    n_batches = max(min(n, LEAST_BATCHES), min(MOST_BATCHES, round(sqrt(n))))
    bounds = [n * i // n_batches for i in range(n_batches + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(bounds)]
    mean = sum(means) / n_batches
    spread = sum((each - mean) ** 2 for each in means) / (n_batches - 1)
    return spread / n_batches, n_batches - 1


def of_series(series: Sequence[Mean]) -> Mean:
    """Return the mean of a few runs' means, by their errors, and what runs differ by at least."""
    n = len(series)
    value = sum(each.value for each in series) / n
    parts = [(each.variance / n**2, each.freedom) for each in series]
    variance = sum(part for part, _ in parts) + (RUN_TO_RUN * value) ** 2 / n
    squares = sum(part**2 / freedom for part, freedom in parts)
    return Mean(value, variance, variance**2 / squares if squares else inf)


def change(before: Mean, after: Mean) -> Change:
    """Return what the two means show of a change."""
    variance = before.variance + after.variance
    difference = after.value - before.value
    freedom = _freedom(before, after)
    critical = student_quantile(ALPHA, freedom)
    p = 0.0 if difference else 1.0
    if variance:
        p = student_p(difference / sqrt(variance), freedom)
    if not before.value:
        relative, visible = (inf if after.value else 0.0), inf
    else:
        relative = difference / before.value
        visible = (critical + _NORMAL.inv_cdf(POWER)) * sqrt(variance) / before.value
    low, high = _ratio_interval(before, after, critical)
    return Change(before.value, after.value, relative, low - 1, high - 1, p, visible)


def without_error(before: float, after: float) -> Change:
    """Return a change whose error is not known."""
    relative = after / before - 1 if before else (inf if after else 0.0)
    return Change(before, after, relative, -inf, inf, 1.0, inf)


def _freedom(a: Mean, b: Mean) -> float:
    """Return Welch's and Satterthwaite's, of the difference."""
    parts = [each.variance**2 / each.freedom for each in (a, b)]
    total = sum(parts)
    return (a.variance + b.variance) ** 2 / total if total else inf


def _ratio_interval(before: Mean, after: Mean, critical: float) -> tuple[float, float]:
    """Return all ratios r, from 0 on, for which `after - r * before` may be 0 (Fieller)."""
    a, b, squared = before.value, after.value, critical**2
    first = a * a - squared * before.variance
    last = b * b - squared * after.variance
    root = sqrt(max(0.0, a * a * b * b - first * last))
    low = 0.0
    if last > 0:  # else `after` itself may be 0
        low = (a * b - root) / first if first else last / (2 * a * b) if a else inf
    return low, (a * b + root) / first if first > 0 else inf  # else `before` may be 0


def discoveries(p_values: Sequence[float], alpha: float = ALPHA) -> list[bool]:
    """Return which of several tests find something: of those that do, a share of `alpha` do by
    chance (Benjamini and Hochberg, 1995)."""
    ranked = sorted(p_values)
    n = len(ranked)
    passing = [p for rank, p in enumerate(ranked, 1) if p <= alpha * rank / n]
    limit = max(passing, default=-1.0)
    return [p <= limit for p in p_values]


def student_p(t: float, freedom: float) -> float:
    """Return how often |T| is at least |t| by chance."""
    if isinf(freedom):
        return 2 * _NORMAL.cdf(-abs(t))
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@cache
def student_quantile(p: float, freedom: float) -> float:
    """Return the t that |T| reaches with probability `p`: 1.96 for 5 % and infinite freedom."""
    if isinf(freedom):
        return -_NORMAL.inv_cdf(p / 2)
    # By Newton's method, from the left: the probability is convex, and the normal's t is smaller.
    t = -_NORMAL.inv_cdf(p / 2)
    scale = lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - log(freedom * pi) / 2
    for _ in range(100):
        density = exp(scale - (freedom + 1) / 2 * log1p(t * t / freedom))
        step = (student_p(t, freedom) - p) / (2 * density)
        t += step
        if step <= 1e-12 * t:
            break
    return t


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Abramowitz and
    Stegun, 26.5.8), which converges fast on one side of its mean; the other is one minus it."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    return front * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return it by Lentz's method, to 14 digits."""
    tiny = 1e-300
    above, below = 1.0, 1 - (a + b) * x / (a + 1)
    below = 1 / (below or tiny)
    value = below
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            below = 1 / ((1 + term * below) or tiny)
            above = 1 + term / above or tiny
            value *= below * above
        if abs(below * above - 1) < 1e-14:
            break
    return value
