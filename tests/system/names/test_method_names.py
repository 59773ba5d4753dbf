"""Names for functions of stripped C extensions, from the interpreter's method tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run, build_extension

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.once

# The program's expressions, and what the function is called that takes their time.
NAMES = {
    "methods.spin(n)": "methods.spin",
    "thing.work(n)": "methods.Thing.work",
    "methods.Thing.made(n)": "methods.Thing.made",
    "methods.Thing.fixed(n)": "methods.Thing.fixed",
    "thing.value": "methods.Thing.value.__get__",
    "setattr(thing, 'value', n)": "methods.Thing.value.__set__",
    "thing + n": "methods.Thing.__add__ or methods.Thing.__radd__",
    "thing == n": "methods.Thing.__eq__ or 5 others",
    "methods.Thing(n)": "methods.Thing.tp_dealloc",
    "methods.first(n)": "methods.first or methods.second",
}
PROGRAM = """
import sys, time
sys.path.insert(0, {folder!r})
import methods
class Hostile:
    __module__ = property(lambda self: print("hostile"))
    __qualname__ = "H\\u00f6stile"
    def __getattr__(self, name): print("hostile")
    def __hash__(self): print("hostile")
    def __eq__(self, other): print("hostile")
    def __class_getitem__(cls, item): print("hostile")
hostile = [Hostile() for _ in range(10)]
made = [type("Sub", (methods.Thing,), {{"__module__": str(i)}}).made for i in range(20)]
n = 200_000
thing = methods.Thing(n)
for expression in {expressions!r}:
    code, end = compile(expression, "expression", "eval"), time.process_time() + 0.15
    while time.process_time() < end:
        eval(code)
print("done")
"""


@pytest.fixture(scope="module")
def methods(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of the C extension tests/targets/methods.c, built with these options."""

    def build(*options: str) -> Path:
        folder = tmp_path_factory.mktemp("methods")
        build_extension(folder, "methods", "-fvisibility=hidden", *options)
        return folder

    return build


def hot(profile: Profile) -> dict[str, tuple[str, str | None]]:
    """Functions of the extension with their own samples: name -> (source, Python's name)."""
    found = {}
    for row in profile.sampled:
        frame = profile.frames[profile.nodes.frame[profile.stacks.node[row.stack]]]
        if frame.module and "/methods." in profile.modules[frame.module].path and row.samples > 20:
            found[frame.name] = (frame.source, frame.python_name)
    return found


LIBRARIES_GO = """
import ctypes, _ctypes
def wait():  # for all that was sampled, and for what has gone, to be noticed
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
wait()
for name in {names!r}:
    try:
        _ctypes.dlclose(ctypes.CDLL(name)._handle)
    except OSError:  # it cannot be loaded: that counts as one that went
        assert name.endswith("needy.so")
wait()
"""


def run(pyhybrid: Callable[..., Run], folder: Path, *expressions: str, after: str = "") -> Profile:
    program = PROGRAM.format(folder=str(folder), expressions=expressions) + after
    result = pyhybrid("--mode", "sample", "--hz", 999, "--format", "folded", "-c", program)
    assert result.result.stdout == "done\n"  # no code of the program has run for this
    return result.profile()


@pytest.mark.version
def test_a_stripped_extension(pyhybrid: Callable[..., Run], methods: Callable[..., Path]) -> None:
    expressions = (*NAMES, "methods.shared3(n)")
    found = hot(run(pyhybrid, methods("-s"), *expressions))
    (shared,) = (name for name in found if "!+0x" in name)  # nobody knows which of them
    assert found.pop(shared) == ("fde", None)
    assert found == {name: ("method table", name) for name in NAMES.values()}


@pytest.mark.further
@pytest.mark.parametrize("which", ["plain", "needy"])
def test_names_stay_when_another_library_goes(
    pyhybrid: Callable[..., Run], methods: Callable[..., Path], tmp_path: Path, which: str
) -> None:
    """One that is unloaded, and one that lacks a symbol."""
    source = {"plain": "int f;", "needy": "int nowhere(void); int f(void) { return nowhere(); }"}
    library = tmp_path / f"{which}.so"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-z,now", "-xc", "-", "-o", library]
    subprocess.run(command, input=source[which], text=True, check=True)
    after = LIBRARIES_GO.format(names=[str(library)])
    found = hot(run(pyhybrid, methods("-s"), "methods.spin(n)", after=after))
    assert found == {"methods.spin": ("method table", "methods.spin")}


@pytest.mark.further
@pytest.mark.version
def test_beside_symbols(pyhybrid: Callable[..., Run], methods: Callable[..., Path]) -> None:
    found = hot(run(pyhybrid, methods(), "methods.spin(n)", "methods.shared3(n)"))
    assert found == {"spin": ("symtab", "methods.spin"), "dispatch": ("symtab", None)}


@pytest.mark.further
def test_the_kernels_code_in_the_process(pyhybrid: Callable[..., Run]) -> None:
    program = "import time\nfor _ in range(6_000_000): time.monotonic_ns()"
    run = pyhybrid("--mode", "sample", "--hz", 999, "--format", "folded", "-c", program)
    profile = run.profile()
    frames = profile.frames.values()
    modules = {number for number, each in profile.modules.items() if each.path == "[vdso]"}
    names = {(frame.name, frame.source) for frame in frames if frame.module in modules}
    assert ("__vdso_clock_gettime", "dynsym") in names


@pytest.mark.further
def test_starts_in_libc(tmp_path: Path) -> None:
    """Of a program that began the profiler, down to the thread's root."""
    program = (
        "import pyhybrid, threading\n"
        "profiler = pyhybrid.Profiler(mode='sample', output='out')\n"
        "profiler.start()\n"
        "def work(): sum(range(10_000_000))\n"
        "threads = [threading.Thread(target=work) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "work()\n"
        "for thread in threads: thread.join()\n"
        "profiler.stop()"
    )
    subprocess.run([sys.executable, "-P", "-c", program], cwd=tmp_path, check=True)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        names = {frame.name for frame in profile.frames.values()}
    assert {"start_thread", "__libc_start_call_main"} <= names
    assert names & {"clone3", "__clone3"}  # by its role; as libc's debug file calls it
