"""Machine code that a program makes has the names that the program tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run, check_invariants, paths

# Two functions that count down from their argument, each in a page of its own.  argv[1]: how the
# program tells their names.
PROGRAM = """
import ctypes, mmap, os, struct, sys, time

COUNT = bytes.fromhex("4889f9 48ffc9 75fb c3")  # mov rcx, rdi; dec rcx; jnz; ret
keep = []

def make(name):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(COUNT)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    keep.append(memory)
    tell(address, name)
    return ctypes.CFUNCTYPE(None, ctypes.c_long)(address)

def perf_map(address, name):
    with open(f"/tmp/perf-{os.getpid()}.map", "a") as file:
        file.write(f"{address:x} {len(COUNT):x} {name}\\n")

def jitdump(address, name):
    if not dump:
        dump.append(open(f"{os.getcwd()}/jit-{os.getpid()}.dump", "w+b"))
        dump[0].write(struct.pack("<6IQQ", 0x4A695444, 1, 40, 62, 0, os.getpid(), 0, 0))
        dump[0].flush()
        marker = mmap.mmap(dump[0].fileno(), 40, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        keep.append(marker)
    body = struct.pack("<IIQQQQ", os.getpid(), 0, address, address, len(COUNT), len(keep))
    body += name.encode() + b"\\0" + COUNT
    dump[0].write(struct.pack("<IIQ", 0, 16 + len(body), 0) + body)
    dump[0].flush()

def nothing(address, name):
    pass

def call_add(count):
    count(1_000_000)

def call_mul(count):
    count(1_000_000)

dump = []
tell = globals()[sys.argv[1]]
add, mul = make("jit_add(int, int)"), make("jit_mul of a kernel")
end = time.process_time() + (0.8 if os.geteuid() == 0 else 2.5)  # by timers at 250 Hz
while time.process_time() < end:
    call_add(add)
    call_mul(mul)
"""


@pytest.fixture
def run(pyhybrid: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return lambda how, *options: pyhybrid(*options, program, how)


def under(found: Run, caller: str) -> dict[str, int]:
    """Samples by the innermost frame's name, of those below the Python function."""
    counts: dict[str, int] = {}
    for samples, kinds, names in paths(found.profile()):
        if ("python", caller) in zip(kinds, names, strict=True) and kinds[-1] == "native":
            counts[names[-1]] = counts.get(names[-1], 0) + samples
    return counts


def check_names(found: Run, source: str) -> None:
    profile = found.profile()
    check_invariants(profile)
    for caller, name in (("call_add", "jit_add(int, int)"), ("call_mul", "jit_mul of a kernel")):
        counts = under(found, caller)
        assert counts.get(name, 0) > 50, counts
        assert counts[name] > 0.8 * sum(counts.values()), counts
        (frame,) = (f for f in profile.frames.values() if f.name == name)
        assert (frame.module, frame.source, frame.symbol) == (None, source, name)
    assert not [note for note in profile.meta["notes"] if "JIT" in note]


def test_perf_map_of_the_program(run: Callable[..., Run]) -> None:
    found = run("perf_map")
    check_names(found, "jit map")
    path = Path(f"/tmp/perf-{found.profile().process.pid}.map")
    names = [line.split(" ", 2)[2] for line in path.read_text().splitlines()]
    assert any(name.startswith("py::call_add:") for name in names)
    assert {"jit_add[int, int]", "jit_mul of a kernel"} <= set(names)


def test_jitdump_of_the_program(run: Callable[..., Run]) -> None:
    found = run("jitdump")
    check_names(found, "jitdump")
    pid = found.profile().process.pid
    assert found.profile().meta["jitdumps"] == [f"{os.path.realpath(found.folder)}/jit-{pid}.dump"]


@pytest.mark.further
def test_code_without_a_name(run: Callable[..., Run]) -> None:
    found = run("nothing")
    assert under(found, "call_add")["[jit]"] > 50
    assert found.profile().meta["perf_map"] is None


@pytest.mark.further
def test_an_old_map_is_not_believed(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Of a process that had the same number."""
    program = tmp_path / "program.py"
    old = (
        "import os, sys\n"
        "path = f'/tmp/perf-{os.getpid()}.map'\n"
        "open(path, 'w').write('0 7fffffff old\\n')\n"
        "os.utime(path, (1e9, 1e9))\n"
        "sys.argv[1] = 'nothing'\n"
    )
    program.write_text(old + PROGRAM)
    found = pyhybrid(program, "nothing")
    assert found.profile().meta["perf_map"] is None
    assert "old" not in {frame.name for frame in found.profile().frames.values()}
