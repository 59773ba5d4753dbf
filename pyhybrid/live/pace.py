"""How often a spool is read anew: as asked, or as seldom as it takes to be no burden."""

from __future__ import annotations

import time

MOST_S = 10.0
_BURST_S = 1.0  # of CPU time, that it may take at once: names of a large library


class Pace:
    """Measure what a reading and all that follows takes, and when the next one is due."""

    SHARE = 0.02  # of a processor that it may take, on average

    def __init__(self, interval_s: float) -> None:
        """Read so often, if that is no burden."""
        self.interval_s = interval_s
        self._usual_s, self._left_s = 0.0, _BURST_S
        self._begin_s, self._cpu_s = 0.0, 0.0

    def begin(self) -> None:
        """Note that a reading begins."""
        now_s, cpu_s = time.monotonic(), time.process_time()
        if self._begin_s:
            took_s = cpu_s - self._cpu_s
            self._usual_s = (3 * self._usual_s + took_s) / 4 if self._usual_s else took_s
            left_s = self._left_s + self.SHARE * (now_s - self._begin_s) - took_s
            self._left_s = min(_BURST_S, left_s)
        self._begin_s, self._cpu_s = now_s, cpu_s

    @property
    def share(self) -> float:
        """Return what it takes of a processor."""
        return self._usual_s / max(self.every_s, 1e-3)

    @property
    def every_s(self) -> float:
        """Return how often it is read."""
        least = self._usual_s / self.SHARE if self._left_s < _BURST_S / 2 else 0.0
        return max(self.interval_s, min(least, MOST_S))

    @property
    def pause_s(self) -> float:
        """Return how long it is until the next one is due."""
        return max(0.01, self._begin_s + self.every_s - time.monotonic())
