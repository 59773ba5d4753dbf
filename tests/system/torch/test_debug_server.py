"""PyTorch's distributed debug server: ranks answer with what is recorded of them so far."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import TARGETS

pytestmark = [
    pytest.mark.needs("torch", "ranks"),
    pytest.mark.further,
    pytest.mark.once,
    pytest.mark.long("two processes import PyTorch"),
]
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def told(folder: Path, port: int, *profiler: str) -> list[dict[str, str]]:
    """What the ranks and the page said; nobody crashes at the end."""
    command = [sys.executable, "-P", *TORCHRUN, *profiler, str(TARGETS / "debug_server.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    how = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([*command, str(port)], check=False, **how)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"told-{rank}.json").read_text()) for rank in range(2)]


def test_ranks_answer_with_what_is_recorded(tmp_path: Path) -> None:
    for rank, each in enumerate(told(tmp_path, 0, "-m", "pyhybrid")):
        assert "steps    1" in each["rank"], each["rank"]
        assert "train_slowly (" in each["rank"], rank
    assert len([*(tmp_path / "out.ranks").glob("rank-*.pyhybrid")]) == 2


def test_ranks_that_are_not_profiled(tmp_path: Path) -> None:
    for each in told(tmp_path, 0):
        assert each == {"rank": "this process is not profiled"}


@pytest.mark.skipif(
    not all(map(find_spec, ("requests", "tabulate", "jinja2"))), reason="what the page needs"
)
def test_the_page_has_the_verdict(tmp_path: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    page = told(tmp_path, port, "-m", "pyhybrid")[0]["page"]
    assert "2 ranks of debug_server.py, 1" in page
    assert page.count("train_slowly (") >= 2
