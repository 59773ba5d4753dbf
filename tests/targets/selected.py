"""Functions that call each other through C and Python, for tests of what is traced."""

import functools
import json


def leaf(x):
    return x


def middle(x):
    return leaf(x) + sum(map(leaf, range(3)))


def outer(n):
    return [middle(i) for i in range(n)]


class Table:
    def add(self, x):
        leaf(x)
        return self.total(x)

    def total(self, x):
        return sum(self.numbers(x))

    def numbers(self, n):
        for i in range(n):
            yield leaf(i)


def fails(n):
    if n == 0:
        raise KeyError
    fails(n - 1)


def catches():
    try:
        fails(5)
    except KeyError:
        leaf(0)


outer(10)
for _ in range(10):
    Table().add(3)
    catches()
functools.reduce(lambda a, b: leaf(a + b), range(10))
json.dumps({"a": [1, 2]}, indent=1)
