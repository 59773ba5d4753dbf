"""Ever new paths: functions that call each other at random.  Prints how many calls there were."""

import random
import sys

rng = random.Random(1)
calls = 0


def descend(depth):
    global calls
    calls += 1
    if depth:
        for _ in range(2):
            rng.choice(WAYS)(depth - 1)


def a(depth):
    descend(depth)


def b(depth):
    list(map(descend, [depth]))


def c(depth):
    for _ in turn(depth):
        pass


def turn(depth):
    descend(depth)
    yield


WAYS = [a, b, c]
descend(int(sys.argv[1]))
print(calls)
