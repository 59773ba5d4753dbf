"""Generators that are resumed and yield all the time: consumes > outer > middle > inner.

argv: seconds of CPU time.
"""

import sys
import time


def inner(n):
    yield from range(n)


def middle(n):
    yield from inner(n)


def outer(n):
    for i in middle(n):
        yield i + 1


def consumes():
    for _ in outer(5):
        pass


def produces():
    end = time.thread_time() + float(sys.argv[1])
    while time.thread_time() < end:
        for _ in range(200):
            consumes()


produces()
