"""Operators of PyTorch on hand-made paths: own and total, phases, callers; `report ops`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
from example_profile import PID
from spool_writer import SpoolWriter, native, python

from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.report.table import shown
from pyhybrid.report.training import operator_listing
from pyhybrid.symbols.resolve import Symbol
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.operators import Caller, operators_of

TORCH = 1
PACKAGES = "/opt/python/lib/python3.12/site-packages"
NAMES = [
    "at::_ops::linear::call(at::Tensor const&, at::Tensor const&)",
    "at::_ops::addmm::call(at::Tensor const&)",
    "at::_ops::addmm::redispatch(c10::DispatchKeySet, at::Tensor const&)",
    "at::_ops::copy_::call(at::Tensor&, at::Tensor const&, bool)",
    "at::_ops::mul__Tensor::call(at::Tensor&, at::Tensor const&)",
    "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
    "mkl_blas_sgemm",
]
LINEAR, ADDMM, REDISPATCHED, COPY, MUL, ENGINE, GEMM = (
    native(TORCH, 0x100 * number) for number in range(1, len(NAMES) + 1)
)
# Python functions of the program, and of PyTorch.
TRAIN, MODEL, LAYER, BACKWARD, OPTIMIZER, CLOSURE = (python(n, 0) for n in range(3, 9))


class Symbols:
    """Of the one library."""

    def __init__(self, path: str, build_id: str | None) -> None:
        pass

    def resolve(self, addresses: Iterable[int]) -> list[Symbol | None]:
        return [(f"_Z{at >> 8}", at & -256, 256, "symtab") for at in addresses]


def name_of(symbol: str) -> str:
    return NAMES[int(symbol.removeprefix("_Z")) - 1]


def profile_of(path: Path, *stacks: tuple[int, ...]) -> Profile:
    """A sample of 1 ms for each."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.module(TORCH, f"{PACKAGES}/torch/lib/libtorch_cpu.so", 0x7F1000000000)
    spool.code(3, "train", "/home/me/train.py", 10)
    spool.code(4, "Module._wrapped_call_impl", f"{PACKAGES}/torch/nn/modules/module.py", 1)
    spool.code(5, "Linear.forward", f"{PACKAGES}/torch/nn/modules/linear.py", 20)
    spool.code(6, "_engine_run_backward", f"{PACKAGES}/torch/autograd/graph.py", 30)
    optimizer = "Optimizer.profile_hook_step.<locals>.wrapper"
    spool.code(7, optimizer, f"{PACKAGES}/torch/optim/optimizer.py", 40)
    spool.code(8, "closure", "/home/me/train.py", 50)
    spool.thread(1, PID, "python", "MainThread")
    rows = [spool.stack(*words) for words in stacks]
    spool.stacks()
    spool.samples(1, rows)
    spool.counters(1, len(rows), len(rows))
    spool.end()
    return open_profile(str(spool.save(path / "x.part")), (Symbols, name_of))


MS = 1_000_000
FORWARD = (TRAIN, MODEL, LAYER, LINEAR, ADDMM, REDISPATCHED)


def test_own_and_total(tmp_path: Path) -> None:
    stacks = [
        (*FORWARD, GEMM),
        (*FORWARD, COPY),
        (*FORWARD, COPY, COPY),  # it calls itself
        (TRAIN, MODEL, LAYER, LINEAR),
        (TRAIN, MODEL, LAYER),
        (TRAIN, COPY),
    ]
    with profile_of(tmp_path, *stacks) as profile:
        found = operators_of(profile)
        assert (found.weight_ns, found.operator_weight_ns) == (6 * MS, 5 * MS)
        assert (found.step_weight_ns, found.step_operator_weight_ns) == (5 * MS, 4 * MS)
        figures = [(o.name, o.own_samples, o.samples, o.called_as) for o in found.operators]
        assert figures == [
            ("copy_", 3, 3, {"linear": 2 * MS, "copy_": MS}),
            ("linear", 1, 4, {"linear": 4 * MS}),
            ("addmm", 1, 3, {"linear": 3 * MS}),
        ]
        assert found.operators[0].callers == [Caller("train", "train.py", 10, 3 * MS)]
        assert all(each.native_weight_ns == each.own_weight_ns for each in found.operators)
        assert not any(each.modules or each.calls for each in found.operators)
        lines = list(shown(operator_listing(found, False)))
        assert lines[0] == "80.0% of the samples in steps are below an operator"
        assert lines[1].startswith("below operators: 83.3% of the samples")
        at = lines[2].index("operator < ")
        assert [line[at:].split()[0] for line in lines[3:]] == ["copy_", "linear", "addmm"]
        only = operators_of(profile, "^add")
        assert [each.name for each in only.operators] == ["addmm"]
        (row,) = [
            each for each in shown(operator_listing(only, True)) if "called as linear" in each
        ]
        assert row.split()[0] == "100.0%"
        with pytest.raises(PyhybridError, match="whose name has 'matmul'"):
            operators_of(profile, "matmul")


def test_phases_by_path(tmp_path: Path) -> None:
    stacks = {
        "forward": [(*FORWARD, GEMM)],
        "backward": [
            (TRAIN, BACKWARD, ENGINE, COPY),
            (ENGINE, COPY),  # on a thread of the engine's
            (TRAIN, BACKWARD, ENGINE, *FORWARD[1:], GEMM),  # activations are computed again
        ],
        "optimizer": [(TRAIN, OPTIMIZER, MUL), (TRAIN, OPTIMIZER, LAYER, MUL)],
        "other": [(TRAIN, COPY), (TRAIN, OPTIMIZER, CLOSURE, COPY)],
    }
    more = [(TRAIN, OPTIMIZER, CLOSURE, *FORWARD[1:])]
    with profile_of(tmp_path, *chain(*stacks.values()), *more) as profile:
        phases: dict[str, int] = {}
        for each in operators_of(profile).operators:
            if each.name != "addmm":
                for phase, ns in each.phases.items():
                    phases[phase] = phases.get(phase, 0) + ns
        expected = {phase: len(rows) * MS for phase, rows in stacks.items()}
        expected["forward"] += MS
        assert phases == expected


def test_without_operators(tmp_path: Path) -> None:
    with (
        profile_of(tmp_path, (TRAIN, GEMM)) as profile,
        pytest.raises(PyhybridError, match=r"below an operator of PyTorch$"),
    ):
        operators_of(profile)
