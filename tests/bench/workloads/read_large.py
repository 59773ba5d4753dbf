"""Read one large input; prints the CPU time that it took, in seconds.

python read_large.py finish|read|jit FILE
"""

import gc
import sys
import time
from pathlib import Path

from pyhybrid.finish.finish import finish
from pyhybrid.spool import reader
from pyhybrid.symbols.jit import JitFunctions


def jit(path: str) -> None:
    functions = JitFunctions()
    functions.add_perf_map(Path(path).read_bytes())
    functions.resolve(1)  # makes the table


work = {"finish": lambda path: finish(path, path + ".out"), "read": reader.read, "jit": jit}
what, path = sys.argv[1:]
gc.disable()  # as the finisher does
began = time.process_time()
work[what](path)
print(time.process_time() - began)
