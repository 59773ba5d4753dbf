"""Processes that run already: a profile of them, and nothing else that they would notice."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS

import pyhybrid
from pyhybrid.attach.processes import Process
from pyhybrid.attach.ways import begin_by_ptrace, package_folders

PYHYBRID = [sys.executable, "-P", "-m", "pyhybrid"]
MODES = ("loop", "sleep", "join", "epoll", "c", "alone")
QUICK = ("--duration", "200ms", "--format", "folded")
# The handler of SIGTRAP stays; the C library takes 32 and 33 when the first thread begins.
NOT_COMPARED = 1 << signal.SIGTRAP - 1 | 3 << 31
SOON_S = 60


class Program:
    """attached.py in some mode."""

    def __init__(
        self, folder: Path, mode: str, *, before: tuple[str, ...] = (), **variables: str
    ) -> None:
        self.folder = folder
        words = *before, str(TARGETS / "attached.py"), mode, str(folder)
        self._begin([sys.executable, "-P", *words], {**os.environ, **variables})
        self.pid = self.own_number

    def _begin(self, command: list[str], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdout=pipe, text=True)
        assert self.process.stdout
        self.own_number = int(self.process.stdout.readline())

    def ends(self) -> None:
        """It ends in order, and has found itself as it was."""
        (self.folder / "end").touch()
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        before, after = json.loads(out)
        if any(name == "worker" for name in before["threads"]):
            before["threads"] = after["threads"] = []
        assert after == before

    def outside(self) -> dict[str, object]:
        """What /proc shows of it, but for what is not compared."""
        of = f"/proc/{self.pid}"
        status = Path(f"{of}/status").read_text()
        caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
        assert caught
        links = []
        for name in os.listdir(f"{of}/fd"):
            with contextlib.suppress(OSError):  # one that it has opened for a moment
                links.append(os.readlink(f"{of}/fd/{name}"))
        return {
            "threads": len(os.listdir(f"{of}/task")),
            "files": sorted(each for each in links if not each.startswith("/proc")),
            "caught": int(caught[1], 16) & ~NOT_COMPARED,
        }

    def is_as(self, before: dict[str, object]) -> None:
        """So it is soon: its thread of ours ends after it has told."""
        until = time.monotonic() + SOON_S
        while self.outside() != before and time.monotonic() < until:
            time.sleep(0.01)
        assert self.outside() == before


LISTENS = """
import runpy, sys
sys.path.insert(0, "/package")
import pyhybrid
pyhybrid.listen()
del sys.path[0], sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
BWRAP = [
    "bwrap",
    "--die-with-parent",
    "--unshare-pid",
    "--tmpfs",
    "/tmp",
    "--ro-bind",
    "/usr",
    "/usr",
]
BWRAP += ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
BWRAP += ["--proc", "/proc", "--dev", "/dev"]


class Contained(Program):
    """The same in a container: its own numbers, and files of its own, in which pyhybrid is only
    where it listens."""

    def __init__(self, folder: Path, mode: str, *, listens: bool) -> None:
        self.folder = folder
        python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
        words = [*BWRAP, "--bind", str(folder), "/data"]
        for path in (sys.base_prefix, TARGETS):
            words += ["--ro-bind", str(path), str(path)]
        if listens:
            words += ["--ro-bind", os.path.dirname(pyhybrid.__path__[0]), "/package"]
        begun = ["-c", LISTENS] if listens else []
        words += [python, "-P", *begun, str(TARGETS / "attached.py"), mode, "/data"]
        self._begin(words, dict(os.environ))
        self.pid = self._below(self.process.pid)

    def _below(self, pid: int) -> int:
        """The process that has no children."""
        of = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return self._below(int(of[0])) if of else pid


@pytest.fixture
def program(tmp_path: Path) -> Iterator[type[Program]]:
    started: list[Program] = []

    def start(mode: str, **variables: str) -> Program:
        started.append(Program(tmp_path, mode, **variables))
        return started[-1]

    yield start  # type: ignore[misc]
    for each in started:
        each.process.kill()
        each.process.communicate()


def attach(*words: object, folder: Path, code: int = 0) -> str:
    command = [*PYHYBRID, "attach", *map(str, words)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == code, done.stderr
    if code:
        assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def calls_of(profile: Path, name: str) -> int:
    with pyhybrid.load(profile) as opened:
        frames = {number for number, frame in opened.frames.items() if frame.name == name}
        return sum(row.calls for row in opened.exact if opened.nodes.frame[row.node] in frames)


@pytest.mark.version
@pytest.mark.first_cases(3)
@pytest.mark.parametrize("mode", MODES)
def test_it_is_profiled_and_as_before(program: type[Program], tmp_path: Path, mode: str) -> None:
    of = program(mode)
    before = of.outside()
    said = attach(*QUICK, of.pid, folder=tmp_path)
    assert re.match(
        rf"pyhybrid: process {of.pid} is profiled for 0.2 s \(by (ptrace|sys.remote_exec)", said
    )
    of.is_as(before)
    assert mode in ("c", "alone") or calls_of(tmp_path / "out.pyhybrid", "inner") > 0
    of.ends()


def test_one_that_listens(program: type[Program], tmp_path: Path) -> None:
    of = program("loop", PYHYBRID_LISTEN="1")
    before = of.outside()
    for _ in range(2):
        assert "(by its own signal)" in attach(*QUICK, of.pid, folder=tmp_path)
        of.is_as(before)
    assert not Path(f"/tmp/pyhybrid-request-{of.pid}").exists()
    of.ends()


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.version
@pytest.mark.parametrize("mode", ["loop", "join"])
def test_again_and_again(program: type[Program], tmp_path: Path, mode: str) -> None:
    of = program(mode)
    before = of.outside()
    for _ in range(20):
        attach(*QUICK, "-q", of.pid, folder=tmp_path)
    of.is_as(before)
    of.ends()


def test_what_cannot_be(program: type[Program], tmp_path: Path) -> None:
    """One line each, and exit code 2."""
    of = program("sleep")
    other = subprocess.Popen(["sleep", "600"])
    try:
        gone = subprocess.Popen(["true"])
        gone.wait()
        for pid, said in (
            (gone.pid, f"there is no process {gone.pid}"),
            (other.pid, "is no Python 3.12 or newer: it runs "),
            (of.pid, "nothing is attached to process"),
        ):
            words = ["--stop"] if pid == of.pid else []
            assert said in attach(*words, pid, folder=tmp_path, code=2)
    finally:
        other.kill()
        other.wait()
    for words, said in ((["-p"], "-p is not for"), (["--emit", "print"], "--emit is not")):
        assert said in attach(*words, of.pid, folder=tmp_path, code=2)
    os.kill(of.pid, signal.SIGSTOP)
    assert f"is stopped: `kill -CONT {of.pid}` lets it" in attach(of.pid, folder=tmp_path, code=2)
    assert "in_sleep" in dump(of.pid)
    os.kill(of.pid, signal.SIGCONT)
    assert not list(tmp_path.glob("*.part"))
    of.ends()


def test_who_attached_ends_it_or_dies(program: type[Program], tmp_path: Path) -> None:
    of = program("sleep")
    before = of.outside()
    words = [*PYHYBRID, "attach", "--duration", "600", "-o", "a", str(of.pid)]
    first = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert first.stderr and "is profiled" in first.stderr.readline()
    assert "it is profiled already" in attach(*QUICK, of.pid, folder=tmp_path, code=2)
    attach("--stop", of.pid, folder=tmp_path)
    assert "wrote " in first.communicate(timeout=PATIENCE_S)[1]
    assert first.returncode == 0
    of.is_as(before)
    second = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert second.stderr and "is profiled" in second.stderr.readline()
    second.kill()
    second.communicate()
    of.is_as(before)
    assert not list(Path("/tmp").glob(f"pyhybrid-attach-{of.pid}-*"))
    subprocess.run([*PYHYBRID, "report", "a.pyhybrid.part"], cwd=tmp_path, check=True)
    of.ends()


def test_ticks_meet_a_borrowed_thread(program: type[Program], tmp_path: Path) -> None:
    """A process that is profiled is refused; where it begins meanwhile, nothing happens to it."""
    output = str(tmp_path / "x")
    of = program("sleep", before=("-m", "pyhybrid", "--hz", "20000", "-q", "-o", output))
    assert "it is profiled already" in attach(of.pid, folder=tmp_path, code=2)
    process = Process(of.pid)
    for _ in range(20):
        begin_by_ptrace(process, str(tmp_path / "nobody listens"), package_folders())
    (tmp_path / "end").touch()
    of.process.communicate(timeout=PATIENCE_S)
    assert of.process.returncode == 0


VARIABLES = """
import sys
class Own: pass
def outer(path, shared=5):
    def inner(step, *more, ratio=2.5):
        none, yes, negative, large = None, True, -12345678901, 1 << 100
        long, wide, rows, known, own = "x" * 300, "ä€😀", [1, 2, 3], {1: 2}, Own()
        own, own.shared, gone = own, shared, 1
        del gone
        print(flush=True)
        sys.stdin.read()
    inner(7, 8, 9)
outer("/data/7.bin")
"""


@pytest.mark.version
def test_local_variables() -> None:
    command = [sys.executable, "-P", "-c", VARIABLES]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        process.stdout.readline()
        words = [*PYHYBRID, "dump", "--locals", "--json", str(process.pid)]
        done = subprocess.run(words, capture_output=True, check=True, timeout=PATIENCE_S)
        shown = subprocess.run([*words[:-2], words[-1]], capture_output=True, check=True, text=True)
        process.communicate(b"")
    ((thread,),) = (each["threads"] for each in json.loads(done.stdout))
    found = {each["name"]: dict(each["variables"]) for each in thread["frames"]}
    assert found["outer.<locals>.inner"] == {
        "step": "7",
        "more": "<tuple of 2>",
        "ratio": "2.5",
        "none": "None",
        "yes": "True",
        "negative": "-12345678901",
        "large": "<int of 120 bits>",
        "long": repr("x" * 100) + "...",
        "wide": "'ä€😀'",
        "rows": "<list of 3>",
        "known": "<dict of 1>",
        "own": "<Own>",
        "shared": "5",
    }
    assert found["outer"]["path"] == "'/data/7.bin'"
    assert "        step = 7\n" in shown.stdout


@pytest.mark.further
def test_a_ring_of_profiles(program: type[Program], tmp_path: Path) -> None:
    """A ring of profiles, of which the newest stay, until the process ends."""
    of = program("sleep")
    words = [*PYHYBRID, "attach", *QUICK, "--every", "1s", "--keep-profiles", "2", "-o", "ring/a"]
    ring = subprocess.Popen([*words, str(of.pid)], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    seen: set[str] = set()
    until = time.monotonic() + PATIENCE_S
    while len(seen) < 4:
        seen.update(each.name for each in tmp_path.glob("ring/*.pyhybrid"))
        assert time.monotonic() < until
        time.sleep(0.02)
    of.ends()
    _, said = ring.communicate(timeout=PATIENCE_S)
    assert said.splitlines()[-1] == f"pyhybrid: process {of.pid} has ended"
    left = sorted(each.name for each in tmp_path.glob("ring/*"))
    assert len(left) == 4  # each with its folded stacks
    assert all(re.match(r"a-\d{8}-\d{6}\.", name) for name in left)
    attach("--every", "1s", "--duration", "2s", of.pid, folder=tmp_path, code=2)


def test_of_three_who_attach_one_profiles(program: type[Program], tmp_path: Path) -> None:
    """One profiles it, the others are refused, and it goes on."""
    of = program("sleep")
    for _ in range(3):
        begun = [
            subprocess.Popen(
                [*PYHYBRID, "attach", *QUICK, "-q", "-o", f"a{n}", str(of.pid)],
                cwd=tmp_path, stderr=subprocess.PIPE, text=True,
            )
            for n in range(3)
        ]  # fmt: skip
        said = [each.communicate(timeout=PATIENCE_S)[1] for each in begun]
        for each, line in zip(begun, said, strict=True):
            assert "already" in line if each.returncode else not line, said
        assert 0 in [each.returncode for each in begun]
    of.ends()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(
    program: type[Program], tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM end the ring; its files are made, and nothing stays in /tmp."""
    of = program("sleep")
    words = ["attach", "--every", "1h", "--duration", "1h", "--format", "folded", "-o", "a"]
    ring = subprocess.Popen(
        [*PYHYBRID, *words, str(of.pid)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert ring.stderr
    assert "is profiled for 3600 s" in ring.stderr.readline()
    ring.send_signal(number)
    _, said = ring.communicate(timeout=PATIENCE_S)
    assert ring.returncode == 0, said
    assert len(list(tmp_path.glob("a-*.pyhybrid"))) == 1
    assert not list(Path("/tmp").glob(f"pyhybrid-attach-{of.pid}-*"))
    of.ends()


FILTERED = """
import ctypes, os, sys
# struct sock_filter: return SECCOMP_RET_ALLOW (linux/seccomp.h)
code = (ctypes.c_uint64 * 1)(0x7FFF0000 << 32 | 0x06)
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
program = Program(1, ctypes.addressof(code))
assert not libc.prctl(22, 2, ctypes.byref(program), 0, 0)  # PR_SET_SECCOMP
os.execv(sys.executable, [sys.executable, "-P", *sys.argv[1:]])
"""


@pytest.mark.further
def test_one_that_filters_its_system_calls(tmp_path: Path) -> None:
    of = Program(tmp_path, "sleep", before=("-c", FILTERED))
    try:
        assert "filters its system calls" in attach(*QUICK, of.pid, folder=tmp_path, code=2)
        attach(*QUICK, "--force", of.pid, folder=tmp_path)
        of.ends()
    finally:
        of.process.kill()
        of.process.communicate()


@pytest.mark.version
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("listens", [False, True], ids=["ptrace", "listens"])
def test_one_in_a_container(tmp_path: Path, listens: bool) -> None:
    if not shutil.which("bwrap") or subprocess.run([*BWRAP, "true"], check=False).returncode:
        pytest.skip("bwrap is not installed, or may not make namespaces")
    of = Contained(tmp_path, "sleep", listens=listens)
    try:
        assert of.pid != of.own_number
        before, files = of.outside(), os.listdir(f"/proc/{of.pid}/root/tmp")
        shown = dump(of.pid)
        assert re.search(r"^    in_sleep \(.*attached.py:\d+\)$", shown, re.MULTILINE)
        assert re.search(r"^    \w*nanosleep \[libc", shown, re.MULTILINE)
        for _ in range(2):
            said = attach(*QUICK, "--clock", "wall", of.pid, folder=tmp_path)
            assert ("by its own signal" if listens else "by ptrace") in said
            assert calls_of(tmp_path / "out.pyhybrid", "work") > 0
            assert re.search(r"in_sleep \S+;.*nanosleep", (tmp_path / "out.folded").read_text())
            of.is_as(before)
            assert os.listdir(f"/proc/{of.pid}/root/tmp") == files
        of.ends()
    finally:
        of.process.kill()
        of.process.communicate()


POOL = """
import multiprocessing, os, sys
def work(i):
    return sum(range(10_000))
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with multiprocessing.Pool(2) as pool:
        pool.map(work, range(50))
        print(os.getpid(), flush=True)
        while not os.path.exists("end"):
            pool.map(work, range(50))
"""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("method", ["forkserver", "fork", "spawn"])
def test_its_children(tmp_path: Path, method: str) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    of = subprocess.Popen(
        [sys.executable, "-P", "pool.py", method], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert of.stdout
        pid = int(of.stdout.readline())
        said = attach("--children", "pool*,multi*,-c", *QUICK, pid, folder=tmp_path)
        assert f"process {pid} and 2 below it are profiled" in said
        assert calls_of(tmp_path / "out.pyhybrid", "work") > 0
        with pyhybrid.load(tmp_path / "out.pyhybrid") as profile:
            assert {each.pid for each in profile.processes.values()} > {pid}
            assert len(profile.processes) == 3
        assert not list(tmp_path.glob("*.part*"))
        shown = json.loads(dump("--json", "--children", pid))
        assert len(shown) == 3 and shown[0]["pid"] == pid
        (tmp_path / "end").touch()
        of.communicate(timeout=PATIENCE_S)
        assert of.returncode == 0
    finally:
        of.kill()
        of.communicate()


@pytest.mark.further
def test_it_ends_meanwhile(program: type[Program], tmp_path: Path) -> None:
    of = program("loop")
    words = [*PYHYBRID, "attach", "--duration", "600", str(of.pid)]
    ours = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert ours.stderr and "is profiled" in ours.stderr.readline()
    (tmp_path / "end").touch()
    of.process.communicate(timeout=PATIENCE_S)
    assert of.process.returncode == 0
    said = ours.communicate(timeout=PATIENCE_S)[1]
    assert ours.returncode == 0 and "wrote " in said, said


def dump(*words: object, code: int = 0) -> str:
    command = [*PYHYBRID, "dump", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout or done.stderr


def test_no_such_process() -> None:
    assert dump("4194999", code=2) == "pyhybrid: there is no process 4194999\n"
    assert dump("no such.py", code=2).startswith("pyhybrid: no Python process runs 'no such.py'")


@pytest.mark.version
def test_one_that_hangs(program: type[Program], tmp_path: Path) -> None:
    """Its main thread sleeps in C with the GIL."""
    of = program("hang")
    before = of.outside()
    until = time.monotonic() + PATIENCE_S
    while "waits for the GIL" not in (shown := dump(of.pid)) and time.monotonic() < until:
        time.sleep(0.01)
    _, main, *others = shown.split("\n\n")
    assert main.startswith("main thread, asleep, has the GIL\n    pause [libc")
    assert re.search(r"\n    hang \(.*attached.py:\d+\)\n    <module> \(", main)
    assert any("until_end" in each and "waits for the GIL" in each for each in others)
    said = attach(*QUICK, of.pid, folder=tmp_path, code=2)
    assert "hangs: thread" in said
    assert of.outside() == before


def test_several_at_once(program: type[Program]) -> None:
    some = [program("alone", RANK=str(rank), WORLD_SIZE="4") for rank in range(3)]
    other = program("loop", RANK="3", WORLD_SIZE="4")
    pids = [each.pid for each in (*some, other)]
    shown = dump(*pids)
    assert re.search(r"^3 of 4 in in_sleep \(.*attached.py:\d+\): ranks 0-2$", shown, re.MULTILINE)
    assert re.search(r"^rank 3 in \S+ \(.*:\d+\)$", shown, re.MULTILINE)
    assert re.search(r"^3 main threads of ranks 0-2, asleep$", shown, re.MULTILINE)
    by_name = json.loads(dump("--json", "--python", "attach*.py"))
    assert {each["pid"] for each in by_name} >= set(pids)
    alone = json.loads(dump("--json", "--python", pids[0]))
    assert [each["is_main"] for each in alone[0]["threads"]] == [True]
    listed = subprocess.run([*PYHYBRID, "ps"], capture_output=True, text=True, check=True).stdout
    assert all(re.search(rf"^ *{pid}  3\.", listed, re.MULTILINE) for pid in pids)
