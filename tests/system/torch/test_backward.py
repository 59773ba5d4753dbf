"""PyTorch's backward work by the calls that made it: the table, frames, `report modules`."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from support import TARGETS, made_once, paths, printed
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.needs("torch")

PROGRAM = TARGETS / "backward_passes.py"
ACCUMULATE = "torch::autograd::AccumulateGrad"  # of a leaf: no call makes it, one uses it


def linked(profile: Profile) -> Counter[tuple[str, str]]:
    """How often nodes ran, by the Python function that made them and their names."""
    found: Counter[tuple[str, str]] = Counter()
    nodes, frames = profile.nodes, profile.frames
    for row in profile.backward:
        at = row.node
        while at and frames[nodes.frame[at]].kind != "python":
            at = nodes.parent[at]
        found[frames[nodes.frame[at]].name if at else "", row.name] += row.calls
    return found


def truth(torch_process: TorchProcess, folder: Path, *words: str) -> Counter[tuple[str, str]]:
    """The same, as PyTorch's hooks see it, without a profiler."""
    told = json.loads(torch_process.run(folder, PROGRAM, "truth", *words))
    return Counter({(by, node): n for by, node, n in told})


def without_leaves(found: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    return Counter({key: n for key, n in found.items() if key[1] != ACCUMULATE})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """Where a run of the program left its profile."""
    options = ("-q", "--format", "folded", "--hz", "499")
    return made_once(
        tmp_path_factory,
        "backward",
        lambda folder: torch_process.profiled(folder, *options, PROGRAM),
    )


@pytest.mark.version
def test_each_node_is_linked_to_what_made_it(
    folder: Path, tmp_path: Path, torch_process: TorchProcess
) -> None:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        found = linked(profile)
        assert all(by for by, _ in found)
        assert without_leaves(found) == truth(torch_process, tmp_path)
        assert all(row.self_ns >= 0 for row in profile.backward)


@pytest.mark.further
def test_gradients_are_accumulated_for_the_module_that_used_them(
    tmp_path: Path, torch_process: TorchProcess
) -> None:
    """Of two models of one class, each by itself, in a thread or not, below a checkpoint or not."""
    program = TARGETS / "two_networks.py"
    said = torch_process.profiled(tmp_path, "-q", "--mode", "trace", program)
    found: Counter[str] = Counter()
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        nodes, frames = profile.nodes, profile.frames
        for row in profile.backward:
            if row.name == ACCUMULATE:
                at = row.node
                while at and not frames[nodes.frame[at]].is_object:
                    at = nodes.parent[at]
                found[frames[nodes.frame[at]].name if at else ""] += row.calls
    assert found == json.loads(said)


@pytest.mark.slow
def test_compiled_regions_are_linked(tmp_path: Path, torch_process: TorchProcess) -> None:
    printed(tmp_path, "-q", "--mode", "trace", "--torch", "compilers", PROGRAM, "compiled")
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        found = linked(profile)
        assert any("Compiled" in name for _, name in found)
        assert without_leaves(found) == truth(torch_process, tmp_path, "compiled")


MANY_THREADS = """
import threading, torch
torch.set_num_threads(1)
def work():
    (torch.ones(1, requires_grad=True) * 2).backward()
work()
for _ in range(1030):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
work()
"""


@pytest.mark.slow
def test_threads_whose_numbers_share_a_place(tmp_path: Path) -> None:
    """PyTorch numbers its threads; one of these has the place of the main thread, which lives."""
    program = tmp_path / "threads.py"
    program.write_text(MANY_THREADS)
    printed(tmp_path, "-q", "--format", "folded", program)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        assert linked(profile)["work", "MulBackward0"] == 1032


# One thread: OpenMP would wait for its others, longer than all else takes on a busy machine.
SLOW = """
import time, torch
from torch import nn
torch.set_num_threads(1)
class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        x = self.fc(x)
        for _ in range(self.n):
            x = x.sin()
        return x
net = nn.Sequential(*(Layer(400 if i == 1 else 4) for i in range(3)))
x = torch.ones(64, 8)
end = time.process_time() + 1.5
n = 0
while time.process_time() < end:
    net(x).sum().backward()
    n += 1
print(n)
"""


# What stands where a walk met code that it could not unwind.
NOT_WALKED = ("[unwind gap]", "[bridged]", "[truncated]")


@pytest.mark.further
def test_the_layer_with_a_slow_backward_pass(tmp_path: Path, torch_process: TorchProcess) -> None:
    """Its samples stand below a frame that says for which module."""
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    n = int(torch_process.profiled(tmp_path, "-q", "--format", "folded", program))
    said = json.loads(printed(tmp_path, "report", "modules", "--json", "out.pyhybrid"))
    backward = {each["name"]: each["exact_own_backward_ns"] for each in said["modules"]}
    assert max(backward, key=lambda name: backward[name]) == "Sequential.1"
    assert sum(backward.values()) + said["exact_other_backward_ns"] == said["exact_backward_ns"]
    lines = printed(tmp_path, "report", "modules", "out.pyhybrid").splitlines()
    assert any(line.startswith("backward pass: ") for line in lines)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        calls = linked(profile)
        assert calls["Layer.forward", "SinBackward0"] == 408 * n
        below: Counter[str] = Counter()
        for samples, _, names in paths(profile):
            for above, name in pairwise(names):
                if name.startswith("backward of "):
                    assert above.startswith(("torch::autograd::Node::operator()", *NOT_WALKED))
                    below[name] += samples
        assert max(below, key=lambda name: below[name]) == "backward of Sequential.1"
        assert set(below) <= {f"backward of {name}" for name in backward}


FURTHER = [pytest.param(wrong, marks=pytest.mark.slow) for wrong in ("records", "symbol", "error")]


@pytest.mark.further
@pytest.mark.parametrize("wrong", ["number", *FURTHER])
def test_what_is_not_proven_is_off(tmp_path: Path, wrong: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import pyhybrid.frameworks.torch as framework
from pyhybrid import _torch
look, link = _torch.look, _torch.link
if {wrong!r} == "number":
    _torch.link = lambda numbers: link(tuple(n + 1000 for n in numbers))
elif {wrong!r} == "records":
    _torch.link = lambda numbers: link(numbers[:-1])
elif {wrong!r} == "symbol":
    _torch.look = lambda path: look("/proc/self/exe")
else:
    framework.tables()["backward"].clear()
import torch
net = torch.nn.Linear(2, 2)
net(torch.ones(2)).sum().backward()
"""
    )
    printed(tmp_path, "-q", "--mode", "trace", program)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        assert not profile.backward
        assert any("backward work is not told" in note for note in profile.meta["notes"])
        assert any(frame.is_object for frame in profile.frames.values())


@pytest.mark.further
def test_numbers_that_are_no_longer_known(tmp_path: Path, torch_process: TorchProcess) -> None:
    """A thread remembers so many functions that made nodes; who made older ones is not known."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import torch
def first(x):
    return x.exp()
def later(x):
    return x.sin()
x = torch.ones(2, requires_grad=True)
y = first(x)
for _ in range(70_000):
    later(x)
later(y).sum().backward()
"""
    )
    torch_process.profiled(tmp_path, "-q", "--mode", "trace", program)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        found = linked(profile)
    assert found["", "ExpBackward0"] == 1
    assert found["later", "SinBackward0"] == 1
    assert found["<module>", "SumBackward0"] == 1


@pytest.mark.further
def test_a_profiler_that_begins_later(tmp_path: Path, torch_process: TorchProcess) -> None:
    """What was made before it, or in its pauses, is no function's."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import torch, pyhybrid
net = torch.nn.Linear(2, 2)
def loss(x):
    return net(x).sum()
x = torch.ones(2)
before = loss(x)
for _ in range(2):
    profiler = pyhybrid.Profiler(mode="trace")
    profiler.start()
    loss(x).backward()
    before.backward(retain_graph=True)
    profiler.stop()
    calls = {}
    for row in profiler.profile.backward:
        calls[row.node != 0, row.name] = row.calls
    if "backward_off" in profiler.profile.meta:
        raise SystemExit(profiler.profile.meta["backward_off"])
    assert calls[True, "SumBackward0"] == calls[False, "SumBackward0"] == 1, calls
"""
    )
    torch_process.run(tmp_path, program)


@pytest.mark.further
def test_what_an_earlier_session_saw_made(tmp_path: Path, torch_process: TorchProcess) -> None:
    """It runs in a later one before anything is made there: for no call."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import torch, pyhybrid
x = torch.ones(2, requires_grad=True)
def makes():
    return x.exp().sum()
def other():
    pass
def runs():
    for _ in range(5):
        other()
    loss.backward()
with pyhybrid.Profiler(mode="trace"):
    loss = makes()
with pyhybrid.Profiler(mode="trace") as profiler:
    runs()
assert "backward_off" not in profiler.profile.meta
calls = {row.name: (row.node, row.calls) for row in profiler.profile.backward}
assert calls["ExpBackward0"] == calls["SumBackward0"] == (0, 1), calls
"""
    )
    torch_process.run(tmp_path, program)


MAKERS = {
    ("makes_cos", "CosBackward0"),
    ("makes_sin", "SinBackward0"),
    ("makes_sum", "SumBackward0"),
    ("Linear.forward", "AddmmBackward0"),
    ("Linear.forward", "TBackward0"),
    ("Linear.forward", ACCUMULATE),
}


@pytest.mark.further
def test_profilers_come_and_go_while_nodes_run(tmp_path: Path, torch_process: TorchProcess) -> None:
    """On the thread that starts them and on another one.  The program computes the same; a link is
    right, or there is none, as for what was made before the session."""
    program, n = TARGETS / "profilers_in_turn.py", 6
    said = json.loads(torch_process.run(tmp_path, program, n, "of"))
    n_steps = [steps for steps, _ in said]
    assert n_steps[0] and n_steps[1] == n + n // 2
    assert said == json.loads(torch_process.run(tmp_path, program, "alone", *n_steps))
    for number in range(n):
        with Profile.open(str(tmp_path / f"of{number}.pyhybrid")) as profile:
            assert "backward_off" not in profile.meta
            found = linked(profile)
        assert {(by, name) for by, name in found if by} <= MAKERS
        assert found["", "SumBackward0"] >= 1
        assert found["makes_sum", "SumBackward0"] >= number % 2
