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
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import callbacks
from monitored import by_callback
from sides import N_THREADS, SIDES, WITH_THREADS, Sides, in_turn, sampled, threads_alive, took

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"
STEPS = 12

rounds = int(sys.argv[1])
train = runpy.run_path(str(EXAMPLE))["train"]


@contextlib.contextmanager
def sampled_and_clock_read() -> Iterator[None]:
    with sampled(engine=5), by_callback(callbacks.clock):
        yield


ALL: Sides = {
    **SIDES,
    "no kernel": partial(sampled, engine=5, kernel_frames=-1),
    "hybrid": partial(sampled, engine=5, exact=True),
    "clock only": sampled_and_clock_read,
    **WITH_THREADS,
}


def take(side: str) -> list[float]:
    alive = threads_alive(N_THREADS if side in WITH_THREADS else 0)
    with alive, contextlib.redirect_stdout(None), ALL[side]():
        train(1, 1, 96, 1)  # the interpreter instruments each function when it first runs
        return took(lambda: train(1, STEPS, 96, 1))


take("off")
print(json.dumps([in_turn(ALL, number, take) for number in range(rounds)]), flush=True)
os._exit(0)
