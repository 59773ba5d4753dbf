"""Operators of PyTorch (ATen's), by the C++ functions that are frames of the samples below them.

An operator may run others: `linear` runs `addmm`.  What is below it is its total; its own is what
no operator further in has, so own weights add up.  The phase, the module and the Python function
are those that it ran in, by the path of the sample: in the backward pass the module is the one for
which there is backward work (model.py).
"""

from __future__ import annotations

import re
from collections import Counter

from pyhybrid.base.structs import Struct, made
from pyhybrid.errors import PyhybridError
from pyhybrid.frameworks import torch
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.flops import Flops
from pyhybrid.views.training.operator_paths import OperatorPaths

ATEN = "aten::"  # how the names of operators begin whose shapes are noted


class Caller(Struct):
    """Hold the place where the program's own code led to an operator, and the weight below it."""

    function: str
    file: str
    line: int
    weight_ns: int


class OperatorFigures(Struct):
    """Hold an operator: samples and weights of what is below it, the outermost of a recursion.

    `native_weight_ns`: of its own, in C, C++ and the kernel.  `called_as`: the weight by the
    outermost operator, which the program called.  `calls`: None unless calls of C functions were
    counted, and these alone lead to it.
    """

    name: str
    samples: int = 0
    weight_ns: int = 0
    own_samples: int = 0
    own_weight_ns: int = 0
    native_weight_ns: int = 0
    calls: int | None = None
    called_as: dict[str, int] = made(dict)
    phases: dict[str, int] = made(dict)
    modules: dict[str, int] = made(dict)
    callers: list[Caller] = made(list)


class BackwardNode(Struct):
    """Hold autograd nodes of a name: exact calls and time; what runs in one are operators."""

    name: str
    calls: int
    exact_self_ns: int


class ShapeCalls(Struct):
    """Hold calls of an operator, as ATen names it, with tensors of the same shapes and types.

    `calls` is an estimate, of the `looked_at` that were, and `flops` that of what they do
    (flops.py); None: it is not known.
    """

    operator: str
    shapes: str
    calls: int
    looked_at: int
    flops: int | None


class Operators(Struct):
    """Hold all of them, those with the most of their own first.

    `weight_ns`: of all samples of the program, `operator_weight_ns`: of those below one; the same
    of those in steps: in the phases that are for operators (torch.toml).  `flops`: an estimate of
    what those with shapes do, and `flops_weight_ns` the weight of the samples below these.
    """

    operators: list[OperatorFigures]
    backward_nodes: list[BackwardNode]
    shapes: list[ShapeCalls]  # with --torch shapes: those with most calls first
    weight_ns: int
    operator_weight_ns: int
    step_weight_ns: int
    step_operator_weight_ns: int
    flops: int
    flops_weight_ns: int


def operators_of(profile: Profile, match: str = "") -> Operators:
    """Return the operators whose names have a match of the expression.

    Raises PyhybridError where no samples are below one, and no shapes of one are known.
    """
    wanted = re.compile(match)
    paths = OperatorPaths(profile)
    found: dict[str, OperatorFigures] = {}
    callers: dict[str, Counter[tuple[str, str, int]]] = {}
    all_ns, step_ns = Counter[bool](), Counter[bool]()  # by: is it below an operator
    for row in profile.sampled:
        operators = list(paths.operators(row.stack))
        all_ns[bool(operators)] += row.weight_ns
        phase = paths.phase(row.stack)
        if phase in torch.operators()["phases"]:
            step_ns[bool(operators)] += row.weight_ns
        for at, (name, place) in enumerate(operators):
            if at and name in (each for each, _ in operators[:at]):
                continue
            each = found.setdefault(name, OperatorFigures(name))
            each.samples += row.samples
            each.weight_ns += row.weight_ns
            _add(each.called_as, operators[-1][0], row.weight_ns)
            _add(each.phases, phase, row.weight_ns)
            if module := paths.module(place):
                _add(each.modules, module, row.weight_ns)
            if caller := paths.caller(place):
                callers.setdefault(name, Counter())[caller] += row.weight_ns
        if operators:
            own = found[operators[0][0]]
            own.own_samples += row.samples
            own.own_weight_ns += row.weight_ns
            own.native_weight_ns += row.weight_ns * paths.is_native[row.stack]
    calls = paths.calls()
    for name, each in found.items():
        each.calls = calls.get(name)
        most = callers.get(name, Counter[tuple[str, str, int]]()).most_common()
        each.callers = [Caller(*caller, weight_ns) for caller, weight_ns in most]
        for by in (each.called_as, each.phases, each.modules):
            _largest_first(by)
    shown = [each for name, each in found.items() if wanted.search(name)]
    shapes = [each for each in _shapes(profile) if wanted.search(each.operator)]
    if not shown and not shapes:
        which = f" whose name has {match!r}" if match and found else ""
        raise PyhybridError(f"{profile.path}: no samples are below an operator of PyTorch{which}")
    shown.sort(key=lambda each: (-each.own_weight_ns, -each.weight_ns))
    counted = {each.operator.removeprefix(ATEN) for each in shapes if each.flops}
    return Operators(
        shown,
        _backward_nodes(profile),
        shapes,
        all_ns.total(),
        all_ns[True],
        step_ns.total(),
        step_ns[True],
        sum(each.flops or 0 for each in shapes),
        sum(each.weight_ns for each in shown if each.name in counted),
    )


def _add(weights: dict[str, int], key: str, weight_ns: int) -> None:
    weights[key] = weights.get(key, 0) + weight_ns


def _largest_first(weights: dict[str, int]) -> None:
    for key in sorted(weights, key=weights.__getitem__, reverse=True):
        weights[key] = weights.pop(key)


def _backward_nodes(profile: Profile) -> list[BackwardNode]:
    calls, self_ns = Counter[str](), Counter[str]()
    for row in profile.backward:
        calls[row.name] += row.calls
        self_ns[row.name] += row.self_ns
    return [BackwardNode(name, calls[name], ns) for name, ns in self_ns.most_common()]


def _shapes(profile: Profile) -> list[ShapeCalls]:
    """Return those of the whole run, whatever was chosen of its samples; none without tensors."""
    probability = profile.meta.get("shapes_probability") or 1
    rows = sorted(profile.meta.get("shapes") or (), key=lambda row: -int(row[2]))
    flops = Flops((name, text) for name, text, _ in rows)
    found = []
    for name, text, n in rows:
        calls, each = round(n / probability), flops.of(name, text)
        if text:
            found.append(ShapeCalls(name, text, calls, n, None if each is None else calls * each))
    return found
