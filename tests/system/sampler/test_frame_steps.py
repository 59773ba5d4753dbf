"""Python calls of all kinds, instruction by instruction: no stack leaves a caller out."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, made_once

pytestmark = [pytest.mark.version, pytest.mark.once, pytest.mark.needs("plain_build")]

STEPS = TARGETS / "frame_steps.py"
# [gap] and [bridged], of native frames: clang's unwind information is wrong at some instructions.
NATIVE = {"2", "3"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        subprocess.run([sys.executable, STEPS, "build", folder / "steps.so"], check=True)

    return made_once(tmp_path_factory, "frame_steps", make) / "steps.so"


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param((), id="plain"),
        pytest.param(("monitored",), id="monitored"),
        pytest.param(("again",), id="again", marks=pytest.mark.slow),
    ],
)
def test_every_instruction(tmp_path: Path, library: Path, how: tuple[str, ...]) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, STEPS, "run", library, result, *how]
    subprocess.run(list(map(str, command)), check=True, timeout=PATIENCE_S)
    found = json.loads(result.read_text())
    callers, stacks = found["callers"], found["stacks"]
    met = set()
    for count, places, each in stacks:
        names = [name for name in each if name not in NATIVE]
        assert names[0] == "<module>", (count, places, names)
        for caller, callee in pairwise(names):
            # CPython puts a frame of its own, "__init__", before a constructor's.
            if "__init__" not in (caller, callee):
                assert callers.get(callee) == caller, (count, places, names)
        met.update(names)
    assert met - {"__init__"} == {"<module>", *callers}
    print(sum(count for count, _, _ in stacks), "instructions")
    assert sum(count for count, _, _ in stacks) > 200_000


GARBAGE = """
import ctypes, sys
garbage = ctypes.PyDLL(sys.argv[1])
garbage.garbage_init.restype = ctypes.c_char_p
wrong = garbage.garbage_init()
if wrong:
    sys.exit(wrong.decode())

def in_a_generator():
    yield from (garbage.garbage_walk(seed, 20000) for seed in range(20))
"""
WALKS = (
    GARBAGE
    + """
print(sum(in_a_generator()) + sum([garbage.garbage_walk(seed, 20000) for seed in range(20, 40)]))
"""
)
NAMES = (
    GARBAGE
    + """
code = ctypes.py_object(in_a_generator.__code__)
print(sum(garbage.garbage_names(code, seed, 20000) for seed in range(20)))
"""
)


@pytest.fixture(scope="module")
def garbage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        command = [sys.executable, STEPS, "build", folder / "garbage.so"]
        subprocess.run([*command, TARGETS / "frame_garbage.c"], check=True)

    return made_once(tmp_path_factory, "frame_garbage", make) / "garbage.so"


def run_on_garbage(program: str, library: Path) -> int:
    """What it counts."""
    command = [sys.executable, "-c", program, library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.further
def test_links_that_lead_anywhere(garbage: Path) -> None:
    """Small negative numbers, too: frame_steps.displays."""
    assert 0 < run_on_garbage(WALKS, garbage) < 800_000


@pytest.mark.further
def test_names_that_are_something_else(garbage: Path) -> None:
    """The strings of a code object that is gone: another object may look like one of no kind."""
    assert 0 < run_on_garbage(NAMES, garbage) < 400_000
