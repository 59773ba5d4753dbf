"""PyTorch's operators, told by the frames that they have; `report ops`."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from support import TARGETS, command, long_enough, made_once, printed
from torch_support import OURS, TorchProcess

pytestmark = pytest.mark.needs("torch")

PROGRAM = TARGETS / "language_model.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """Where a run of the program left its profile."""
    options = ("-q", "--format", "folded", "--c-calls")
    return made_once(
        tmp_path_factory,
        "operators",
        lambda folder: torch_process.profiled(folder, *options, PROGRAM, long_enough(2, 12)),
    )


@functools.cache
def said(folder: Path, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(folder, "report", "ops", "--json", *options))
    return found


@pytest.mark.further
def test_most_of_a_step_is_below_an_operator(folder: Path) -> None:
    found = said(folder)
    share = found["step_operator_weight_ns"] / found["step_weight_ns"]
    assert share >= 0.9
    lines = printed(folder, "report", "ops").splitlines()
    assert lines[0] == f"{share:.1%} of the samples in steps are below an operator"
    own = sum(each["own_weight_ns"] for each in found["operators"])
    assert own == found["operator_weight_ns"]


def test_an_operator_has_its_phase_module_and_line(folder: Path) -> None:
    by_name = {each["name"]: each for each in said(folder)["operators"]}
    # What the program calls, and what runs for it.
    linear, addmm, mm = (by_name[name] for name in ("linear", "addmm", "mm"))
    assert set(linear["called_as"]) == {"linear"} == set(addmm["called_as"])
    assert linear["weight_ns"] >= addmm["weight_ns"] > 10 * linear["own_weight_ns"]
    assert set(linear["phases"]) == {"forward"}
    assert mm["phases"]["backward"] > 0.9 * mm["weight_ns"]
    # The forward pass of a layer, and the backward work for it.
    layers = {f"LM.layers.{i}.mlp.fc{j}" for i in range(4) for j in (1, 2)}
    assert layers < set(linear["modules"])
    assert layers < set(mm["modules"])
    text = PROGRAM.read_text().splitlines()
    at = {line["line"] for line in linear["callers"] if line["function"] == "MLP.forward"}
    assert [text[line - 1].strip() for line in at] == ["return self.fc2(gelu(self.fc1(x)))"]
    # In the backward pass, too, it is the forward pass's line that made it.
    at = {line["line"] for line in mm["callers"] if line["function"] == "MLP.forward"}
    assert [text[line - 1].strip() for line in at] == ["return self.fc2(gelu(self.fc1(x)))"]
    known = sum(c["weight_ns"] for c in mm["callers"] if c["function"].endswith(".forward"))
    assert known > 0.9 * mm["phases"]["backward"]


@pytest.mark.further
def test_exact_counts_where_there_are_some(folder: Path) -> None:
    found = said(folder)
    nodes = {each["name"]: each["calls"] for each in found["backward_nodes"]}
    by_name = {each["name"]: each["calls"] for each in found["operators"]}
    steps = nodes["LogSoftmaxBackward0"]
    assert nodes["AddmmBackward0"] == 17 * steps
    assert nodes["GeluBackward0"] == 4 * steps
    assert by_name["gelu"] == 4 * steps
    assert by_name["mm"] is None


SHAPED = """
import torch
class Sub(torch.Tensor):
    pass
a, b = torch.ones(3, 5), torch.ones(5, 7, dtype=torch.float64)
wide = torch.ones(1, 2, 1, 2, 1, 2, 2, dtype=torch.bfloat16)
ids = torch.zeros(4, dtype=torch.int64)
for i in range(20000):
    torch.mm(a.double(), b)
    wide.neg()
    a[ids % 3]
others = [
    torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2)),
    torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    torch.ones(2).as_subclass(Sub),
    torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    torch.empty(2, device="meta"),
]
for _ in range(500):
    for other in others:
        other.clone(), other.detach(), torch.add(1, torch.ones(()))
torch.compile(lambda x: x + 1, backend="eager")(a)
"""


@pytest.mark.further
def test_shapes_of_calls(tmp_path: Path, torch_process: TorchProcess) -> None:
    program = tmp_path / "program.py"
    program.write_text(SHAPED)
    # They need no samples.
    torch_process.profiled(
        tmp_path, "-q", "--format", "folded", "--hz", "1", "--torch", "shapes", program
    )
    shapes = said(tmp_path)["shapes"]
    calls = {(each["operator"], each["shapes"]): each["calls"] for each in shapes}
    # One in 20 of 20,000 was looked at, at random: within 7 standard errors.
    for key in (
        ("aten::mm", "float64[3, 5], float64[5, 7]"),
        ("aten::neg", "bfloat16[1, 2, 1, 2, 1, 2, 2]"),
        ("aten::remainder", "int64[4], int64[]"),
    ):
        assert 15_000 < calls[key] < 25_000, key
    assert all(each["calls"] == 20 * each["looked_at"] for each in shapes)
    lines = printed(tmp_path, "report", "ops", "--match", "mm").splitlines()
    assert any(line.endswith("  aten::mm: float64[3, 5], float64[5, 7]") for line in lines)
    (mm,) = (each for each in shapes if each["operator"] == "aten::mm")
    assert mm["flops"] == mm["calls"] * 2 * 3 * 5 * 7


FLOPS = """
import json, torch
from torch.utils.flop_counter import FlopCounterMode
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3),
    torch.nn.Flatten(), torch.nn.Linear(16 * 13 * 13, 32))
query = torch.randn(2, 4, 10, 16, requires_grad=True)
def step():
    image = torch.randn(4, 3, 30, 30)
    y = torch.nn.functional.scaled_dot_product_attention(query, query, query).sum()
    (y + net(image).sum() + (torch.randn(5, 6, 7) @ torch.randn(5, 7, 8)).sum()).backward()
with FlopCounterMode(display=False) as counter:
    step()
for _ in range(1000):
    step()
print(json.dumps({"flops": counter.get_total_flops()}))
"""


@pytest.mark.further
def test_flops_are_pytorchs(tmp_path: Path, torch_process: TorchProcess) -> None:
    """Of 1000 steps one call in 20 was looked at: 50 of each kind, so within 7 standard errors."""
    (tmp_path / "program.py").write_text(FLOPS)
    options = ("-q", "--format", "folded", "--hz", "199", "--torch", "shapes")
    told = torch_process.profiled(tmp_path, *options, tmp_path / "program.py")
    counted = json.loads(told.splitlines()[-1])["flops"] * 1001
    found = said(tmp_path)
    assert abs(found["flops"] - counted) < 0.5 * counted
    assert 0 < found["flops_weight_ns"] < found["weight_ns"]
    lines = printed(tmp_path, "report", "ops").splitlines()
    assert any(line.startswith("arithmetic: about ") for line in lines)


MODULES = """
import json, torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
    def forward(self, x):
        q, k, v = (y.view(2, 16, 4, 8).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(2, 16, 32))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2))
        self.head = nn.Linear(32, 10)
    def forward(self, x):
        for each in self.layers: x = x + each(x)
        return self.head(x)
net, batch = Net(), torch.randn(2, 16, 32)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
def step():
    net(batch).sum().backward()
    optimizer.step()
with FlopCounterMode(display=False) as counter:
    step()
for _ in range(1000):
    step()
print(json.dumps({each: sum(n.values()) for each, n in counter.get_flop_counts().items()}))
"""


@pytest.mark.further
def test_flops_by_module_are_pytorchs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MODULES)
    options = ("-q", "--format", "folded", "--hz", "199", "--torch", "shapes")
    told = command(tmp_path, *options, "program.py", **OURS).stdout  # no fork, which measures none
    counted = json.loads(told.splitlines()[-1])
    report = json.loads(printed(tmp_path, "report", "modules", "--json"))
    found = {e["name"]: e["flops"] + e["flops_backward"] for e in report["modules"]}
    assert counted.keys() - {"Global"} <= found.keys() and len(counted) == 9
    for name in counted.keys() - {"Global"}:
        assert abs(found[name] / 1001 - counted[name]) < 0.4 * counted[name], name
    assert report["n_steps"] == 1001 and report["peak"]["type"] == "float32"
    shown = printed(tmp_path, "report", "modules").splitlines()
    assert any("GFLOP  a second  of most" in line for line in shown)
    classes = json.loads(printed(tmp_path, "report", "modules", "--by-class", "--json"))["modules"]
    of_class = {each["name"]: each["flops"] for each in classes}
    assert of_class["Attention"] == sum(
        each["flops"] for each in report["modules"] if each["of_class"] == "Attention"
    )


AGAIN = """
import os, torch, pyhybrid
a = torch.randn(8, 8)
def run():
    with pyhybrid.Profiler(torch=["shapes", "memory"]) as p:
        for _ in range(2000): a @ a
    meta = p.profile.meta
    names = [name for name, *_ in meta.get("shapes", ())]
    print(meta.get("shapes_off"), "aten::mm" in names, meta["memory"]["peak"], flush=True)
for _ in range(12): run()
child = os.fork()
if not child:
    run()
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.further
def test_shapes_of_several_sessions(tmp_path: Path, torch_process: TorchProcess) -> None:
    """What was proven once is so, whatever is looked at meanwhile; what is measured at an end is in
    no figure of the memory."""
    (tmp_path / "program.py").write_text(AGAIN)
    lines = torch_process.run(tmp_path, tmp_path / "program.py").splitlines()
    assert lines == ["None True 256"] * 13


@pytest.mark.further
def test_without_shapes(folder: Path, tmp_path: Path) -> None:
    assert not said(folder)["shapes"]
    (tmp_path / "program.py").write_text("def f(): pass\nimport torch\nf()\n")
    done = command(tmp_path, "-t", "f", "--torch", "shapes", "program.py")
    assert "shapes of operators are not noted: nothing tells when" in done.stderr


@pytest.mark.further
def test_some_of_them(folder: Path) -> None:
    some = printed(folder, "report", "ops", "--match", "^gelu").splitlines()
    assert any("100.0%" in line and line.endswith(" in backward") for line in some)
    assert {"gelu", "gelu_backward"} == {
        each["name"] for each in said(folder, "--match", "^gelu")["operators"]
    }
    first = said(folder, "--to", "100s")
    assert first["operators"] and not first["backward_nodes"]  # these are not kept by time
    for options in (["--match", "("], ["--match", "nothing"], ["--python-only"]):
        assert command(folder, "report", "ops", *options, check=False).returncode
