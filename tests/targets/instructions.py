"""Instructions of the processor that a call of a Python function takes, by what profiles it.

python instructions.py LIBRARY: prints {side: instructions}.  LIBRARY is count_instructions.c's.
"""

import contextlib
import ctypes
import json
import sys

import pyhybrid

CALLS = 10
count_instructions = ctypes.PyDLL(sys.argv[1]).count_instructions
count_instructions.argtypes = [ctypes.py_object]


def called():
    pass


def call_once():
    for _ in range(1):
        called()


def call_all():
    for _ in range(1 + CALLS):
        called()


def of_a_call():
    for _ in range(100):  # until their code is specialized
        call_once()
        call_all()
    return (count_instructions(call_all) - count_instructions(call_once)) / CALLS


def watched(output):
    return pyhybrid.Profiler(mode="none", emit=[output])


SIDES = {
    "nothing": contextlib.nullcontext,
    "usdt": lambda: watched("usdt"),
    "lttng": lambda: watched("lttng"),
    "print": lambda: watched("print:calls.txt"),
}
found = {}
for name, side in SIDES.items():
    with side():
        found[name] = of_a_call()
print(json.dumps(found))
