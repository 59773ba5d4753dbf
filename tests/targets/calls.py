"""Many short calls of all kinds that nest Python in C in Python, for argv[1] seconds of CPU."""

import functools
import json
import re
import sys
import time


def key(x):
    return -x


def add(a, b):
    return a + b


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def numbers(n):
    for i in range(n):
        yield key(i)


def replace(match):
    return match.group().upper()


class Point:
    def __init__(self, x):
        self.x = x

    def __lt__(self, other):
        return self.x < other.x

    @property
    def double(self):
        return add(self.x, self.x)


def by_sorted():
    sorted(range(20), key=key)


def by_comparison():
    sorted(Point(i % 7) for i in range(20))


def by_map():
    list(map(add, range(20), range(20)))


def by_reduce():
    functools.reduce(add, range(20))


def by_sum():
    sum(numbers(20))


def by_regex():
    re.sub("[a-f]+", replace, "abcdefghijabcxyz")


def by_property():
    return Point(3).double


def by_json():
    json.loads('{"a": [1, 2, {"b": 3}]}', object_hook=dict)


def by_exec():
    exec("add(1, 2)", globals())


def by_recursion():
    fib(9)


def deep(n):
    """Through the C stack, n levels."""
    if n:
        list(map(deep, [n - 1]))


def by_depth():
    deep(40)


def main(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for f in KINDS:
            f()


KINDS = [v for k, v in list(globals().items()) if k.startswith("by_")]
main(float(sys.argv[1]))
