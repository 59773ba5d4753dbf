"""Some 60 native frames: Python that C calls, a dozen times, then a loop for argv[1] s of CPU."""

import sys
import time


def down(levels):
    if levels:
        return list(map(down, (levels - 1,)))
    end = time.thread_time() + float(sys.argv[1])
    while time.thread_time() < end:
        for _ in range(1000):
            pass
    return None


down(12)
