"""Names of what is counted but has no address: pseudo-frames and losses.

The numbers are the C enums `pseudo` (src/base/frame.h) and `loss` (src/record/spool.h); this is
the one place where they have names.
"""

from typing import NamedTuple

PLT = "@plt"  # at the end of a linkage stub's name
STEP_MARK = "step"  # the region of a moment that `pyhybrid.step` makes
TIMES = " \u00d7 "  # several threads that are one row: their name, TIMES, how many


class PseudoFrame(NamedTuple):
    """Hold a pseudo-frame: what views show, and the word by which code knows it."""

    name: str
    symbol: str


TRUNCATED = "truncated"
GAP = "gap"
BRIDGED = "bridged"  # code without unwind information was passed, verified; views fold it away
UNKNOWN_PYTHON = "unknown_python"
TREE_FULL = "tree_full"
IN_KERNEL = "kernel"
SIGNALS_BLOCKED = "signals_blocked"  # of a thread: its name stands in the frame's
IMPORT_FUNCTIONS = "import_functions"  # what imports of libraries called, added up
TASK = "task"  # of asyncio's: below the call that made it, not below the event loop
# What runs only because of the profiler, or runs the program: outside all shares.
OWN_WORK = "pyhybrid"

# In the kernel; where is not known.  Also the name of its functions whose names it hides.
KERNEL = "[kernel]"

PSEUDO_FRAMES = {
    1: PseudoFrame("[truncated]", TRUNCATED),
    2: PseudoFrame("[unwind gap]", GAP),
    3: PseudoFrame("[bridged]", BRIDGED),
    4: PseudoFrame("[unknown python]", UNKNOWN_PYTHON),
    5: PseudoFrame("[other interpreter]", "other_interpreter"),
    6: PseudoFrame("[tree full]", TREE_FULL),
    7: PseudoFrame("[pyhybrid]", OWN_WORK),
    8: PseudoFrame(KERNEL, IN_KERNEL),  # a frame of kind kernel, not pseudo (assemble/frames.py)
    9: PseudoFrame("[signals blocked]", SIGNALS_BLOCKED),
    10: PseudoFrame("[functions of imports]", IMPORT_FUNCTIONS),
    11: PseudoFrame("[task]", TASK),
}

# A native address in no module: code that a JIT compiler wrote into anonymous memory, and that no
# runtime named (symbols/jit.py).
JIT = "[jit]"

# The qualified name of code that stands between a decorated function and its caller (decorator.py).
DECORATED = "[@profile]"

# All frames of a stack were interpreter plumbing, and views fold that away.
INTERPRETER = "[interpreter]"

# Stands for part of a path in an export that would be too large with all of it.
LEFT_OUT = "[frames left out]"

LOSSES = ("ring_full", "too_slow")


def pseudo_frame(number: int) -> PseudoFrame:
    """Name the number of `enum pseudo`; newer writers' numbers get a name made of the number."""
    known = PSEUDO_FRAMES.get(number)
    return known or PseudoFrame(f"[pseudo {number}]", f"pseudo_{number}")


def loss_name(number: int) -> str:
    """Return the name of `enum loss` number."""
    return LOSSES[number] if number < len(LOSSES) else f"loss_{number}"
