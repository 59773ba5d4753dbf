"""Where a process hangs, or crashed: for the report of a test that fails."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def ask_gdb(of: list[object], *commands: str) -> str:
    line = ["gdb", "-batch", *(word for each in commands for word in ("-ex", each)), *map(str, of)]
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=120).stdout
    except FileNotFoundError:
        return "(no gdb here)"
    except subprocess.TimeoutExpired:  # it reads all that a library like PyTorch's tells of itself
        return "(gdb took too long)"


def where_it_hangs(pid: int) -> str:
    """All threads' stacks, for the report of a test that timed out."""
    return ask_gdb(["-p", pid], "thread apply all bt 30")


@contextlib.contextmanager
def core_files() -> Iterator[None]:
    """A program started meanwhile leaves one in its working directory when it crashes, where the
    kernel's core_pattern is its default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def where_it_crashed(folder: Path) -> str:
    """The stacks, and what the instruction worked on, for the report of a test."""
    asked = ["bt 60", "info registers", "x/12i $pc-24", "thread apply all bt 12"]
    told = [ask_gdb([sys.executable, core], *asked) for core in folder.glob("core*")]
    return "\n".join(told) or "(it left no core file)"
