"""How good a profile is: the rate that was reached, the stacks that are whole, what it cost."""

from collections import Counter
from math import exp2

from pyhybrid._columns import descend, take
from pyhybrid.base import pseudo_frames
from pyhybrid.base.quantiles import value_at
from pyhybrid.tables import Thread
from pyhybrid.tables.profile import Profile

# From best to worst; a stack is as good as its worst frame.
COMPLETE, RE_ANCHORED, GAPPED, TRUNCATED = QUALITIES = (
    "complete",
    "re_anchored",
    "gapped",
    "truncated",
)
_OF_PSEUDO = {
    pseudo_frames.BRIDGED: RE_ANCHORED,
    pseudo_frames.GAP: GAPPED,
    pseudo_frames.TRUNCATED: TRUNCATED,
    pseudo_frames.TREE_FULL: TRUNCATED,
}

_WORSE = bytes(max(above, rank) for above in range(len(QUALITIES)) for rank in range(256))


def stack_quality(profile: Profile) -> dict[str, float]:
    """Return the share (0..1) of the recorded weight whose stacks are of each quality."""
    profile = profile.view.all_frames or profile
    nodes = profile.nodes
    ranks = {
        frame.id: QUALITIES.index(_OF_PSEUDO.get(frame.symbol or "", COMPLETE))
        for frame in profile.frames.values()
        if frame.kind == "pseudo"
    }
    rank = bytes(ranks.get(frame, 0) for frame in range(max(profile.frames, default=0) + 1))
    worst = descend(nodes.parent, take(rank, nodes.frame), _WORSE)
    weights: Counter[int] = Counter()
    for sampled in profile.sampled:
        weights[worst[profile.stacks.node[sampled.stack]]] += sampled.weight_ns
    total = weights.total() or 1
    return {name: weights[rank] / total for rank, name in enumerate(QUALITIES)}


def gil_shares(profile: Profile) -> dict[str, float]:
    """Return the share (0..1) of the recorded weight by what its thread had to do with the GIL."""
    weights = Counter(dict.fromkeys(("held", "waiting", "neither"), 0))
    for sampled in profile.sampled:
        weights[sampled.gil] += sampled.weight_ns
    total = weights.total() or 1
    return {name: weight / total for name, weight in weights.items()}


def off_cpu_share(profile: Profile) -> float | None:
    """Return the share (0..1) of the recorded weight in waits; None: not by this clock."""
    if profile.meta.get("clock") != "wall":
        return None
    off = sum(sampled.weight_ns for sampled in profile.sampled if sampled.waits)
    return off / (sum(sampled.weight_ns for sampled in profile.sampled) or 1)


def unaccounted_ns(profile: Profile) -> int:
    """Return the CPU time of the process that no thread's samples stand for, lost and missed ones
    among them; 0 where it is not known."""
    return int(profile.meta.get("unaccounted_ns") or 0)


def busy_threads(profile: Profile) -> list[Thread]:
    """Return threads that ran long enough for a rate: 50 periods and 1 % of all CPU time."""
    threads = profile.threads.values()
    total = sum(thread.cpu_ns or 0 for thread in threads)
    least = max(50 * profile.period_ns, total / 100)
    return [thread for thread in threads if (thread.cpu_ns or 0) >= least]


def hz_reached(profile: Profile) -> float | None:
    """Return samples per second of the sampling clock over busy threads; None where none was busy,
    or some of their samples were left out.

    (Over all threads, where busy ones had less than half of the CPU time.)

    By wall-clock time a sample that holds for a long wait counts once a period.

    The seconds are the kernel's CPU time of these threads, or, with a wall clock, the time from
    their first to their last sample.
    """
    if profile.view.by_time:
        return None
    if profile.meta.get("clock") == "wall":
        threads = [t for t in profile.threads.values() if t.recorded > 1]
        seconds = sum((t.last_ns or 0) - (t.first_ns or 0) for t in threads) / 1e9
        samples = sum(t.recorded_weight_ns / profile.period_ns - 1 for t in threads)
    else:
        threads = busy_threads(profile)
        total = sum(t.cpu_ns or 0 for t in profile.threads.values())
        if sum(t.cpu_ns or 0 for t in threads) < total / 2:  # many short ones
            threads = [t for t in profile.threads.values() if t.cpu_ns]
        seconds = sum(t.cpu_ns or 0 for t in threads) / 1e9
        samples = sum(t.recorded for t in threads)
    return samples / seconds if seconds > 0 else None


def _bucket_from_ns(bucket: int) -> float:
    """Return where a bucket of the handler's histogram begins: spool.h, SPOOL_HISTOGRAM."""
    power, quarter = divmod(bucket, 4)
    return 64 * exp2(power) * (1 + quarter / 4)


class HandlerCost:
    """Sum what the signal handler took, over all threads."""

    def __init__(self, profile: Profile) -> None:
        """Add up the threads' histograms."""
        self._counts: Counter[int] = Counter()
        for thread in profile.threads.values():
            self._counts.update(dict(enumerate(thread.handler_ns)))
        self._cost_ns = profile.meta.get("cost_ns")
        self._signals = sum(thread.signals for thread in profile.threads.values())
        threads = sum(thread.cpu_ns or 0 for thread in profile.threads.values())
        self._cpu_ns = profile.process.cpu_ns or threads

    def quantile_ns(self, q: float) -> int | None:
        """Return the `q`-quantile (0..1) of the handler's time; None: unknown.

        The samples of a bucket, a seventh to a quarter of its time wide, count as spread evenly.
        """
        return value_at(
            q * self._counts.total(),
            (
                (_bucket_from_ns(bucket), _bucket_from_ns(bucket + 1), n)
                for bucket, n in sorted(self._counts.items())
                if n
            ),
        )

    def histogram(self) -> list[tuple[int, int]]:
        """Return (from_ns, samples) of the buckets that have any."""
        return [(round(_bucket_from_ns(b)), n) for b, n in sorted(self._counts.items()) if n]

    def overhead(self) -> float | None:
        """Return the share (0..1) of the CPU time that sampling took, estimated; None: unknown.

        It goes by the cost of a whole sample, interrupt and all, where it was measured at start
        (meta `cost_ns`, not 0), else by the median of the handler's time alone: its mean includes
        what other processes ran meanwhile.
        """
        if not self._cpu_ns or not self._signals:
            return None
        cost_ns = self._cost_ns or self.quantile_ns(0.5)
        return cost_ns * self._signals / self._cpu_ns if cost_ns else None
