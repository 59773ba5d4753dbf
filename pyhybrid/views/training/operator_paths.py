"""What is on the paths below which PyTorch's operators ran: operators, phase, module, caller."""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property

from pyhybrid._columns import add_up, descend, nearest, take
from pyhybrid.frameworks import torch
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import shorten_file, shorten_native
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.training.phases import BACKWARD, COMPILE, FORWARD, OPTIMIZER, OTHER, all_phases

# From the root down: 0 none is further out, 1 the outermost one, 2 below it.
_OUTERMOST = bytes((1 if kind else 0, 2, 2)[above] for above in range(3) for kind in range(256))
NEARLY_ALL = 0.95
_IS_OUTERMOST = bytes(state == 1 for state in range(256))


class OperatorPaths:
    """Find what is on the path of each row of `stack`, itself and above."""

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
        native = {f.id: 1 for f in frames if f.kind in ("native", "kernel")}
        self.is_native = self._kinds(native)

    def _column(self, of_frame: dict[int, int]) -> memoryview:
        """Return the number of each row's frame (uint32)."""
        return take(array("I", self._by_frame(of_frame)), self._frame)

    def _kinds(self, of_frame: dict[int, int]) -> memoryview:
        """Return the same, of small numbers (uint8)."""
        return take(bytes(self._by_frame(of_frame)), self._frame)

    def _by_frame(self, of_frame: dict[int, int]) -> Iterator[int]:
        numbers = range(max(self._profile.frames, default=0) + 1)
        return (of_frame.get(number, 0) for number in numbers)

    def operators(self, row: int) -> Iterator[tuple[str, int]]:
        """Yield the operators on a path, the innermost first, and where they are on it."""
        at = self._inner[row]
        while at:
            yield self._names[self._operator[at]], at
            at = self._inner[self._parent[at]]

    def phase(self, row: int) -> str:
        """Return the phase of steps in which it is."""
        return self._phase_names[self._phase[row]]

    def module(self, row: int) -> str:
        """Return the path of the module of a model; "": none."""
        frame = self._profile.frames.get(self._frame[self._module[row]])
        return "" if frame is None else str(frame.symbol if frame.is_backward else frame.name)

    def caller(self, row: int) -> tuple[str, str, int] | None:
        """Return the nearest Python function that is the program's, or else a library's: name,
        file, line that ran; None: none.

        Of backward work for a module it is that of the module's forward pass, if it has samples;
        its line is where the function begins, unless all of the module is in one line.
        """
        module, at = self._module[row], self._program[row] or self._python[row]
        is_work = module and self._profile.frames[self._frame[module]].is_backward
        if is_work and self._program[module] == self._program[row]:
            at, is_line = self._forward_rows.get(self.module(row), (at, True))
            return self._place(at, is_line)
        return self._place(at, True)

    @cached_property
    def _forward_rows(self) -> dict[str, tuple[int, bool]]:
        """Return for each module a row of the program's function that has the most samples below it
        in the forward pass; and whether its line has nearly all of them."""
        weights: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
        rows: dict[tuple[int, int], int] = {}
        for sample in self._profile.sampled:
            module = self.module(sample.stack)
            at = self._program[sample.stack]
            if module and at and self.phase(sample.stack) == FORWARD:
                place = self._frame[at], self._profile.stacks.line[at] or 0
                rows.setdefault(place, at)
                weights[module][place] += sample.weight_ns
        found = {}
        for module, each in weights.items():
            place, most = each.most_common(1)[0]
            found[module] = rows[place], most >= NEARLY_ALL * each.total()
        return found

    def _place(self, at: int, is_line: bool) -> tuple[str, str, int] | None:
        if not at:
            return None
        frame = self._profile.frames[self._frame[at]]
        file = shorten_file(frame.file or "", str(self._profile.meta.get("cwd") or ""))
        line = self._profile.stacks.line[at] if is_line else None
        return frame.name, file, line or frame.line or 0

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
        return nearest(self._parent, self._kinds(dict.fromkeys(program_frames(self._profile), 1)))

    @cached_property
    def _phase_names(self) -> list[str]:
        return [OTHER, *(name for name in all_phases() if name != OTHER)]

    @cached_property
    def _phase(self) -> bytes:
        """Return the phases as phases.py has them, but by path: a forward pass within the backward
        pass is none of its own, and what the program runs within an optimizer is none."""
        names = self._phase_names
        numbers = {name: number for number, name in enumerate(names)}
        programs = len(names)
        backward = re.compile(torch.operators()["backward"])
        of_frame, of_program = {}, program_frames(self._profile)
        for frame in self._profile.frames.values():
            phase = torch.phase_of(frame.file or "", frame.name) if frame.kind == "python" else None
            if phase:
                of_frame[frame.id] = numbers[phase]
            elif frame.id in of_program:
                of_frame[frame.id] = programs
            elif backward.fullmatch(self._short.get(frame.id, "")):
                of_frame[frame.id] = numbers[BACKWARD]
        steps = bytearray()
        for above in range(len(names)):
            for kind in range(256):
                state = kind if 0 < kind < programs else above
                is_again = kind == numbers[FORWARD] and above == numbers[BACKWARD]
                if is_again or above == numbers[COMPILE]:
                    state = above
                if kind == programs and above == numbers[OPTIMIZER]:
                    state = 0
                steps.append(state)
        return bytes(descend(self._parent, self._kinds(of_frame), bytes(steps)))

    def calls(self) -> dict[str, int]:
        """Return calls by operator, of those to which C functions of their name alone lead, which
        were counted."""
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
