"""Time in which threads of a pool spin: for one another, or for work.

It is CPU time, but no work, and depends on how busy the machine is.  The functions are data:
spinning_threads.toml.
"""

import os
import re
from functools import cache
from typing import NamedTuple

from pyhybrid._columns import descend, take
from pyhybrid.base.files import table_beside
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.symbols.plumbing import plain_symbol
from pyhybrid.tables.profile import Profile

_C_LIBRARY = re.compile(r"libc\.so.*|libc-.*|libpthread.*|\[vdso\]|ld-linux.*")

# What is known of a path so far: a thread began; it works; it is in a function of a pool that hands
# out work; from _SPINS on, which pool's functions it spins in.  A frame shows what its caller does
# (_BELOW), that it is work, or such a function, or by its name or the lack of one which pool's.
_BEGAN, _WORKS, _HANDS_OUT, _SPINS = range(4)
_BELOW, _WORK, _ENTRY, _NAMED = range(4)
OUTERMOST = "outermost"


class Pool(NamedTuple):
    """A pool is a library whose threads spin: spinning_threads.toml."""

    name: str
    library: NamePatterns
    functions: NamePatterns
    hands_out: NamePatterns
    nameless: str


@cache
def pools() -> list[Pool]:
    """Return all that are known."""
    return [
        Pool(
            pool["name"],
            NamePatterns([pool["library"]]),
            NamePatterns(pool["functions"]),
            NamePatterns(pool["hands_out"]),
            pool["nameless"],
        )
        for pool in table_beside(__file__, "spinning_threads")["pool"]
    ]


def pool_of(library: str, symbol: str | None) -> str | None:
    """Return the pool whose threads spin in that function, by the library's file name."""
    kind = _kind(library, symbol) - _NAMED
    return pools()[kind].name if 0 <= kind < len(pools()) else None


def _kind(library: str, symbol: str | None) -> int:
    """Return what a function of that library means; `symbol` None: it has no name."""
    for number in _pools_in(library):
        if symbol is None:
            return _NAMED + len(pools()) + number
        name = plain_symbol(symbol)
        if pools()[number].functions.match(name):
            return _NAMED + number
        if pools()[number].hands_out.match(name):
            return _ENTRY
    return _WORK


@cache
def _pools_in(library: str) -> list[int]:
    return [number for number, pool in enumerate(pools()) if pool.library.match(library)]


@cache
def _steps() -> bytes:
    n = len(pools())

    def step(above: int, kind: int) -> int:
        if kind in (_BELOW, _WORK, _ENTRY):
            return (above, _WORKS, _HANDS_OUT)[kind]
        number, is_nameless = (kind - _NAMED) % n, kind >= _NAMED + n
        if is_nameless and (
            above == _HANDS_OUT or (pools()[number].nameless == OUTERMOST and above != _BEGAN)
        ):
            return above if above == _HANDS_OUT else _WORKS
        return _SPINS + number

    kinds = [min(kind, _NAMED + 2 * n - 1) for kind in range(256)]
    return bytes(step(above, kind) for above in range(_SPINS + n) for kind in kinds)


def spinning(profile: Profile) -> bytes:
    """Return for each node 0, or where its thread spins the number of the pool, from 1 on.

    System calls that a function spins with are part of it; work that it calls is none.  A library
    may lack the names of its functions: the library shows what they are, and what called them.
    """
    kinds = bytearray([_WORK]) * (max(profile.frames, default=0) + 1)
    files = {m.id: os.path.basename(m.path) for m in profile.modules.values()}
    c_library = {number for number, file in files.items() if _C_LIBRARY.fullmatch(file)}
    for frame in profile.frames.values():
        if frame.kind == "kernel" or (frame.kind == "native" and frame.module in c_library):
            kinds[frame.id] = _BELOW
        elif frame.kind == "native" and frame.module:
            kinds[frame.id] = _kind(files[frame.module], frame.symbol)
    nodes = profile.nodes
    states = bytes(descend(nodes.parent, take(kinds, nodes.frame), _steps()))
    return states.translate(bytes(max(0, state - _SPINS + 1) for state in range(256)))
