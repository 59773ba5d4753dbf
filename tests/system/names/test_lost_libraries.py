"""Libraries whose file is not what ran: deleted, replaced, or only ever in memory."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run

SOURCE = """
double %(name)s(double s)
{
    volatile double t = 0;
    for (long i = 0; i < s * 2e8; i++)
        t += 1;
    return t;
}
"""

PROGRAM = """
import ctypes, os, sys, time

def load(path, name):
    function = getattr(ctypes.CDLL(path), name)
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
    return function

works = [load(os.path.abspath(f"lib{name}.so"), name) for name in ("deleted", "replaced")]
os.unlink("libdeleted.so")
os.rename("libother.so", "libreplaced.so")
file = os.memfd_create("inmemory")
with open("libinmemory.so", "rb") as library:
    os.write(file, library.read())
works.append(load(f"/proc/self/fd/{file}", "inmemory"))
os.close(file)
for work in works:
    began = time.thread_time()
    while time.thread_time() - began < 0.15:
        work(0.02)
"""

NAMES = ("deleted", "replaced", "inmemory")


@pytest.fixture
def libraries(tmp_path: Path) -> None:
    for name in (*NAMES, "other"):
        source = SOURCE % {"name": name}
        command = ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", f"lib{name}.so"]
        command += ["-Wl,--build-id", f"-Wl,--hash-style={'sysv' if name == 'deleted' else 'gnu'}"]
        subprocess.run(command, input=source, text=True, check=True, cwd=tmp_path)


def self_ns(run: Run) -> Counter[str]:
    """By name and library."""
    profile, weights = run.profile(), Counter[str]()
    for row in profile.sampled:
        frame = profile.frames[profile.nodes.frame[profile.stacks.node[row.stack]]]
        library = Path(profile.modules[frame.module].path).name if frame.module else ""
        weights[f"{frame.name} {library}"] = (
            weights.get(f"{frame.name} {library}", 0) + row.weight_ns
        )
    return weights


@pytest.mark.engine
@pytest.mark.usefixtures("libraries")
def test_the_process_still_has_the_names(pyhybrid: Callable[..., Run]) -> None:
    found = self_ns(pyhybrid("-c", PROGRAM))
    expected = ["deleted libdeleted.so", "replaced libreplaced.so", "inmemory memfd:inmemory"]
    for name in expected:
        assert found[name] > 0.1e9, found


MAPPED_ONLY = """
import sys
from pyhybrid.symbols import mapped, resolve
from pyhybrid.spool.content import Module, Spool

def refuse(path, build_id):
    raise FileNotFoundError(2, "no such file", path)

mapped.default_loader = lambda: (refuse, str)
"""


@pytest.mark.further
@pytest.mark.usefixtures("libraries")
def test_by_memory_alone(tmp_path: Path) -> None:
    """As where nobody may follow map_files."""
    code = (
        MAPPED_ONLY
        + """
import ctypes, os, subprocess
for name in ("deleted", "replaced"):
    function = getattr(ctypes.CDLL(os.path.abspath(f"lib{name}.so")), name)
    address = ctypes.cast(function, ctypes.c_void_p).value
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps if f"lib{name}.so" in line]
    base = int(lines[0][0].split("-")[0], 16)
    notes = subprocess.check_output(["readelf", "-n", f"lib{name}.so"], text=True)
    build_id = notes.split("Build ID: ")[1].split()[0]
    spool = Spool("x.part", os.getpid())
    spool.meta = {"pid": os.getpid()}
    spool.modules[1] = Module(1, base, 0, None, build_id, f"lib{name}.so", [])
    load, _ = mapped.loader_of(spool)
    symbols = load(f"lib{name}.so", build_id)
    (found, before) = symbols.resolve([address - base + 5, 0])
    assert (found[0], found[1], before) == (name, address - base, None), found
    try:
        load(f"lib{name}.so", build_id[::-1])
    except FileNotFoundError:
        pass
    else:
        sys.exit("another build has names")
"""
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=tmp_path)
