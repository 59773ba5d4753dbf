"""Nanoseconds a call, of different kinds: prints JSON.

python called.py [cprofile]     the second word: under cProfile
"""

import asyncio
import json
import sys
import time

from pyhybrid import region

N = 200_000


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
    "fib": (lambda: fib(23), 92735),
    "sorted": (lambda: sorted(items, key=key), N),
    "map": (lambda: list(map(key, items)), N),
    "generator": (lambda: sum(numbers(N)), N),
    "region": (regions, N),
    "exception": (exceptions, N),
    "await": (lambda: asyncio.run(tasks(100, 200)), 20_000),
    "lone await": (lambda: asyncio.run(awaits(10_000)), 10_000),
}


def measured():
    """The best of nine loops of each kind: in turn, so that no slow second has all of one."""
    times = dict.fromkeys(kinds, float("inf"))
    for _ in range(9):
        for name, (function, calls) in kinds.items():
            started = time.perf_counter()
            function()
            times[name] = min(times[name], (time.perf_counter() - started) / calls * 1e9)
    return times


if sys.argv[1:] == ["cprofile"]:
    import cProfile

    cProfile.Profile(builtins=False).enable()
print(json.dumps(measured()))
