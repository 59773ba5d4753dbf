"""Keep N threads busy, most of the time without the GIL, for S CPU seconds each.

    python busy.py N S MB

They take the GIL, and so change places, between two pieces of MB megabytes.

Prints a JSON list of (thread id, CPU seconds), each read by the thread itself as it ends.
"""

import hashlib
import json
import sys
import threading
import time

BLOCK = bytes(int(sys.argv[3]) << 20)


def work(seconds: float, result: list[tuple[int, float]]) -> None:
    while time.thread_time() < seconds:
        hashlib.sha256(BLOCK)
    result.append((threading.get_native_id(), time.thread_time()))


result: list[tuple[int, float]] = []
n, seconds = int(sys.argv[1]), float(sys.argv[2])
threads = [threading.Thread(target=work, args=(seconds, result)) for _ in range(n)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(result))
