"""A disk that takes nothing for a while: the program does not wait for it, and nothing is lost."""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from support import LOOKS, PATIENCE_S, check_invariants, check_losses

from pyhybrid.assemble import open_profile

pytestmark = pytest.mark.needs("root")

WORDS = ("ready", "done")
WORKS = (
    LOOKS
    + """
import math, os, subprocess, sys, threading, time
import pyhybrid
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def before(): burn(0.2)
def meanwhile(word):
    for number in range(20):
        thread = threading.Thread(target=burn, args=(0.005,), name=f"{word} {number}")
        thread.start()
        thread.join()
    pid = os.fork()
    if not pid: os._exit(0)
    os.waitpid(pid, 0)
    subprocess.run(["true"], check=True)
    with pyhybrid.region(word): math.hypot(3, 4)
before()
looked()
for word in sys.argv[1:]:
    print(word, flush=True)
    assert sys.stdin.readline()
    meanwhile(word)
"""
)


class Disk:
    """A file system of its own, in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "disk"
        self.folder.mkdir()
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(64 << 20)
        for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, self.folder]):
            try:
                subprocess.run(command, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no file system of our own: {error}")
        self._hangs = False

    def hang(self, hangs: bool = True) -> None:
        if hangs != self._hangs:
            subprocess.run(["fsfreeze", "-f" if hangs else "-u", self.folder], check=True)
            self._hangs = hangs

    def close(self) -> None:
        self.hang(False)
        subprocess.run(["umount", "-l", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    try:
        yield disk
    finally:
        disk.close()


def start(tmp_path: Path, disk: Disk) -> subprocess.Popen[str]:
    out = ("-o", disk.folder / "out", "--format", "folded")
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pyhybrid", "-q", "--c-calls", *out, "-c", WORKS, *WORDS],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def says(program: subprocess.Popen[str], word: str) -> None:
    stdout = pipe(program.stdout)
    assert select.select([stdout], [], [], PATIENCE_S)[0], f"not {word}"
    assert stdout.readline() == f"{word}\n"


def go_on(program: subprocess.Popen[str]) -> None:
    stdin = pipe(program.stdin)
    stdin.write("\n")
    stdin.flush()


def pipe(file: IO[str] | None) -> IO[str]:
    assert file
    return file


def waits_for_the_disk(pid: int) -> bool:
    """Does the collector?"""
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, state = (task / "stat").read_text().rpartition(")")[::2]
        if name.endswith("(pyhybrid"):
            return state.split()[0] == "D"
    return False


@contextlib.contextmanager
def hanging(disk: Disk, program: subprocess.Popen[str]) -> Iterator[None]:
    """From when the collector waits on."""
    says(program, "ready")
    disk.hang()
    try:
        end = time.monotonic() + PATIENCE_S
        while not waits_for_the_disk(program.pid):
            assert program.poll() is None
            assert time.monotonic() < end, "the collector does not write"
            time.sleep(0.01)
        yield
    finally:
        disk.hang(False)


def test_a_disk_that_hangs(tmp_path: Path, disk: Disk) -> None:
    """Meanwhile threads are started and named, processes by forks and by spawns, and regions and
    C functions come that were not seen before."""
    with start(tmp_path, disk) as program:
        with hanging(disk, program):
            go_on(program)
            says(program, "done")
            assert waits_for_the_disk(program.pid)
        go_on(program)
    assert program.returncode == 0
    with open_profile(str(disk.folder / "out.pyhybrid")) as profile:
        check_invariants(profile)
        check_losses(profile)
        threads = {thread.name for thread in profile.threads.values()}
        calls: Counter[str] = Counter()
        for row in profile.exact:
            calls[profile.frames[profile.nodes.frame[row.node]].name] += row.calls
    assert threads >= {f"{word} {number}" for word in WORDS for number in range(20)}
    assert (calls["before"], calls["meanwhile"]) == (1, len(WORDS))
    assert sum(n for name, n in calls.items() if name.endswith("hypot")) == len(WORDS)
    assert [calls[word] for word in WORDS] == [1] * len(WORDS)


@pytest.mark.further
def test_killed_while_it_hangs(tmp_path: Path, disk: Disk) -> None:
    """What was written before is there."""
    with start(tmp_path, disk) as program, hanging(disk, program):
        program.kill()
    assert program.returncode == -signal.SIGKILL
    with open_profile(str(disk.folder / "out.pyhybrid.part")) as profile:
        check_invariants(profile)
        sampled = {
            profile.frames[profile.nodes.frame[profile.stacks.node[row.stack]]].name
            for row in profile.sampled
        }
    assert sampled & {"before", "burn"}
