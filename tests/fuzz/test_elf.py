"""The readers of ELF files under libFuzzer: no crash, no leak, no hang, and memory in proportion.

Each target runs for PYHYBRID_FUZZ_S seconds (2; 8 in `make test-all`) from the same seed on; `make
fuzz` lets it run for a minute, each time from another one.  An input that fails is printed; once
mended it goes to corpus/TARGET, which always runs first.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import elf_seeds
import pytest
from support import made_once

pytestmark = pytest.mark.needs("clang", "plain_build")

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "symbolize"
FOLDERS = (SOURCE, *(each for each in sorted(SOURCE.iterdir()) if each.is_dir()))
SECONDS = int(os.environ.get("PYHYBRID_FUZZ_S", "2"))
SEED = os.environ.get("PYHYBRID_FUZZ_SEED", "1")
LIBRARIES = ("libelf", "libdw", "liblzma", "zlib")
FLAGS = ("-g", "-O1", "-D_GNU_SOURCE", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
SANITIZERS = "-fsanitize=fuzzer,address,undefined"
TIMEOUT_S = 20  # of one input: a hang
LARGEST = 64 << 10  # bytes of an input
LONGEST = 1000  # bytes of a name
TARGETS = {  # sources beside fuzz_TARGET.c, and options
    "symbols": (("elf_mutator.c",), ()),
    "lines": (("elf_mutator.c",), ()),
    "demangle": ((), (f"-max_len={LONGEST}",)),
}


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all targets have: the readers and input.c, compiled."""
    readers = [each for each in SOURCE.rglob("*.c") if each.name != "module.c"]
    sources = [*readers, HERE / "input.c"]
    return made_once(
        tmp_path_factory, "objects", lambda to: clang(SANITIZERS, "-c", *sources, cwd=to)
    )


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of whole inputs, by target."""
    elf = made_once(tmp_path_factory, "elf", elf_seeds.build)
    names = made_once(tmp_path_factory, "names", elf_seeds.names)
    return {"symbols": elf, "lines": elf, "demangle": names}


def of_libraries(what: str) -> list[str]:
    return shlex.split(elf_seeds.run("pkg-config", what, *LIBRARIES, cwd=HERE))


def clang(*arguments: str | Path, cwd: Path) -> None:
    flags = [*FLAGS, *of_libraries("--cflags"), *(f"-I{each}" for each in (*FOLDERS, HERE))]
    subprocess.run(["clang", *flags, *arguments], cwd=cwd, check=True)


def link(target: str, objects: Path) -> Path:
    libraries = [*of_libraries("--libs"), "-l:libstdc++.a"]
    wrapped = ("-Wl,--wrap=mmap", "-Wl,--wrap=munmap")
    sources = [HERE / name for name in (f"fuzz_{target}.c", *TARGETS[target][0])]
    inputs, program = [*sources, *sorted(objects.glob("*.o"))], objects / f"fuzz_{target}"
    clang(SANITIZERS, *wrapped, *inputs, *libraries, "-o", program, cwd=objects)
    return program


@pytest.mark.parametrize("target", TARGETS)
def test_target(target: str, objects: Path, seeds: dict[str, Path], tmp_path: Path) -> None:
    program = link(target, objects)
    work, found = tmp_path / "work", tmp_path / "found"
    work.mkdir()
    found.mkdir()
    if target == "symbols":
        elf_seeds.surroundings(seeds[target], work)
    corpus = tmp_path / "corpus"
    shutil.copytree(seeds[target], corpus)
    if (known := HERE / "corpus" / target).exists():
        shutil.copytree(known, corpus, dirs_exist_ok=True)
    options = (
        f"-max_total_time={SECONDS}",
        f"-seed={SEED}",
        f"-timeout={TIMEOUT_S}",
        f"-max_len={LARGEST}",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
        *TARGETS[target][1],
    )
    done = subprocess.run(
        [program, *options, corpus], cwd=work, capture_output=True, text=True, check=False
    )
    print("\n".join(done.stderr.splitlines()[-30:]))  # with -s: what was reached
    assert done.returncode == 0, describe(target, done.stderr, found)


def describe(target: str, log: str, found: Path) -> str:
    inputs = [f"{each.name}: {each.read_bytes().hex()}" for each in found.iterdir()]
    told = [line for line in log.splitlines() if not line.startswith("#")]  # not its progress
    return "\n".join([f"fuzz_{target}:", *told[-80:], *inputs])
