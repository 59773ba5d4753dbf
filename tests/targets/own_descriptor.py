"""Has a file of its own where a descriptor of the profiler's was."""

import os
import sys
import threading
import time


def profilers():
    """The profiler's descriptor of the folder that lists the threads."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}") == f"/proc/{os.getpid()}/task":
                return int(name)
        except OSError:  # that of listdir itself
            continue
    raise LookupError


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def main():
    number = profilers()
    os.dup2(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    for i in range(20):
        os.write(number, b"line %d\n" % i)
        burn(0.03)
    thread = threading.Thread(target=burn, args=(0.5,), name="later")
    thread.start()
    thread.join()
    return number


if __name__ == "__main__":
    os.write(main(), b"end\n")
