"""How long the single calls of each function or region took, as the table `call_time` has it."""

from __future__ import annotations

from pyhybrid._columns import CALLS_OCTAVE
from pyhybrid.base.quantiles import value_at
from pyhybrid.base.structs import Struct, made
from pyhybrid.tables.profile import Profile


class Durations(Struct):
    """Sum the calls of a function or region, recursive ones included."""

    calls: int = 0
    total_ns: int = 0
    max_ns: int = 0
    histogram: dict[int, int] = made(dict)  # from_ns -> calls

    def add(self, calls: int, total_ns: int, max_ns: int, histogram: dict[int, int]) -> None:
        """Add those of another path."""
        self.calls += calls
        self.total_ns += total_ns
        self.max_ns = max(self.max_ns, max_ns)
        for begin, n in histogram.items():
            self.histogram[begin] = self.histogram.get(begin, 0) + n

    @property
    def mean_ns(self) -> int:
        """Return the mean."""
        return self.total_ns // self.calls if self.calls else 0

    def quantile_ns(self, q: float) -> int:
        """Return the `q`-quantile (0..1), to a bucket's width: 12 %."""
        begins = sorted(self.histogram)
        found = value_at(
            q * self.calls,
            (
                (begin, min(end, begin + begin // CALLS_OCTAVE, self.max_ns), self.histogram[begin])
                for begin, end in zip(begins, [*begins[1:], self.max_ns], strict=True)
            ),
        )
        return self.max_ns if found is None else found

    def calls_from(self, least_ns: int) -> int:
        """Return how many took `least_ns` or longer, but for those of its own bucket."""
        return sum(n for begin, n in self.histogram.items() if begin >= least_ns)


def function_durations(profile: Profile) -> dict[int, Durations]:
    """Return the durations by frame id; all paths and threads together."""
    durations: dict[int, Durations] = {}
    for row in profile.call_times:
        of_frame = durations.setdefault(profile.nodes.frame[row.node], Durations())
        of_frame.add(row.calls, row.total_ns, row.max_ns, dict(row.histogram))
    return durations
