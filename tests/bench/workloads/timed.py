"""Run another script as the main program and print, as its last line, what it took.

python timed.py SCRIPT ARG...
"""

import json
import runpy
import sys
import time

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
ended = {"cpu_s": time.process_time(), "end": time.monotonic(), "end_date": time.time()}
print(json.dumps(ended), flush=True)
