"""Nanoseconds of a call that a PerfStubs tool hears of, and of a region of native code.

python timers.py ROUNDS TOOL LOOP: prints a list of rounds, {side: ns}.  Times are the thread's CPU
time, of short loops the best.
"""

import ctypes
import json
import sys
import time

import pyhybrid
from pyhybrid import Profiler

N = 2000
LOOPS = 40

api = ctypes.CDLL(pyhybrid.get_library())
api.pyhybrid_region_named.restype = ctypes.c_void_p
region = ctypes.c_void_p(api.pyhybrid_region_named(b"timed"))
held, released = ctypes.PyDLL(sys.argv[3]).loop, ctypes.CDLL(sys.argv[3]).loop
held.restype = released.restype = ctypes.c_double


def called(x):
    return x


def loop_ns():
    began = time.thread_time_ns()
    for _ in range(N):
        called(1)
    return (time.thread_time_ns() - began) / N


def call_ns():
    return min(loop_ns() for _ in range(LOOPS))


def region_ns(loop):
    calls = api.pyhybrid_region_push, api.pyhybrid_region_pop
    return min(loop(*calls, region, N) for _ in range(LOOPS))


def round_of():
    sides = {"region, no profiler": region_ns(held)}
    with Profiler(mode="trace") as p:
        sides["counted"] = call_ns()
        sides["region"] = region_ns(held)
        sides["region, without the GIL"] = region_ns(released)
    p.profile.close()
    with Profiler(mode="trace", emit=[f"perfstubs:{sys.argv[2]}"]) as p:
        sides["told"] = call_ns()
    p.profile.close()
    return sides


print(json.dumps([round_of() for _ in range(int(sys.argv[1]))]))
