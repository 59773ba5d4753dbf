"""Modules of a PyTorch model as frames: their paths, calls and times; `report modules`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exact_support import check_exact
from support import TARGETS, Run, build_extension, check_invariants, command, made_once, paths
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile

PROGRAM = TARGETS / "model_modules.py"
N_STEPS = 5
N_CALLS = 7  # of Net, the first one: the steps, and two more

# Module calls of one call of Net, by path below it; a tied module has its first path, and `forward`
# of the second one is called directly, too.
OF_NET = {
    "": 1,
    "layers.0": 2,
    "layers.1": 2,
    "layers.2": 1,
    "layers.3": 1,
    "(Block)": 1,
    "(Block#2)": 1,
    "inherits": 1,
    "closes": 1,
    "raises": 1,
    "yields": 1,
    "(Softmax)": 1,
}
WITH_FC = {"layers.0", "layers.1", "layers.2", "layers.3", "(Block)", "(Block#2)", "inherits"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """Where a run of the program left its profile, and what it said."""

    def make(folder: Path) -> None:
        options = ("-q", "--format", "folded", "--hz", "999")
        (folder / "said").write_text(torch_process.profiled(folder, *options, PROGRAM))

    return made_once(tmp_path_factory, "modules-hybrid", make)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """The same, by samples alone."""

    def make(folder: Path) -> None:
        options = ("-q", "--format", "folded", "--mode", "sample", "--hz", "1777")
        (folder / "said").write_text(torch_process.profiled(folder, *options, PROGRAM))

    return made_once(tmp_path_factory, "modules-sample", make)


@pytest.fixture(scope="module")
def profile(folder: Path) -> Iterator[Profile]:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        yield profile


def expected() -> dict[tuple[str, str], int]:
    """Calls by path and class."""
    calls: Counter[tuple[str, str]] = Counter()
    classes = {"": "Net", "inherits": "Inherits", "closes": "Closes", "raises": "Raises"}
    classes |= {"yields": "Yields", "(Softmax)": "Softmax"}
    for root, n in (("Net", N_CALLS), ("Net#2", 1)):
        for path, times in OF_NET.items():
            name = f"{root}.{path}".rstrip(".")
            calls[name, classes.get(path, "Block")] += n * times
            if path in WITH_FC:
                calls[f"{name}.fc", "Linear"] += n * times
    for name, n in (("Block", 1), ("Block#2", 301)):
        calls[name, "Block"] += n
        calls[f"{name}.fc", "Linear"] += n
    calls["Block#2", "DataParallel"] += 1
    for name, wrapper in (
        ("Distributed", "DistributedDataParallel"),
        ("Recomputed", "CheckpointWrapper"),
        ("Sharded", "FullyShardedDataParallel"),
    ):
        for path, of_class in ((name, name), (f"{name}.fc", "Linear"), (name, wrapper)):
            calls[path, of_class] = 1
    calls["Sharded.fc", "FullyShardedDataParallel"] = 1
    calls["Tanh", "Tanh"] += 20
    return dict(calls)


@pytest.mark.version
@pytest.mark.needs("torch")
def test_each_module_has_its_path_and_calls(profile: Profile) -> None:
    calls: Counter[tuple[str, str]] = Counter()
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        if frame.is_object:
            calls[frame.name, str(frame.symbol)] += row.calls
    assert dict(calls) == expected()


@pytest.mark.further
@pytest.mark.version
@pytest.mark.needs("torch")
def test_both_halves_agree(profile: Profile) -> None:
    check_invariants(profile)
    check_exact(profile)
    nodes, frames = profile.nodes, profile.frames
    exact = {row.node: row for row in profile.exact}
    for node, row in exact.items():
        if frames[nodes.frame[node]].is_object:
            below = [each for each in exact if nodes.parent[each] == node]
            assert row.total_ns == sum(exact[each].total_ns for each in below)
    for sampled in profile.sampled:
        node, path = profile.stacks.node[sampled.stack], []
        while node:
            path.append(node)
            node = nodes.parent[node]
        if any(frames[nodes.frame[each]].is_object for each in path):
            python = [each for each in path if frames[nodes.frame[each]].kind == "python"]
            assert exact.keys() >= set(python[1:])  # the innermost one may just begin
    way = ["Net", "Net.layers.2", "Net.layers.2.fc", "Linear.forward", "spin"]
    found = 0
    for samples, _, names in paths(profile):
        rest = iter(names)
        if all(name in rest for name in way):
            assert names.count("Net.layers.2.fc") == 1
            found += samples
    everywhere = sum(samples for samples, _, names in paths(profile) if "spin" in names)
    assert found > 0.8 * everywhere > 0


@pytest.mark.further
@pytest.mark.needs("torch")
def test_by_samples_alone(sampled: Path) -> None:
    """One event is on, where the modules are called."""
    with Profile.open(str(sampled / "out.pyhybrid")) as profile:
        check_invariants(profile)
        assert not profile.exact
        found = {(f.name, str(f.symbol)) for f in profile.frames.values() if f.is_object}
        assert ("Net.layers.2.fc", "Linear") in found <= set(expected())
        spun = [names for _, _, names in paths(profile) if "spin" in names]
        assert any("Net.layers.2.fc" in names for names in spun)
        for names in spun:  # also of a copy, `Net#2`
            (root,) = (name for name in names if name in ("Net", "Net#2", "Net#3"))
            rest = iter(names)
            way = [root, f"{root}.layers.2", f"{root}.layers.2.fc", "Linear.forward", "spin"]
            assert all(name in rest for name in way)
    said = command(sampled, "report", "modules", "out.pyhybrid").stdout.splitlines()
    assert said[0].startswith("most of its own: Net.layers.2.fc [Linear] ")
    assert said[2].split() == ["samples", "native", "module"]


ALL_TAKEN = """
import sys
for number in (4, 3, 2):
    sys.monitoring.use_tool_id(number, "x")
import torch, pyhybrid
with pyhybrid.Profiler(mode="sample") as profiler:
    torch.nn.Tanh()(torch.ones(2))
print(*profiler.profile.meta["notes"], sep="\\n")
"""


@pytest.mark.further
@pytest.mark.needs("torch")
def test_without_a_tool_id(torch_process: TorchProcess, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ALL_TAKEN)
    why = "modules of PyTorch are no frames: no tool id of sys.monitoring is free"
    assert why in torch_process.run(tmp_path, tmp_path / "program.py")


@pytest.mark.further
@pytest.mark.needs("torch")
def test_the_slow_layer_is_named_first(folder: Path) -> None:
    lines = command(folder, "report", "modules", "out.pyhybrid").stdout.splitlines()
    assert lines[0].startswith("most of its own: Net.layers.2.fc [Linear] ")
    rows = [line.split("  ")[-1].strip() for line in lines]
    at = rows.index("Net [Net]")
    assert rows[at + 1 : at + 3] == ["layers.2 [Block]", "fc [Linear]"]
    (total, own, calls), (n,) = _figures(lines[at + 2]), (N_CALLS,)
    assert int(calls) == n
    assert float(own) >= float(total) * 0.99 >= 0.06 * n * 0.99
    by_class = command(folder, "report", "modules", "--by-class", "out.pyhybrid").stdout
    assert by_class.startswith("most of its own: Linear, ")
    said = json.loads(command(folder, "report", "modules", "--json", "out.pyhybrid").stdout)
    assert "Net.layers.2.fc" in {each["name"] for each in said["modules"]}
    found = json.loads(command(folder, "report", "--json", "out.pyhybrid").stdout)["findings"]
    (finding,) = (each for each in found if each["rule"] == "layer")
    assert " steps is Net.layers.2.fc [Linear] (" in finding["text"]
    assert "/model_modules.py:" in finding["text"]
    assert ") in both passes, " in finding["text"]
    assert finding["evidence"]["whole"].startswith("the time of ")
    assert finding["text"].endswith(" x others of its class")


def _figures(line: str) -> tuple[str, str, str]:
    total, _, own, _, _, _, calls = line.split()[:7]  # the backward pass's is between
    return total, own, calls


@pytest.mark.needs("torch")
def test_a_module_is_one_row(folder: Path) -> None:
    folded = (folder / "out.folded").read_text()
    way = "Net.layers.2 [Block]", "Block.forward (", "Net.layers.2.fc [Linear]"
    paths = [line.split(";") for line in folded.splitlines() if f";{way[2]};" in line]
    below = set()
    for path in paths:
        at = path.index(way[0])
        assert all(map(str.startswith, path[at:], way))
        functions = (frame.partition(" (")[0] for frame in path[at + len(way) :] if ".py:" in frame)
        below.add(next(functions, None))  # None: it is about to begin
    assert "Linear.forward" in below <= {"Linear.forward", None}
    assert not any("_call_impl" in line for line in folded.splitlines() if "Net [Net]" in line)


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_the_program_is_the_same(folder: Path, sampled: Path) -> None:
    alone = subprocess.run(
        [sys.executable, PROGRAM], capture_output=True, text=True, check=True
    ).stdout
    assert (folder / "said").read_text() == alone
    assert (sampled / "said").read_text() == alone


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_without_modules(tmp_path: Path) -> None:
    command(
        tmp_path, "-q", "--mode", "trace", "--format", "folded", "--torch", "no-modules", PROGRAM
    )
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        frames = profile.frames.values()
        assert not any(frame.is_object for frame in frames)
        assert any(frame.name == "Module._wrapped_call_impl" for frame in frames)
    assert "Module._wrapped_call_impl" in (tmp_path / "out.folded").read_text()


def _calls_below_modules(profile: Profile) -> Counter[tuple[str, str]]:
    """Of the program's class Linear: how often it was called, by the module it ran in."""
    calls: Counter[tuple[str, str]] = Counter()
    frames, nodes = profile.frames, profile.nodes
    for row in profile.exact:
        frame = frames[nodes.frame[row.node]]
        if frame.name == "Linear.forward" and (frame.file or "").endswith(PROGRAM.name):
            at = nodes.parent[row.node]
            while not frames[nodes.frame[at]].is_object:
                at = nodes.parent[at]
            calls[frames[nodes.frame[at]].name, frame.name] += row.calls
    return calls


@pytest.mark.further
@pytest.mark.needs("torch")
def test_chosen_functions_are_below_their_modules(
    profile: Profile, torch_process: TorchProcess, tmp_path: Path
) -> None:
    """Modules are not seen to begin then: one's frames have the addresses of the one before."""
    torch_process.profiled(tmp_path, "-q", "--mode", "trace", "-t", "Linear.forward", PROGRAM)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as chosen:
        assert _calls_below_modules(chosen) == _calls_below_modules(profile)
    first, second, *_ = command(tmp_path, "report", "modules", "out.pyhybrid").stdout.splitlines()
    assert first == "calls and times are those of what -t chose alone: Linear.forward"
    assert second.split()[-1] == "module"


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_profiler_that_begins_later(tmp_path: Path) -> None:
    program = """
import gc, sys, weakref, torch, pyhybrid
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
x = torch.ones(2)
for _ in range(2):
    with pyhybrid.Profiler(mode="sample") as profiler:
        net(x)
        assert sys.monitoring.get_tool(4) == "pyhybrid"
    assert not weakref.getweakrefcount(net) and not sys.monitoring.get_tool(4)
    with pyhybrid.Profiler(mode="trace") as profiler:
        for _ in range(3):
            net(x)
    assert not weakref.getweakrefcount(net) and not sys.monitoring.get_tool(4)
    profile = profiler.profile
    calls = {}
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        if frame.is_object:
            calls[frame.name] = row.calls
    assert calls == {"Sequential": 3, "Sequential.0": 3, "Sequential.1": 3}, calls
"""
    subprocess.run([sys.executable, "-P", "-c", program], cwd=tmp_path, check=True)


N_BLOCKS, N_LAYERS, N_TIMES = 100, 99, 3  # of many_modules.py
MODULE_BYTES = 3000  # the tree has three nodes for each


@pytest.mark.further
@pytest.mark.needs("torch")
def test_ten_thousand_modules(torch_process: TorchProcess, tmp_path: Path) -> None:
    """They die meanwhile, and others have their memory.  One that is made where it is called is not
    looked for in all of them each time."""
    build_extension(tmp_path, "count_instructions", f"-I{TARGETS.parent / 'c'}")
    (library,) = tmp_path.glob("count_instructions*")
    said = json.loads(torch_process.run(tmp_path, TARGETS / "many_modules.py", library))
    assert 0 < said["bytes"] < MODULE_BYTES
    assert said["large"] < 1.5 * said["small"]
    found: Counter[str] = Counter()
    with Profile.open(str(tmp_path / "many.pyhybrid")) as profile:
        for row in profile.exact:
            frame = profile.frames[profile.nodes.frame[row.node]]
            if frame.is_object and frame.name.startswith("Net"):
                found[frame.name] += row.calls
    blocks = [f"Net.blocks.{i}" for i in range(N_BLOCKS)]
    layers = [f"{block}.layers.{j}" for block in blocks for j in range(N_LAYERS)]
    made = [f"{block}.(Identity)" for block in blocks]
    assert found == dict.fromkeys(["Net", *blocks, *layers, *made], N_TIMES)


def test_without_the_framework_nothing_is_loaded(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "print([name for name in sys.modules if 'frameworks.' in name or name == 'tomllib'])\n"
    )
    assert pyhybrid("-q", program).result.stdout == "['pyhybrid.frameworks.hooks']\n"
    asked = pyhybrid("report", "modules", "out.pyhybrid", check=False).result
    assert asked.returncode == 1
    assert "no modules of PyTorch were called" in asked.stderr


FORKS = """
import os, sys, torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
for _ in range(3): net(torch.ones(2, 4))
child = os.fork()
if not child:
    for _ in range(5): net(torch.ones(2, 4))
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.further
@pytest.mark.needs("torch")
def test_a_forked_child_has_the_names(tmp_path: Path, torch_process: TorchProcess) -> None:
    """Its parent found them, and has them in a spool of its own."""
    (tmp_path / "program.py").write_text(FORKS)
    torch_process.profiled(tmp_path, "-q", "--format", "folded", tmp_path / "program.py")
    text = command(tmp_path, "report", "modules", "--json").stdout
    calls = {each["name"]: each["calls"] for each in json.loads(text)["modules"]}
    assert calls == {"Sequential": 8, "Sequential.0": 8, "Sequential.1": 8}
