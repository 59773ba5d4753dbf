"""The statistics of `pyhybrid diff`: known values, and how often they are wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import exp, inf, isclose, pi, sqrt

import pytest

from pyhybrid.base.quantiles import quantile
from pyhybrid.views.diff.significance import (
    ALPHA,
    RUN_TO_RUN,
    Change,
    Mean,
    Spread,
    change,
    digamma,
    discoveries,
    incomplete_beta,
    mean_of_series,
    median_of_series,
    moderated,
    of_counts,
    of_runs,
    of_series,
    runs_needed,
    spread_within,
    student_p,
    student_quantile,
    trigamma,
)

# Two-sided, from printed tables of Student's t.
STUDENT = [
    (1, 0.05, 12.706),
    (2, 0.05, 4.303),
    (3, 0.001, 12.924),
    (4, 0.05, 2.776),
    (8, 0.05, 2.306),
    (10, 0.01, 3.169),
    (30, 0.05, 2.042),
    (120, 0.05, 1.980),
    (inf, 0.05, 1.960),
    (inf, 0.01, 2.576),
]


@pytest.mark.parametrize(("freedom", "p", "t"), STUDENT)
def test_students_t(freedom: float, p: float, t: float) -> None:
    assert student_quantile(p, freedom) == pytest.approx(t, abs=5e-4)
    assert student_p(t, freedom) == pytest.approx(p, rel=2e-3)
    assert student_p(-t, freedom) == student_p(t, freedom)


def test_the_incomplete_beta_function() -> None:
    assert incomplete_beta(2, 3, 0.0) == 0
    assert incomplete_beta(2, 3, 1.0) == 1
    assert incomplete_beta(1, 1, 0.3) == pytest.approx(0.3)
    # I_x(a, b) of whole numbers is a binomial's tail: 4 trials, at least 2.
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(6 * 0.16 * 0.36 + 4 * 0.064 * 0.6 + 0.0256)
    assert incomplete_beta(40, 0.5, 0.9) == pytest.approx(1 - incomplete_beta(0.5, 40, 0.1))


def test_benjamini_and_hochberg() -> None:
    """Their own example (1995): of 15 p-values four are found at 5 %."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert discoveries(p) == [True] * 4 + [False] * 11
    assert discoveries([0.04, 0.03]) == [True, True]  # the larger one carries the smaller
    assert discoveries([]) == []


@pytest.mark.parametrize("after", [0, 50, 100, 130, 300])
@pytest.mark.parametrize("before", [0, 20, 100])
def test_the_interval_is_without_0_where_the_test_finds_something(before: int, after: int) -> None:
    found = change(Mean(before, max(before, 1)), Mean(after, max(after, 1)))
    assert (found.p < ALPHA) == (not found.low <= 0 <= found.high)
    assert found.low <= found.change <= found.high


def test_what_appears_and_what_disappears() -> None:
    new = change(Mean(0, 1), Mean(45, 45))
    assert (new.change, new.high, new.visible) == (inf, inf, inf)
    assert new.low > 5
    gone = change(Mean(45, 45), Mean(0, 1))
    assert gone.change == -1
    assert gone.high < -0.8


def test_equal_runs() -> None:
    assert change(of_runs([5, 5, 5], [0] * 3), of_runs([5, 5, 5], [0] * 3)).p == 1
    more = change(of_runs([5, 5, 5], [0] * 3), of_runs([6, 6, 6], [0] * 3))
    assert more.p == 0
    assert isclose(more.low, 0.2)
    assert isclose(more.high, 0.2)


def test_welch() -> None:
    """By hand: means 10 and 13, variances of the means 1/3 and 4/3, so t 2.32 at 2.94 degrees."""
    found = change(of_runs([9, 10, 11], [0] * 3), of_runs([11, 13, 15], [0] * 3))
    assert found.p == pytest.approx(student_p(3 / (5 / 3) ** 0.5, 50 / 17), rel=1e-9)
    assert found.change == pytest.approx(0.3)
    counted = change(of_runs([9, 10, 11], [30] * 3), of_runs([11, 13, 15], [30] * 3))
    assert counted.p > found.p  # the error of counting is larger than how these runs differ


def test_digamma_and_trigamma() -> None:
    assert digamma(1) == pytest.approx(-0.5772156649, abs=1e-8)
    assert digamma(2) == pytest.approx(1 - 0.5772156649, abs=1e-8)
    assert trigamma(1) == pytest.approx(pi**2 / 6, abs=1e-8)
    assert trigamma(0.5) == pytest.approx(pi**2 / 2, abs=1e-8)


def ratios(chance: random.Random, n_runs: int, spread: float, factor: float = 1) -> list[float]:
    return [factor * exp(spread * chance.gauss(0, 1)) for _ in range(n_runs)]


def changes_of_ratios(chance: random.Random, n_runs: int, factor: float) -> list[Change]:
    """Of 20 functions whose ratios spread by 2 to 20 %, half as much as counting makes believe; the
    last one's is 5 %, and it works `factor` times as long."""
    spreads = [0.02 + 0.18 * at / 20 for at in range(20)] + [0.05]
    sides = [
        [ratios(chance, n_runs, each, factor if at == 20 and later else 1) for later in (0, 1)]
        for at, each in enumerate(spreads)
    ]
    seen = [
        Spread(spread_within(side), (2 * spread) ** 2)
        for side, spread in zip(sides, spreads, strict=True)
    ]
    changes = []
    for side, (variance, freedom) in zip(sides, moderated(seen, 2 * n_runs - 2), strict=True):
        means = [sum(each) / n_runs for each in side]
        before, after = (Mean(m, variance * m**2 / n_runs, runs=n_runs) for m in means)
        changes.append(change(before, after, freedom=freedom))
    return changes


@pytest.mark.parametrize("n_runs", [3, 5])
def test_many_functions_tell_how_much_one_varies(n_runs: int) -> None:
    """Three runs find 20 % of what spreads by 5 %, which those of one alone mostly do not; one in
    twenty finds something where nothing changed."""
    chance = random.Random(n_runs)
    several = [changes_of_ratios(chance, n_runs, 1.2) for _ in range(200)]
    assert sum(each[-1].p < ALPHA for each in several) >= 0.9 * 200
    alarms = sum(one.p < ALPHA for each in several for one in each[:-1])
    assert 0.02 <= alarms / (200 * 20) <= 0.06


@pytest.mark.parametrize("spreads", [[], [0.01], [0.01, 0.02], [0.0, 0.0, 0.0]])
def test_few_functions_vary_as_counting_says(spreads: list[float]) -> None:
    """As far as their runs do not differ more."""
    found = moderated([Spread(each, 0.01) for each in spreads], 4)
    assert [freedom for _, freedom in found] == [8] * len(spreads)
    assert [variance for variance, _ in found] == [(each + 0.01) / 2 for each in spreads]


@pytest.mark.parametrize(("spread", "least"), [(0.05, 0.05), (0.2, 0.05), (0.02, 0.01)])
def test_as_many_runs_as_are_needed_show_it(spread: float, least: float) -> None:
    def of(n: int) -> Change:
        mean = Mean(1, spread**2 / n, n - 1, n)
        return change(mean, mean)

    needed = runs_needed(of(3), least)
    assert needed and needed > 3
    assert of(needed).visible <= least < of(needed - 1).visible
    counted = change(Mean(1, spread**2), Mean(1, spread**2))  # by counting alone, of one run
    assert runs_needed(counted, 10) == 3
    assert runs_needed(counted, least) == needed


FUNCTIONS = [60, 80, 100, 150, 200, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000] * 2
PLANTED = 14  # 5000 samples
SPREAD = 0.02  # of a function's time from run to run


def simulated(chance: random.Random, factor: float = 1) -> list[float]:
    """The samples of each function in a run; the planted one works `factor` times as long."""

    def counted(at: int, mean: float) -> float:
        mean *= chance.gauss(1, SPREAD) * (factor if at == PLANTED else 1)
        return max(0, round(chance.gauss(mean, mean**0.5)))  # Poisson, of so many

    return [counted(at, mean) for at, mean in enumerate(FUNCTIONS)]


def found(before: list[list[float]], after: list[list[float]]) -> list[bool]:
    mean = of_runs if len(before) > 2 else of_counts

    def compared(one: list[float], other: list[float]) -> Change:
        return change(mean(one, one), mean(other, other))

    columns = zip(zip(*before, strict=True), zip(*after, strict=True), strict=True)
    return discoveries([compared(list(one), list(other)).p for one, other in columns])


@pytest.mark.exhaustive
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("n_runs", [1, 3, 2, 5])
def test_false_alarms_are_few(n_runs: int) -> None:
    """Of comparisons in which nothing changed, at most 5 % say that anything did."""
    chance = random.Random(n_runs)
    alarms = 0
    for _ in range(400):
        sides = [[simulated(chance) for _ in range(n_runs)] for _ in range(2)]
        alarms += any(found(*sides))
    assert alarms <= 0.05 * 400


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_runs", [1, 5])
def test_a_fifth_more_is_found(n_runs: int) -> None:
    chance = random.Random(n_runs)
    hits = 0
    for _ in range(200):
        before = [simulated(chance) for _ in range(n_runs)]
        after = [simulated(chance, 1.2) for _ in range(n_runs)]
        hits += found(before, after)[PLANTED]
    assert hits >= 0.95 * 200


@pytest.mark.parametrize("n_runs", [1, 5])
def test_the_visible_change_is_found_four_times_in_five(n_runs: int) -> None:
    """By a test of one function alone; what is visible is itself known with an error."""
    chance = random.Random(n_runs)
    mean = of_runs if n_runs > 2 else of_counts

    def compared(factor: float) -> Change:
        sides = []
        for each in (900, 900 * factor):
            runs = [each * chance.gauss(1, RUN_TO_RUN) for _ in range(n_runs)]
            sides.append([float(round(chance.gauss(n, n**0.5))) for n in runs])
        return change(*(mean(side, side) for side in sides))

    visible = sum(compared(1).visible for _ in range(200)) / 200
    hits = sum(compared(1 + visible).p < ALPHA for _ in range(400))
    assert 0.7 * 400 <= hits <= 0.9 * 400


def series(chance: random.Random, n: int, correlated: float, factor: float = 1) -> list[float]:
    """Times of a training's steps: each is like the one before, one in 50 takes four times as long,
    and all of a run are a little longer or shorter than those of another."""
    of_run, deviation, times = factor * chance.gauss(1, SPREAD), chance.gauss(0, 1), []
    for _ in range(n):
        deviation *= correlated
        deviation += sqrt(1 - correlated**2) * chance.gauss(0, 1)
        slow = 4 if chance.random() < 0.02 else 1
        times.append(of_run * slow * exp(0.1 * deviation))
    return times


Statistic = Callable[[Sequence[float]], Mean]


def test_quantiles_are_between_two_values() -> None:
    assert [quantile([40, 10, 30, 20], q) for q in (0, 0.5, 0.95, 1)] == [10, 25, 38.5, 40]
    assert (quantile(iter([7]), 0.95), quantile([], 0.5)) == (7, 0)


STATISTICS = [median_of_series, mean_of_series]


@pytest.mark.exhaustive
@pytest.mark.first_cases(6)
@pytest.mark.parametrize("of", STATISTICS)
@pytest.mark.parametrize(("n", "correlated"), [(20, 0.3), (100, 0.0), (100, 0.8), (1000, 0.95)])
def test_steps_that_are_like_the_ones_before(of: Statistic, n: int, correlated: float) -> None:
    """One run a side: of those in which nothing changed, about 5 % say that something did, at most;
    as if each step were independent, a third would."""
    chance = random.Random(n)

    def alarms(mean: Callable[[Sequence[float]], Mean]) -> float:
        pairs = ([series(chance, n, correlated) for _ in range(2)] for _ in range(200))
        return sum(change(*(mean(side) for side in pair)).p < ALPHA for pair in pairs) / 200

    assert alarms(lambda values: of_series([of(values)])) <= 0.08
    if correlated > 0.9:
        assert alarms(lambda values: of_runs(values, [0] * n)) > 0.3


@pytest.mark.parametrize("of", STATISTICS)
def test_steps_that_take_a_fifth_more(of: Statistic) -> None:
    chance = random.Random(0)
    hits = 0
    for _ in range(100):
        before, after = series(chance, 400, 0.5), series(chance, 400, 0.5, 1.2)
        found = change(of_series([of(before)]), of_series([of(after)]))
        hits += found.p < ALPHA
        assert found.low < 0.35 and found.high > 0.05
    assert hits >= 90


def test_of_more_runs_steps_tell_more() -> None:
    chance = random.Random(0)
    one, two = ([median_of_series(series(chance, 200, 0.5)) for _ in range(n)] for n in (1, 2))
    assert of_series(two).variance < of_series(one).variance
    assert of_series(one).variance >= (RUN_TO_RUN * of_series(one).value) ** 2
    same = of_series([median_of_series([5.0] * 30)])
    assert (same.value, same.variance) == (5, (RUN_TO_RUN * 5) ** 2)
    assert change(same, same).p == 1
