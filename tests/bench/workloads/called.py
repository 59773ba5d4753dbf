"""Nanoseconds a call, of different kinds, bare and under each profiler, in turn in one process.

python called.py ROUNDS FIRST: prints a list of rounds, {side: {kind: ns}}; the order of the sides
rotates, from the side of number FIRST.  A slow second of the machine falls on both sides of a
comparison in one process; between processes it does not.

The module `callbacks` is workloads/callbacks.c, built by figures/calls.py.
"""

import asyncio
import contextlib
import cProfile
import json
import sys
import tempfile
import time

import callbacks
from monitored import by_callback

from pyhybrid import Profiler, region

N = 20_000  # a loop takes a few ms: a busy machine has such gaps, too
LOOPS = 30


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def key(x):
    return x


def numbers(n):
    for _ in range(n):
        yield 1


async def nothing():
    await asyncio.sleep(0)


async def awaits(n):
    for _ in range(n):
        await nothing()


async def tasks(n, each):
    await asyncio.gather(*(awaits(each) for _ in range(n)))


def regions():
    for _ in range(N):
        with region("part"):
            pass


def raises():
    raise KeyError


def exceptions():
    caught = 0
    for _ in range(N):
        try:
            raises()
        except KeyError:
            caught += 1


items = list(range(N))
kinds = {
    "fib": (lambda: fib(22), 57313),
    "sorted": (lambda: sorted(items, key=key), N),
    "map": (lambda: list(map(key, items)), N),
    "generator": (lambda: sum(numbers(N)), N),
    "region": (regions, N),
    "exception": (exceptions, N),
    "await": (lambda: asyncio.run(tasks(100, 200)), 20_000),
    "lone await": (lambda: asyncio.run(awaits(10_000)), 10_000),
}


def best():
    """ns a call: the best of many loops of each kind, in turn: no slow moment has all of one.

    In the first one the interpreter instruments the functions, or takes that back."""
    times = dict.fromkeys(kinds, float("inf"))
    for _ in range(LOOPS):
        for name, (function, calls) in kinds.items():
            started = time.perf_counter()
            function()
            times[name] = min(times[name], (time.perf_counter() - started) / calls * 1e9)
    return times


def profiler(folder, **options):
    return Profiler(output=f"{folder}/out", formats=["folded"], **options)


@contextlib.contextmanager
def by_cprofile():
    profile = cProfile.Profile()
    profile.enable(builtins=False)  # 3.14 forgets what its constructor was told
    yield
    profile.disable()


def take(side, folder):
    with SIDES[side](folder):
        return best()


SIDES = {
    "bare": lambda folder: contextlib.nullcontext(),
    "trace": lambda folder: profiler(folder, mode="trace"),
    "hybrid": lambda folder: profiler(folder, mode="hybrid"),
    "not selected": lambda folder: profiler(folder, mode="trace", functions=["absent"]),
    "events": lambda folder: profiler(folder, mode="trace", events=1.0),
    "cProfile": lambda folder: by_cprofile(),
    "empty callbacks": lambda folder: by_callback(callbacks.nothing),
    "clock only": lambda folder: by_callback(callbacks.clock),
}

sides = list(SIDES)
result = []
with tempfile.TemporaryDirectory() as folder:
    for number in range(int(sys.argv[1])):
        first = (int(sys.argv[2]) + number) % len(sides)
        taken = {side: take(side, folder) for side in sides[first:] + sides[:first]}
        result.append({side: taken[side] for side in sides})
print(json.dumps(result))
