"""Our unwinder and libunwind walk every sample of live programs, and come to the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS

pytestmark = [pytest.mark.version, pytest.mark.once, pytest.mark.needs("plain_build")]

BOTH = TARGETS / "both_unwinders.py"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("both") / "both.so"
    subprocess.run([sys.executable, BOTH, "build", path], check=True)
    return path


ENOUGH = 1000  # walks that finish: one of so many may differ
RUNS = 10


def walked(library: Path, module: str, *script: object) -> list[dict[str, int]]:
    """The samples of one run."""
    result = library.with_suffix(".json")
    command = [sys.executable, BOTH, "run", library, result, "2000", "1024", module, *script]
    subprocess.run(list(map(str, command)), check=True, timeout=PATIENCE_S)
    found = json.loads(result.read_text())
    print(f"{found['their_faults']} walks of libunwind's read what is not there")
    print(*found["differences"], sep="\n")
    return [dict(zip(found["fields"], each, strict=True)) for each in found["samples"]]


def check(library: Path, module: str, *script: object) -> None:
    """Profiles it so, again where libunwind had time for few walks."""
    samples: list[dict[str, int]] = []
    for _ in range(RUNS):
        samples += walked(library, module, *script)
        finished = [each for each in samples if each["finished"]]
        if len(finished) >= ENOUGH:
            break
    differ = [each for each in finished if each["differs_at"]]
    print(f"{len(samples)} samples, libunwind finished {len(finished)}, {len(differ)} differ")
    assert len(finished) >= ENOUGH
    assert len(finished) >= 0.5 * len(samples)  # not in hand-written kernels
    assert len(differ) <= 0.001 * len(finished)


def test_cpython(library: Path) -> None:
    check(library, "-", TARGETS / "calls.py", 3)


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_pytorch(library: Path) -> None:
    check(library, "torch._dynamo", TARGETS / "tiny_torch.py", 6, 0)
