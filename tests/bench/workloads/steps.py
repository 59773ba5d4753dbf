"""The same steps of examples/train.py again and again in one process, with and without samples.

python steps.py ROUNDS HZ LIBRARY: its last line is a list of rounds, {side: [CPU s, wall s]}.
The order of the sides rotates.  One process has one layout of memory and one set of threads: rounds
differ far less than whole runs do.

LIBRARY is empty_handler.c; the module `callbacks` is callbacks.c.  figures/steps.py builds them.
"""

import contextlib
import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import callbacks
from monitored import by_callback
from sides import (
    INTERRUPTS,
    N_THREADS,
    PERF_EVENT,
    PERF_EVENT_EMPTY,
    SIGTRAP,
    SIGTRAP_EMPTY,
    TIMER,
    sampled,
    threads_alive,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"
STEPS = 12

rounds = int(sys.argv[1])
train = runpy.run_path(str(EXAMPLE))["train"]


@contextlib.contextmanager
def sampled_and_clock_read() -> Iterator[None]:
    with sampled(engine=5), by_callback(callbacks.clock):
        yield


SIDES: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "off": contextlib.nullcontext,
    "sigtrap": SIGTRAP,
    "sigtrap, empty handler": SIGTRAP_EMPTY,
    "interrupts": INTERRUPTS,
    "no kernel": partial(sampled, engine=5, kernel_frames=-1),
    "perf_event": PERF_EVENT,
    "perf_event, empty handler": PERF_EVENT_EMPTY,
    "timer": TIMER,
    "hybrid": partial(sampled, engine=5, exact=True),
    "clock only": sampled_and_clock_read,
    "off, 64 threads": contextlib.nullcontext,
    "sigtrap, 64 threads": SIGTRAP,
    "sigtrap, empty handler, 64 threads": SIGTRAP_EMPTY,
    "interrupts, 64 threads": INTERRUPTS,
    "perf_event, 64 threads": PERF_EVENT,
    "perf_event, empty handler, 64 threads": PERF_EVENT_EMPTY,
    "timer, 64 threads": TIMER,
}


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
