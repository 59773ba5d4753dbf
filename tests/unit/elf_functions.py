"""Functions of ELF files as readelf and objdump tell them: a reading that is not ours."""

from __future__ import annotations

import lzma
import random
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

STUB_SECTIONS = [f"--section={name}" for name in (".plt", ".plt.sec", ".plt.got")]
STUB = re.compile(r"^([0-9a-f]{16}) <(?:\*ABS\*\+0x([0-9a-f]+)|([^@>]+)[^>]*)@plt>:$", re.MULTILINE)
SECTION = re.compile(r"^Disassembly of section (\S+):$", re.MULTILINE)
DEBUG_ROOT = Path("/usr/lib/debug/.build-id")


class Function(NamedTuple):
    start: int
    size: int
    name: str  # without its version


def readelf(path: Path, *tables: str) -> list[Function]:
    command = ["readelf", "--symbols", "--wide", *tables, str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        # Num: Value Size Type Bind Vis Ndx Name
        columns = line.split(maxsplit=7)
        if len(columns) < 8 or columns[6] == "UND" or not columns[0].endswith(":"):
            continue
        if columns[3] in ("FUNC", "IFUNC", "NOTYPE"):
            name = columns[7].split()[0].split("@")[0]
            found.append(Function(int(columns[1], 16), int(columns[2], 0), name))
    return found


def stubs(path: Path, known: list[Function]) -> list[Function]:
    """The linkage stubs, as `NAME@plt`; those of a resolver by all its names in `known`."""
    command = ["objdump", "--disassemble", *STUB_SECTIONS, str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sizes = entry_sizes(path)
    _, *parts = SECTION.split(text)
    found = []
    for section, part in zip(parts[::2], parts[1::2], strict=True):
        for start, resolver, name in STUB.findall(part):
            names = [name] if name else [f.name for f in known if f.start == int(resolver, 16)]
            size = sizes.get(section) or 16  # linkers do not always say
            found += [Function(int(start, 16), size, f"{each}@plt") for each in names]
    return found


def entry_sizes(path: Path) -> dict[str, int]:
    """The sections of program code whose entries are of one size."""
    command = ["readelf", "--section-headers", "--wide", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    #                     name    type        address   offset    size      entry size
    line = re.compile(r"\] (\S+) +PROGBITS +[\da-f]+ +[\da-f]+ +[\da-f]+ +([\da-f]+)")
    return {name: int(size, 16) for name, size in line.findall(text)}


def unpacked_debugdata(path: Path, folder: Path) -> Path | None:
    """The ELF file within the file, if it has one."""
    packed, unpacked = folder / "debugdata.xz", folder / "debugdata"
    packed.unlink(missing_ok=True)
    section = f".gnu_debugdata={packed}"
    command = ["objcopy", "--dump-section", section, str(path), "/dev/null"]
    subprocess.run(command, capture_output=True, check=False)
    if not packed.exists():
        return None
    unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
    return unpacked


def functions(path: Path, build_id: str | None, folder: Path) -> list[Function]:
    """By all tables of the file, of what is packed in it, and of its debug package."""
    found = readelf(path)
    if unpacked := unpacked_debugdata(path, folder):
        found += readelf(unpacked)
    if build_id:
        debug = DEBUG_ROOT / build_id[:2] / f"{build_id[2:]}.debug"
        if debug.exists():
            found += readelf(debug)
    return found + stubs(path, found)


def random_addresses(path: Path, n: int, seed: int) -> list[int]:
    """Addresses in the functions of a file, each function as likely as any other."""
    chance = random.Random(seed)
    sized = sorted({(each.start, each.size) for each in readelf(path) if each.size})
    chosen = chance.choices(sized, k=n)
    return [start + chance.randrange(size) for start, size in chosen]
