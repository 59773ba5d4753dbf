"""Both unwinders on the stacks of a live program (both_unwinders.c).

python both_unwinders.py build LIBRARY
python both_unwinders.py run LIBRARY RESULT HZ CACHE_SIZE MODULE SCRIPT ARG...

Runs SCRIPT and writes RESULT.  MODULE is imported before ("-": none), so that no library is loaded
while libunwind walks (PyTorch's optimizers import torch._dynamo).  CACHE_SIZE: of libunwind, 0: as
it comes.
"""

import ctypes
import importlib
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

from pyhybrid import _native

SRC = Path(__file__).parents[2] / "src"
SOURCES = ["cfi.c", "cfi_fde.c", "libraries.c", "rules.c", "stack_bounds.c", "unwind.c"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden"]
FLAGS += ["-fno-strict-aliasing", "-ftls-model=initial-exec"]
FLAGS += [f"-I{SRC / room}" for room in ("base", "unwind")]
RENAMED = "-Dpyh_unwind_backend=libunwind_walk"  # the library has its own function of this name


def build(library: str) -> None:
    """As the signal side of the extension is built (meson.build), and with libunwind."""
    backend = f"{library}.o"
    source = SRC / "sampler" / "backend_libunwind.c"
    subprocess.run(["gcc", *FLAGS, RENAMED, "-c", "-o", backend, source], check=True)
    sources = [Path(__file__).with_suffix(".c"), SRC / "base" / "memread.c", backend]
    sources += [SRC / "unwind" / name for name in SOURCES]
    subprocess.run(["gcc", *FLAGS, "-shared", "-o", library, *sources, "-lunwind"], check=True)


def run(library: str, result: str, hz: str, cache_size: str, module: str) -> None:
    if module != "-":
        importlib.import_module(module)
    both = ctypes.CDLL(library)
    if both.both_start(ctypes.c_long(int(cache_size))):
        sys.exit("the walks did not start")
    with tempfile.TemporaryFile() as spool:
        _native.start(spool.fileno(), period_ns=1_000_000_000 // int(hz), backend=library)
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            _native.stop()
    if both.both_write(result.encode()):
        sys.exit("no result could be written")


if sys.argv[1] == "build":
    build(sys.argv[2])
else:
    arguments, sys.argv = sys.argv[2:7], sys.argv[7:]
    run(*arguments)
