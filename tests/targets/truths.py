"""Programs whose calls and times are known: each writes what is true as its last line, as JSON.

python truths.py NAME
"""

import asyncio
import gc
import json
import sys
import threading
import time


def busy(seconds):
    """Run for so much of the thread's CPU time, and return how long it took by the clock."""
    started = time.perf_counter()
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return time.perf_counter() - started


def ready_ns():
    """For how long this thread ran or waited for a processor (Linux: sched-stats.rst)."""
    with open("/proc/thread-self/schedstat") as file:
        ran, waited, _ = file.read().split()
    return int(ran) + int(waited)


def threads():
    def work():
        started = time.perf_counter()
        inside.append(busy(0.5))
        outside.append(time.perf_counter() - started)

    inside, outside = [], []
    all_threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return {"inside": sum(inside), "outside": sum(outside)}


async def pause():
    await asyncio.sleep(0.05)


async def task():
    for _ in range(3):
        await pause()
        busy(0.002)


async def tasks():
    await asyncio.gather(*[task() for _ in range(4)])


def coroutines():
    started, ready = time.perf_counter(), ready_ns()
    asyncio.run(tasks())
    inside = time.perf_counter() - started
    return {"inside": inside, "ready": (ready_ns() - ready) / 1e9}


def suspended():
    """A generator that is suspended for long, resumed by different functions."""

    def generator():
        try:
            for _ in range(5):
                busy(0.01)
                yield
        finally:
            pass  # without it 3.13 has nothing to run when it is closed

    def first(g):
        next(g)

    def second(g):
        next(g)

    ready = ready_ns()
    g = generator()
    first(g)
    time.sleep(0.3)
    second(g)
    second(g)
    g.close()
    return {"ready": (ready_ns() - ready) / 1e9}


def thrown():
    """`throw` and `close` through chains of generators and coroutines."""

    def inner():
        try:
            yield 1
        except KeyError:
            yield 2
        yield 3

    def middle():
        yield from inner()

    def outer():
        yield from middle()

    for _ in range(100):
        g = outer()
        next(g)
        g.throw(KeyError)
        next(g)
        after()
        g.close()
        h = outer()
        next(h)
        h.close()
        after()
    return {}


def after():
    pass


async def numbers(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0)


async def consumer():
    total = 0
    async for i in numbers(10):
        total += i
    g = numbers(10)
    await g.__anext__()
    await g.aclose()
    return total


async def cancelled():
    async def waits():
        try:
            await asyncio.sleep(60)
        finally:
            after()

    job = asyncio.create_task(waits())
    await asyncio.sleep(0)
    job.cancel()
    try:
        await job
    except asyncio.CancelledError:
        after()


def asynchronous():
    async def main():
        await consumer()
        await cancelled()

    asyncio.run(main())
    return {}


class Noisy:
    def __init__(self):
        self.me = self

    def __del__(self):
        finalized()


def finalized():
    pass


def finalizers():
    """`__del__`, called by the garbage collector at any place."""
    for _ in range(2000):
        Noisy()
    gc.collect()
    return {}


def recursion():
    def down(n):
        return down(n - 1) if n else busy(0.2)

    started = time.perf_counter()
    inside = down(200)
    return {"inside": inside, "outside": time.perf_counter() - started}


def raising():
    def fails(n):
        if n == 0:
            raise ValueError
        fails(n - 1)

    for _ in range(50):
        try:
            fails(9)
        except ValueError:
            after()
    return {}


def storm():
    """Threads that live for a moment."""

    def brief():
        after()

    for _ in range(200):
        thread = threading.Thread(target=brief)
        thread.start()
        thread.join()
    return {}


def measured(run):
    """What is true of it, and how long it took from outside."""
    started = time.perf_counter()
    true = run()
    return {"outside": time.perf_counter() - started, **true}


print(json.dumps(measured(globals()[sys.argv[1]])))
