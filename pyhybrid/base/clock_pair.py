"""The monotonic clock and the time of day, read as one moment."""

from types import ModuleType

REALTIME, MONOTONIC, THREAD_CPU = 0, 1, 3  # <time.h>


def clock_pair(native: ModuleType) -> tuple[int, int]:
    """Return monotonic time and time of day, in nanoseconds: of some readings the closest ones.

    By pyhybrid._native: what `time` has may be a test's (freezegun, libfaketime).
    """
    read = native.read_clock
    pairs = []
    for _ in range(5):
        before_ns, unix_ns, after_ns = read(MONOTONIC), read(REALTIME), read(MONOTONIC)
        pairs.append((after_ns - before_ns, (before_ns + after_ns) // 2, unix_ns))
    _, monotonic_ns, unix_ns = min(pairs)
    return monotonic_ns, unix_ns
