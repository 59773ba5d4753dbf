"""A program that runs until it is asked to end, and knows what it did when.

python runs_on.py FOLDER [fork]

Each turn of `turn` notes its time; the file `end` in FOLDER ends it, `snapshot` lets it ask for
one.  Its last line has, as JSON, the times (CLOCK_MONOTONIC, in nanoseconds) and what it has noted.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pyhybrid


def turn(times):
    times.append(time.monotonic_ns())
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass


def child(folder):
    times = []
    while not (folder / "end").exists():
        turn(times)
        time.sleep(0.005)
    (folder / "child").write_text(json.dumps(times))


def main(folder, forks):
    times, noted = [], {}
    pid = os.fork() if forks else 0
    if forks and not pid:
        child(folder)
        os._exit(0)
    other = threading.Thread(target=child, args=(folder,), name="other")
    if not forks:
        other.start()
    print(os.getpid(), flush=True)
    while not (folder / "end").exists():
        with pyhybrid.region("a turn"):
            turn(times)
        if "snapshot" not in noted and (folder / "snapshot").exists():
            noted["snapshot"] = pyhybrid.snapshot()
            (folder / "has snapshot").touch()
        time.sleep(0.005)
    if forks:
        os.waitpid(pid, 0)
    else:
        other.join()
    print(json.dumps({"times": times, "threads": threading.active_count(), **noted}))


main(Path(sys.argv[1]), sys.argv[2:] == ["fork"])
