"""What PyTorch's CPU allocator gives out, by module and call (--torch memory)."""

from __future__ import annotations

import json
import pickle
import re
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from json_page import check_report
from page_support import Browser
from support import TARGETS, command, printed
from test_memory_snapshot import snapshot
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.needs("torch")

PROGRAM = TARGETS / "torch_memory.py"
OPTIONS = ("-q", "--format", "folded", "--torch", "memory")
BATCH, WIDTH, LAST, STEPS = 256, 128, 8, 24  # the program's
OUTPUT = BATCH * WIDTH * 4  # bytes
KEEP = "keep_outputs.<locals>.keep"


def run(process: TorchProcess, folder: Path, *words: str) -> tuple[str, dict[str, Any]]:
    out = process.profiled(folder, *OPTIONS, PROGRAM, *words)
    return out, json.loads(printed(folder, "report", "memory", "--json"))


def findings(folder: Path) -> dict[str, str]:
    found = json.loads(printed(folder, "report", "findings", "--json"))["findings"]
    return {each["rule"]: each["text"] for each in found}


def test_figures_are_those_of_pytorchs_own_profiler(
    tmp_path: Path, torch_process: TorchProcess
) -> None:
    out, found = run(torch_process, tmp_path, "counted", "kept")
    given_out, most = map(int, out.split())
    calls = found["calls"]
    assert sum(c["allocated"] + c["later_allocated"] for c in calls) == given_out
    assert found["peak"] == most
    assert found["lost"] == 0
    # At the peak each call has what it has there, but for the part that is not worth a look.
    assert sum(c["at_peak"] for c in calls) == found["named_peak"]
    assert 0.98 * most <= found["named_peak"] <= most


def test_who_keeps_the_outputs_of_a_layer(tmp_path: Path, torch_process: TorchProcess) -> None:
    _, found = run(torch_process, tmp_path, "kept")
    [grows] = [each for each in found["calls"] if each["per_step"]]
    assert (grows["module"], grows["of_class"]) == ("Net.second", "Linear")
    assert (grows["caller"], grows["per_step"]) == ("Net.forward", OUTPUT)
    line = 1 + PROGRAM.read_text().splitlines().index("    def keep(module, inputs, output):")
    holder = f"`kept`, in the closure of a module's hook {KEEP} (torch_memory.py:{line})"
    assert grows["holders"] == [holder]
    # What autograd keeps: two outputs of ReLU, that of the last layer for its square, a mean.
    assert found["used"] == 2 * OUTPUT + BATCH * LAST * 4 + 4
    assert found["kept"] == found["used"] + OUTPUT  # and what the hook keeps
    by_module = {each["module"]: each["used"] for each in found["calls"]}
    assert by_module["Net"] == 2 * OUTPUT
    assert len(found["steps"]) == STEPS - 1
    alive = [each["alive"] for each in found["steps"]]
    assert {b - a for a, b in pairwise(alive)} == {OUTPUT}
    call = f"Net.second [Linear], Net.forward (torch_memory.py:{grows['caller_line']})"
    lives = f"0.13 MB more of {call} lives after each of 8 steps, held by {holder}"
    assert findings(tmp_path)["memory"] == lives
    assert "0.13 MB more of Net.second [Linear]" in printed(tmp_path, "report")
    lines = printed(tmp_path, "report", "memory").splitlines()
    assert any(line.strip() == f"held by {holder}" for line in lines)


@pytest.mark.further
@pytest.mark.needs("viewers", "chromium")
def test_the_page_shows_it(tmp_path: Path, torch_process: TorchProcess, browse: Browser) -> None:
    """The call that grows is the first, with who holds it; axe-core finds nothing wrong."""
    _, found = run(torch_process, tmp_path, "kept")
    printed(tmp_path, "page", "--no-open")
    steps = """
        const section = page.locator('section.memory');
        const rows = await section.locator('li').allTextContents();
        const title = await section.locator('h2').textContent();
        return [title, rows, await section.locator('polyline').count(), await axe()];
    """
    title, rows, lines, wrong = browse(tmp_path / "out.html", steps)
    listing = printed(tmp_path, "report", "memory").splitlines()
    assert title.startswith("; ".join(listing[:2])) and lines == 2 and wrong == []
    (grows,) = [each for each in found["calls"] if each["per_step"]]
    assert "Net.second [Linear]" in rows[0] and "0.13 MB more after each step" in rows[0]
    assert f"held by {grows['holders'][0]}" in rows[0] and len(rows) <= 6


def test_a_healthy_model_keeps_nothing(tmp_path: Path, torch_process: TorchProcess) -> None:
    _, found = run(torch_process, tmp_path)
    assert not [each for each in found["calls"] if each["per_step"]]
    assert "memory" not in findings(tmp_path)
    assert len({each["alive"] for each in found["steps"]}) == 1


@pytest.mark.further
def test_what_is_not_proven_is_off(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
from pyhybrid import _torch
given = _torch.given
_torch.given = lambda address, n: given(address + 8, n)
import torch
torch.ones(5)
"""
    )
    printed(tmp_path, "-q", "--mode", "trace", "--torch", "memory", program)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        assert "memory" not in profile.meta
        assert any("allocator gives out is not known" in note for note in profile.meta["notes"])


SNAPSHOT = """
import pickle, time, traceback
import torch
from torch import nn
trace = []
class Part(nn.Module):
    def forward(self, x):
        stack = [
            {"filename": each.filename, "line": each.lineno, "name": each.name}
            for each in reversed(traceback.extract_stack())
        ]
        now = {"time_us": time.time_ns() // 1000, "frames": stack}
        trace.append({"action": "alloc", "addr": len(trace), "size": 1000 * len(trace)} | now)
        end = time.thread_time() + 0.02  # samples tell the lines apart
        while time.thread_time() < end: pass
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Part() for _ in range(2))
        self.head = Part()
    def forward(self, x):
        for layer in self.layers: x = layer(x)
        return self.head(x)
net = Net()
for _ in range(3): net(torch.ones(2))
pickle.dump({"segments": [], "device_traces": [trace]}, open("snapshot.pickle", "wb"))
"""


@pytest.mark.further
def test_a_snapshot_of_a_gpu_by_module(tmp_path: Path, torch_process: TorchProcess) -> None:
    """Its stacks are real ones, the sizes are made up.  Layers that a loop calls are one."""
    (tmp_path / "program.py").write_text(SNAPSHOT)
    torch_process.profiled(tmp_path, "-q", "--format", "folded", tmp_path / "program.py")
    command(tmp_path, "import", "memory", "snapshot.pickle", "out.pyhybrid")
    text = printed(tmp_path, "report", "memory", "--json")
    check_report(["memory", "--json"], text)
    found = json.loads(text)
    (device,) = found["devices"]
    assert not found["followed"] and device["peak"] == 1000 * sum(range(9))
    of_module = {each["module"]: (each["of_class"], each["pieces"]) for each in device["calls"]}
    assert of_module == {"Net.layers.*": ("Part", 6), "Net.head": ("Part", 3)}
    assert device["peak_step"] == 2
    lines = printed(tmp_path, "report", "memory").splitlines()
    assert lines[0].startswith("GPU 0, of snapshot.pickle: at most 0.04 MB lived (in step 2), ")
    assert any(
        "Net.layers.* [Part], Part.forward" in line or "Net.layers.* [Part], forward" in line
        for line in lines
    )


# As PyTorch calls what is queued where it initializes CUDA, which it cannot here, and what observes
# requests that fail.
ON_A_GPU = """
import sys, torch
history = sys.modules["pyhybrid.frameworks.torch_device_memory"]._history
assert torch.cuda._queued_calls[-1][0] == history.start
if "starts" in sys.argv:
    history.start()
else:
    history._began, history._is_theirs = True, True
    for wanted in (7_000_000_000, 5_000_000_000):
        history.fails(0, wanted, 3_000_000, 1_000_000)
torch.nn.Linear(4, 4)(torch.ones(2, 4))
"""


def is_for_cuda() -> bool:
    """Known without a PyTorch in this process."""
    found = find_spec("torch")
    return bool(found and (Path(str(found.origin)).parent / "lib" / "libtorch_cuda.so").exists())


for_cuda = pytest.mark.skipif(not is_for_cuda(), reason="PyTorch is built without CUDA")


@for_cuda
def test_a_request_for_a_gpus_memory_fails(tmp_path: Path, torch_process: TorchProcess) -> None:
    """The snapshot lies beside the profile, and is of it; where it is gone, a line says so."""
    torch_process.profiled(tmp_path, *OPTIONS, "-c", ON_A_GPU)
    what = "GPU 0 had no memory left for 5,000 MB (the last of 2 such requests)"
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        assert f"{what}: `pyhybrid report memory`" in profile.meta["notes"]
    path = tmp_path / "out.cuda-memory.pickle"
    assert pickle.loads(path.read_bytes())["segments"] == []
    assert json.loads(printed(tmp_path, "report", "memory", "--json"))["devices"] == []
    path.write_bytes(pickle.dumps(snapshot()))
    found = json.loads(printed(tmp_path, "report", "memory", "--json"))
    assert [(d["snapshot"], d["peak"]) for d in found["devices"]] == [(path.name, 6000)]
    path.unlink()
    assert f"\ncannot read {path.name}: No such file" in printed(tmp_path, "report", "memory")


@for_cuda
def test_a_history_that_cannot_begin(tmp_path: Path, torch_process: TorchProcess) -> None:
    torch_process.profiled(tmp_path, *OPTIONS, "-c", ON_A_GPU, "starts")
    shown = printed(tmp_path, "report", "memory")
    assert re.search(r"^PyTorch's history of GPU memory: \w+Error: ", shown, re.MULTILINE)
    assert not (tmp_path / "out.cuda-memory.pickle").exists()
