"""What steps.py and two_threads.py compare: a piece of work with and without samples."""

import contextlib
import ctypes
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyhybrid import _native

N_THREADS = 64  # alive beside those that compute, where a side says so

hz = int(sys.argv[2])
PERIOD_NS = 1_000_000_000 // hz
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


Sides = Mapping[str, Callable[[], contextlib.AbstractContextManager[None]]]
SIDES: Sides = {  # engines: src/sampler/sampler.h
    "off": contextlib.nullcontext,
    "sigtrap": partial(sampled, engine=5),
    "sigtrap, empty handler": partial(events, 1),
    "interrupts": partial(events, 2),
    "perf_event": partial(sampled, engine=1),
    "perf_event, empty handler": partial(events, 0),
    "timer": partial(sampled, engine=2),
}
WITH_THREADS: Sides = {f"{side}, {N_THREADS} threads": each for side, each in SIDES.items()}


@contextlib.contextmanager
def threads_alive(n: int = N_THREADS) -> Iterator[None]:
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


def took(work: Callable[[], object]) -> list[float]:
    """CPU and wall time, seconds, to the microsecond."""
    wall, cpu = time.monotonic(), time.process_time()
    work()
    return [round(time.process_time() - cpu, 6), round(time.monotonic() - wall, 6)]


def in_turn(
    sides: Sides, number: int, take: Callable[[str], list[float]]
) -> dict[str, list[float]]:
    """take(side) for each; each `number` another one goes first."""
    names = list(sides)
    first = number % len(names)
    taken = {name: take(name) for name in names[first:] + names[:first]}
    return {name: taken[name] for name in names}


def beside(sides: Sides, number: int, take: Callable[[str], list[float]]) -> dict[str, list[float]]:
    """The same, each between two pieces of the first side, "off"; `NAME, off` is their mean.

    "off" itself is among those that are taken so: it tells what else makes ratios differ from 1.
    """
    off = next(iter(sides))
    before = take(off)
    bases = {}

    def take_one(side: str) -> list[float]:
        nonlocal before
        taken, after = take(side), take(off)
        bases[f"{side}, off"] = [round((b + a) / 2, 6) for b, a in zip(before, after, strict=True)]
        before = after
        return taken

    return {**in_turn(sides, number, take_one), **bases}
