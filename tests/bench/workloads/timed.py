"""Run another script as the main program and print, as its last line, what it took.

python timed.py SCRIPT ARG...

`collector_s`: the CPU time of pyhybrid's own thread; 0: there is none.
"""

import json
import runpy
import sys
import time
from pathlib import Path


def cpu_s_of_threads(name: str) -> float:
    tasks = Path("/proc/self/task").iterdir()
    named = [task for task in tasks if (task / "comm").read_text() == f"{name}\n"]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in named) / 1e9


sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
ended = {"cpu_s": time.process_time(), "end": time.monotonic(), "end_date": time.time()}
ended["collector_s"] = cpu_s_of_threads("pyhybrid")
print(json.dumps(ended), flush=True)
