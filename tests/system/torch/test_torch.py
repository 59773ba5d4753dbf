"""PyTorch: forward, backward, hooks and autograd.Function, in one tree with the C++ between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from exact_support import check_exact, check_halves
from support import (
    TARGETS,
    check_invariants,
    command,
    eval_frames,
    made_once,
    paths,
    share_with_line,
)
from torch_support import TorchProcess

pytestmark = pytest.mark.needs("torch")

# Timers, which the ordinary user has, give a sample a tick, not one a period: a sample stands for
# many, and those of a periodic program are far from random.
FAIR = os.geteuid() == 0


SAMPLE = pytest.param("sample", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[SAMPLE, "hybrid"])
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    torch_process: TorchProcess,
    request: pytest.FixtureRequest,
) -> Path:
    """Where a run of tiny_torch.py left its profile."""

    def make(folder: Path) -> None:
        program = (TARGETS / "tiny_torch.py", 3, 400 if FAIR else 2500)
        every = ["--imports"] if request.param == "hybrid" else []  # each path that was counted
        torch_process.profiled(folder, "--hz", 1777, "--mode", request.param, *every, *program)

    folder = made_once(tmp_path_factory, f"torch-{request.param}", make)
    print((folder / "errors").read_text())  # pytest shows it with a failure
    return folder


@pytest.fixture(scope="module")
def stacks(folder: Path) -> Iterator[list[tuple[int, list, list]]]:
    """Its paths."""
    from pyhybrid.tables.profile import Profile

    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        check_invariants(profile)
        if profile.exact:
            check_exact(profile)
            check_halves(profile)
        yield list(paths(profile))


def having(stacks: list[tuple[int, list, list]], *sequence: str) -> int:
    """Samples whose path has frames with these names (or C++ names that begin so in some
    namespace), in this order, not necessarily next to each other."""

    def matches(name: str, wanted: str) -> bool:
        return name.startswith(wanted) or f"::{wanted}" in name

    found = 0
    for samples, _, names in stacks:
        rest = iter(names)
        if all(any(matches(name, wanted) for name in rest) for wanted in sequence):
            found += samples
    return found


def test_operators_below_the_module_that_called_them(stacks: list) -> None:
    path = "main", "step", "Module._call_impl", "Net.forward", "Module._call_impl", "Linear.forward"
    operators = "torch::autograd::", "at::_ops::linear::call", "at::_ops::addmm"
    assert having(stacks, *path, *operators) > (5 if FAIR else 0)


def test_the_dispatcher_is_folded_away(folder: Path) -> None:

    def frames(path: Path) -> tuple[set[str], int]:
        lines = [line.rpartition(" ") for line in path.read_text().splitlines()]
        return {name for line in lines for name in line[0].split(";")}, sum(
            int(n) for *_, n in lines
        )

    command(folder, "export", "-f", "folded", "--all-frames", "-o", "all.folded")
    folded, weight = frames(folder / "out.folded")
    everything, all_weight = frames(folder / "all.folded")
    assert weight == all_weight
    operators = {"at::_ops::linear::call", "at::_ops::addmm::call"}
    assert operators & folded
    assert operators & folded == operators & everything
    dispatch = ("c10::Dispatcher::call", "c10::impl::wrap_kernel_functor_unboxed_")
    assert not [name for name in folded if name.startswith(dispatch)]
    assert [name for name in everything if name.startswith(dispatch)]
    assert not folded & {"_PyEval_EvalFrameDefault", "at::_ops::addmm::redispatch"}
    assert {"_PyEval_EvalFrameDefault", "at::_ops::addmm::redispatch"} & everything


@pytest.mark.further
def test_python_functions_are_on_a_line(folder: Path) -> None:
    from pyhybrid.tables.profile import Profile

    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        assert share_with_line(profile) > 0.99


@pytest.mark.further
def test_backward_runs_python_below_the_engine(stacks: list) -> None:
    # On the CPU the engine runs backward on the thread that called it.
    path = "main", "step", "Tensor.backward", "_engine_run_backward", "torch::autograd::"
    backward = having(stacks, *path, "BackwardCFunction.apply", "Scale.backward", "spin")
    hook = having(stacks, *path, "on_gradient", "spin")
    forward = having(
        stacks, "main", "step", "Net.forward", "THPFunction_apply", "Scale.forward", "spin"
    )
    assert min(backward, hook, forward) > 5
    if FAIR:
        assert min(backward, hook, forward) > 50  # of 400 steps, 300 us each: 213
        assert max(backward, hook, forward) < 3 * min(backward, hook, forward)


def test_no_impossible_stack(stacks: list) -> None:
    parents = {
        "spin": {"Scale.forward", "Scale.backward", "on_gradient"},
        "Scale.backward": {"BackwardCFunction.apply"},
        "Net.forward": {"Module._call_impl"},
        "step": {"main"},
        "main": {"<module>"},
    }
    checked = unknown = 0
    for samples, kinds, names in stacks:
        python = [name for kind, name in zip(kinds, names, strict=True) if kind == "python"]
        for caller, callee in pairwise(python):
            if callee in parents:
                assert caller in parents[callee], names
                checked += samples
        assert not eval_frames(names), names
        # RETURN_GENERATOR may unmap the current frame (pyframe.c): it alone is unknown then.
        unknown += samples * names.count("[unknown python]")
    assert checked > having(stacks, "main", "step") > 20
    assert unknown <= max(2, sum(samples for samples, _, _ in stacks) // 1000)


@pytest.mark.further
def test_the_threads_of_openmp_are_there(stacks: list) -> None:
    if len(os.sched_getaffinity(0)) > 1:
        assert having(stacks, "gomp_thread_start") > having(stacks, "main", "step") // 50


@pytest.mark.further
@pytest.mark.needs("perf")
def test_perf_names_every_function(folder: Path) -> None:
    """PyTorch's own libgomp has names in `.gnu_debugdata` only."""
    from perf_support import CLOCK_EVENT, CLOCK_ONLY, report, write_perf_map

    from pyhybrid.tables.profile import Profile

    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        write_perf_map(profile)

    columns = ("--children", "-F", "overhead_children,sym", "--sort", "sym")
    symbols = [symbol for _, symbol in report(folder, *columns, *CLOCK_ONLY)[CLOCK_EVENT]]
    assert len(symbols) > 100
    assert not [symbol for symbol in symbols if "] 0x" in symbol]
    if len(os.sched_getaffinity(0)) > 1:
        assert "[.] gomp_thread_start [libgomp.so.1]" in symbols
