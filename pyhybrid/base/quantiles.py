"""Quantiles: of values, and of what was counted in buckets."""

from collections.abc import Iterable


def quantile(values: Iterable[float], q: float) -> float:
    """Return the value below which the share `q` is, between two in proportion; 0: of none."""
    ordered = sorted(values) or [0]
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def value_at(rank: float, buckets: Iterable[tuple[float, float, int]]) -> int | None:
    """Return the value of the `rank`-th of all that was counted; None: there are fewer.

    `buckets`: (begin, end, how many, not 0), in order; as if what is in one were spread evenly.
    """
    seen = 0
    for begin, end, n in buckets:
        if seen + n >= rank:
            return round(begin + max(0, end - begin) * (rank - seen) / n)
        seen += n
    return None
