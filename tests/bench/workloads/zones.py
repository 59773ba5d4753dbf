"""Nanoseconds a call, in all: bare, counted, and told to Tracy as well, with a capture connected.

python zones.py ROUNDS LIBRARY: prints a list of rounds, {side: ns}.
"""

import json
import sys

from best_call import best_ns

from pyhybrid import Profiler


def round_of(library):
    sides = {"bare": best_ns()}
    for side, emit in (("counted", ()), ("zones", (f"tracy:{library}",))):
        with Profiler(mode="trace", emit=emit) as p:
            sides[side] = best_ns()
        p.profile.close()
    return sides


print(json.dumps([round_of(sys.argv[2]) for _ in range(int(sys.argv[1]))]))
