"""A program to attach to: its main thread works, sleeps or waits in some way until a file is there.

attached.py MODE FOLDER: prints its number, and as it ends what it finds of itself, as JSON.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import time

mode, folder = sys.argv[1:]


def inner(i):
    return i * i % 7


def work():
    return sum(inner(i) for i in range(500))


def goes_on():
    return not os.path.exists(os.path.join(folder, "end"))


def until_end():
    while goes_on():
        work()
        time.sleep(0.001)


def facts():
    return {
        "tools": [sys.monitoring.get_tool(number) for number in range(6)],
        "path": sys.path,
        "threads": sorted(each.name for each in threading.enumerate()),
        "trace": sys.gettrace() is None,
        "handlers": {n: repr(signal.getsignal(n)) for n in sorted(signal.valid_signals())},
    }


def hang():
    ctypes.PyDLL(None).pause()


def in_loop():
    while goes_on():
        work()


def in_c():
    while goes_on():
        ctypes.CDLL(None).usleep(200_000)


def in_sleep():
    while goes_on():
        time.sleep(0.2)


async def in_epoll():
    print(os.getpid(), flush=True)  # now: the loop's files are open
    while goes_on():
        await asyncio.sleep(0.05)
        work()


threads = [threading.Thread(target=until_end, name="worker") for _ in range(2)]
if mode in ("c", "sleep", "epoll", "join", "hang"):
    for each in threads:
        each.daemon = mode == "hang"
        each.start()
before = facts()
if mode != "epoll":
    print(os.getpid(), flush=True)
match mode:
    case "loop":
        in_loop()
    case "c":
        in_c()
    case "sleep":
        in_sleep()
    case "alone":
        in_sleep()
    case "epoll":
        asyncio.run(in_epoll())
    case "hang":
        hang()
    case "join":
        for each in threads:
            each.join()
after = facts()
print(json.dumps([before, after]))
