"""What runs only because of the profiler becomes one frame, [pyhybrid], without a caller.

Samples of a `Profiler` that starts or stops within a run are that already (`call_as_own`).  Else
that is: our libraries' functions with all that they call (the C library's, the interpreter's, our
own Python functions), and the interpreter's instrumentation, which no program has that nobody
watches.  Views leave such samples out (Profile.sampled).

Not ours is what the program had without us: what it calls through functions of ours that stand in
for its own (plumbing.toml, `passages`), its Python functions wherever they are, and callbacks of
other tools of `sys.monitoring`, `sys.settrace` or `sys.setprofile`.  Where there was such a tool
(meta `other_tools`) the instrumentation is not ours alone, and what it takes itself stays.  What
instrumented opcodes cost within the eval loop cannot be separated, and stays as well.

An interpreter without symbols shows its instrumentation by what it calls: a nameless function that
calls a callback of ours, and the nameless ones that call that one.
"""

import os
from array import array
from collections.abc import Buffer
from itertools import repeat

from pyhybrid._columns import PSEUDO_LIMIT, descend, inclusive, rows_from, take
from pyhybrid.assemble.frames import Frames
from pyhybrid.assemble.trees import Forest
from pyhybrid.base.pseudo_frames import OWN_WORK, PSEUDO_FRAMES
from pyhybrid.spool.content import Spool
from pyhybrid.symbols.plumbing import (
    is_instrumentation,
    is_interpreter,
    is_own_callback,
    is_own_library,
    is_passage,
)

OWN_WORD = PSEUDO_LIMIT | next(n for n, each in PSEUDO_FRAMES.items() if each.symbol == OWN_WORK)

OWN_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

# What a frame is: our library's or the instrumentation's, a Python function of ours or of others.
OURS, OUR_PYTHON, PROGRAM = 1, 2, 3
# By the path to it: the program's, below our code, below one of our Python functions, the program's
# again.
_THEIRS, _BELOW, _WITHIN, _AGAIN = range(4)
_STEPS = bytearray(b"".join(bytes([state]) * 256 for state in range(4)))
_STEPS[256 * _THEIRS + OURS] = _STEPS[256 * _AGAIN + OURS] = _BELOW
_STEPS[256 * _BELOW + OUR_PYTHON] = _WITHIN
_STEPS[256 * _BELOW + PROGRAM] = _AGAIN
_IS_OURS = bytes([0, 1, 1, *bytes(253)])


def fold_own_work(spool: Spool, forest: Forest, frames: Frames) -> None:
    """Make each row of the stacks that is ours one of [pyhybrid] right below the root."""
    libraries = {number for number, each in spool.modules.items() if is_own_library(each.path)}
    kind_of_frame = _kinds(spool, forest, frames, libraries) if libraries else {}
    if OURS not in kind_of_frame.values():
        return
    parents, rows = spool.parents, forest.stacks
    frame_of_word = array("I", map(frames.frame.get, forest.words, repeat(0)))
    kinds = bytes(kind_of_frame.get(frame, 0) for frame in range(len(frames.rows) + 1))
    ours = own_rows(parents, take(take(kinds, frame_of_word), forest.word[rows]))
    frames.add_pseudo(OWN_WORD)
    forest.words.append(OWN_WORD)
    numbers = array("I", forest.word.tobytes())
    for row in ours:
        spool.words[row], spool.parents[row] = OWN_WORD, 0
        numbers[rows.start + row] = len(forest.words) - 1
    forest.word = memoryview(numbers)


def own_rows(parents: Buffer, kind_of_row: Buffer) -> set[int]:
    """Return the rows of the stacks that are ours, by the kind of each one's frame: OURS,
    OUR_PYTHON, PROGRAM, or 0 (uint8)."""
    states = bytes(descend(parents, kind_of_row, bytes(_STEPS)))
    ours = set(rows_from(states.translate(_IS_OURS), 1))
    if _AGAIN in states:  # what leads there is not ours alone
        with_theirs = inclusive(parents, array("q", map(_AGAIN.__eq__, states)))
        ours = {row for row in ours if not with_theirs[row]}
    return ours


def _kinds(spool: Spool, forest: Forest, frames: Frames, libraries: set[int]) -> dict[int, int]:
    """Return the kind of each frame that has one."""
    kinds = {}
    interpreters = {n for n, each in spool.modules.items() if is_interpreter(each.path)}
    if not spool.exact_words or spool.meta.get("other_tools"):
        interpreters = set()
    for frame in frames.rows:
        if frame.kind == "python":
            is_ours = (frame.file or "").startswith(OWN_FOLDER)
            kinds[frame.id] = OUR_PYTHON if is_ours else PROGRAM
        elif frame.module in libraries:
            kinds[frame.id] = 0 if is_passage(frame.symbol) else OURS
        elif frame.module in interpreters and is_instrumentation(frame.symbol):
            kinds[frame.id] = OURS
    of_interpreters = (f for f in frames.rows if f.module in interpreters)
    nameless = {f.id for f in of_interpreters if f.is_nameless and f.address is not None}
    callers = {f.id for f in frames.rows if f.module in libraries and is_own_callback(f.symbol)}
    for _ in range(2 if nameless else 0):
        callers = _callers(spool, forest, frames, callers) & nameless
        kinds |= dict.fromkeys(callers, OURS)
    return kinds


def _callers(spool: Spool, forest: Forest, frames: Frames, called: set[int]) -> set[int]:
    """Return the frames that call one of these."""
    frame_of = frames.frame.get
    is_called = bytes(frame_of(word) in called for word in forest.words)
    rows = rows_from(take(is_called, forest.word[forest.stacks]), 1)
    return {frame_of(spool.words[spool.parents[row]], 0) for row in rows}
