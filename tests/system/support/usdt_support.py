"""Tracers and what they trace: bpftrace on a program that has the probes and does as it is told."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from support import PATIENCE_S, TARGETS, build_extension

import pyhybrid

PROGRAM = TARGETS / "probed.py"
LIBRARY = Path(pyhybrid.get_library()).with_name("libpyhybrid_usdt.so")
NONE = ("--mode", "none", "--exclude", "stdlib", "--emit", "usdt")

# Masks of sys.monitoring: what is on for begins and ends, calls, lines.
TURNS = sum(
    getattr(sys.monitoring.events, f"PY_{name}")
    for name in ("START", "RESUME", "THROW", "RETURN", "YIELD", "UNWIND")
)
CALL, LINE = sys.monitoring.events.CALL, sys.monitoring.events.LINE


@dataclass(frozen=True)
class Note:
    """One name of one place."""

    provider: str
    name: str
    place: int
    semaphore: int
    arguments: str


def notes() -> list[Note]:
    """As readelf sees them."""
    text = subprocess.run(
        ["readelf", "-n", LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(
        r"Provider: (\S+)\n +Name: (\S+)\n +Location: (\w+), Base: \w+, Semaphore: (\w+)\n"
        r" +Arguments: (.*)\n",
        text,
    )
    return [Note(p, n, int(place, 16), int(s, 16), a) for p, n, place, s, a in found]


class Probed:
    """tests/targets/probed.py under pyhybrid."""

    def __init__(self, folder: Path, *options: object) -> None:
        command = [sys.executable, "-P", "-m", "pyhybrid", *map(str, options), str(PROGRAM)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        self.pid = self.process.pid
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def tell(self, *commands: str) -> None:
        """Returns when it has done all of them."""
        assert self.process.stdin
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            assert self.answer() == "done", self.process.stderr and self.process.stderr.read()

    def base(self) -> int:
        """Where it has the library."""
        maps = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        return next(int(m.partition("-")[0], 16) for m in maps if m.endswith(str(LIBRARY)))

    def poke(self, semaphore: int, value: int) -> int:
        """As the kernel does when a tracer attaches or detaches; what it was."""
        with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(self.base() + semaphore)
            (before,) = struct.unpack("<H", memory.read(2))
            memory.seek(self.base() + semaphore)
            memory.write(struct.pack("<H", value))
        return int(before)

    def wait_for_events(self, mask: int) -> None:
        """These are on, by a look at the semaphores that came after this."""
        semaphore = next(note.semaphore for note in notes() if note.name == "LINE")
        before = self.poke(semaphore, not mask & LINE)
        self.tell(f"events {mask ^ LINE}")
        self.poke(semaphore, before)
        self.tell(f"events {mask}")

    def end(self) -> str:
        """Of its input, and so of it; what it said on standard error."""
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, errors
        return errors


@contextlib.contextmanager
def probed(folder: Path, *options: object) -> Iterator[Probed]:
    program = Probed(folder, *options)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


# bpftrace prints nothing before it has attached to everything.
ATTACHED = 'interval:ms:5 /!@attached/ { @attached = 1; printf("attached\\n"); }\n'


# Its tracepoints are files of tracefs, which need not be mounted.
WITH_TRACEFS = (
    *("unshare", "--mount", "sh", "-c"),
    'mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing\nexec "$@"',
    "sh",
)


class Tracer:
    """What listens to probes, and prints what it heard when it gets SIGINT."""

    def __init__(self, folder: Path, command: Sequence[object], attached: str) -> None:
        """`attached`: what it prints as soon as it is."""
        self.output = folder / "tracer.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*WITH_TRACEFS, *map(str, command)],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # BCC's are shell scripts
            )
        self.wait_for(attached)

    def wait_for(self, text: str) -> None:
        """It has printed this: what it has not read when it ends is lost."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < end, f"no {text!r}: {self.output.read_text()}"
            time.sleep(0.002)

    def detach(self) -> str:
        """What it has printed."""
        for _ in range(12):  # bpftrace may miss one
            os.killpg(self.process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
                break
        return self.output.read_text()


@contextlib.contextmanager
def listening(folder: Path, command: Sequence[object], attached: str) -> Iterator[Tracer]:
    tracer = Tracer(folder, command, attached)
    try:
        yield tracer
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tracer.process.pid, signal.SIGKILL)
        tracer.process.wait()


def traced(
    folder: Path, script: str, *options: object, given: Sequence[object] = ()
) -> contextlib.AbstractContextManager[Tracer]:
    """A bpftrace that has attached to everything that its script names.  `given`: the script's
    own parameters."""
    path = folder / "script.bt"
    path.write_text(script + "\n" + ATTACHED)
    return listening(folder, ["bpftrace", *options, path, *given], "attached\n")


def instructions_of_a_call(folder: Path) -> dict[str, float]:
    """By the output that is open, or `nothing` (tests/targets/instructions.py)."""
    build_extension(folder, "count_instructions", f"-I{TARGETS.parent / 'c'}")
    (library,) = folder.glob("count_instructions*")
    program = [sys.executable, "-P", TARGETS / "instructions.py", library]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


def counts(printed: str, name: str = "", before: str = "") -> dict[str, int]:
    """A map that bpftrace printed, by the end of its key that comes after `before`."""
    found = re.findall(rf"^@{name}\[{before}(.*)\]: (\d+)$", printed, re.M)
    return {key: int(n) for key, n in found}
