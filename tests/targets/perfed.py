"""For perf's readers: names with what their formats are made of, C++, the kernel, a region.

argv[1] is the library of spinner.cpp.
"""

import ctypes
import sys
import threading
import time

import chain

import pyhybrid

spinner = ctypes.CDLL(sys.argv[1])
spinner.turns.argtypes = [ctypes.c_long]


def leaf():
    chain.spin(2000)


def in_cpp():
    spinner.turns(3_000_000)


def reads():
    with open("/dev/zero", "rb", buffering=0) as file:
        for _ in range(20):
            file.read(1 << 18)


class Odd:
    """Its method has a name with blanks, parentheses and brackets."""

    def work(self):
        chain.call_a(leaf)


Odd.work.__code__ = Odd.work.__code__.replace(co_qualname="Odd.work (of [k]) <x>; y")


def work():
    end = time.thread_time() + 0.25
    while time.thread_time() < end:
        Odd().work()
        in_cpp()
        with pyhybrid.region("an epoch (of 2)"):
            chain.call_b(leaf)
        reads()


threads = [threading.Thread(target=work, name=name) for name in ("loader 7 [1]", "x:y/z 12")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
work()
