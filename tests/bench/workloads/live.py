"""Nanoseconds of CPU time a call without and with live outputs, in turn in one process.

python live.py ROUNDS: prints a list of rounds, {side: ns}; the order of the sides rotates.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pyhybrid

LOOPS = 30
LIBRARY = os.path.join(os.path.dirname(pyhybrid.__file__), "libpyhybrid_usdt.so")
SCRIPT = (
    f"usdt:{LIBRARY}:pyhybrid:PY_START {{ @ = count(); }} "
    'interval:ms:5 /!@attached/ { @attached = 1; printf("attached\\n"); }'
)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def best(loops=LOOPS):
    """CPU ns a call of fib, the best of many loops."""
    fastest = float("inf")
    for _ in range(loops):
        started = time.thread_time()
        fib(22)
        fastest = min(fastest, time.thread_time() - started)
    return fastest / 57313 * 1e9


def usdt(mode="none"):
    options = {} if mode == "none" else {"output": "out", "formats": ["folded"]}
    return pyhybrid.Profiler(mode=mode, emit=["usdt"], **options)


def semaphores(*names):
    """Of these probes, in this process."""
    notes = subprocess.run(["readelf", "-n", LIBRARY], capture_output=True, text=True, check=True)
    with open("/proc/self/maps") as maps:
        base = next(int(m.partition("-")[0], 16) for m in maps if m.endswith(LIBRARY + "\n"))
    for name in names:
        found = re.search(rf"Name: {name}\n.*Semaphore: (\w+)", notes.stdout)
        yield ctypes.c_uint16.from_address(base + int(found[1], 16))


def are_on(wanted):
    """When the events are as they are wanted."""
    monitoring = sys.monitoring
    while any(monitoring.get_events(i) for i in range(6) if monitoring.get_tool(i)) != wanted:
        time.sleep(0.001)


@contextlib.contextmanager
def wanted(*names):
    with usdt():
        raised = list(semaphores(*names))
        for semaphore in raised:
            semaphore.value += 1
        are_on(True)
        yield
        for semaphore in raised:
            semaphore.value -= 1
        are_on(False)


@contextlib.contextmanager
def counted():
    command = ["bpftrace", "-p", str(os.getpid()), "-e", SCRIPT]
    pipe = subprocess.PIPE
    with usdt(), subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL) as tracer:
        while b"attached" not in tracer.stdout.readline():
            pass
        are_on(True)
        yield
        tracer.kill()
        are_on(False)


SIDES = {
    "bare": contextlib.nullcontext,
    "trace": lambda: pyhybrid.Profiler(mode="trace", output="out", formats=["folded"]),
    "trace and usdt": lambda: usdt("trace"),
    "usdt": usdt,
    "print": lambda: pyhybrid.Profiler(mode="none", emit=["print:calls.txt"]),
    "usdt, begins": lambda: wanted("PY_START"),
    "usdt, begins and ends": lambda: wanted("PY_START", "PY_RETURN"),
}
if os.geteuid() == 0 and shutil.which("bpftrace"):
    SIDES["usdt, counted"] = counted


def take(side):
    with SIDES[side]():
        return best()


sides = list(SIDES)
result = []
for number in range(int(sys.argv[1])):
    first = number % len(sides)
    taken = {side: take(side) for side in sides[first:] + sides[:first]}
    result.append({side: taken[side] for side in sides})
print(json.dumps(result))
