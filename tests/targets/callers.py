"""Functions that call others from several lines, which names in the lines tell: in recursion,
generators, coroutines, from C, in a region and in a thread.

`two` spends three quarters of its time below one line.  argv: seconds of CPU time.
"""

import asyncio
import sys
import threading
import time
from functools import reduce

from pyhybrid import region


def work(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


def two(n):
    work(3 * n)
    work(n)


def down(depth, n):
    if not depth:
        return work(n)
    left = down(depth - 1, n)
    work(n)
    return left + down(depth - 1, n)


def inner(n):
    for _ in range(3):
        yield work(n)


def outer(n):
    work(n)
    yield from inner(n)


def consume(n):
    for _ in outer(n):
        work(n)


async def step(n):
    await asyncio.sleep(0)
    return work(n)


async def steps(n):
    await step(n)
    work(n)
    return await asyncio.gather(step(n), step(n))


def from_c(n):
    list(map(work, [n, n]))
    return reduce(lambda_like, [n, n, n])


def lambda_like(a, b):
    work(a)
    return b


def in_region(n):
    with region("epoch"):
        work(n)
        two(n)


def everything(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        two(3000)
        down(5, 300)
        consume(1000)
        asyncio.run(steps(1000))
        from_c(1000)
        in_region(1000)


thread = threading.Thread(target=everything, args=(float(sys.argv[1]) / 3,))
thread.start()
everything(float(sys.argv[1]))
thread.join()
