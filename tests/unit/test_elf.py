"""ELF files of names, read back by binutils and by our own reader."""

import hashlib
import re
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pyhybrid.exporters.perf.elf import Segment, Symbol, disjoint, elf_file
from pyhybrid.symbols.resolve import default_loader

SEGMENTS = [Segment(0x1000, 0x2000, 0x400), Segment(0x5000, 0x1000, 0x2400)]
SYMBOLS = [
    Symbol("py::Module.forward:/a b/m.py:12", 0x1000, 16),
    Symbol("_ZN2at3addEv", 0x1010, 0x100),
    Symbol("far", 0x5800, 8),
]


def readelf(tmp_path: Path, contents: bytes, *options: str) -> str:
    path = tmp_path / "names.so"
    path.write_bytes(contents)
    command = ["readelf", "-W", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


def test_binutils_read_it(tmp_path: Path) -> None:
    build_id, contents = elf_file(SEGMENTS, SYMBOLS)
    text = readelf(tmp_path, contents, "-a")
    assert f"Build ID: {build_id.hex()}" in text
    rows = re.findall(r"\d+: ([0-9a-f]{16}) +(\d+) FUNC +GLOBAL DEFAULT +2 (.*)", text)
    assert [Symbol(name, int(at, 16), int(size)) for at, size, name in rows] == SYMBOLS
    loads = re.findall(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x(\w+) R E", text)
    assert [tuple(int(each, 16) for each in load) for load in loads] == [
        (segment.file_offset, segment.start, 0, segment.size) for segment in SEGMENTS
    ]


def test_our_own_reader_reads_it(tmp_path: Path) -> None:
    load, _ = default_loader()
    odd = Symbol("py::größe:/é\udcff.py:1", 0x5900, 4)
    path = tmp_path / "names.so"
    build_id, contents = elf_file(SEGMENTS, [*SYMBOLS, odd], bytes(range(20)))
    assert build_id == bytes(range(20))
    path.write_bytes(contents)
    found = load(str(path), build_id.hex()).resolve([0x100F, 0x1010, 0x5807, 0x5808, 0x5903])
    assert [symbol and symbol[0] for symbol in found] == [
        *(SYMBOLS[0].name, SYMBOLS[1].name, SYMBOLS[2].name, None, r"py::größe:/é\udcff.py:1")
    ]


def test_the_build_id_is_of_the_contents() -> None:
    first, contents = elf_file(SEGMENTS, SYMBOLS)
    assert elf_file(SEGMENTS, SYMBOLS) == (first, contents)
    assert hashlib.sha1(contents.replace(first, bytes(20))).digest() == first
    assert elf_file(SEGMENTS, SYMBOLS[:2])[0] != first


def test_no_symbols(tmp_path: Path) -> None:
    _, contents = elf_file(SEGMENTS[:1], [])
    assert "contains 1 entry" in readelf(tmp_path, contents, "-s")


@given(
    st.lists(
        st.builds(Symbol, st.text(max_size=3), st.integers(0, 50), st.integers(1, 30)), max_size=9
    )
)
def test_disjoint(symbols: list[Symbol]) -> None:
    """Every start stays, none lies in another symbol, and nothing grows."""
    cut = disjoint(symbols)
    assert [each.start for each in cut] == sorted({each.start for each in symbols})
    covered = [at for each in cut for at in range(each.start, each.start + each.size)]
    assert len(covered) == len(set(covered))
    longest = {each.start: each.size for each in symbols}
    assert all(0 < each.size <= longest[each.start] for each in cut)
