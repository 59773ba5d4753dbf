"""Unbuffered standard streams: a signal of ours in the middle of a write loses nothing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

PIECES, PIECE = 100, 300_000  # larger than a pipe, so that write(2) sleeps, and a signal cuts it

PRINTS = f"for _ in range({PIECES}): print('x' * {PIECE}, file=sys.{{stream}}, end='')"


def start(tmp_path: Path, source: str, *options: str) -> subprocess.Popen[bytes]:
    """`python -u` with the clock that also ticks while the program waits."""
    (tmp_path / "main.py").write_text("import sys\n" + source)
    ours = ["-u", "-P", "-m", "pyhybrid", "-q", "--hz", "2000", "--clock", "wall", *options]
    return subprocess.Popen(
        [sys.executable, *ours, "main.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_arrives(tmp_path: Path, stream: str) -> None:
    with start(tmp_path, PRINTS.format(stream=stream)) as process:
        out = {"stdout": process.stdout, "stderr": process.stderr}[stream].read()
    assert process.returncode == 0
    assert len(out) == PIECES * PIECE, out[-1000:]


def test_write_itself_says_how_much(tmp_path: Path) -> None:
    source = f"""
counts = {{sys.stdout.buffer.write(memoryview(b'x' * {PIECE})) for _ in range({PIECES})}}
print(counts, file=sys.stderr)
"""
    with start(tmp_path, source) as process:
        assert len(process.stdout.read()) == PIECES * PIECE
        assert process.stderr.read() == f"{{{PIECE}}}\n".encode()


@pytest.mark.further
def test_a_write_that_waits_can_be_interrupted(tmp_path: Path) -> None:
    source = f"""
try:
    print("ready", file=sys.stderr)
    print('x' * {PIECE * PIECES})
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    raise SystemExit(3)
"""
    with start(tmp_path, source) as process:
        assert process.stderr.readline() == b"ready\n"
        assert process.stdout.read(1) == b"x"  # it writes, and nobody reads on
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"interrupted\n"
        rest = threading.Thread(target=process.stdout.read)
        rest.start()
        rest.join()
    assert process.returncode == 3


@pytest.mark.further
def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    source = """
import pyhybrid
before = dict(vars(sys.stdout.buffer))
with pyhybrid.Profiler(output="inner"):
    assert sys.stdout.buffer.write(b"x") == 1
assert dict(vars(sys.stdout.buffer)) == before, vars(sys.stdout.buffer)
"""
    (tmp_path / "main.py").write_text("import sys\n" + source)
    subprocess.run([sys.executable, "-u", "-P", "main.py"], cwd=tmp_path, check=True)


@pytest.mark.further
def test_at_the_limit_of_recursion_in_c_it_says_the_same(tmp_path: Path) -> None:
    """What cannot be raised out of a callback is written with the last call that is allowed."""
    (tmp_path / "main.py").write_text(
        "import ctypes\n"
        "@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)\n"
        "def deeper(n): return deeper(n + 1)\n"
        "deeper(0)\n"
    )
    told = []
    for runner in ([], ["-m", "pyhybrid", "-q", "--mode", "sample"]):
        command = [sys.executable, "-u", "-P", *runner, "main.py"]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        told.append(re.sub(r" at 0x[0-9a-f]+", "", run.stderr))
    assert told[0] == told[1]
    assert "RecursionError" in told[0]
