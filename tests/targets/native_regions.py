"""Regions of native code: where they stand, how often, with what below them.

argv: how much of its usual time each takes (1).
"""

import contextlib
import functools
import sys
import threading
import time

import native_regions as native

SCALE = float(sys.argv[1]) if sys.argv[1:] else 1.0


def burn(seconds):
    end = time.thread_time() + seconds * SCALE
    while time.thread_time() < end:
        pass


def leaf(seconds=0.02):
    burn(seconds)


def nested():
    native.inside("outer", lambda: native.inside("inner", leaf))


def range_push(name):  # as the wrappers of NVTX and ITT
    native.push(name)


def range_pop(name):
    native.pop(name)


@contextlib.contextmanager
def annotated(name):
    range_push(name)
    try:
        yield
    finally:
        range_pop(name)


def wrapped():
    for _ in range(5):
        range_push("wrapped")
        leaf()
        range_pop("wrapped")


def managed():
    for _ in range(3):
        with annotated("managed"):
            leaf()


def left_open():
    """Popping the outer one ends the inner one, too; another pop matches nothing."""
    native.push("left outer")
    native.push("left inner")
    native.pop("left outer")
    native.pop("left inner")
    burn(0.1)


def released():
    native.without_gil("released", "many", 1000, 0.05 * SCALE)


def threads():
    native.in_threads("unseen", "often", 10_000, 0.1 * SCALE, 4)


def visits():
    native.inside_thread("visited", functools.partial(leaf, 0.2))  # until its clock is set


def python_threads():
    started = [threading.Thread(target=released, name=f"t{i}") for i in range(3)]
    for each in started:
        each.start()
    for each in started:
        each.join()


def raising():
    with contextlib.suppress(ZeroDivisionError):
        native.inside("raising", lambda: 1 / 0)


def main():
    nested()
    wrapped()
    managed()
    left_open()
    released()
    threads()
    visits()
    python_threads()
    raising()


main()
