"""Single calls of chosen functions and of regions: how long each took.

From the spool (src/trace/kept_calls.h) to the tables `call`, `turn` and `call_time`, and the view
over these
by function.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyhybrid.assemble.exact_half import Ticks
from pyhybrid.profile_file.quantiles import value_at
from pyhybrid.profile_file.tables import Call, Turn
from pyhybrid.spool.records import CallTurn, Spool

if TYPE_CHECKING:
    from pyhybrid.profile_file.profile import Profile

ENDED, RAISED, PARTIAL = 1, 2, 4  # src/trace/kept_calls.h, enum call_flags
FIRST, PARTS = 6, 8  # CALLS_FIRST, CALLS_OCTAVE


def bucket_begin(bucket: int) -> int:
    """Where a bucket of src/trace/kept_calls.h begins, in ticks."""
    octave, part = divmod(bucket, PARTS)
    return ((PARTS + part) << (FIRST + octave)) // PARTS if bucket else 0


@dataclass(slots=True)
class KeptCalls:
    """Rows of the tables of the same names."""

    calls: list[Call] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    times: list[tuple[int, int, int, int, int, str]] = field(default_factory=list)


def kept_calls(
    spool: Spool, ticks: Ticks, threads: dict[int, int], nodes: dict[int, memoryview]
) -> KeptCalls:
    """The rows; `threads` and `nodes` are those of exact_half.py."""
    kept = KeptCalls()
    for turns in _by_call(spool.calls):
        first, last = turns[0], turns[-1]
        state = "raised" if last.flags & RAISED else "returned"
        if any(turn.flags & PARTIAL for turn in turns) or not last.flags & ENDED:
            state = "partial"
        number = len(kept.calls) + 1
        kept.calls.append(
            Call(
                number,
                threads[first.thread],
                nodes[first.thread][first.node],
                ticks.time(first.begin),
                ticks.time(last.until),
                sum(ticks.time(turn.until) - ticks.time(turn.since) for turn in turns),
                state,
                spool.call_attributes.get(first.serial) if first.serial else None,
            )
        )
        if len(turns) > 1:
            kept.turns += [
                Turn(number, threads[t.thread], ticks.time(t.since), ticks.time(t.until))
                for t in turns
            ]
    times: defaultdict[tuple[int, int], Durations] = defaultdict(Durations)
    for thread, node, n, total, most, _, buckets in spool.call_times.values():
        histogram = {ticks.span(bucket_begin(i)): n for i, n in enumerate(buckets) if n}
        of_path = times[threads[thread], nodes[thread][node]]
        of_path.add(n, ticks.span(total), ticks.span(most), histogram)
    for key, each in sorted(times.items()):
        rows = json.dumps(sorted(each.histogram.items()))
        kept.times.append((*key, each.calls, each.total_ns, each.max_ns, rows))
    return kept


def _by_call(turns: list[CallTurn]) -> Iterator[list[CallTurn]]:
    """The turns of each call, in order of time."""
    several: defaultdict[int, list[CallTurn]] = defaultdict(list)
    for turn in turns:
        if turn.serial:
            several[turn.serial].append(turn)
        else:
            yield [turn]
    for of_call in several.values():
        yield sorted(of_call, key=lambda turn: turn.since)


@dataclass(slots=True)
class Durations:
    """Of all calls of a function or region, recursive ones included."""

    calls: int = 0
    total_ns: int = 0
    max_ns: int = 0
    histogram: dict[int, int] = field(default_factory=dict)  # from_ns -> calls

    def add(self, calls: int, total_ns: int, max_ns: int, histogram: dict[int, int]) -> None:
        """Add those of another path."""
        self.calls += calls
        self.total_ns += total_ns
        self.max_ns = max(self.max_ns, max_ns)
        for begin, n in histogram.items():
            self.histogram[begin] = self.histogram.get(begin, 0) + n

    @property
    def mean_ns(self) -> int:
        """The mean."""
        return self.total_ns // self.calls if self.calls else 0

    def quantile_ns(self, q: float) -> int:
        """The `q`-quantile (0..1), to a bucket's width: 12 %."""
        begins = sorted(self.histogram)
        found = value_at(
            q * self.calls,
            (
                (begin, min(end, begin + begin // PARTS, self.max_ns), self.histogram[begin])
                for begin, end in zip(begins, [*begins[1:], self.max_ns], strict=True)
            ),
        )
        return self.max_ns if found is None else found

    def calls_from(self, least_ns: int) -> int:
        """How many took `least_ns` or longer, without those of the bucket that it lies in."""
        return sum(n for begin, n in self.histogram.items() if begin >= least_ns)


def function_durations(profile: "Profile") -> dict[int, Durations]:
    """By frame id; all paths and threads together."""
    durations: dict[int, Durations] = {}
    for row in profile.call_times:
        of_frame = durations.setdefault(profile.nodes.frame[row.node], Durations())
        of_frame.add(row.calls, row.total_ns, row.max_ns, dict(row.histogram))
    return durations
