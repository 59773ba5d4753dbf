"""Reading symbol tables and DWARF: what a name and a line cost.

Each round looks up other addresses, in a process of its own; the files are in the page cache.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
from pathlib import Path

from elf_functions import random_addresses
from method import Figure, bare, row, run

WORKLOADS = Path(__file__).parents[1] / "workloads"
LOOK_UP = str(WORKLOADS / "look_up.py")
NAMES, LINES = 10_000, 1_000
INSTANCES, COPIES = 60, 84  # of templates in an object, of the object in the library


def torch_library(name: str) -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent / "lib" / name


def debug_build(folder: Path) -> Path:
    """A library with much debug information, most of it that of copies of one unit."""
    library, first = folder / "many.so", folder / "many.o"
    options = ["-std=c++17", "-O2", "-g", "-fPIC", f"-DCOUNT={INSTANCES}"]
    source = str(WORKLOADS / "many_instances.cpp")
    subprocess.run(["g++", *options, "-c", source, "-o", str(first)], check=True)
    copies = [folder / f"many{i}.o" for i in range(COPIES)]
    for copy in copies:
        copy.hardlink_to(first)
    subprocess.run(["g++", "-shared", "-o", str(library), *map(str, copies)], check=True)
    for each in (first, *copies):
        each.unlink()
    return library


def look_up(folder: Path, what: str, library: Path, n: int, seed: int) -> dict[str, float]:
    addresses = folder / "addresses"
    numbers = random_addresses(library, n, seed)
    addresses.write_text("".join(f"{number}\n" for number in numbers))
    said = run(bare(LOOK_UP, what, str(library), str(addresses)), folder).stdout
    found: dict[str, float] = json.loads(said)
    return found


def measure(pairs: int) -> list[Figure]:
    torch_cpu = torch_library("libtorch_cpu.so")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        debug = debug_build(folder)
        size = debug.stat().st_size
        rounds = []
        for seed in range(pairs):
            names = look_up(folder, "symbols", torch_cpu, NAMES, seed)
            lines = look_up(folder, "lines", debug, LINES, seed)
            rounds.append({"names": names, "lines": lines})
            print(f"\r  {seed + 1}/{pairs}", end="\n" if seed + 1 == pairs else "", flush=True)
    names = [each["names"] for each in rounds]
    lines = [each["lines"] for each in rounds]
    rows = [
        row(
            f"{NAMES:,} addresses of libtorch_cpu named and demangled, its tables read",
            "s",
            [each["load"] + each["first"] for each in names],
            "<= 0.15",
        ),
        row("reading the tables alone", "s", [each["load"] for each in names]),
        row(
            "the same addresses again, the tables loaded",
            "ms",
            [1e3 * each["again"] for each in names],
            "<= 10",
        ),
        row(
            f"lines and inlined calls of {LINES:,} addresses of a debug build",
            "s",
            [each["first"] for each in lines],
            "<= 1",
        ),
        row("inlined calls of an address", "", [each["inlined"] / LINES for each in lines]),
        row("size of that debug build", "MB", [size / 1e6 for _ in lines]),
    ]
    return [Figure("symbols", "Reading symbols and lines", rows, rounds)]
