"""Look addresses up in one ELF file, for the first time in this process and again; as JSON.

python look_up.py symbols|lines LIBRARY ADDRESSES

ADDRESSES: a file of one number a line.  Nothing of the library was read in this process before.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyhybrid import _symbolize


def seconds(look_up: Callable[[], object]) -> float:
    begin = time.perf_counter()
    look_up()
    return time.perf_counter() - begin


def symbols(library: str, addresses: list[int]) -> dict[str, float]:
    table: list[_symbolize.ElfSymbols] = []

    def load() -> None:
        table.append(_symbolize.ElfSymbols(library))

    def find() -> None:
        for found in table[0].resolve(addresses):
            assert found
            _symbolize.demangle(found[0])

    return {
        "load": seconds(load),
        "first": seconds(find),
        "again": min(seconds(find), seconds(find)),
    }


def lines(library: str, addresses: list[int]) -> dict[str, float]:
    inlined: list[int] = []

    def find() -> None:
        for found in _symbolize.DwarfLines(library).resolve(addresses):
            assert found
            inlined.append(len(found[2]))

    return {"first": seconds(find), "inlined": sum(inlined)}


what, library, addresses = sys.argv[1:]
numbers = [int(line) for line in Path(addresses).read_text().split()]
print(json.dumps({"symbols": symbols, "lines": lines}[what](library, numbers)))
