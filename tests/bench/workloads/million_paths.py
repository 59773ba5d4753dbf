"""A program of a million call paths: 400 functions call one another on random ones, 12 deep."""

import random

FUNCTIONS, DEPTH, PATHS = 400, 12, 1_000_000
NEW = DEPTH - 1.5  # paths of a round, about: that of its first call is known, mostly its second


def make(number):
    def function(path, depth):
        if depth < len(path):
            CALLED[path[depth]](path, depth + 1)

    name = f"f{number}"
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function


CALLED = [make(i) for i in range(FUNCTIONS)]

choose = random.Random(1).randrange
for _ in range(round(PATHS / NEW)):
    path = [choose(FUNCTIONS) for _ in range(DEPTH)]
    CALLED[path[0]](path, 1)
