"""What a call of a Python function takes: the thread's CPU time, of short loops the best, since
other threads and programs want a processor, too."""

import time

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
