"""pyhybrid._symbolize against small libraries whose symbols we wrote ourselves.

The oracle is `nm` on the library before it was stripped; the layout of `.known` is spelled out in
the assembly below, so every expected address is a label plus a number.
"""

from __future__ import annotations

import errno
import lzma
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyhybrid._symbolize import DwarfLines, ElfSymbols, demangle

ASSEMBLY = r"""
    .macro function name, binding=local
    .\binding \name
    .type \name, @function
\name:
    .endm

    .section .known, "ax", @progbits
    function sized, globl           # 0..8, then a gap of 8
    .fill 16, 1, 0x90
    .size sized, 8

    function outer                  # 16..80, around inner at 32..48
    .fill 16, 1, 0x90
    function inner
    .fill 16, 1, 0x90
    .size inner, 16
    .fill 32, 1, 0x90
    .size outer, 64

    function __plain, globl         # 80..96, under three names
    function plain_with_longer_name, globl
    function plain, globl
    .fill 16, 1, 0x90
    .size __plain, 16
    .size plain, 16
    .size plain_with_longer_name, 16

    function unsized, globl         # 96..112: up to the next symbol
    .fill 16, 1, 0x90
untyped_sized:                      # 112..120: NOTYPE with a size
    .fill 8, 1, 0x90
    .size untyped_sized, 8
    .fill 8, 1, 0x90                # 120..128: nobody's

    function unsized_before_fde, globl  # 128..132: the unwind table knows the next function
    .fill 4, 1, 0x90
    .cfi_startproc                  # 132..140: a function without a symbol
    .fill 8, 1, 0x90
    .cfi_endproc

    function last_unsized           # 140..144: up to the section's end
    .fill 4, 1, 0x90

    .data
    .globl not_code
not_code:
    .quad 0
    .size not_code, 8
    .section .note.GNU-stack, "", @progbits
"""

C_SOURCE = r"""
__attribute__((noinline, used)) static int file_static(int x) { return x * 3; }
__attribute__((visibility("hidden"), noinline)) int hidden(int x) { return file_static(x) + 1; }
int exported(int x) { return hidden(x) + 2; }

static int implementation(int x) { return x; }
static void *choose(void) { return implementation; }
int chosen(int x) __attribute__((ifunc("choose")));

int api_old(int x) { return x - 1; }
int api_new(int x) { return x + 1; }
__asm__(".symver api_old, api@VERSION_1\n.symver api_new, api@@VERSION_2");
"""

CXX_SOURCE = r"""
namespace space { template <typename T> struct Box { __attribute__((noinline)) T take(T x); };
template <typename T> T Box<T>::take(T x) { return x + 1; } }
template struct space::Box<int>;
extern "C" int call(int x) { return space::Box<int>().take(x); }
"""

VERSIONS = "VERSION_1 { global: *; }; VERSION_2 {} VERSION_1;"


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def addresses(library: Path) -> dict[str, int]:
    """Symbol (as nm prints it, versions included) to address."""
    lines = (line.split() for line in run("nm", "--defined-only", library).splitlines())
    return {name: int(address, 16) for address, _type, name in lines}


def build_id(library: Path) -> str:
    text = run("readelf", "-n", library)
    return text.split("Build ID:")[1].split()[0]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "known.s").write_text(ASSEMBLY)
    (folder / "code.c").write_text(C_SOURCE)
    (folder / "box.cc").write_text(CXX_SOURCE)
    (folder / "versions").write_text(VERSIONS)
    out = folder / "libknown.so"
    sources = [folder / name for name in ("known.s", "code.c", "box.cc")]
    run("gcc", "-shared", "-fPIC", "-O1", "-nostdlib", "-Wl,--build-id=sha1",
        f"-Wl,--version-script={folder / 'versions'}", "-o", out, *sources)  # fmt: skip
    return out


@pytest.fixture(scope="module")
def at(library: Path) -> dict[str, int]:
    return addresses(library)


@pytest.fixture(scope="module")
def stripped(library: Path) -> Path:
    out = library.with_name("libstripped.so")
    run("strip", "--strip-all", "-o", out, library)
    return out


def add_section(library: Path, contents: Path, out: Path) -> Path:
    run("objcopy", "--add-section", f".gnu_debugdata={contents}", library, out)
    return out


@pytest.fixture(scope="module")
def with_debugdata(library: Path, stripped: Path) -> Path:
    """As "MiniDebugInfo" in the GDB manual has it: what .dynsym lacks, packed with xz."""
    mini, keep = library.with_name("mini"), library.with_name("keep")
    dynamic = run("nm", "-D", "--format=posix", "--defined-only", library).splitlines()
    every = run("nm", "--format=posix", "--defined-only", library).splitlines()
    functions = {line.split()[0] for line in every if line.split()[1] in "Tt"}
    dynamic_names = {line.split()[0].partition("@")[0] for line in dynamic}
    keep.write_text("\n".join(sorted(functions - dynamic_names)))
    run("objcopy", "--only-keep-debug", library, mini)
    run("objcopy", "-S", "--remove-section", ".comment", f"--keep-symbols={keep}", mini)
    run("xz", "--keep", "--force", mini)
    return add_section(stripped, mini.with_name("mini.xz"), library.with_name("libminidebug.so"))


def name_at(symbols: ElfSymbols, address: int) -> str | None:
    (found,) = symbols.resolve([address])
    return found and found[0]


def test_symtab_names_static_hidden_and_exported(library: Path, at: dict[str, int]) -> None:
    symbols = ElfSymbols(library.as_posix())
    for name in ("file_static", "hidden", "exported"):
        (found,) = symbols.resolve([at[name] + 1])
        assert found is not None
        assert found[0] == name
        assert found[1] == at[name]
        assert found[2] > 1
        assert found[3] == "symtab"


def test_path_may_be_bytes(library: Path, at: dict[str, int]) -> None:
    assert name_at(ElfSymbols(os.fsencode(library)), at["exported"]) == "exported"


def test_dynsym_of_a_stripped_library(stripped: Path, at: dict[str, int]) -> None:
    symbols = ElfSymbols(str(stripped))
    exported, hidden, static = symbols.resolve([at["exported"], at["hidden"], at["file_static"]])
    assert exported is not None
    assert exported[0::3] == ("exported", "dynsym")
    assert hidden is None
    assert static is None


def test_gnu_debugdata(with_debugdata: Path, at: dict[str, int]) -> None:
    symbols = ElfSymbols(str(with_debugdata))
    found = symbols.resolve([at["exported"], at["hidden"], at["file_static"]])
    assert [f and f[0::3] for f in found] == [
        ("exported", "dynsym"),
        ("hidden", "debugdata"),
        ("file_static", "debugdata"),
    ]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, "sized"), (7, "sized"), (8, None), (15, None),
        (16, "outer"), (31, "outer"), (32, "inner"), (47, "inner"), (48, "outer"), (79, "outer"),
        (80, "plain"), (95, "plain"),
        (96, "unsized"), (111, "unsized"),
        (112, "untyped_sized"), (119, "untyped_sized"), (120, None), (127, None),
        (128, "unsized_before_fde"), (131, "unsized_before_fde"), (132, None), (139, None),
        (140, "last_unsized"), (143, "last_unsized"), (144, None),
    ],
)  # fmt: skip
def test_layout(library: Path, at: dict[str, int], offset: int, expected: str | None) -> None:
    assert name_at(ElfSymbols(str(library)), at["sized"] + offset) == expected


def test_size_is_the_symbols_own_or_what_it_names(library: Path, at: dict[str, int]) -> None:
    start = at["sized"]
    found = ElfSymbols(str(library)).resolve([start, start + 50, start + 100, start + 130])
    assert [f and f[1:3] for f in found] == [
        (start, 8), (start + 16, 64), (start + 96, 16), (start + 128, 4),
    ]  # fmt: skip


def test_unsized_symbol_does_not_reach_beyond_an_fde_when_stripped(
    stripped: Path, at: dict[str, int]
) -> None:
    symbols = ElfSymbols(str(stripped))
    assert name_at(symbols, at["sized"] + 128) == "unsized_before_fde"
    assert name_at(symbols, at["sized"] + 132) is None


def test_ifunc(library: Path, stripped: Path, at: dict[str, int]) -> None:
    assert name_at(ElfSymbols(str(library)), at["choose"]) == "choose"
    assert name_at(ElfSymbols(str(stripped)), at["choose"]) == "chosen"


def test_versions_are_cut_off(library: Path, stripped: Path, at: dict[str, int]) -> None:
    for path in (library, stripped):
        symbols = ElfSymbols(str(path))
        assert name_at(symbols, at["api@VERSION_1"]) == "api"
        assert name_at(symbols, at["api@@VERSION_2"]) == "api"


def test_data_and_nonsense_addresses_have_no_name(library: Path, at: dict[str, int]) -> None:
    symbols = ElfSymbols(str(library))
    assert symbols.resolve([at["not_code"], 0, 1, 2**63, 2**64 - 1]) == [None] * 5
    assert symbols.resolve([]) == []
    with pytest.raises(OverflowError):
        symbols.resolve([-1])
    with pytest.raises(TypeError):
        symbols.resolve(["0"])  # type: ignore[list-item]


def test_cxx_names_are_raw_until_demangled(library: Path, at: dict[str, int]) -> None:
    raw = "_ZN5space3BoxIiE4takeEi"
    assert name_at(ElfSymbols(str(library)), at[raw]) == raw
    assert demangle(raw) == "space::Box<int>::take(int)"


def test_demangle_names_clones() -> None:
    assert demangle("_Z3foov.cold") == "foo() [clone .cold]"


@pytest.mark.parametrize(
    "name",
    ["f", "i", "main", "", "_Z", "_Zzz", "_GLOBAL__sub_I_x", "_RNvC1a1", "_Z3foov\0x", "\udc80"],
)
def test_demangle_leaves_other_names_alone(name: str) -> None:
    assert demangle(name) == name


@pytest.mark.parametrize("levels", [5, 12, 30, 70])
def test_demangle_does_not_write_names_of_gigabytes(levels: int) -> None:
    """Each parameter is a pair of the one before: twice as long."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    numbers = [
        "",
        *digits[:36],
        *(f"{a}{b}" for a in "123" for b in digits),
    ]  # of what can stand for a part: S_, S0_, ...
    pairs = [f"S_IS{n}_S{n}_E" for n in numbers[1 : levels + 1]]
    raw = "_Z1fSt4pairIiiE" + "".join(pairs)
    readable = demangle(raw)
    if levels == 5:
        assert readable.count("std::pair<int, int>") == 2**6 - 1
    else:
        assert readable == raw


def test_build_id(library: Path, tmp_path: Path) -> None:
    expected = build_id(library)
    assert ElfSymbols(str(library)).build_id == expected
    assert ElfSymbols(str(library), expected.upper()).build_id == expected
    with pytest.raises(LookupError, match="build-id differs"):
        ElfSymbols(str(library), "00" * 20)

    none = tmp_path / "none.so"
    run("objcopy", "--remove-section", ".note.gnu.build-id", library, none)
    assert ElfSymbols(str(none)).build_id is None
    with pytest.raises(LookupError, match="build-id differs"):
        ElfSymbols(str(none), expected)


def test_build_id_of_a_separate_debug_file(library: Path, tmp_path: Path) -> None:
    debug = tmp_path / "libknown.debug"
    run("objcopy", "--only-keep-debug", library, debug)
    symbols = ElfSymbols(str(debug), build_id(library))
    assert name_at(symbols, addresses(library)["file_static"]) == "file_static"


@pytest.mark.parametrize(
    "contents",
    [b"", b"\x7fELF", b"#!/bin/sh\n" * 100, b"\x7fELF\x01\x01\x01" + bytes(100)],
    ids=["empty", "magic only", "script", "ELF32"],
)
def test_not_elf(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(contents)
    with pytest.raises(ValueError, match="not an ELF64"):
        ElfSymbols(str(path))


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ElfSymbols(str(tmp_path / "absent"))
    assert caught.value.filename == str(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        ElfSymbols(str(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError):
        ElfSymbols(str(tmp_path / "fifo"))
    with pytest.raises(ValueError):
        ElfSymbols("null\0inside")


def test_opening_keeps_no_descriptor(library: Path) -> None:
    before = os.listdir("/proc/self/fd")
    symbols = ElfSymbols(str(library))
    assert os.listdir("/proc/self/fd") == before
    del symbols


@pytest.mark.parametrize("contents", [b"not xz", lzma.compress(bytes(64 << 20)),
                                      lzma.compress(b"\x7fELF" + bytes(1000)), lzma.compress(b"")],
                         ids=["not xz", "bomb", "not an ELF file", "nothing"])  # fmt: skip
def test_bad_debugdata_is_left_out(
    stripped: Path, at: dict[str, int], tmp_path: Path, contents: bytes
) -> None:
    (tmp_path / "section").write_bytes(contents)
    path = add_section(stripped, tmp_path / "section", tmp_path / "bad.so")
    symbols = ElfSymbols(str(path))
    assert name_at(symbols, at["exported"]) == "exported"
    assert name_at(symbols, at["hidden"]) is None


def write_elf(path: Path, symbols: list[tuple[int, int, bytes]], text: tuple[int, int]) -> None:
    """The smallest ELF file with one executable section at [text) and local functions in .symtab.

    Each symbol is (start, size, name); the names' order is the string table's.
    """
    names, table = bytearray(b"\0"), bytearray(24)
    for start, size, name in symbols:
        table += struct.pack("<IBBHQQ", len(names), 2, 0, 1, start, size)  # 2: STT_FUNC
        names += name + b"\0"

    def section(kind: int, flags: int, start: int, at: int, size: int, link: int = 0) -> bytes:
        return struct.pack("<IIQQQQIIQQ", 0, kind, flags, start, at, size, link, 0, 8, 24)

    tables = 64 + 4 * 64
    headers = [
        section(0, 0, 0, 0, 0),
        section(8, 6, text[0], 0, text[1] - text[0]),  # NOBITS, ALLOC | EXECINSTR
        section(2, 0, 0, tables, len(table), 3),
        section(3, 0, 0, tables + len(table), len(names)),
    ]
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    fields = (3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, len(headers), 0)
    header = ident + struct.pack("<HHIQQQIHHHHHH", *fields)
    path.write_bytes(header + b"".join(headers) + table + names)


def expected_at(address: int, symbols: list[tuple[int, int, bytes]], end: int) -> str | None:
    """The rules of symbolize.h, the slow way; names are unique and of one length."""
    covering = [s for s in symbols if s[1] and s[0] <= address < s[0] + s[1]]
    if covering:
        innermost = max(start for start, _size, _name in covering)
        return min((size, name) for start, size, name in covering if start == innermost)[1].decode()
    before = [s for s in symbols if s[0] <= address < end]
    if not before:
        return None
    nearest = max(start for start, _size, _name in before)
    if any(size and start <= nearest < start + size for start, size, _name in symbols):
        return None
    return min(name for start, _size, name in before if start == nearest).decode()


def test_overlaps_against_brute_force(tmp_path: Path) -> None:
    text = (0x1000, 0x1000 + 64)
    for seed in range(300):
        rng = random.Random(seed)
        symbols = []
        for i in range(rng.randrange(1, 40)):
            start = rng.randrange(text[0], text[1])
            size = rng.choice((0, rng.randrange(1, 65)))
            symbols.append((start, min(size, text[1] - start), b"f%02d" % i))
        write_elf(tmp_path / "elf", symbols, text)
        wanted = range(text[0] - 2, text[1] + 2)
        found = [f and f[0] for f in ElfSymbols(str(tmp_path / "elf")).resolve(wanted)]
        assert found == [expected_at(a, symbols, text[1]) for a in wanted], f"seed {seed}"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "symbol",
    [
        lambda i: (i, 1_000_000 - i, b"n"),
        lambda i: (i, 500_001 - i, b"e%d" % i),
        lambda i: (7, 9, b"a" * 99),
        lambda i: (i, 2**64 - 1, b"huge"),
    ],
    ids=["nested", "all end at one address", "aliases", "huge sizes"],
)
@pytest.mark.first_cases(2)
def test_many_overlaps_stay_cheap(
    tmp_path: Path, symbol: Callable[[int], tuple[int, int, bytes]]
) -> None:
    """Hundreds of milliseconds; a scan of the symbols for each address would take hours."""
    write_elf(tmp_path / "elf", [symbol(i) for i in range(500_000)], (0, 1_000_000))
    found = ElfSymbols(str(tmp_path / "elf")).resolve(range(600_000))
    assert all(f is None or f[1] + f[2] <= 1_000_000 for f in found)


def test_name_that_is_not_utf8_or_not_terminated(tmp_path: Path) -> None:
    path = tmp_path / "elf"
    write_elf(path, [(0, 8, b"caf\xe9"), (8, 8, b"last")], (0, 16))
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert [f and f[0] for f in ElfSymbols(str(path)).resolve([0, 8])] == ["caf\\xe9", "last!"]


DAMAGE = r"""
import os, random, resource, sys
from pyhybrid._symbolize import DwarfLines, ElfSymbols, demangle

if not os.environ.get("SAN"):  # ASan maps terabytes
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
sound = open(sys.argv[1], "rb").read()
sections = int.from_bytes(sound[40:48], "little")
regions = [(0, 64), (64, 700), (sections, len(sound)), (0, len(sound))]


def variants():
    for length in range(0, len(sound), max(1, len(sound) // 150)):
        yield sound[:length]
    for seed in range(600):
        rng, bad = random.Random(seed), bytearray(sound)
        low, high = regions[seed % len(regions)]
        for _ in range(rng.choice((1, 2, 8, 64))):
            bad[rng.randrange(low, high)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        yield bytes(bad)


done = {"raised": 0, "returned": 0}
for bad in variants():
    with open(sys.argv[2], "wb") as out:
        out.write(bad)
    try:
        symbols = ElfSymbols(sys.argv[2])
        named = [found for found in symbols.resolve(range(0, 0x6000, 7)) if found]
        for name, start, size, source in named:
            demangle(name)
        done["returned"] += 1
    except (ValueError, OSError, LookupError):
        done["raised"] += 1
print(done["raised"], done["returned"])
"""


@pytest.mark.exhaustive
def test_damaged_files_raise_or_answer(with_debugdata: Path, library: Path, tmp_path: Path) -> None:
    for sound in (with_debugdata, library):
        command = [sys.executable, "-P", "-c", DAMAGE, str(sound), str(tmp_path / "bad.so")]
        process = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        assert process.returncode == 0, process.stderr
        raised, returned = map(int, process.stdout.split())
        assert raised > 100
        assert returned > 100


INLINED = r"""
__attribute__((always_inline)) static inline void inner(void) { __asm__ volatile("nop"); }
__attribute__((always_inline)) static inline void middle(void)
{
    inner();
}
void outer(void)
{
    middle();
}
"""


@pytest.fixture(scope="module")
def with_dwarf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dwarf")
    (folder / "inlined.c").write_text(INLINED)
    out = folder / "libinlined.so"
    run("gcc", "-shared", "-fPIC", "-O2", "-g", "-Wl,--build-id=sha1", "-o", out,
        folder / "inlined.c")  # fmt: skip
    return out


def test_lines_and_inlined_functions(with_dwarf: Path) -> None:
    outer = addresses(with_dwarf)["outer"]
    source = str(with_dwarf.with_name("inlined.c"))
    chain = [(("inner", source, 2), source, 5), (("middle", source, 3), source, 9)]
    lines = DwarfLines(str(with_dwarf), build_id(with_dwarf))
    assert lines.resolve([0, outer]) == [None, (source, 2, chain, ("outer", source, 7))]
    assert lines.resolve([]) == []


def test_lines_of_a_split_debug_file(with_dwarf: Path, tmp_path: Path) -> None:
    stripped, number = tmp_path / "stripped.so", build_id(with_dwarf)
    debug = tmp_path / "root" / ".build-id" / number[:2] / f"{number[2:]}.debug"
    debug.parent.mkdir(parents=True)
    run("strip", "--strip-debug", "-o", stripped, with_dwarf)
    with pytest.raises(OSError) as none:
        DwarfLines(os.fsencode(stripped))
    assert none.value.errno == errno.ENODATA
    run("objcopy", "--only-keep-debug", with_dwarf, debug)
    outer = [addresses(with_dwarf)["outer"]]
    lines = DwarfLines(str(stripped), debug_roots=str(tmp_path / "root"))
    assert lines.resolve(outer) == DwarfLines(str(with_dwarf)).resolve(outer)


def test_names_of_a_split_debug_file(library: Path, tmp_path: Path) -> None:
    """By build-id, or beside the library by its name there; of the same build only."""
    number, at = build_id(library), addresses(library)
    root = tmp_path / "root"
    debug = root / ".build-id" / number[:2] / f"{number[2:]}.debug"
    debug.parent.mkdir(parents=True)
    stripped = tmp_path / "libknown.so"
    run("strip", "--strip-all", "-o", stripped, library)
    run("objcopy", "--only-keep-debug", library, debug)

    def found(debug_roots: Path) -> tuple[str, str] | None:
        (symbol,) = ElfSymbols(str(stripped), None, str(debug_roots)).resolve([at["file_static"]])
        return symbol and symbol[0::3]

    assert found(root) == ("file_static", "debug file")
    assert found(tmp_path / "nowhere") is None
    (exported,) = ElfSymbols(str(stripped), None, str(root)).resolve([at["exported"]])
    assert exported is not None
    assert exported[0::3] == ("exported", "debug file")  # the better source

    beside = tmp_path / "libknown.debug"
    debug.rename(beside)
    assert found(root) is None
    run("objcopy", f"--add-gnu-debuglink={beside}", stripped)
    assert found(tmp_path / "nowhere") == ("file_static", "debug file")
    beside.write_bytes(beside.read_bytes() + b"\0")  # another CRC
    assert found(tmp_path / "nowhere") is None


def test_a_relative_build_folder_comes_once(with_dwarf: Path, tmp_path: Path) -> None:
    source, out = with_dwarf.with_name("inlined.c"), tmp_path / "relative.so"
    command = ["gcc", "-shared", "-fPIC", "-O2", "-g", f"-ffile-prefix-map={source.parent}=./built",
               "-o", str(out), "inlined.c"]  # fmt: skip
    subprocess.run(command, check=True, cwd=source.parent)
    (position,) = DwarfLines(str(out)).resolve([addresses(out)["outer"]])
    assert position is not None
    assert position[0] == "./built/inlined.c"
    assert {file for (_name, *_at), file, _line in position[2]} == {"./built/inlined.c"}


def test_lines_say_what_is_wrong(with_dwarf: Path, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="build-id differs"):
        DwarfLines(str(with_dwarf), "00" * 20)
    with pytest.raises(FileNotFoundError):
        DwarfLines(str(tmp_path / "nonexistent"))
    with pytest.raises(ValueError, match="ELF64"):
        DwarfLines(__file__)
    with pytest.raises(OSError) as large:
        DwarfLines(str(with_dwarf), limit_bytes=100)
    assert large.value.errno == errno.EFBIG
    lines = DwarfLines(str(with_dwarf))
    for wrong, error in (([-1], OverflowError), (["1"], TypeError), (1, TypeError)):
        with pytest.raises(error):
            lines.resolve(wrong)  # type: ignore[arg-type]


def test_real_interpreter() -> None:
    python = shutil.which(os.path.realpath(sys.executable))
    assert python is not None
    symbols = ElfSymbols(python)
    text = run("readelf", "-hW", python)
    entry = int(text.split("Entry point address:")[1].split()[0], 16)
    assert name_at(symbols, entry) == "_start"
