"""examples/train.py is what its docstring and the README say: the program all figures come from."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile

pytestmark = [
    pytest.mark.long("trains with PyTorch, bare and profiled, in processes that import it"),
    pytest.mark.needs("torch"),
]

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"

# Runs the example in a fresh interpreter and reports on its training alone: `import torch` takes
# seconds in which one core is busy.
MEASURE = """
import json, os, sys, time

def idle():
    with open("/proc/stat") as file:
        _, _, _, _, idle, iowait, *_ = file.readline().split()
    return (int(idle) + int(iowait)) / os.sysconf("SC_CLK_TCK")

sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
import train
before = time.process_time(), idle(), time.monotonic()
train.main()
after = time.process_time(), idle(), time.monotonic()
print(json.dumps([b - a for a, b in zip(before, after)]), file=sys.stderr)
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=True
    )


def losses(output: str) -> list[str]:
    return re.findall(r"loss ([\d.]+)", output)


@pytest.mark.slow
@pytest.mark.alone
def test_keeps_both_cores_busy(tmp_path: Path) -> None:
    def busy() -> float:
        """CPU time over what two cores had to give: what others used is not counted."""
        done = run("-c", MEASURE, str(EXAMPLE), "--epochs", "2", cwd=tmp_path)
        cpu_s, idle_s, wall_s = json.loads(done.stderr.splitlines()[-1])
        return cpu_s / min(cpu_s + idle_s, 2 * wall_s)

    # Another program takes cores away at times, and then OpenMP's barriers spin or sleep.
    assert any(busy() >= 0.8 for _ in range(3))


@pytest.mark.further
def test_learns_the_same_again(tmp_path: Path, torch_process: TorchProcess) -> None:
    short = (EXAMPLE, "--epochs", "2", "--steps", "8", "--seed", "7")
    first = losses(torch_process.run(tmp_path, *short))
    again = losses(torch_process.run(tmp_path, *short))
    assert len(first) == 2
    assert float(first[1]) < float(first[0])
    assert first == again


@pytest.mark.slow
def test_a_fifth_of_its_time_is_python(pyhybrid: Callable[..., Run]) -> None:
    # How long threads of OpenMP spin for one another is up to what else the machine does.
    done = pyhybrid("--format", "folded", EXAMPLE, "--epochs", "2", env={"OMP_NUM_THREADS": "1"})
    assert python_share(done.profile()) >= 0.2


def python_share(profile: Profile) -> float:
    """Of the samples whose innermost frame is a Python function or the interpreter itself."""
    executable = os.path.realpath(sys.executable)
    interpreter = {
        module.id
        for module in profile.modules.values()
        if "libpython" in module.path or os.path.realpath(module.path) == executable
    }
    python = total = 0
    for row in profile.sampled:
        frame = profile.frames[profile.nodes.frame[profile.stacks.node[row.stack]]]
        total += row.weight_ns
        if frame.kind == "python" or frame.module in interpreter:
            python += row.weight_ns
    return python / total
