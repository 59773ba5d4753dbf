"""Nanoseconds a call, in all: bare, counted, and told to Tracy as well, with a capture connected.

python zones.py ROUNDS LIBRARY: prints a list of rounds, {side: ns}.  Times are the thread's CPU
time, of short loops the best: the client's threads and the capture want a processor, too.
"""

import json
import sys
import time

from pyhybrid import Profiler

N = 2000
LOOPS = 40


def called(x):
    return x


def loop_ns():
    began = time.thread_time_ns()
    for _ in range(N):
        called(1)
    return (time.thread_time_ns() - began) / N


def best_ns():
    return min(loop_ns() for _ in range(LOOPS))


def round_of(library):
    sides = {"bare": best_ns()}
    for side, emit in (("counted", ()), ("zones", (f"tracy:{library}",))):
        with Profiler(mode="trace", emit=emit) as p:
            sides[side] = best_ns()
        p.profile.close()
    return sides


print(json.dumps([round_of(sys.argv[2]) for _ in range(int(sys.argv[1]))]))
