"""Threads with small stacks pause the profiler; names of functions are to be written out then."""

import threading
import time

import pyhybrid


def run_new_functions():
    names = {"clock": time.perf_counter}
    for i in range(20):
        exec(f"def function_{i}(until):\n    while clock() < until: pass", names)
    for i in range(20):
        names[f"function_{i}"](time.perf_counter() + 0.002)


def work():
    run_new_functions()
    pyhybrid.disable()
    pyhybrid.enable()


for kilobytes in (36, 44, 52):  # CPython wants 32
    threading.stack_size(kilobytes << 10)
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
print("done")
