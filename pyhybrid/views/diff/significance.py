"""Is a change between two means more than noise?  The statistics of `pyhybrid diff`.

Pure functions.  A mean has a variance and degrees of freedom: from the error of counting samples
(Poisson, infinitely many), from how runs differ (Welch's t test), from how they differ in many
functions (moderated t test), or from a series of times in one run, which follow each other and are
not independent (batch means).  Both means of a pair make one test, whose interval is of the ratio
(Fieller's theorem), so that the interval is without 0 exactly where the test is significant.  Of
many tests Benjamini and Hochberg's rule decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import exp, inf, isfinite, isinf, lgamma, log, log1p, pi, sqrt
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
MOST_RUNS = 10_000  # nobody makes more
# What functions' spreads have in common weighs no more than so many times each one's own, and is
# known from so many functions on.  Counts of samples have this share of their variance at least:
# even a tick that comes in time is somewhere in its period.
MOST_PRIOR, LEAST_FUNCTIONS, LEAST_COUNTED = 1, 3, 1 / 6

_NORMAL = NormalDist()


class Mean(Record):
    """Hold a mean over `runs`; `variance` is its own, with `freedom` degrees of freedom."""

    value: float
    variance: float
    freedom: float = inf
    runs: int = 1


class Change(Record):
    """Hold the change from one mean to another; changes are relative: 0.05 is 5 % more.

    `low` and `high` are the ends of the 95 % interval.  `visible` is the smallest change that such
    data show four times in five.  All are infinite where nothing is known.  `error` is the standard
    error of the change, with `freedom` degrees of freedom, of so many `runs` a side.
    """

    before: float
    after: float
    change: float
    low: float
    high: float
    p: float  # of a difference at least as large, if nothing had changed
    visible: float
    error: float = inf
    freedom: float = inf
    runs: int = 1


def of_counts(values: Sequence[float], variances: Sequence[float]) -> Mean:
    """Return a few runs' mean, by the error of counting alone, and what runs differ by at least."""
    n = len(values)
    value = sum(values) / n
    return Mean(value, sum(variances) / n**2 + (RUN_TO_RUN * value) ** 2 / n, inf, n)


def of_runs(values: Sequence[float], variances: Sequence[float]) -> Mean:
    """Return several runs' mean, by how they differ, or the error of counting if it is larger."""
    n = len(values)
    value = sum(values) / n
    spread = sum((each - value) ** 2 for each in values) / (n - 1)
    return Mean(value, max(spread / n, sum(variances) / n**2), n - 1, n)


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
    return Mean(value, variance, variance**2 / squares if squares else inf, n)


def change(before: Mean, after: Mean, *, freedom: float | None = None) -> Change:
    """Return what the two means show of a change; `freedom`: that of both, if they share it."""
    variance = before.variance + after.variance
    difference = after.value - before.value
    freedom = _freedom(before, after) if freedom is None else freedom
    critical = student_quantile(ALPHA, freedom)
    p = 0.0 if difference else 1.0
    if variance:
        p = student_p(difference / sqrt(variance), freedom)
    if not before.value:
        relative, error = (inf if after.value else 0.0), inf
    else:
        relative, error = difference / before.value, sqrt(variance) / before.value
    low, high = _ratio_interval(before, after, critical)
    return Change(
        before.value,
        after.value,
        relative,
        low - 1,
        high - 1,
        p,
        _visible(error, freedom),
        error,
        freedom,
        min(before.runs, after.runs),
    )


def _visible(error: float, freedom: float) -> float:
    return (student_quantile(ALPHA, freedom) + _NORMAL.inv_cdf(POWER)) * error


def runs_needed(found: Change, least: float) -> int | None:
    """Return of how many runs a side, more than there are, a change of `least` would be visible, if
    they differ as these do; None: of more than anyone makes, or it is not known."""

    def shows(runs: int) -> bool:
        further = 2 * (runs - found.runs)
        freedom = found.freedom if isfinite(found.freedom) else 2 * found.runs - 2
        return _visible(found.error * sqrt(found.runs / runs), freedom + further) <= least

    low, high = max(found.runs, FEW_RUNS - 1), MOST_RUNS  # it is above `low`, and `high` at most
    if not isfinite(found.error) or not shows(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


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


# --- the spread of many functions -----------------------------------------------------------------


class Spread(Record):
    """Hold a function's relative variance from run to run: as its runs differ, within the sides,
    and as it is by the error of counting alone."""

    seen: float
    counted: float


def spread_within(sides: Sequence[Sequence[float]]) -> float:
    """Return the relative variance within the sides, pooled."""
    squares = 0.0
    for values in sides:
        mean = sum(values) / len(values)
        squares += sum((each / mean - 1) ** 2 for each in values) if mean else 0.0
    return squares / (sum(map(len, sides)) - len(sides))


def moderated(spreads: Sequence[Spread], freedom: int) -> list[tuple[float, float]]:
    """Return each function's relative variance and its degrees of freedom, as all of them tell.

    A few runs hardly tell how much a function varies.  But by the error of counting it is known
    which functions vary more than others; by how much they vary in fact, and how far one may be
    from what that predicts, is seen of all together (Smyth's empirical Bayes, 2004, as in limma).
    """
    common, weight = _common(spreads, freedom)
    freedoms = freedom + weight
    return [
        (
            max(
                (weight * common * each.counted + freedom * each.seen) / freedoms,
                LEAST_COUNTED * each.counted,
            ),
            freedoms,
        )
        for each in spreads
    ]


def _common(spreads: Sequence[Spread], freedom: int) -> tuple[float, float]:
    """Return by which factor they vary more than by counting, and as how many degrees of freedom
    that counts for one of them."""
    seen = [each.seen / each.counted for each in spreads if each.seen]
    if len(seen) < LEAST_FUNCTIONS:
        return 1.0, freedom
    logs = [log(each) - digamma(freedom / 2) + log(freedom / 2) for each in seen]
    mean = sum(logs) / len(logs)
    more = sum((each - mean) ** 2 for each in logs) / (len(logs) - 1) - trigamma(freedom / 2)
    most = MOST_PRIOR * freedom
    weight = min(2 * _inverse_trigamma(more), most) if more > 0 else most
    return exp(mean + digamma(weight / 2) - log(weight / 2)), weight


def digamma(x: float) -> float:
    """Return the derivative of lgamma."""
    shift = 0.0
    while x < 6:
        shift, x = shift - 1 / x, x + 1
    square = 1 / (x * x)
    return shift + log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))


def trigamma(x: float) -> float:
    """Return the derivative of digamma."""
    shift = 0.0
    while x < 6:
        shift, x = shift + 1 / (x * x), x + 1
    square = 1 / (x * x)
    return shift + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def _inverse_trigamma(value: float) -> float:
    low, high = 1e-6, 1e6
    for _ in range(60):
        middle = sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
    return high


# --- distributions --------------------------------------------------------------------------------


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
