"""The same steps of examples/train.py again and again in one process, with and without samples.

python steps.py ROUNDS HZ: prints as its last line a list of rounds, {side: [CPU s, wall s]}, in an
order of sides that rotates.  One process has one layout of memory and one set of threads: rounds
differ far less than whole runs do.
"""

import contextlib
import json
import os
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyhybrid import _native

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"
SIDES: dict[str, dict[str, Any] | None] = {  # engines: src/sampler/sampler.h
    "off": None,
    "sigtrap": {"engine": 5},
    "no kernel": {"engine": 5, "kernel_frames": -1},
    "perf_event": {"engine": 1},
    "timer": {"engine": 2},
    "hybrid": {"engine": 5, "exact": True},
    "off, 64 threads": None,
    "sigtrap, 64 threads": {"engine": 5},
    "perf_event, 64 threads": {"engine": 1},
}
N_THREADS = 64  # alive beside those that compute, where the side says so
STEPS = 12

rounds, hz = int(sys.argv[1]), int(sys.argv[2])
train = runpy.run_path(str(EXAMPLE))["train"]


@contextlib.contextmanager
def threads_alive(n: int) -> Iterator[None]:
    """`n` threads that wait, each with 10 ms of work behind it."""
    ready, done = threading.Barrier(n + 1), threading.Event()

    def works_and_waits() -> None:
        while time.thread_time() < 0.01:
            pass
        ready.wait()
        done.wait()

    threads = [threading.Thread(target=works_and_waits) for _ in range(n)]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def take(side: str) -> list[float]:
    options = SIDES[side]
    with threads_alive(N_THREADS if "threads" in side else 0):
        return take_steps(options)


def take_steps(options: dict[str, Any] | None) -> list[float]:
    with tempfile.TemporaryFile() as spool, contextlib.redirect_stdout(None):
        if options is not None:
            _native.start(spool.fileno(), period_ns=1_000_000_000 // hz, **options)
        train(1, 1, 96, 1)  # the interpreter instruments each function when it first runs
        wall, cpu = time.monotonic(), time.process_time()
        train(1, STEPS, 96, 1)
        took = [time.process_time() - cpu, time.monotonic() - wall]
        if options is not None:
            _native.stop()
    return took


take("off")
sides = list(SIDES)
result = []
for number in range(rounds):
    first = number % len(sides)
    order = sides[first:] + sides[:first]
    taken = {side: take(side) for side in order}
    result.append({side: taken[side] for side in sides})
print(json.dumps(result), flush=True)
os._exit(0)
