"""Turns of random length on known paths, for argv[1] s of CPU; argv[2] seeds them.

The last line says as JSON what CPU time each path took, in ns, by the threads' own clocks.
argv[3] is the library of parallel.c.
"""

import ctypes
import json
import random
import sys
import time

import chain

parallel = ctypes.CDLL(sys.argv[3])
parallel.region.restype = ctypes.c_long


def in_python(us):
    end = time.thread_time_ns() + us * 1000
    while time.thread_time_ns() < end:
        pass


def in_c(us):
    chain.spin(us)


def nested(us):
    def outer():
        chain.call_b(inner)

    def inner():
        chain.spin(us)

    chain.call_a(outer)


def in_threads(us):
    return parallel.region(ctypes.c_long(us))


rng = random.Random(int(sys.argv[2]))
taken = dict.fromkeys(["in_python", "in_c", "nested", "in_threads"], 0)
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    (function,) = rng.choices([in_python, in_c, nested, in_threads], [4, 2, 3, 1])
    us = round(rng.expovariate(1 / 3000))
    began = time.thread_time_ns()
    of_threads = function(us)
    taken[function.__name__] += of_threads or time.thread_time_ns() - began
print(json.dumps(taken))
