"""Names by exported data, against a stripped library whose tables we wrote ourselves.

The oracle is `nm` on the library before it was stripped.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pyhybrid._symbolize import ElfSymbols, demangle
from pyhybrid.spool.content import Spool
from pyhybrid.symbols.resolve import ADDRESS_BITS, NativeFunction, Symbolizer, slot_name

CXX_SOURCE = r"""
#define EXPORTED __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define TEXT __attribute__((noinline, used)) static

namespace space {
struct EXPORTED Top {
    HIDDEN virtual int first(int x);
    HIDDEN virtual int second(int x);
    virtual int exported(int x);
    virtual int pure(int x) = 0;
};
struct EXPORTED Side {
    HIDDEN virtual int side(int x);
    HIDDEN virtual int other_side(int x);
};
struct EXPORTED Above : Top { /* comes first in the alphabet, but not among the classes */
    HIDDEN int second(int x) override;
    HIDDEN int pure(int x) override;
};
struct EXPORTED Both : Above, Side {
    HIDDEN int side(int x) override;
    HIDDEN virtual int last(int x);
};
struct EXPORTED Virtual : virtual Side {
    HIDDEN virtual int own(int x);
};
int Top::first(int x) { return x + 1; }
int Top::second(int x) { return x + 2; }
int Top::exported(int x) { return x + 3; }
int Side::side(int x) { return x + 4; }
int Side::other_side(int x) { return x + 5; }
int Above::second(int x) { return x + 6; }
int Above::pure(int x) { return x + 7; }
int Both::side(int x) { return x + 8; }
int Both::last(int x) { return x + 9; }
int Virtual::own(int x) { return x + 10; }

/* Not exported: named by their type_infos. */
struct HIDDEN Inner {
    virtual int one(int x);
    virtual int two(int x);
};
struct HIDDEN Outer {
    virtual int three(int x);
};
struct HIDDEN Derived : Inner, Outer { /* comes first in the alphabet, but not among the classes */
    int two(int x) override;
    int three(int x) override;
    virtual int four(int x);
};
int Inner::one(int x) { return x + 11; }
int Inner::two(int x) { return x + 12; }
int Outer::three(int x) { return x + 13; }
int Derived::two(int x) { return x + 14; }
int Derived::three(int x) { return x + 15; }
int Derived::four(int x) { return x + 16; }

namespace {
struct Local {
    virtual int alone(int x);
};
int Local::alone(int x) { return x + 17; }
}
EXPORTED void *make() { return new Local; }
}

extern "C" {
TEXT int in_table_0(int x) { return x * 2; }
TEXT int in_table_2(int x) { return x * 3; }
TEXT int in_both(int x) { return x * 5; }
TEXT int in_hidden_table(int x) { return x * 7; }
TEXT int nowhere(int x) { return x * 11; }
TEXT int for_avx2(int x) { return x * 13; }
TEXT int for_all(int x) { return x * 17; }

EXPORTED int in_dynsym(int x) { return x * 19; }

struct entry { const char *name; int (*function)(int); };
EXPORTED extern const entry table[] = {{"in_table_0", in_table_0}, {"in_table_2", in_table_2},
                                       {"in_both", in_both}, {"in_dynsym", in_dynsym}};
EXPORTED int (*single)(int) = in_both;
HIDDEN int (*hidden_table[])(int) = {in_hidden_table};

/* Without unwind information, between functions that have it. */
void assembly(void);
__asm__(".text\n.local assembly\n.type assembly, @function\nassembly: .fill 64, 1, 0x90\n"
        ".size assembly, 64");
EXPORTED void (*to_assembly)(void) = assembly;
}

namespace native {
using type = int (*)(int);
template <typename T, typename X> struct EXPORTED DispatchStub { static T AVX2, DEFAULT; };
struct EXPORTED kernel_stub_DECLARE_DISPATCH_type;
struct EXPORTED other_stub;
template <> type DispatchStub<type, kernel_stub_DECLARE_DISPATCH_type>::AVX2 = for_avx2;
template <> type DispatchStub<type, kernel_stub_DECLARE_DISPATCH_type>::DEFAULT = for_all;
template <> type DispatchStub<type, other_stub>::AVX2 = for_all;
}
"""

# Each function's name in the stripped library.
EXPECTED = {
    "_ZN5space3Top5firstEi": "space::Top::{virtual#0}",
    "_ZN5space3Top6secondEi": "space::Top::{virtual#1}",
    "_ZN5space5Above6secondEi": "space::Above::{virtual#1}",
    "_ZN5space5Above4pureEi": "space::Above::{virtual#3}",
    "_ZN5space4Side4sideEi": "space::Side::{virtual#0}",
    "_ZN5space4Side10other_sideEi": "space::Side::{virtual#1}",
    "_ZN5space4Both4sideEi": "space::Both::{virtual#4}",
    "_ZN5space4Both4lastEi": "space::Both::{virtual#5}",
    "_ZThn8_N5space4Both4sideEi": "space::Both::{base#1}::{virtual#0}",
    "_ZN5space7Virtual3ownEi": "space::Virtual::{virtual#2}",  # Side is its primary base
    "_ZN5space5Inner3oneEi": "space::Inner::{virtual#0}",
    "_ZN5space5Inner3twoEi": "space::Inner::{virtual#1}",
    "_ZN5space5Outer5threeEi": "space::Outer::{virtual#0}",
    "_ZN5space7Derived3twoEi": "space::Derived::{virtual#1}",
    "_ZN5space7Derived5threeEi": "space::Derived::{virtual#2}",
    "_ZN5space7Derived4fourEi": "space::Derived::{virtual#3}",
    "_ZThn8_N5space7Derived5threeEi": "space::Derived::{base#1}::{virtual#0}",
    "_ZN5space12_GLOBAL__N_15Local5aloneEi": "space::(anonymous namespace)::Local::{virtual#0}",
    "in_table_0": "table[1]",
    "in_table_2": "table[3]",
    "in_both": "single[0]",
    "for_avx2": "native::kernel_stub [AVX2]",
    "for_all": "native::kernel_stub [DEFAULT]",
    "in_hidden_table": None,
    "nowhere": None,
    "assembly": None,
}


HIDDEN_CLASSES = ("5Inner", "5Outer", "7Derived", "5Local")
WITHOUT_TYPE_INFOS = EXPECTED | {
    **{name: None for name in EXPECTED if any(each in name for each in HIDDEN_CLASSES)},
    "_ZThn8_N5space4Both4sideEi": None,
    "_ZN5space7Virtual3ownEi": None,
}


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def build(folder: Path, *options: str) -> Path:
    (folder / "code.cc").write_text(CXX_SOURCE)
    out = folder / "libknown.so"
    run("g++", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-falign-functions=32", *options,
        "-o", out, folder / "code.cc")  # fmt: skip
    run("strip", "--strip-all", "-o", out.with_name("libstripped.so"), out)
    return out


@pytest.fixture(scope="module", params=["", "-Wl,-z,pack-relative-relocs", "-fno-rtti"],
                ids=["RELA", "RELR", "no type_infos"])  # fmt: skip
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = [request.param] if request.param else []
    try:
        out = build(tmp_path_factory.mktemp("library"), *options)
    except subprocess.CalledProcessError as error:
        if "-z" not in request.param:
            raise
        pytest.skip(f"the linker knows no SHT_RELR: {error.stderr}")
    if "-z" in request.param and ".relr.dyn" not in run("readelf", "-SW", out):
        pytest.skip("the linker makes no SHT_RELR")
    return out


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sound"))


def functions(library: Path) -> dict[str, tuple[int, int]]:
    """Start and size of each function that has a size."""
    lines = (line.split() for line in run("nm", "-S", "--defined-only", library).splitlines())
    return {
        line[3]: (int(line[0], 16), int(line[1], 16))
        for line in lines
        if len(line) == 4 and line[2] in "tTwW"
    }


def name_at(symbols: ElfSymbols, address: int) -> str | None:
    (found,) = symbols.resolve([address])
    if found is None:
        return None
    return slot_name(found[0], demangle) if found[3] == "exported data" else found[0]


def test_functions_are_named_by_the_data_that_points_to_them(library: Path) -> None:
    symbols = ElfSymbols(str(library.with_name("libstripped.so")))
    without = ".relr.dyn" not in run("readelf", "-SW", library) and "_ZTI" not in run("nm", library)
    expected = WITHOUT_TYPE_INFOS if without else EXPECTED
    known = functions(library)
    assert {name: name_at(symbols, known[name][0]) for name in expected} == expected


def test_a_name_covers_its_function_and_no_more(library: Path) -> None:
    symbols = ElfSymbols(str(library.with_name("libstripped.so")))
    known = functions(library).values()
    inside = {address for start, size in known for address in range(start, start + size)}
    for start, size in known:
        named = symbols.resolve(range(start, start + size))
        assert len(set(named)) == 1
        assert named[0] is None or named[0][1:3] == (start, size)
    low, high = min(inside) - 64, max(inside) + 64
    outside = [address for address in range(low, high) if address not in inside]
    assert symbols.resolve(outside) == [None] * len(outside)


def test_symbols_go_first(library: Path) -> None:
    stripped = ElfSymbols(str(library.with_name("libstripped.so")))
    for name, (start, _size) in functions(library).items():
        (found,) = ElfSymbols(str(library)).resolve([start])
        assert found is not None
        assert found[0::3] == (name, "symtab")
    assert name_at(stripped, functions(library)["in_dynsym"][0]) == "in_dynsym"
    assert name_at(stripped, functions(library)["_ZN5space3Top8exportedEi"][0]) is not None


class Elf:
    """The bytes of a library with RELA relocations, to be changed in place."""

    def __init__(self, path: Path) -> None:
        self.bytes = bytearray(path.read_bytes())
        (self.headers,) = struct.unpack_from("<Q", self.bytes, 40)
        (self.n_sections,) = struct.unpack_from("<H", self.bytes, 60)

    def sections(self, kind: int) -> list[int]:
        found = range(self.headers, self.headers + 64 * self.n_sections, 64)
        return [at for at in found if struct.unpack_from("<I", self.bytes, at + 4) == (kind,)]

    def entries(self, section: int) -> range:
        at, size = struct.unpack_from("<QQ", self.bytes, section + 24)
        return range(at, at + size, 24)

    def write(self, path: Path) -> ElfSymbols:
        path.write_bytes(self.bytes)
        return ElfSymbols(str(path))


RELA, DYNSYM, X86_64_UNWIND = 4, 11, 0x70000001


def test_relocations_against_a_section_symbol(sound: Path, tmp_path: Path) -> None:
    elf = Elf(sound.with_name("libstripped.so"))
    known = functions(sound)
    start, _size = known["in_table_2"]
    (symbols,) = elf.sections(DYNSYM)
    unused = elf.entries(symbols)[1]
    text = 0x1000  # where the symbol is; any section will do
    for section in elf.sections(RELA):
        for at in elf.entries(section):
            if struct.unpack_from("<Qq", elf.bytes, at + 8) == (8, start):
                struct.pack_into("<Qq", elf.bytes, at + 8, 1 << 32 | 1, start - text)
    struct.pack_into("<IBBHQQ", elf.bytes, unused, 0, 3, 0, 1, text, 0)  # local, STT_SECTION
    assert name_at(elf.write(tmp_path / "elf"), start) == "table[3]"


def test_unwind_tables_of_a_type_of_their_own(sound: Path, tmp_path: Path) -> None:
    elf = Elf(sound.with_name("libstripped.so"))
    for line in run("readelf", "-SW", sound.with_name("libstripped.so")).splitlines():
        if " .eh_frame" in line:
            number = int(line[line.index("[") + 1 : line.index("]")])
            struct.pack_into("<I", elf.bytes, elf.headers + 64 * number + 4, X86_64_UNWIND)
    symbols = elf.write(tmp_path / "elf")
    assert name_at(symbols, functions(sound)["in_table_2"][0]) == "table[3]"


WITHIN_A_GIGABYTE = """
import os, resource, sys
from pyhybrid._symbolize import ElfSymbols, demangle

if not os.environ.get("SAN"):  # ASan maps terabytes
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
"""
NAME_AT = """
print(ElfSymbols(sys.argv[1]).resolve([int(sys.argv[2])])[0][0])
"""


def test_relocation_tables_in_one_another_stay_cheap(sound: Path, tmp_path: Path) -> None:
    """60,000 times a table of 10,000: what is kept of them would be over 10 GB."""
    elf = Elf(sound.with_name("libstripped.so"))
    start, size = elf.headers, 64 * elf.n_sections
    headers = elf.bytes[start : start + size]
    (rela, *_others) = elf.sections(RELA)
    header = elf.bytes[rela : rela + 64]
    at, length = struct.unpack_from("<QQ", header, 24)
    table = elf.bytes[at : at + length]
    struct.pack_into("<QQ", header, 24, len(elf.bytes), length * (1 + 240_000 // length))
    elf.bytes += table * (1 + 240_000 // length)
    headers += header * 60_000
    struct.pack_into("<Q", elf.bytes, 40, len(elf.bytes))
    struct.pack_into("<H", elf.bytes, 60, len(headers) // 64)
    elf.bytes += headers
    (tmp_path / "elf").write_bytes(elf.bytes)
    address = functions(sound)["in_table_2"][0]
    code = [sys.executable, "-P", "-c", WITHIN_A_GIGABYTE + NAME_AT]
    assert run(*code, tmp_path / "elf", str(address)) == "table[3]\n"


DAMAGE = r"""
import random
from pyhybrid.symbols.resolve import slot_name

sound = open(sys.argv[1], "rb").read()
regions = [tuple(map(int, region.split(":"))) for region in sys.argv[3:]]
done = {"raised": 0, "named": 0, "not": 0}
for seed in range(800):
    rng, bad = random.Random(seed), bytearray(sound)
    low, high = regions[seed % len(regions)]
    for _ in range(rng.choice((1, 2, 8, 64))):
        bad[rng.randrange(low, high)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    with open(sys.argv[2], "wb") as out:
        out.write(bad)
    try:
        found = ElfSymbols(sys.argv[2]).resolve(range(0x1000, 0x3000, 7))
    except (ValueError, OSError, LookupError):
        done["raised"] += 1
        continue
    places = [f[0] for f in found if f and f[3] == "exported data"]
    for place in places:
        slot_name(place, demangle)
    done["named" if places else "not"] += 1
print(*done.values())
"""


@pytest.mark.exhaustive
def test_damaged_files_never_crash(library: Path, tmp_path: Path) -> None:
    """Bytes of the tables that are read, and of all headers, are overwritten."""
    stripped = library.with_name("libstripped.so")
    lines = run("readelf", "-SW", stripped).replace("[ ", "[").splitlines()
    table = [line.split() for line in lines if line.strip().startswith("[") and "." in line]
    read = (".dynsym", ".dynstr", ".rela.dyn", ".relr.dyn", ".eh_frame_hdr", ".eh_frame",
            ".data", ".data.rel.ro")  # fmt: skip
    found = {row[1]: (int(row[4], 16), int(row[5], 16)) for row in table if row[1] in read}
    regions = [f"{at}:{at + size}" for at, size in found.values() if size]
    length = stripped.stat().st_size
    regions += ["0:64", f"{Elf(stripped).headers}:{length}", f"0:{length}"]
    command = [
        sys.executable,
        "-P",
        "-c",
        WITHIN_A_GIGABYTE + DAMAGE,
        str(stripped),
        str(tmp_path / "bad.so"),
    ]
    process = subprocess.run(
        [*command, *regions], check=False, capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stderr
    raised, named, nameless = map(int, process.stdout.split())
    assert raised + named + nameless == 800
    assert named > 400


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("_ZTVN2at3FooE[3]", "at::Foo::{virtual#3}"),
        ("_ZTV3BoxIiE[2][0]", "Box<int>::{base#2}::{virtual#0}"),
        ("PyList_Type[5]", "PyList_Type[5]"),
        ("_ZZ1fvE5table[12]", "f()::table[12]"),
        ("_ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseERKN3c106ScalarEENS0_30add_stub_"
         "DECLARE_DISPATCH_typeEE6AVX512E[0]", "at::native::add_stub [AVX512]"),
        ("_ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseEENS0_8add_stubEE7DEFAULTE[0]",
         "at::native::add_stub [DEFAULT]"),
        ("nothing", "nothing"),
    ],
)  # fmt: skip
def test_slot_name(place: str, name: str) -> None:
    assert slot_name(place, demangle) == name


def test_a_native_word_gets_the_readable_name() -> None:
    module = SimpleNamespace(id=1, path="/lib/libx.so", build_id="", load_ns=0)
    spool = SimpleNamespace(path="", codes={}, modules={1: module}, functions={}, meta={})
    symbols = SimpleNamespace(resolve=lambda _addresses: [("_ZTV1A[3]", 16, 8, "exported data")])
    word = 1 << ADDRESS_BITS | 20
    named = Symbolizer(cast(Spool, spool), lambda _path, _id: symbols, demangle).name([word])
    assert named == {word: NativeFunction(1, 16, 8, "A::{virtual#3}", "_ZTV1A[3]", "exported data")}
