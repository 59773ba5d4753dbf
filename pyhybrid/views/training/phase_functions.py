"""Which of the program's functions the phases of a training's steps are spent in, by exact times.

A function has what it called in libraries, and nothing of the program's other functions, so rows
add up.  What a phase is, its watched function on the path shows (phases.py).  `other` is what is
below the function that runs the steps and in no phase: of a function that is also called outside
the steps the part that its samples have there; what no function has is that one's own.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from pyhybrid._columns import descend, inclusive, nearest, rows_from, take
from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.training.phases import (
    BACKWARD,
    COMPILE,
    DATA,
    EVALUATION,
    FORWARD,
    OTHER,
    all_phases,
    frame_phases,
    node_phases,
)
from pyhybrid.views.training.step_samples import StepSamples
from pyhybrid.views.training.steps import find_steps

KEPT_WITHIN = {
    FORWARD: (DATA, BACKWARD, EVALUATION),
    DATA: (EVALUATION,),
}  # what runs within one of these is part of it
NEARLY_ALL = 0.9  # of what is below a function: then the one that it calls is named
LEAST_SAMPLES = 5  # to know by them where a function runs
LEAST_WAIT = 0.5  # of its time: from there on a function mostly waits
LEAST_WAIT_PERIODS = 20  # fewer may be chance
_KINDS = 256  # that `descend` knows


class PhaseFunction(Struct):
    """Hold a function (`frame`) of the program in a phase of all steps together.

    `share` is that of the phase's time.  `cpu_ns`: by samples of CPU time; null: there are none.
    `waits_in`: where it mostly did not run, the library's function that it called then; else 0.
    What the function that runs the steps calls in a library has a row of its own, by the name of
    the innermost of the library's functions that has nearly all of it.
    """

    phase: str
    frame: int
    total_ns: int
    share: float
    cpu_ns: int | None
    waits_in: int


class _Key(NamedTuple):
    phase: str
    frame: int  # of the program


@made_once
def phase_functions(profile: Profile) -> list[PhaseFunction]:
    """Return them, the phases in their order and in each what has most of it first.  Raises
    PyhybridError where there are no steps."""
    return profile.once(_Functions).found()


def loop_functions(profile: Profile) -> set[int]:
    """Return the program's functions that run the steps.  Raises as phase_functions()."""
    return profile.once(_Functions).loop_frames


class _Functions:
    """Hold what the functions of a profile's phases are made of."""

    def __init__(self, profile: Profile) -> None:
        self._profile, self._steps = profile, find_steps(profile).steps
        self._phases = all_phases()
        self._threads = {step.thread for step in self._steps}
        nodes, frames = profile.nodes, profile.frames
        program = program_frames(profile)
        last = max(frames, default=0)
        is_python = bytes(n in frames and frames[n].kind == "python" for n in range(last + 1))
        self._is_python = is_python
        own = bytes(n in program for n in range(last + 1))
        self._owner = take(nodes.frame, nearest(nodes.parent, take(own, nodes.frame)))
        self._state = self._states()
        # The library's function that one of the program's called: on the way to each node.
        python = nearest(nodes.parent, take(is_python, nodes.frame))
        caller = take(take(nodes.frame, python), nodes.parent)
        of_program = take(own, caller)
        pairs = zip(take(is_python, nodes.frame), take(own, nodes.frame), of_program, strict=True)
        entered = bytes(a & (1 - b) & c or b for a, b, c in pairs)
        self._entry = take(nodes.frame, nearest(nodes.parent, entered))
        self._program = program

    def _states(self) -> bytes:
        """Return for each node the place of its phase in `_phases`; that of OTHER is only below
        what runs the steps, elsewhere there is none: 0, and all others are one more."""
        nodes, phase_of = self._profile.nodes, frame_phases(self._profile)
        kinds = bytearray(max(self._profile.frames, default=0) + 1)
        for frame, phase in phase_of.items():
            if phase != OTHER:
                kinds[frame] = self._phases.index(phase) + 1
        watched = bytearray(take(kinds, nodes.frame))
        for node, phase in node_phases(self._profile).items():
            if phase != OTHER:
                watched[node] = self._phases.index(phase) + 1
        other = self._phases.index(OTHER) + 1
        for node in self._loops:
            watched[node] = other
        states = range(len(self._phases) + 1)
        step = b"".join(
            bytes(self._next(above, kind) for kind in range(_KINDS)) for above in states
        )
        return bytes(descend(nodes.parent, watched, step))

    def _next(self, above: int, kind: int) -> int:
        if not kind or kind > len(self._phases):
            return above
        around, phase = self._phases[above - 1] if above else "", self._phases[kind - 1]
        stays = around == COMPILE or around in KEPT_WITHIN.get(phase, ())
        return above if stays else kind

    @cached_property
    def _loops(self) -> set[int]:
        """Return the nodes of the functions that called the watched ones of the steps' threads."""
        phase_of = frame_phases(self._profile)
        nodes, begins = self._profile.nodes, [(s.begin_ns, s.end_ns) for s in self._steps]
        first, last = min(begins)[0], max(end for _, end in begins)
        program = program_frames(self._profile)
        found, end_ns = set[int](), 0
        for call in self._profile.watched_calls:
            if call.thread not in self._threads or not first <= call.begin_ns <= last:
                continue
            if call.begin_ns < end_ns or phase_of[nodes.frame[call.node]] == OTHER:
                continue  # within another one
            end_ns, node = call.end_ns, nodes.parent[call.node]
            while node and nodes.frame[node] not in program:
                node = nodes.parent[node]
            found.add(node)
        return found - {0}

    def found(self) -> list[PhaseFunction]:
        """Return the functions by phase."""
        exact, calls, entries = self._exact()
        sampled = self._sampled(
            (row.stack, row.weight_ns)
            for row in self._profile.sampled
            if row.thread in self._threads
        )
        part = self._parts(calls, sampled)
        taken = Counter[str]()
        for step in self._steps:
            taken.update(step.phases)
        of: defaultdict[str, list[PhaseFunction]] = defaultdict(list)
        by_cpu = self._profile.meta.get("clock") == "cpu" and bool(sampled)
        # It may have had no processor for as long as the main thread was ready to run.
        delay_ns = int(self._profile.meta.get("main_delay_ns") or 0)
        least_ns = max(LEAST_WAIT_PERIODS * self._profile.period_ns, delay_ns)
        for key, all_ns in exact.items():
            ns = min(round(all_ns * part.get(key, 1)), taken[key.phase])
            cpu_ns = min(ns, round(sampled[key] * part.get(key, 1))) if by_cpu else None
            waits_in = 0
            if cpu_ns is not None and ns - cpu_ns >= max(LEAST_WAIT * ns, least_ns):
                waits_in = self._most_in(entries[key])
            if ns > 0 and (waits_in or key.frame not in self.loop_frames):
                share = ns / (taken[key.phase] or 1)
                row = PhaseFunction(key.phase, key.frame, ns, share, cpu_ns, waits_in)
                of[key.phase].append(row)
        self._add_rest(of[OTHER], taken[OTHER])
        for row in of[OTHER]:
            row.frame = self._inner(row.frame)
        for rows in of.values():
            rows.sort(key=lambda row: -row.total_ns)
        return [row for phase in self._phases for row in of[phase]]

    def _exact(self) -> tuple[Counter[_Key], Counter[_Key], dict[_Key, Counter[int]]]:
        """Return times and calls of each, and how long it was in each library's function that it
        called."""
        times, calls = Counter[_Key](), Counter[_Key]()
        entries = defaultdict[_Key, Counter[int]](Counter)
        frame_of, phases = self._profile.nodes.frame, ["", *self._phases]
        for row in self._profile.exact:
            state = self._state[row.node]
            key = _Key(phases[state], self._owner[row.node])
            if not state or row.thread not in self._threads or not key.frame:
                continue
            frame, entry = frame_of[row.node], self._entry[row.node]
            if key.phase == OTHER and key.frame in self.loop_frames:
                if entry == key.frame:
                    continue  # its own time: before, after and in the steps
                key = _Key(OTHER, entry)
            times[key] += row.self_ns
            if frame == key.frame:
                calls[key] += row.calls
            entries[key][entry] += row.self_ns
        return times, calls, entries

    @cached_property
    def loop_frames(self) -> set[int]:
        """Return the functions that called what is watched, in the steps' threads."""
        return {self._profile.nodes.frame[node] for node in self._loops}

    def _sampled(self, stacks: Iterable[tuple[int, int]]) -> Counter[_Key]:
        weights, node_of = Counter[_Key](), self._profile.stacks.node
        phases = ["", *self._phases]
        for stack, weight_ns in stacks:
            node = node_of[stack]
            phase, frame = phases[self._state[node]], self._owner[node]
            if phase == OTHER and frame in self.loop_frames:
                frame = self._entry[node]
            weights[_Key(phase, frame)] += weight_ns
        return weights

    def _parts(self, calls: Counter[_Key], sampled: Counter[_Key]) -> dict[_Key, float]:
        """Return which part of what is `other` by its path is in the steps."""
        samples, inside = self._profile.once(StepSamples), Counter[_Key]()
        for thread in self._threads:
            spans = [(s.begin_ns, s.end_ns) for s in self._steps if s.thread == thread]
            inside.update(self._sampled(samples.stacks(thread, spans).items()))
        least_ns = LEAST_SAMPLES * self._profile.period_ns
        parts = {}
        for key in calls:
            if key.phase == OTHER and sampled[key] >= least_ns:
                parts[key] = min(1.0, inside[key] / sampled[key])
            elif key.phase == OTHER:
                parts[key] = float(2 * calls[key] >= len(self._steps))
        return parts

    def _most_in(self, entries: Counter[int]) -> int:
        frame, _ = entries.most_common(1)[0]
        return 0 if frame in self._program else frame

    def _inner(self, frame: int) -> int:
        """Return the innermost of the library's functions that has nearly all that this one has of
        `other`; itself, if it is the program's."""
        frame_of, below_ns, children = self._profile.nodes.frame, *self._other_below
        first = [node for node in children if frame_of[node] == frame == self._entry[node]]
        if frame in self._program or not first:
            return frame
        node = max(first, key=below_ns.__getitem__)
        while inner := max(children.get(node, ()), key=below_ns.__getitem__, default=0):
            is_other = below_ns[inner] >= NEARLY_ALL * below_ns[node]
            if not is_other or frame_of[inner] in self._program or self._is_known(frame):
                break
            node = inner
            frame = frame_of[node] if self._is_python[frame_of[node]] else frame
        return frame

    def _is_known(self, frame: int) -> bool:
        """Is it a function of the standard library, whose name says more than what is in it?"""
        file = self._profile.frames[frame].file or ""
        return not any(f"/{each}-packages/" in file for each in ("site", "dist"))

    @cached_property
    def _other_below(self) -> tuple[memoryview, dict[int, list[int]]]:
        """Return each node's exact time of `other` with those below it, and children by parent."""
        parent, other = self._profile.nodes.parent, self._phases.index(OTHER) + 1
        own_ns = array("q", bytes(8 * len(parent)))
        for row in self._profile.exact:
            if row.thread in self._threads and self._state[row.node] == other:
                own_ns[row.node] += row.self_ns
        below_ns = inclusive(parent, own_ns)
        children = defaultdict[int, list[int]](list)
        for node in rows_from(below_ns, 1):
            children[parent[node]].append(node)
        return below_ns, children

    def _add_rest(self, rows: list[PhaseFunction], taken_ns: int) -> None:
        """Add what the loop itself has of `other`; calls after the last step are in none."""
        all_ns = sum(row.total_ns for row in rows)
        if all_ns > taken_ns:
            for row in rows:
                row.total_ns = row.total_ns * taken_ns // all_ns
                row.share *= taken_ns / all_ns
                row.cpu_ns = None if row.cpu_ns is None else row.cpu_ns * taken_ns // all_ns
        rest_ns = taken_ns - all_ns
        if rest_ns > 0 and self.loop_frames:
            loop = min(self.loop_frames)
            rows.append(PhaseFunction(OTHER, loop, rest_ns, rest_ns / taken_ns, None, 0))
