"""Python calls C calls Python, three levels: one known path, walked for argv[1] seconds of CPU.

argv[2] threads walk it (default: none, the main thread does).
"""

import sys
import threading
import time

import chain


def leaf():
    total = 0
    for i in range(200):
        total += i
    chain.spin(50)
    return total


def middle():
    return chain.call_c(leaf)


def inner():
    return chain.call_b(middle)


def outer():
    return chain.call_a(inner)


def walk(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        outer()


seconds, n = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
if n:
    threads = [threading.Thread(target=walk, args=(seconds,)) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
else:
    walk(seconds)
