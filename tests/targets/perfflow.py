"""Functions that PerfFlowAspect's decorator traces; with an argument they are plain ones."""

import contextlib
import sys
import threading
import time

if len(sys.argv) == 1:
    from perfflowaspect.aspect import critical_path

    traced = critical_path(pointcut="around")
else:

    def traced(function):
        return function


@traced
def bas():
    return sum(range(20_000))


@traced
def bar():
    bas()
    time.sleep(0.001)


class Foo:
    @traced
    def foo(self):
        for _ in range(3):
            bar()


@traced
def bad():
    bas()
    raise ValueError


def main():
    Foo().foo()
    thread = threading.Thread(target=bar)
    thread.start()
    thread.join()
    with contextlib.suppress(ValueError):
        bad()


main()
