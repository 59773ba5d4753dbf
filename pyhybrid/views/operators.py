"""Operators of PyTorch (ATen's), by the C++ functions that are frames of the samples below them.

An operator may run others: `linear` runs `addmm`.  What is below it is its total; its own is what
no operator further in has, so own weights add up.  The phase, the module and the Python function
are those that it ran in, by the path of the sample: in the backward pass the module is the one for
which there is backward work (model.py).
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pyhybrid._profile import add_up, descend, nearest, take
from pyhybrid.errors import PyhybridError
from pyhybrid.frameworks import torch
from pyhybrid.profile_file.profile import Profile
from pyhybrid.profile_file.tables import Frame
from pyhybrid.pseudo import OWN_CALLBACK
from pyhybrid.views.folded_tree import INSIDE
from pyhybrid.views.labels import shorten_file, shorten_native
from pyhybrid.views.phases import BACKWARD, FORWARD, OPTIMIZER, OTHER, all_phases
from pyhybrid.views.program_lines import program_files

# From the root down: 0 none is further out, 1 the outermost one, 2 below it.
_OUTERMOST = bytes((1 if kind else 0, 2, 2)[above] for above in range(3) for kind in range(256))
_IS_OUTERMOST = bytes(state == 1 for state in range(256))


@dataclass(slots=True)
class Caller:
    """The place from which the program's own code led to an operator, and the weight below it."""

    function: str
    file: str
    line: int
    weight_ns: int


@dataclass(slots=True)
class OperatorFigures:
    """Of an operator: samples and weights of what is below it, the outermost of a recursion.

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
    called_as: dict[str, int] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    modules: dict[str, int] = field(default_factory=dict)
    callers: list[Caller] = field(default_factory=list)


@dataclass(slots=True)
class BackwardNode:
    """Autograd nodes of a name: exact calls and time; what runs in one are operators."""

    name: str
    calls: int
    exact_self_ns: int


@dataclass(slots=True)
class ShapeCalls:
    """Calls of an operator, as ATen names it, with tensors of the same shapes and types.

    `calls` is an estimate, of the `looked_at` that were.
    """

    operator: str
    shapes: str
    calls: int
    looked_at: int


@dataclass(slots=True)
class Operators:
    """All of them, those with the most of their own first.

    `weight_ns`: of all samples of the program, `operator_weight_ns`: of those below one; the same
    of those in steps: in the phases that are for operators (torch.toml).
    """

    operators: list[OperatorFigures]
    backward_nodes: list[BackwardNode]
    shapes: list[ShapeCalls]  # with --shapes: those with most calls first
    weight_ns: int
    operator_weight_ns: int
    step_weight_ns: int
    step_operator_weight_ns: int


def operators_of(profile: Profile, match: str = "") -> Operators:
    """The operators whose names have a match of the expression.

    Raises PyhybridError where there are none.
    """
    wanted = re.compile(match)
    paths = _Paths(profile)
    found: dict[str, OperatorFigures] = {}
    callers: dict[str, Counter[tuple[str, str, int]]] = {}
    all_ns, step_ns = Counter[bool](), Counter[bool]()  # by: is it below an operator
    for row in profile.sampled:
        if paths.is_own_callback[row.stack]:
            continue
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
    if not shown:
        which = f" whose name has {match!r}" if match and found else ""
        raise PyhybridError(f"{profile.path}: no samples are below an operator of PyTorch{which}")
    shown.sort(key=lambda each: (-each.own_weight_ns, -each.weight_ns))
    return Operators(
        shown,
        _backward_nodes(profile),
        [each for each in _shapes(profile) if wanted.search(each.operator)],
        all_ns.total(),
        all_ns[True],
        step_ns.total(),
        step_ns[True],
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
    """Of the whole run, whatever was chosen of its samples; none without tensors."""
    probability = profile.meta.get("shapes_probability") or 1
    rows = sorted(profile.meta.get("shapes") or (), key=lambda row: -int(row[2]))
    return [ShapeCalls(name, text, round(n / probability), n) for name, text, n in rows if text]


class _Paths:
    """What is on the path of each row of `stack`, itself and above."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        names = torch.operators()
        self._parent = array("I", profile.stacks.parent)
        self._frame = take(profile.nodes.frame, array("I", profile.stacks.node))
        frames = profile.frames.values()
        short = {f.id: shorten_native(f.name) for f in frames if f.kind == "native"}
        self._short = short
        of_frame, self._names = {}, [""]
        numbers: dict[str, int] = {}
        for number, name in short.items():
            if operator := re.fullmatch(names["function"], name):
                of_frame[number] = numbers.setdefault(operator[1], len(numbers) + 1)
        self._names += numbers
        self._operator = self._column(of_frame)
        is_operator = self._kinds(dict.fromkeys(of_frame, 1))
        self._inner = nearest(self._parent, is_operator)
        self._is_outermost = bytes(descend(self._parent, is_operator, _OUTERMOST)).translate(
            _IS_OUTERMOST
        )
        own = {f.id: 1 for f in frames if f.symbol == OWN_CALLBACK}
        self.is_own_callback = descend(self._parent, self._kinds(own), INSIDE)
        native = {f.id: 1 for f in frames if f.kind in ("native", "kernel")}
        self.is_native = self._kinds(native)

    def _column(self, of_frame: dict[int, int]) -> memoryview:
        """The number of each row's frame (uint32)."""
        return take(array("I", self._by_frame(of_frame)), self._frame)

    def _kinds(self, of_frame: dict[int, int]) -> memoryview:
        """The same, of small numbers (uint8)."""
        return take(bytes(self._by_frame(of_frame)), self._frame)

    def _by_frame(self, of_frame: dict[int, int]) -> Iterator[int]:
        numbers = range(max(self._profile.frames, default=0) + 1)
        return (of_frame.get(number, 0) for number in numbers)

    def operators(self, row: int) -> Iterator[tuple[str, int]]:
        """The operators on a path, the innermost first, and where they are on it."""
        at = self._inner[row]
        while at:
            yield self._names[self._operator[at]], at
            at = self._inner[self._parent[at]]

    def phase(self, row: int) -> str:
        """That of steps in which it is."""
        return self._phase_names[self._phase[row]]

    def module(self, row: int) -> str:
        """The path of the module of a model; "": none."""
        frame = self._profile.frames.get(self._frame[self._module[row]])
        return "" if frame is None else str(frame.symbol if frame.is_backward else frame.name)

    def caller(self, row: int) -> tuple[str, str, int] | None:
        """The nearest Python function that is the program's, or else a library's: name, file, line
        that ran; None: none."""
        at = self._program[row] or self._python[row]
        if not at:
            return None
        frame = self._profile.frames[self._frame[at]]
        file = shorten_file(frame.file or "", str(self._profile.meta.get("cwd") or ""))
        return frame.name, file, self._profile.stacks.line[at] or frame.line or 0

    @cached_property
    def _module(self) -> memoryview:
        frames = self._profile.frames.values()
        marked = {f.id: 1 for f in frames if f.is_object or f.is_backward}
        return nearest(self._parent, self._kinds(marked))

    @cached_property
    def _python(self) -> memoryview:
        python = {f.id: 1 for f in self._profile.frames.values() if f.kind == "python"}
        return nearest(self._parent, self._kinds(python))

    @cached_property
    def _program(self) -> memoryview:
        own = {f.id: 1 for f in self._profile.frames.values() if self._is_programs(f)}
        return nearest(self._parent, self._kinds(own))

    def _is_programs(self, frame: Frame) -> bool:
        return frame.kind == "python" and frame.file in self._program_files

    @cached_property
    def _program_files(self) -> set[str]:
        return program_files(self._profile)

    @cached_property
    def _phase_names(self) -> list[str]:
        return [OTHER, *(name for name in all_phases() if name != OTHER)]

    @cached_property
    def _phase(self) -> bytes:
        """As phases.py has them, but by path: a forward pass within the backward pass is none of
        its own, and what the program runs within an optimizer is none."""
        names = self._phase_names
        numbers = {name: number for number, name in enumerate(names)}
        programs = len(names)
        backward = re.compile(torch.operators()["backward"])
        of_frame = {}
        for frame in self._profile.frames.values():
            phase = torch.phase_of(frame.file or "", frame.name) if frame.kind == "python" else None
            if phase:
                of_frame[frame.id] = numbers[phase]
            elif self._is_programs(frame):
                of_frame[frame.id] = programs
            elif backward.fullmatch(self._short.get(frame.id, "")):
                of_frame[frame.id] = numbers[BACKWARD]
        steps = bytearray()
        for above in range(len(names)):
            for kind in range(256):
                state = kind if 0 < kind < programs else above
                if kind == numbers[FORWARD] and above == numbers[BACKWARD]:
                    state = above
                if kind == programs and above == numbers[OPTIMIZER]:
                    state = 0
                steps.append(state)
        return bytes(descend(self._parent, self._kinds(of_frame), bytes(steps)))

    def calls(self) -> dict[str, int]:
        """Calls by operator, of those to which C functions of their name alone lead, which were
        counted."""
        if not self._profile.meta.get("c_calls"):
            return {}
        exact, n_frames = self._profile.exact, max(self._profile.frames, default=0) + 1
        pattern = re.compile(torch.operators()["python"])
        called = {f: m[1] for f, name in self._short.items() if (m := pattern.fullmatch(name))}
        above = nearest(self._parent, self._kinds(dict.fromkeys(called, 1)))
        led_by: dict[str, set[int]] = {}
        for row, operator in enumerate(self._operator):
            around = self._operator[self._inner[self._parent[row]]]
            if operator not in (0, around):  # dispatched again, it is the same call
                function = self._frame[above[row]] if self._is_outermost[row] else 0
                led_by.setdefault(self._names[operator], set()).add(function)
        counted = add_up(take(self._profile.nodes.frame, exact.node), exact.calls, n_frames)
        return {
            name: sum(counted[function] for function in functions)
            for name, functions in led_by.items()
            if all(
                counted[each] and f"{name}_".startswith(f"{called.get(each)}_")
                for each in functions
            )
        }
