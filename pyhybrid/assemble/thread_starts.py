"""Where a stripped libc starts programs and threads: its static functions, by the places they have.

The outermost frame of a thread is `clone3`; it calls `start_thread`, which calls the thread's
function.  `__libc_start_main`, which has a name, calls `__libc_start_call_main`, and that `main`.
(glibc 2.34 and newer: sysdeps/nptl/libc_start_call_main.h, nptl/pthread_create.c.)
"""

import os
from itertools import islice

from pyhybrid._profile import NATIVE_LIMIT
from pyhybrid.assemble.frames import Frames
from pyhybrid.spool.records import Spool
from pyhybrid.symbols.plumbing import starts_threads

THREAD, THREAD_MAIN, PROGRAM_MAIN = "clone3", "start_thread", "__libc_start_call_main"
SOURCE = "role"


def name_starts(spool: Spool, frames: Frames) -> None:
    """Name these functions where nothing else did."""
    roles: dict[int, set[str]] = {}
    nameless = _nameless(spool, frames)
    rows = zip(spool.parents, spool.words, strict=True) if nameless else ()
    for parent, word in islice(rows, 1, None):
        frame = frames.frame.get(word, 0)
        if word < NATIVE_LIMIT and frame in nameless:
            caller = frames.frame.get(spool.words[parent], 0) if parent else 0
            roles.setdefault(frame, set()).add(_role(frames, roles, caller))
    for frame, found in roles.items():
        (role, *others) = found
        if role and not others:
            row = frames.rows[frame - 1]
            frames.rows[frame - 1] = row._replace(name=role, symbol=role, source=SOURCE)


def _nameless(spool: Spool, frames: Frames) -> set[int]:
    return {
        row.id
        for row in frames.rows
        if row.source == "fde"
        and row.module
        and starts_threads(os.path.basename(spool.modules[row.module].path))
    }


def _role(frames: Frames, roles: dict[int, set[str]], caller: int) -> str:
    """Of what `caller` called; "": none of them."""
    if not caller:
        return THREAD
    symbol = frames.rows[caller - 1].symbol or ""
    if symbol.startswith("__libc_start_main"):
        return PROGRAM_MAIN
    return THREAD_MAIN if roles.get(caller) == {THREAD} else ""
