"""Generators: finished, closed early, thrown into, delegating, driven from C."""

import itertools


def numbers(n):
    for i in range(n):
        yield i


def delegating(n):
    yield from numbers(n)
    return (yield from doubled(n))


def doubled(n):
    for i in numbers(n):
        yield 2 * i


def forgiving():
    while True:
        try:
            yield
        except KeyError:
            yield "forgiven"


def guarded():
    try:
        yield 1
        yield 2
    finally:
        numbers(1)


list(delegating(50))
sum(doubled(30))
max(itertools.islice(numbers(1000), 20))
g = forgiving()
next(g)
g.throw(KeyError)
g.close()
guarded().close()
h = guarded()
next(h)
h.close()
u = numbers(3)
try:
    u.throw(ValueError)
except ValueError:
    pass
dict(zip(numbers(10), doubled(10)))
first, *rest = delegating(5)
