"""Nanoseconds of a call that a PerfStubs tool hears of, and of a region of native code.

python timers.py ROUNDS TOOL LOOP: prints a list of rounds, {side: ns}.
"""

import ctypes
import json
import sys

from best_call import LOOPS, N, best_ns

import pyhybrid
from pyhybrid import Profiler

api = ctypes.CDLL(pyhybrid.get_library())
api.pyhybrid_region_named.restype = ctypes.c_void_p
region = ctypes.c_void_p(api.pyhybrid_region_named(b"timed"))
held, released = ctypes.PyDLL(sys.argv[3]).loop, ctypes.CDLL(sys.argv[3]).loop
held.restype = released.restype = ctypes.c_double


def region_ns(loop):
    calls = api.pyhybrid_region_push, api.pyhybrid_region_pop
    return min(loop(*calls, region, N) for _ in range(LOOPS))


def round_of():
    sides = {"region, no profiler": region_ns(held)}
    with Profiler(mode="trace") as p:
        sides["counted"] = best_ns()
        sides["region"] = region_ns(held)
        sides["region, without the GIL"] = region_ns(released)
    p.profile.close()
    with Profiler(mode="trace", emit=[f"perfstubs:{sys.argv[2]}"]) as p:
        sides["told"] = best_ns()
    p.profile.close()
    return sides


print(json.dumps([round_of() for _ in range(int(sys.argv[1]))]))
