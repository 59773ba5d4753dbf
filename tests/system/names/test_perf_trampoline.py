"""--perf-trampoline: the real `perf record` around us, and our own stacks with trampolines."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import Run, check_invariants

from pyhybrid.capture.perf_trampoline import has_frame_pointers
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.stack_quality import stack_quality

pytestmark = pytest.mark.version

PROGRAM = """
import os, time

def spin():
    end = time.process_time() + 0.001
    while time.process_time() < end:
        sum(range(100))

def key(_):
    spin()
    return 0

def middle():
    sorted([1, 2], key=key)

def outer():
    end = time.process_time() + 0.6
    while time.process_time() < end:
        middle()

print(os.getpid(), flush=True)
outer()
"""
PATH = ["outer", "middle", "key", "spin"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def leftovers() -> Iterator[list[int]]:
    """The process whose jitdump, and what `perf inject` makes of it, lies in /tmp."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        for path in [*Path("/tmp").glob(f"jitted-{pid}-*.so"), Path(f"/tmp/jit-{pid}.dump")]:
            path.unlink(missing_ok=True)


def in_shell(folder: Path, command: str) -> str:
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.further
@pytest.mark.needs("perf", "root")
def test_the_commands_that_it_advises(
    pyhybrid: Callable[..., Run], program: Path, tmp_path: Path, leftovers: list[int]
) -> None:
    """They give whole stacks; where there are none to be had, it says so."""
    (line,) = (
        pyhybrid("--perf-trampoline", "--format", "folded", "-c", "1")
        .result.stderr[:1000]
        .splitlines()[:1]
    )
    has = "this interpreter has " + ("" if has_frame_pointers() else "no ") + "frame pointers"
    assert line.startswith(f"pyhybrid: perf trampoline on; {has}: for full stacks ")
    record, *read = re.findall("`(.*?)`", line)
    whole = "--perf-trampoline" in record
    if not whole:
        assert not has_frame_pointers()
        assert sys.version_info < (3, 13)
        record = f"{record} -- python -m pyhybrid --perf-trampoline ..."
    ours = f"--mode sample -q {shlex.quote(str(program))}"
    record = record.replace("perf record", "perf record -o perf.data")  # else into a pipe
    command = record.replace("-- python", f"-- {shlex.quote(sys.executable)} -P")
    printed = in_shell(tmp_path, command.replace("...", ours))
    pid = int(printed.split()[0])
    leftovers.append(pid)
    read_it = read[0] if read else "perf report -i perf.data"
    text = in_shell(tmp_path, f"{read_it} --pid {pid} --stdio --children -g none --sort sym")
    found = {
        match[2]: float(match[1])
        for match in re.finditer(r"([\d.]+)% +[\d.]+% +\[\.\] py::(\w+):\S*program\.py", text)
    }
    assert found["spin"] > 20, text
    if whole:
        assert all(found[name] > max(40, 0.95 * found["spin"]) for name in PATH), found
    assert (tmp_path / "out.perf.data").exists()
    assert not (tmp_path / "perf.data.old").exists()  # perf's own has not been moved away


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", ["sample", "hybrid"])
def test_our_own_stacks_are_whole(pyhybrid: Callable[..., Run], program: Path, mode: str) -> None:
    run = pyhybrid("--perf-trampoline", "--mode", mode, program)
    profile = run.profile()
    check_invariants(profile)
    shares = stack_quality(profile)
    assert shares["complete"] > 0.95, shares
    assert shares["complete"] + shares["re_anchored"] > 0.99, shares
    tree = FoldedTree(profile)
    names = [profile.frames[frame].name if frame else "" for frame in tree.frame]
    assert not [name for name in names if "trampoline" in name or name.startswith("py::")]
    trampolines = {
        frame.name for frame in profile.frames.values() if (frame.symbol or "").startswith("py::")
    }
    assert {f"py::{name}:{program}" for name in PATH} <= trampolines
    lines = Path(f"/tmp/perf-{profile.process.pid}.map").read_text().splitlines()
    told = {line.split(" ", 2)[2] for line in lines}
    assert trampolines <= told
    assert any(re.fullmatch(rf"py::spin:{re.escape(str(program))}:4", name) for name in told)


AFTER = """
import os, sys
path = f"/tmp/perf-{os.getpid()}.map"
PREPARE
os.execv(sys.executable, [sys.executable, "-P", "-m", "pyhybrid", *sys.argv[1:]])
"""


def run_after(prepare: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A run in a process whose perf map was there before it."""
    (folder / "before.py").write_text(AFTER.replace("PREPARE", prepare))
    options = ["--perf-trampoline", "-c", "import os; print(os.getpid())"]
    return subprocess.run(
        [sys.executable, "-P", "before.py", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.further
def test_an_old_map_does_not_stay(tmp_path: Path) -> None:
    done = run_after("open(path, 'w').write('10 10 old\\n'); os.utime(path, (1e9, 1e9))", tmp_path)
    assert done.returncode == 0, done.stderr
    text = Path(f"/tmp/perf-{int(done.stdout)}.map").read_text()
    assert " py::" in text
    assert " old" not in text


@pytest.mark.further
@pytest.mark.engine
def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    done = run_after("print(path, flush=True); os.symlink('/nowhere', path)", tmp_path)
    path = Path(done.stdout.strip())
    try:
        assert done.returncode == 1
        why = "there is something else of that name"
        assert done.stderr == f"pyhybrid: --perf-trampoline: {path}: {why}\n"
        assert [each.name for each in tmp_path.iterdir()] == ["before.py"]
    finally:
        path.unlink()


@pytest.mark.further
def test_frame_pointers_are_what_the_code_has() -> None:
    mapped = re.findall(r"/\S*/libpython3\.\S*", Path("/proc/self/maps").read_text())
    file = Path(mapped[0] if mapped else sys.executable).resolve()
    function = ["objdump", "-d", "--disassemble=PyObject_VectorcallMethod", str(file)]
    code = subprocess.run(function, capture_output=True, text=True, check=True).stdout
    assert "ret" in code
    assert has_frame_pointers() == ("%rsp,%rbp" in code)
