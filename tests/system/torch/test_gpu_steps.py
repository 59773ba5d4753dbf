"""`--torch gpu`: work of a GPU in windows of steps, from torch.profiler as the program runs.

No GPU is there: targets/gpu_steps.py makes CUDA events of the operators of the CPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import TARGETS, command, made_once
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile

OUT = "out.pyhybrid"
KERNEL_NS = 2000
# Kernels of each module in a step, forward and backward, by themselves.
OWN = {"Net.fc1": (1, 2), "Net.fc2": (1, 2), "Net": (1, 1)}
FORWARD = {name: (forward, 0) for name, (forward, _) in OWN.items()}


GPU = "--torch gpu"


def run(
    torch_process: TorchProcess, folder: Path, options: str, *words: str
) -> tuple[Profile, str]:
    """The profile of a run, and what it printed."""
    asked = ("-q", "--mode", "trace", *(options or GPU).split(), TARGETS / "gpu_steps.py", *words)
    said = torch_process.profiled(folder, *asked)
    return Profile.open(str(folder / OUT)), said


def by_module(profile: Profile) -> dict[str, list[int]]:
    """Kernels of each module: those of its forward and of its backward pass."""
    found: dict[str, list[int]] = {}
    for work in profile.gpu:
        node = work.node
        if not node:
            continue
        while not profile.frames[profile.nodes.frame[node]].is_object:
            node = profile.nodes.parent[node]
        name = profile.frames[profile.nodes.frame[node]].name
        found.setdefault(name, [0, 0])[work.backward] += work.launches
        assert work.ns == work.launches * KERNEL_NS
    return found


def times(n: int, of: dict[str, tuple[int, int]]) -> dict[str, list[int]]:
    return {name: [n * each for each in both] for name, both in of.items()}


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess
) -> tuple[Path, str]:
    """A training: the first window is from its third step on, the second one from the eighth on."""

    def make(folder: Path) -> None:
        options = ("-q", "--mode", "trace", "--torch", "gpu=3/5")
        said = torch_process.profiled(folder, *options, TARGETS / "gpu_steps.py", "steps=9")
        (folder / "said").write_text(said)

    folder = made_once(tmp_path_factory, "gpu-trained", make)
    return folder, (folder / "said").read_text()


@pytest.mark.needs("torch")
def test_kernels_of_windows_are_below_their_modules(trained: tuple[Path, str]) -> None:
    folder, said = trained
    assert said.splitlines() == ["window: 24", "window: 16"]  # the second one is cut off
    with Profile.open(str(folder / OUT)) as profile:
        assert by_module(profile) == times(5, OWN)
        windows, calls = profile.gpu_windows, profile.watched_calls
        assert not list(profile.events())  # nobody asked for them
        covered = [
            sum(begin <= call.begin_ns < end for begin, end in windows)
            for call in calls
            if profile.frames[profile.nodes.frame[call.node]].name == "Module._wrapped_call_impl"
        ]
    assert covered == [0, 0, 1, 1, 1, 0, 0, 1, 1]


@pytest.mark.further
@pytest.mark.needs("torch")
def test_work_of_no_launch_is_below_no_call(trained: tuple[Path, str]) -> None:
    with Profile.open(str(trained[0] / OUT)) as profile:
        assert [w.launches for w in profile.gpu if w.name == "late" and not w.node] == [2]


@pytest.mark.further
@pytest.mark.needs("torch")
def test_clocks_are_paired_while_the_program_runs(trained: tuple[Path, str]) -> None:
    with Profile.open(str(trained[0] / OUT)) as profile:
        pairs, meta = profile.clock_pairs, profile.meta
    seconds = (meta["stop_ns"] - meta["start_ns"]) / 1e9
    assert 3 <= len(pairs) <= seconds + 12  # the first ones come sooner than one a second
    ahead = [unix_ns - time_ns for time_ns, unix_ns in pairs]
    assert max(ahead) - min(ahead) < 1e8


@pytest.mark.further
@pytest.mark.needs("torch")
def test_the_programs_own_profiler_goes_first(torch_process: TorchProcess, tmp_path: Path) -> None:
    """Its own one begins while ours runs, has all that it asked for, and ours goes on later."""
    options = "--torch gpu=2/4", "steps=9", "own=4,4", "closure", "accumulate"
    profile, said = run(torch_process, tmp_path, *options)
    assert said.splitlines() == ["window: 16", "own: 16", "window: 32"]
    with profile:
        assert by_module(profile) == times(6, OWN)
        (note,) = (each for each in profile.meta["notes"] if "--torch gpu" in each)
        assert note == "--torch gpu: 1 window made way for the program's own torch.profiler"


@pytest.mark.further
@pytest.mark.needs("torch")
def test_calls_of_a_model_are_steps_where_nothing_is_trained(
    torch_process: TorchProcess, tmp_path: Path
) -> None:
    options = "--torch gpu=4/4 --events", "infer", "steps=6"
    profile, said = run(torch_process, tmp_path, *options)
    assert said.splitlines() == ["window: 12", "window: 6"]
    with profile:
        assert by_module(profile) == times(6, FORWARD)
        assert any(each.kind == "call" for each in profile.events())


@pytest.mark.further
@pytest.mark.needs("torch")
def test_without_a_gpu_a_note_says_so(torch_process: TorchProcess, tmp_path: Path) -> None:
    profile, said = run(torch_process, tmp_path, "", "unused", "steps=3")
    assert not said
    with profile:
        assert "--torch gpu: the program used no GPU" in profile.meta["notes"]
        assert (profile.gpu, profile.gpu_windows) == ([], [])


@pytest.mark.further
def test_without_pytorch_a_note_says_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("def f(): pass\nf()\n")
    done = command(tmp_path, "--mode", "trace", "--torch", "gpu", "program.py")
    assert "--torch gpu: the program has not imported PyTorch" in done.stderr


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--torch", "gpu", "-t", "f"), "--torch gpu needs all calls: no filters"),
        (("--torch", "gpu,no-steps"), "--torch gpu counts steps: not with no-steps"),
        (("--torch", "gpu=2/1"), "so many of each so many, like 10/100"),
        (("--torch", "gpu", "--mode", "sample"), "--torch gpu needs --mode hybrid or trace"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    (tmp_path / "program.py").write_text("def f(): pass\nf()\n")
    done = command(tmp_path, *options, "program.py", check=False)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
