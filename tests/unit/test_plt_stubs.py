"""Names of linkage stubs (`memcpy@plt`), against objdump's, which finds them in its own way."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elf_functions import readelf, stubs

from pyhybrid._symbolize import ElfSymbols
from pyhybrid.views.labels import shorten_native

SOURCE = r"""
extern int elsewhere(int), sometimes(int);
namespace space { int cpp(double); struct S { int get() const; }; int S::get() const { return 2; } }
int (*pointer)(int);
extern "C" {
static int implementation(int x) { return x; }
static int (*choose(void))(int) { return implementation; }
__attribute__((visibility("hidden"), ifunc("choose"))) int chosen(int x);
int call(int x) {
    pointer = sometimes; /* and called: its stub may share the pointer's slot */
    return elsewhere(x) + sometimes(x) + chosen(x) + space::cpp(x) + space::S().get();
}
}
"""
CALLED = {"_Z9elsewherei@plt", "_Z9sometimesi@plt", "_ZN5space3cppEd@plt", "_ZNK5space1S3getEv@plt"}
CHOSEN = {"choose@plt", "chosen@plt"}  # the resolver's name, and what it chooses
VARIANTS: dict[str, tuple[str, ...]] = {
    "lazy": ("-Wl,-z,lazy",),
    "now": ("-Wl,-z,now",),
    "branch tracking": ("-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"),
    "packed relocations": ("-Wl,-z,pack-relative-relocs",),
}
for linker in "gold", "lld", "mold":  # those that are here; newer binutils are without gold
    if shutil.which(f"ld.{linker}"):
        VARIANTS[linker] = (f"-fuse-ld={linker}",)


def build(folder: Path, *options: str) -> Path:
    (folder / "stubs.cc").write_text(SOURCE)
    out = folder / "libstubs.so"
    command = ["g++", "-shared", "-fPIC", "-O1", *options, "-o", str(out), "stubs.cc"]
    subprocess.run(command, cwd=folder, check=True)
    return out


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("is_stripped", [False, True])
def test_as_objdump(tmp_path: Path, options: tuple[str, ...], is_stripped: bool) -> None:
    library = build(tmp_path, *options)
    truth: dict[int, set[str]] = {}
    for stub in stubs(library, readelf(library)):
        truth.setdefault(stub.start, set()).add(stub.name)
    if is_stripped:
        subprocess.run(["strip", "--strip-all", library], check=True)
    symbols = ElfSymbols(str(library))
    assert set().union(*truth.values()) >= CALLED | CHOSEN
    for start, names in truth.items():
        for address in (start, start + 5):
            (found,) = symbols.resolve([address])
            if names == CHOSEN:
                assert (found and found[0]) == (None if is_stripped else "chosen@plt")
            else:
                assert found is not None
                name, begin, size, source = found
                assert (name, begin, source) == (*names, start, "plt")
                assert size in {8, 16}


def test_what_jumps_nowhere_in_particular_has_no_name(tmp_path: Path) -> None:
    """The first stub calls the dynamic linker; the last one is followed by other code."""
    library = build(tmp_path, "-Wl,-z,lazy")
    first = min(stub.start for stub in stubs(library, readelf(library))) - 16
    symbols = ElfSymbols(str(library))
    assert symbols.resolve([first, first + 6]) == [None, None]


def test_libc() -> None:
    """An exported IFUNC has a name though libc is stripped."""
    (library,) = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if re.search(r"/libc(\.so\.6|-[\d.]+\.so)$", line)
    }
    known = readelf(Path(library))
    truth = stubs(Path(library), known)
    found = ElfSymbols(library, None, "").resolve([each.start for each in truth])
    names = {
        each.start: {other.name for other in truth if other.start == each.start} for each in truth
    }
    for stub, symbol in zip(truth, found, strict=True):
        assert symbol is not None and symbol[0] in names[stub.start]


@pytest.mark.parametrize(
    ("name", "short"),
    [("memcpy@plt", "memcpy@plt"), ("int space::S<int>::get(int) const@plt", "space::S::get@plt")],
)
def test_short_names(name: str, short: str) -> None:
    assert shorten_native(name) == short
