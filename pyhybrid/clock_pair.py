"""The monotonic clock and the time of day, read as one moment."""

import time


def clock_pair() -> tuple[int, int]:
    """Monotonic time and time of day, in nanoseconds: of some readings the closest ones."""
    pairs = []
    for _ in range(5):
        before_ns, unix_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        pairs.append((after_ns - before_ns, (before_ns + after_ns) // 2, unix_ns))
    _, monotonic_ns, unix_ns = min(pairs)
    return monotonic_ns, unix_ns
