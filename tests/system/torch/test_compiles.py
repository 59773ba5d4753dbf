"""torch.compile: what compilers call is not counted, each compile is told, and why it was made."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import check_exact
from support import TARGETS, Run, check_invariants, command, made_once, printed
from torch_support import TorchProcess

from pyhybrid.tables import Call
from pyhybrid.tables.profile import Profile
from pyhybrid.views.findings.measured_profile import Measured
from pyhybrid.views.findings.slow_layer import layer
from pyhybrid.views.findings.step_measures import recompiles
from pyhybrid.views.training.compiles import compiler_frames
from pyhybrid.views.training.model import model_figures

pytestmark = pytest.mark.version

LIKE_TORCH = TARGETS / "like_torch" / "compiled.py"
# Of that program, by what it says: those in compilers, and all others.
OUTSIDE = {"outside": 7 + 2 + 1 + 1, "apart": 1, "Net.forward": 2, "numbers": 0, "inside": 0}
AGAIN = 3  # the step of tiny_compile.py in which it is compiled again
COMPILER, COMPILES = "the compiler", 3  # and one in another one


def calls(profile: Profile) -> Counter[str]:
    """By name; those of compilers, of which there is one, together."""
    found: Counter[str] = Counter()
    names = names_of(profile)
    for row in profile.exact:
        found[names[profile.nodes.frame[row.node]]] += row.calls
    return found


def names_of(profile: Profile) -> dict[int, str]:
    """Functions' by frame, or COMPILER."""
    names = {frame.id: frame.name for frame in profile.frames.values()}
    return names | dict.fromkeys(compiler_frames(profile), COMPILER)


def compiler_calls(profile: Profile) -> list[Call]:
    """The kept ones, in order of time."""
    names, frame = names_of(profile), profile.nodes.frame
    found = [each for each in profile.calls if names[frame[each.node]] == COMPILER]
    return sorted(found, key=lambda each: each.begin_ns)


def below_compilers(profile: Profile) -> set[int]:
    """The nodes of what compilers called."""
    nodes, compilers, below = profile.nodes, compiler_frames(profile), set()
    for node in range(1, len(nodes.parent)):
        above = nodes.parent[node]
        if above in below or nodes.frame[above] in compilers:
            below.add(node)
    return below


@pytest.mark.further
@pytest.mark.parametrize("options", [(), ("--c-calls",), ("--events", "--usage", "cpu")])
def test_what_a_compiler_calls_is_not_counted(tmp_path: Path, options: tuple[str, ...]) -> None:
    command(tmp_path, "-q", "--mode", "trace", *options, LIKE_TORCH)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        check_invariants(profile)
        check_exact(profile)
        found = calls(profile)
        assert {name: found[name] for name in OUTSIDE} == OUTSIDE
        assert found[COMPILER] == COMPILES
        assert found["after"] == 2
        assert not found["in a compiler"]
        below = below_compilers(profile)
        counted = [profile.nodes.frame[row.node] for row in profile.exact if row.node in below]
        # C functions that it calls itself are counted.
        assert {profile.frames[frame].kind for frame in counted} <= {"native"}
        kept = [each.state for each in compiler_calls(profile)]
        assert Counter(kept) == {"returned": COMPILES - 1, "raised": 1}


def test_each_compile_is_told(tmp_path: Path) -> None:
    command(tmp_path, "-q", "--mode", "trace", LIKE_TORCH)
    said = json.loads(command(tmp_path, "report", "compiles", "--json", "out.pyhybrid").stdout)
    facts = ("name", "number", "of", "reason")
    names = [tuple(each[fact] for fact in facts) for each in said["compiles"]]
    assert names == [
        ("Net.forward", 1, 2, None),
        ("inside", 1, 1, "it is another kind"),
        ("Net.forward", 2, 2, None),
        ("outside", 1, 1, None),
    ]
    assert (said["functions"], said["again"], said["is_cut"]) == (3, 1, False)
    assert said["calls"] == OUTSIDE["Net.forward"] + OUTSIDE["outside"]
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        start_ns = profile.process.start_ns or 0
        kept = compiler_calls(profile)
    outermost = [each for each in said["compiles"] if each["name"] != "inside"]
    for call, told in zip(kept, outermost, strict=True):
        begin_ns = start_ns + told["begin_ns"]
        slack_ns = 1_000_000  # of two clocks, and of one that ticks in microseconds
        assert call.begin_ns - slack_ns <= begin_ns
        assert begin_ns + told["took_ns"] <= call.end_ns + slack_ns
    text = command(tmp_path, "report", "compiles", "out.pyhybrid").stdout
    assert text.startswith("torch.compile: 4 compiles of 3 functions, ")
    assert ", recompiled because it is another kind\n" in text
    summary = command(tmp_path, "report", "out.pyhybrid").stdout
    assert "all counted but what compilers call\n" in summary
    assert "\ncompile  4 compiles of 3 functions, " in summary


@pytest.mark.further
def test_calls_of_compilers_are_counted_if_asked(tmp_path: Path) -> None:
    command(tmp_path, "-q", "--mode", "trace", "--torch", "compilers", LIKE_TORCH)
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        found = calls(profile)
        assert found[COMPILER] == COMPILES + 1
        assert found["inside"] == 1 + 1 + 1 + 1
    summary = command(tmp_path, "report", "out.pyhybrid").stdout
    assert "all counted\n" in summary


KILLED = """
import os, signal
import torch

@torch.compile(backend="eager")
def f(x):
    return x.sin() + 1

net = torch.nn.Linear(8, 8)
for n in (4, 5):
    f(torch.ones(n))
    net(torch.ones(8)).sum().backward()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.further
@pytest.mark.needs("torch")
def test_a_killed_run_has_its_compiles(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(KILLED)
    run = pyhybrid("--leave-part", "-q", "program.py", check=False)
    assert run.result.returncode == -signal.SIGKILL
    said = json.loads(pyhybrid("report", "compiles", "--json", "out.pyhybrid.part").result.stdout)
    assert [(each["name"], each["number"]) for each in said["compiles"]] == [("f", 1), ("f", 2)]
    assert "size mismatch" in said["compiles"][1]["reason"]


@pytest.mark.further
def test_nothing_was_compiled(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print(1)\n")
    command(tmp_path, "-q", "--mode", "trace", "program.py")
    done = command(tmp_path, "report", "compiles", check=False)
    assert done.returncode == 1
    assert "nothing was compiled" in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """Where a run of tiny_compile.py left its profile."""
    program = ("-q", "--format", "folded", "--hz", "499", TARGETS / "tiny_compile.py", "eager")
    return made_once(
        tmp_path_factory, "compiles", lambda folder: torch_process.profiled(folder, *program)
    )


@pytest.mark.further
@pytest.mark.needs("torch")
def test_compiles_of_pytorch(folder: Path) -> None:
    said = json.loads(command(folder, "report", "compiles", "--json", "out.pyhybrid").stdout)
    told = [(each["name"], each["number"], each["of"]) for each in said["compiles"]]
    assert told == [("Net.forward", 1, 2), ("Net.forward", 2, 2)]
    first, second = said["compiles"]
    assert first["reason"] is None
    assert "size mismatch" in second["reason"]
    assert (said["calls"], said["functions"], said["again"]) == (6, 1, 1)
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        check_invariants(profile)
        check_exact(profile)
        below, found = below_compilers(profile), calls(profile)
        assert found[COMPILER] == 2
        assert found["after"] == 6
        assert not any(row.node in below for row in profile.exact)
        sampled: set[int] = set()  # nodes at or above a sample
        for row in profile.sampled:
            node = profile.stacks.node[row.stack]
            while node in below and node not in sampled:
                sampled.add(node)
                node = profile.nodes.parent[node]
        names = {profile.frames[profile.nodes.frame[node]].file for node in sampled}
        assert any("/torch/_dynamo/" in (name or "") for name in names)
        assert said["share"] > 0


@pytest.mark.further
@pytest.mark.needs("torch")
def test_compiling_is_a_phase_of_steps(folder: Path) -> None:
    """It is in no other one, and a step that took long for it says what was compiled, and why."""
    told = json.loads(command(folder, "report", "steps", "--json", "out.pyhybrid").stdout)
    compiled = {each["number"]: each["phases"].get("compile", 0) for each in told["steps"]}
    said = json.loads(command(folder, "report", "compiles", "--json", "out.pyhybrid").stdout)
    slack_ns = 1_000_000  # of two clocks, and of one that ticks in microseconds
    again = said["compiles"][1]
    assert [number for number, ns in compiled.items() if ns] == [0, AGAIN]
    assert compiled[AGAIN] >= again["took_ns"] - slack_ns
    (slow,) = (each for each in told["slowest"] if each["number"] == AGAIN)
    assert slow["phase"] == "compile"
    assert slow["compiled"].startswith("Net.forward (tiny_compile.py:")
    assert ", 2 of 2, recompiled because " in slow["compiled"]
    assert slow["function"] == ""
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        measured, (net,) = Measured(profile), model_figures(profile).modules
        found = recompiles(measured, {})
        # The compiler is no layer, and neither is the compiled model, in which all are.
        alone = {"alone": 0.01, "alone_of_library": 0.01}
        assert layer(measured, {"times": 2.5, "runs": 0, "least_share": 0.01, **alone}) is None
    assert net.exact_compile_ns == pytest.approx(sum(compiled.values()), rel=0.05)
    forward_ns = sum(each["phases"].get("forward", 0) for each in told["steps"])
    assert net.exact_total_ns == pytest.approx(forward_ns, rel=0.1)  # without what compiled
    steps_ns = sum(each["end_ns"] - each["begin_ns"] for each in told["steps"])
    first_ns = sum(compiled.values()) - again["took_ns"]
    assert found is not None
    assert found["whole"] == "the time of 6 steps"
    assert found["share"] == pytest.approx(again["took_ns"] / (steps_ns - first_ns))
    assert "size mismatch" in found["because"]


@pytest.mark.slow
@pytest.mark.long(
    "PyTorch compiles four graphs with the C++ compiler, each in a process of its own"
)
@pytest.mark.needs("torch")
def test_compiles_by_inductor(tmp_path: Path) -> None:
    program = (TARGETS / "tiny_compile.py", "inductor")
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command(tmp_path, "-q", *program, **cache)
    said = json.loads(command(tmp_path, "report", "compiles", "--json", "out.pyhybrid").stdout)
    told = [(each["backward"], each["number"]) for each in said["compiles"]]
    assert sorted(told) == [(False, 1), (False, 2), (True, 1), (True, 2)]
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        below = below_compilers(profile)
        counted = [profile.nodes.frame[row.node] for row in profile.exact if row.node in below]
        assert not counted
        names = {frame.name for frame in profile.frames.values()}
    kernels = [name for name in names if re.fullmatch(r"cpp_fused_\w*tanh\w* \[inductor\]", name)]
    assert kernels and "kernel" not in names
    graphs = [name for name in names if name.startswith("Runner.call [inductor ")]
    assert any("forward: addmm" in name for name in graphs)


GRAPHS = """
import types
import torch
import torch._inductor.cudagraph_trees as trees
from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter as skip

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
skip("skipping cudagraphs due to cpu device")
manager = types.SimpleNamespace(num_rerecord={None: {0: 2}, 1: {0: 1, 3: 4}})
trees.local.tree_manager_containers[0] = types.SimpleNamespace(tree_manager=manager)
trees.local.tree_manager_containers[1] = types.SimpleNamespace(tree_manager=None)
"""


@pytest.mark.further
@pytest.mark.needs("torch")
def test_cuda_graphs_that_were_made_again(tmp_path: Path, torch_process: TorchProcess) -> None:
    """As PyTorch counts them; the graphs are made up: there is no GPU."""
    (tmp_path / "program.py").write_text(GRAPHS)
    torch_process.profiled(tmp_path, "-q", "--format", "folded", tmp_path / "program.py")
    said = json.loads(printed(tmp_path, "report", "compiles", "--json"))
    assert (said["cuda_graphs_skipped"], said["cuda_graphs_again"]) == (1, 7)
    line = "CUDA graphs: 7 made again, 1 compiles without one"
    assert line in printed(tmp_path, "report", "compiles").splitlines()
