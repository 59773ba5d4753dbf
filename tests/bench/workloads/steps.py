"""The same steps of examples/train.py again and again in one process, with and without samples.

python steps.py ROUNDS HZ LIBRARY: its last line is a list of rounds, {side: [CPU s, wall s]}.
The order of the sides rotates.  One process has one layout of memory and one set of threads: rounds
differ far less than whole runs do.

LIBRARY is empty_handler.c; the module `callbacks` is callbacks.c.  figures/steps.py builds them.
"""

import contextlib
import ctypes
import json
import os
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import callbacks
from monitored import by_callback

from pyhybrid import _native

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"
N_THREADS = 64  # alive beside those that compute, where the side says so
STEPS = 12

rounds, hz = int(sys.argv[1]), int(sys.argv[2])
PERIOD_NS = 1_000_000_000 // hz
train = runpy.run_path(str(EXAMPLE))["train"]
floor = ctypes.CDLL(sys.argv[3])
floor.begin.argtypes = ctypes.c_ulong, ctypes.c_int


@contextlib.contextmanager
def sampled(**options: Any) -> Iterator[None]:
    with tempfile.TemporaryFile() as spool:
        _native.start(spool.fileno(), period_ns=PERIOD_NS, **options)
        yield
        _native.stop()


@contextlib.contextmanager
def events(kind: int) -> Iterator[None]:
    """By SIGPROF or by SIGTRAP with an empty handler; or without signals (empty_handler.c)."""
    floor.begin(PERIOD_NS, kind)
    yield
    floor.end()


@contextlib.contextmanager
def sampled_and_clock_read() -> Iterator[None]:
    with sampled(engine=5), by_callback(callbacks.clock):
        yield


SIDES: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "off": contextlib.nullcontext,  # engines: src/sampler/sampler.h
    "sigtrap": partial(sampled, engine=5),
    "sigtrap, empty handler": partial(events, 1),
    "interrupts": partial(events, 2),
    "no kernel": partial(sampled, engine=5, kernel_frames=-1),
    "perf_event": partial(sampled, engine=1),
    "perf_event, empty handler": partial(events, 0),
    "timer": partial(sampled, engine=2),
    "hybrid": partial(sampled, engine=5, exact=True),
    "clock only": sampled_and_clock_read,
    "off, 64 threads": contextlib.nullcontext,
    "sigtrap, 64 threads": partial(sampled, engine=5),
    "sigtrap, empty handler, 64 threads": partial(events, 1),
    "interrupts, 64 threads": partial(events, 2),
    "perf_event, 64 threads": partial(sampled, engine=1),
    "perf_event, empty handler, 64 threads": partial(events, 0),
    "timer, 64 threads": partial(sampled, engine=2),
}


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
    alive = threads_alive(N_THREADS if "threads" in side else 0)
    with alive, contextlib.redirect_stdout(None), SIDES[side]():
        train(1, 1, 96, 1)  # the interpreter instruments each function when it first runs
        wall, cpu = time.monotonic(), time.process_time()
        train(1, STEPS, 96, 1)
        return [time.process_time() - cpu, time.monotonic() - wall]


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
