"""Time in which threads of a pool spin: for one another, or for work.

It is CPU time, but no work, and depends on how busy the machine is.  The functions are data:
spinning.toml.
"""

import os
import re
from functools import cache

from pyhybrid._profile import descend, take
from pyhybrid.name_patterns import NamePatterns
from pyhybrid.package_text import table_beside
from pyhybrid.profile_file.profile import Profile
from pyhybrid.symbols.plumbing import plain_symbol

WORK, SPINS, BELOW = range(3)  # what a frame says: BELOW: the same as the frame that called it
_C_LIBRARY = re.compile(r"libc\.so.*|libc-.*|libpthread.*|\[vdso\]|ld-linux.*")
_STEPS = bytes(
    (SPINS if kind == SPINS or (kind == BELOW and above == SPINS) else WORK)
    for above in range(2)
    for kind in range(256)
)


@cache
def _pools() -> list[tuple[str, NamePatterns, NamePatterns]]:
    return [
        (pool["name"], NamePatterns([pool["library"]]), NamePatterns(pool["functions"]))
        for pool in table_beside(__file__, "spinning")["pool"]
    ]


def pool_of(library: str, symbol: str | None) -> str | None:
    """The pool whose threads spin in that function, by the library's file name."""
    name = plain_symbol(symbol)
    return next((pool for pool, names in _pools_in(library) if names.match(name)), None)


@cache
def _pools_in(library: str) -> list[tuple[str, NamePatterns]]:
    return [(pool, names) for pool, file, names in _pools() if file.match(library)]


def spinning(profile: Profile) -> tuple[memoryview, dict[int, str]]:
    """1 for each node of the profile in which its thread spins, and the pools by frame id.

    System calls that a function spins with are part of it; work that it calls is none.
    """
    kinds = bytearray(max(profile.frames, default=0) + 1)
    pools = {}
    files = {m.id: os.path.basename(m.path) for m in profile.modules.values()}
    c_library = {number for number, file in files.items() if _C_LIBRARY.fullmatch(file)}
    for frame in profile.frames.values():
        if frame.kind == "kernel":
            kinds[frame.id] = BELOW
        elif frame.kind == "native" and frame.module:
            if frame.module in c_library:
                kinds[frame.id] = BELOW
            elif pool := pool_of(files[frame.module], frame.symbol):
                kinds[frame.id] = SPINS
                pools[frame.id] = pool
    nodes = profile.nodes
    return descend(nodes.parent, take(bytes(kinds), nodes.frame), _STEPS), pools
