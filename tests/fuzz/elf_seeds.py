"""Small ELF files of every kind that the readers know, from which the fuzzers make damaged ones."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

CODE = r"""
namespace space {
struct Base { virtual ~Base() {} virtual int first(int x) { return x; } };
struct Derived : Base { int first(int x) override; virtual int second(int x); };
struct Other { virtual ~Other() {} virtual int third(int x) { return x - 1; } };
struct Both : virtual Base, Other { int third(int x) override; };
__attribute__((noinline)) static int hidden(int x) { return x * 3; }
static inline int inlined(int x) { return hidden(x) + 1; }
int Derived::first(int x) { return inlined(x) + inlined(x + 1); }
int Both::third(int x) { return x + 3; }
int Derived::second(int x) { if (x < 0) throw x; return hidden(x); }
template <typename T> struct Box { __attribute__((noinline)) T take(T x); };
template <typename T> T Box<T>::take(T x) { return x + 1; }
template struct Box<int>;
}
static int implementation(int x) { return x; }
extern "C" {
__attribute__((cold, noinline, used)) static void fails(int x) { throw x; }
void *choose(void) { return (void *)implementation; }
int chosen(int x) __attribute__((ifunc("choose")));
__attribute__((visibility("hidden"), ifunc("choose"))) int chosen_here(int x);
int calls_stubs(int x) { return chosen(x) + chosen_here(x); }
int (*table[])(int) = {implementation, space::hidden};
int guarded(int x) { if (__builtin_expect(x == 7, 0)) fails(x); return x; }
__asm__(".text\n.globl unsized\n.type unsized, @function\nunsized: nop\nnop\n");
}
int main(int argc, char **) { return guarded(argc); }
"""
SMALL = ("-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=64", "-Wl,-z,norelro")
SHARED = ("-shared", "-fPIC", "-Wl,--build-id=sha1")
BUILDS: dict[str, tuple[str, ...]] = {
    "plain.so": (*SHARED, "-O1"),
    "cold.so": (*SHARED, "-O2", "-freorder-blocks-and-partition"),
    "packed_relocations.so": (*SHARED, "-O1", "-Wl,-z,pack-relative-relocs"),
    "branch_tracking.so": (*SHARED, "-O1", "-fcf-protection", "-Wl,-z,ibtplt"),
    "program": ("-O1", "-no-pie"),
    "dwarf4.so": (*SHARED, "-O2", "-gdwarf-4"),
    "dwarf5.so": (*SHARED, "-O2", "-gdwarf-5"),
    "compressed.so": (*SHARED, "-O2", "-gdwarf-5", "-gz=zlib"),
    "compressed_gnu.so": (*SHARED, "-O2", "-gdwarf-4", "-gz=zlib-gnu"),
    "one_unit.so": (*SHARED, "-O2", "-g1"),
}
ROOTS = ("roots", "other_roots")  # where DEBUG_ROOTS (input.h) looks


def run(*command: str | Path, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def pack(plain: Path) -> bytes:
    """Without checksums of its contents, which would stop every damaged file."""
    return lzma.compress(plain.read_bytes(), lzma.FORMAT_XZ, lzma.CHECK_NONE, preset=0)


def build(folder: Path) -> None:
    """The files, in `folder`; those that this linker cannot make are left out."""
    (folder / "code.cc").write_text(CODE)
    for name, flags in BUILDS.items():
        command = ("g++", "-nostartfiles", *SMALL, *flags, "-w", "-o", name, "code.cc")
        if "-shared" in flags:
            command = (*command, "-nostdlib")
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        if done.returncode and name != "packed_relocations.so":
            raise RuntimeError(done.stderr.decode())
    run("strip", "--strip-all", "-o", "bare.so", "plain.so", cwd=folder)
    run("objcopy", "--only-keep-debug", "dwarf5.so", "split.debug", cwd=folder)
    link = ("objcopy", "--strip-all", "--add-gnu-debuglink=split.debug")
    run(*link, "dwarf5.so", "linked.so", cwd=folder)
    (folder / "packed.xz").write_bytes(pack(folder / "plain.so"))
    add = ("objcopy", "--add-section", ".gnu_debugdata=packed.xz")
    run(*add, "bare.so", "debugdata.so", cwd=folder)
    for unwanted in ("code.cc", "packed.xz"):
        (folder / unwanted).unlink()


def surroundings(seeds: Path, folder: Path) -> None:
    """What a target finds beside its input (fuzz_symbols.c): a stripped library, whose debug file
    by build-id the input is."""
    (folder / "stripped.so").write_bytes((seeds / "linked.so").read_bytes())
    (folder / "split.debug").write_bytes((seeds / "split.debug").read_bytes())
    text = run("readelf", "-n", folder / "stripped.so", cwd=folder)
    build_id = text.split("Build ID:")[1].split()[0]
    for root in ROOTS:
        (folder / root).mkdir()
    place = folder / ROOTS[0] / ".build-id" / build_id[:2]
    place.mkdir(parents=True)
    (place / f"{build_id[2:]}.debug").symlink_to(folder / "input")


NAMES = (
    b"ZN5space7Derived5firstEi",
    b"ZN5space3BoxIiE4takeEi",
    b"ZSt4moveIRSt10unique_ptrIiSt14default_deleteIiEEEONSt16remove_referenceIT_E4typeEOS5_",
    b"ZZN1a1bIZNS_1cEvEUlT_E_EEvS1_ENKUlvE_clEv",
    b"ZN2at6native12_GLOBAL__N_18templateIJflEEEvRKNS_6TensorEDpT_",
    b"ZTV3Foo",
    b"ZZTIN1AE",
    b"Z1fIXadL_Z1gvEEEvDTcl1gfp_EE",
    b"Z1fSt4pairIiiES_IS0_S0_ES_IS1_S1_ES_IS2_S2_E",
    b"ZN61_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
    b"RNvMs_Cs4Cv8Wi1oAIB_7mycrateINtB4_7ExamplemKj2_E4pushB4_",
    b"RNvNtNtCsgOH4LzxkuMq_7mycrateu8gdel_5qa6escher4bach",
    b"RINvC1a1fDG_INtC1a1TRL0_hEp4ItemtNtC1a4SendEL_Kc41_Kan80_FUKCvEuTlmEE",
    b"RNCNvCsgStHSCytQ6I_7mycrate4mains_0B3_.llvm.77",
)


def names(folder: Path) -> None:
    for number, name in enumerate(NAMES):
        (folder / f"{number}").write_bytes(name)
