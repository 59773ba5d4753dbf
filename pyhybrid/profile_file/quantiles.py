"""Quantiles of what was counted in buckets."""

from collections.abc import Iterable


def value_at(rank: float, buckets: Iterable[tuple[float, float, int]]) -> int | None:
    """The value of the `rank`-th of all that was counted; None: there are fewer.

    `buckets`: (begin, end, how many, not 0), in order; as if what is in one were spread evenly.
    """
    seen = 0
    for begin, end, n in buckets:
        if seen + n >= rank:
            return round(begin + max(0, end - begin) * (rank - seen) / n)
        seen += n
    return None
