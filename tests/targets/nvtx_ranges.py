"""Ranges by the package nvtx: with and without domains, in generators' and other threads' turns."""

import threading

import nvtx


@nvtx.annotate("decorated", color="red")
def decorated():
    inner()


def inner():
    pass


def work():
    for _ in range(5):
        with nvtx.annotate("block", domain="mine"):
            decorated()
    nvtx.push_range("pushed")
    inner()
    nvtx.pop_range()
    nvtx.end_range(nvtx.start_range("of the process"))  # on no thread: no frame
    nvtx.mark("a moment")


work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
