"""Decorators, caches, partial functions, context managers, properties."""

import contextlib
import functools


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
def plain(x):
    return x


@functools.lru_cache
def cached(n):
    return n if n < 2 else cached(n - 1) + cached(n - 2)


@contextlib.contextmanager
def opened(x):
    yield x


class Point:
    def __init__(self, x):
        self._x = x

    @property
    def x(self):
        return self._x

    @functools.cached_property
    def slow(self):
        return plain(self._x)

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def origin():
        return Point(0)


for i in range(30):
    plain(i)
    with opened(i) as value:
        plain(value)
    p = Point.make(i)
    p.x, p.slow, p.slow
    Point.origin().x
cached(30)
list(map(functools.partial(plain), range(5)))
