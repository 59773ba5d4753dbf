"""Named regions: nested, in coroutines, in generators, in threads, across calls through C.

Prints how long coroutines worked, by wall-clock time: JSON, seconds by region.
argv: how much of its usual time each takes (1).
"""

import asyncio
import json
import sys
import threading
import time

from pyhybrid import region

SCALE = float(sys.argv[1]) if sys.argv[1:] else 1.0
worked = {}


def burn(seconds):
    end = time.thread_time() + seconds * SCALE
    while time.thread_time() < end:
        pass


def works(name, seconds):
    began = time.perf_counter()
    burn(seconds)
    worked[name] = worked.get(name, 0) + time.perf_counter() - began


def step(seconds):
    with region("forward", step=1):
        burn(seconds)
    with region("backward"):
        sorted([1, 2, 3], key=lambda x: burn(seconds / 3) or x)


def epochs():
    for i in range(3):
        with region("epoch", i=i), region("inner"):
            step(0.03)
    burn(0.03)


async def waits(name):
    with region(name):
        for _ in range(3):
            await asyncio.sleep(0.01)
            works(name, 0.03)


async def tasks():
    with region("tasks"):
        await asyncio.gather(*[waits(f"task {i}") for i in range(3)])
        works("tasks", 0.06)


def generator():
    with region("in generator"):
        for _ in range(3):
            burn(0.06)
            yield


def closed():
    for _ in range(5):
        g = generator()
        next(g)
        g.close()
    burn(0.3)


def raising():
    try:
        with region("raising"):
            burn(0.3)
            raise KeyError
    except KeyError:
        burn(0.01)


epochs()
asyncio.run(tasks())
for _ in generator():
    burn(0.005)
closed()
raising()
threads = [threading.Thread(target=step, args=(0.03,)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(worked))
