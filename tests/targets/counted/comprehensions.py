"""Comprehensions, lambdas, and functions that C calls: sorted, map, filter, min, reduce."""

import functools


def key(x):
    return -x


def add(a, b):
    return a + b


squares = [x * x for x in range(100)]
nested = [[add(i, j) for j in range(10)] for i in range(10)]
table = {key(k): v for k, v in enumerate(squares)}
lazy = sum(key(x) for x in range(50))
sorted(squares, key=key)
list(map(key, squares))
list(filter(lambda x: x % 2, squares))
min(squares, key=lambda x: abs(x - 50))
functools.reduce(add, squares)
list(map(lambda x: sorted([x, 1], key=key), range(20)))
