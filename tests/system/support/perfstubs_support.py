"""The tool of PerfStubs that the tests have: tests/targets/perfstubs_count.c."""

from __future__ import annotations

import collections
import subprocess
from pathlib import Path

import pytest
from support import TARGETS, made_once


def build_tool(factory: pytest.TempPathFactory) -> Path:
    """Its library."""

    def make(folder: Path) -> None:
        source = TARGETS / "perfstubs_count.c"
        command = ["gcc", "-O1", "-fPIC", "-shared", "-pthread", source]
        subprocess.run([*command, "-o", folder / "count.so"], check=True)

    return made_once(factory, "perfstubs_count", make) / "count.so"


def counted(path: Path) -> tuple[dict[str, int], collections.Counter[str]]:
    """What it has written: figures, and starts by timer."""
    rows = dict(line.split("\t") for line in path.read_text().splitlines())
    figures = {name: int(n) for name, n in rows.items() if not name.startswith("timer ")}
    starts = {
        name.removeprefix("timer "): int(n) for name, n in rows.items() if name[:6] == "timer "
    }
    return figures, collections.Counter({name: n for name, n in starts.items() if n})
