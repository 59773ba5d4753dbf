"""The readers of perf maps, jitdumps and spools over damaged inputs (fuzz_readers.py).

Seconds and inputs that failed: see test_elf.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_readers import TARGETS

pytestmark = pytest.mark.needs("plain_build")  # sanitizers map terabytes: no limit of memory

HERE = Path(__file__).parent
SECONDS = os.environ.get("PYHYBRID_FUZZ_S", "2")
SEED = os.environ.get("PYHYBRID_FUZZ_SEED", "1")


@pytest.mark.parametrize("target", TARGETS)
def test_target(target: str, tmp_path: Path) -> None:
    known = sorted((HERE / "corpus" / target).glob("*"))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent / "unit"))),
    }
    command = [sys.executable, "-P", HERE / "fuzz_readers.py", target, SECONDS, SEED, *known]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, "\n".join(
        [
            f"{target}, seed {SEED}: exit code {done.returncode}",
            done.stderr,
            f"input: {(tmp_path / 'input').read_bytes().hex()}",
        ]
    )
