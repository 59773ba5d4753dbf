"""In which function, and at which line of the program, a phase of a training's steps is spent.

Samples show it, where the thread ran.  Where it mostly waited, exact times do: which function of
the program was called in that phase, and returned late.  At which of its lines it waited is not
known then: samples of CPU time have none of a wait.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyhybrid._columns import add_up, outermost, take
from pyhybrid.views.findings.measured_profile import Measured
from pyhybrid.views.labels import shorten_file
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.training.phase_functions import loop_functions, phase_functions
from pyhybrid.views.training.phases import OTHER, frame_phases
from pyhybrid.views.training.step_samples import NEARLY_ALL
from pyhybrid.views.training.steps import Step, spans_of

RUNS = 0.5  # of a phase's time: below that its thread mostly waited
MOST = 0.5  # of a phase's time is in the function that is named
LEAST = 0.25  # where that is a library's


class PhasePlace(NamedTuple):
    """Hold `function` as views write it, the line behind it (`, line 7`) if it is known, and
    whether the thread ran: the part of the phase's time that it had a processor.  `is_programs`:
    the function is not a library's."""

    function: str
    at: str
    ran: float
    is_programs: bool


def phase_place(measured: Measured, phase: str, steps: Sequence[Step] | None = None) -> PhasePlace:
    """Return that of all steps together, or of these."""
    samples, steps = measured.step_samples, steps or measured.steps
    spans = [(step.thread, spans_of(step, phase)) for step in steps]
    taken_ns = sum(step.phases.get(phase, 0) for step in steps)
    ran = sum(step.phases_cpu.get(phase, 0) for step in steps) / (taken_ns or 1)
    frame = waited_in(measured, phase) if ran < RUNS else 0
    if not frame:
        weights: Counter[int] = Counter()
        for each in spans:
            weights += samples.functions(*each)
        frame = samples.innermost(weights, program_frames(measured.profile))
    if not frame:
        return PhasePlace("what does not run here", "", ran, False)
    is_programs = frame in program_frames(measured.profile)
    if ran < RUNS and measured.profile.meta.get("clock") != "wall":
        at = ""
        if phase == OTHER and not is_programs and (loops := loop_functions(measured.profile)):
            at = f", called by {measured.labels[min(loops)]}"
        return PhasePlace(measured.labels[frame], at, ran, is_programs)
    lines: Counter[tuple[int, int]] = Counter()
    for thread, when in spans:
        lines += samples.lines(thread, when, frame)
    at = ""
    if lines:
        (where, line), _ = lines.most_common(1)[0]
        file = measured.profile.frames[where].file or "?"
        folder = str(measured.profile.meta.get("cwd") or "")
        called = f", called at {shorten_file(file, folder)}:{line}"
        at = f", line {line}" if where == frame else called
    return PhasePlace(measured.labels[frame], at, ran, is_programs)


def waited_in(measured: Measured, phase: str) -> int:
    """Return the program's function that has most of a phase's exact time, of several the innermost
    with nearly as much; where none has half of it the library's function, within those that are the
    phase, that has most.  0: none, or the phase has no functions of its own."""
    profile, n = measured.profile, measured.n_frames
    if phase == OTHER:
        rows = [r for r in phase_functions(profile) if r.phase == OTHER and r.share >= LEAST]
        called = program_frames(profile) - loop_functions(profile)
        rows.sort(key=lambda row: row.frame not in called)
        return rows[0].frame if rows else 0
    of_phase = [frame for frame, each in frame_phases(profile).items() if each == phase]
    if not of_phase:
        return 0
    parent, frame_of, exact = measured.parent, measured.frame, profile.exact
    inside = measured.below_frames(of_phase)
    outer = take(outermost(parent, frame_of, inside), exact.node)
    of_row, is_inside = take(frame_of, exact.node), take(inside, exact.node)
    counted = bytes(a & b for a, b in zip(outer, is_inside, strict=True))
    total_ns = add_up(of_row, exact.total_ns, n, counted)
    whole_ns = measured.outermost_ns(of_phase)
    among = [f for f in program_frames(profile) if total_ns[f] >= MOST * whole_ns > 0]
    if not among:
        others = (f.id for f in profile.frames.values() if f.kind == "python")
        library = max(set(others) - set(of_phase), key=total_ns.__getitem__, default=0)
        return library if total_ns[library] >= LEAST * whole_ns else 0
    least_ns = NEARLY_ALL * max((total_ns[f] for f in among), default=0)
    among = [f for f in among if total_ns[f] >= least_ns]
    longest: dict[int, tuple[int, int]] = {}  # of each of these: its time and node
    for frame, node, ns in zip(of_row, exact.node, exact.total_ns, strict=True):
        if frame in among and inside[node]:
            longest[frame] = max(longest.get(frame, (0, 0)), (ns, node))
    return max(among, key=lambda frame: _depth(parent, longest[frame][1]), default=0)


def _depth(parent: Sequence[int], node: int) -> int:
    depth = 0
    while node:
        node, depth = parent[node], depth + 1
    return depth
