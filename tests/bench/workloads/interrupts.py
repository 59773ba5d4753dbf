"""Keep two threads busy for S seconds of CPU time each, and count interrupts meanwhile.

    python interrupts.py S

Prints as JSON: CPU seconds, timer interrupts (LOC of /proc/interrupts), and those by which the
kernel calls itself (IWI: irq_work).  They are all processors', so it is run alone on the machine.
"""

import hashlib
import json
import sys
import threading
import time
from pathlib import Path

BLOCK = bytes(1 << 20)
seconds = float(sys.argv[1])


def interrupts(kind: str) -> int:
    for line in Path("/proc/interrupts").read_text().splitlines():
        name, *counts = line.split()
        if name == f"{kind}:":
            return sum(int(count) for count in counts if count.isdigit())
    return 0


def work(until: float) -> None:
    while time.thread_time() < until:
        hashlib.sha256(BLOCK)  # without the GIL


def busy(until: float) -> None:
    threads = [threading.Thread(target=work, args=(until,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def counts() -> tuple[float, int, int]:
    return time.process_time(), interrupts("LOC"), interrupts("IWI")


busy(0.3)  # the collector finds out that nothing changes
before = counts()
busy(seconds)
print(json.dumps([b - a for a, b in zip(before, counts(), strict=True)]))
