"""Threads with small stacks pause the profiler; names of functions are to be written out then."""

import sys
import threading
import time

import pyhybrid


def new_functions():
    """On the main thread: what compiles needs a stack of its own."""
    names = {"clock": time.perf_counter}
    for i in range(20):
        exec(f"def function_{i}(until):\n    while clock() < until: pass", names)
    return [names[f"function_{i}"] for i in range(20)]


def work(functions):
    for function in functions:
        function(time.perf_counter() + 0.002)
    pyhybrid.disable()
    pyhybrid.enable()


def sizes():
    """In kilobytes.

    CPython wants 32, from 3.14 on 52, of which it leaves most to C code; its JIT's optimizer has a
    frame of 92 (3.14.10), and without pyhybrid, too, dies on 80.
    """
    if sys.version_info < (3, 14):
        return 36, 44, 52
    return (80 if not sys._jit.is_enabled() else 192,)


for kilobytes in sizes():
    threading.stack_size(kilobytes << 10)
    for _ in range(3):
        thread = threading.Thread(target=work, args=(new_functions(),))
        thread.start()
        thread.join()
print("done")
