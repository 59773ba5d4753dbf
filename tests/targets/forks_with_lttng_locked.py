"""Forks while another thread holds LTTng's locks, as LTTng's own do for moments; the child ends."""

import ctypes
import os
import signal
import sys
import threading

ust = ctypes.CDLL("liblttng-ust.so.1")
is_held = threading.Event()
is_forked = threading.Event()


def hold():
    signals = ctypes.create_string_buffer(128)
    ust.lttng_ust_before_fork(signals)
    is_held.set()
    is_forked.wait()
    ust.lttng_ust_after_fork_parent(signals)


def main():
    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    is_forked.set()
    holder.join()
    print("the child ended with", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
