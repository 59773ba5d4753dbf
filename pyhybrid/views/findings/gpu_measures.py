"""What findings measure of a GPU: threads that wait for it, and it for them."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.frameworks import torch
from pyhybrid.tables import gil_name, stack_of
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import periods_of, times
from pyhybrid.views.findings.measured_profile import Evidence, Measured
from pyhybrid.views.gpu import idle_spans
from pyhybrid.views.labels import shorten_file, shorten_native
from pyhybrid.views.training.phases import COMPILE
from pyhybrid.views.training.steps import spans_without


def syncs(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure samples in the steps, or all where there are none, that wait for a device, or copy
    from it: by which call, in which function and line; of a trace's calls without samples."""
    profile, steps = measured.profile, measured.steps
    if 0 < len(steps) < rule["fewest_steps"]:
        return None
    of_steps = f" of {len(steps)} steps" if steps else ""
    if not measured.samples:
        return _traced_waits(measured)
    samples, weights, all_ns = measured.step_samples, Counter[int](), measured.all_ns
    if steps:
        all_ns = 0
        for step in steps:
            spans = spans_without(step, COMPILE)
            weights += samples.sync_stacks(step.thread, spans)
            all_ns += samples.weight(step.thread, spans)
    else:
        weights = samples.sync_stacks_of_run()
        if profile.meta.get("clock") == "wall" and measured.wall_ns:
            all_ns = measured.wall_ns  # other threads that wait are no matter
    if not weights:
        return None
    places: Counter[tuple[str, int, str]] = Counter()
    for stack, weight in weights.items():
        places[_call(profile, stack)] += weight
    call, frame, place = places.most_common(1)[0][0]
    return {
        "share": weights.total() / (all_ns or 1),
        "seconds": weights.total() / 1e9,
        "of_steps": of_steps,
        "call": call,
        "function": measured.labels[frame].partition(" (")[0] if frame else "native code",
        "place": place,
    }


def _traced_waits(measured: Measured) -> Evidence:
    profile = measured.profile
    recorded_ns = sum(each.end_ns - each.begin_ns for each in profile.gpu_windows)
    waits: Counter[tuple[str, int]] = Counter()
    for each in profile.gpu_waits:
        waits[each.name, each.node] += each.ns
    if not waits or not recorded_ns:
        return None
    name, node = waits.most_common(1)[0][0]
    frame = profile.nodes.frame[node]
    label, _, place = measured.labels.get(frame, "").rstrip(")").partition(" (")
    return {
        "share": waits.total() / recorded_ns,
        "seconds": waits.total() / 1e9,
        "of_steps": "",
        "call": name,
        "function": label or "what is not known",
        "place": place or "?",
    }


def _call(profile: Profile, stack: int) -> tuple[str, int, str]:
    """Return how Python calls what waits, and the program's nearest function, with its line."""
    frames, nodes, stacks = profile.frames, profile.nodes, profile.stacks
    method, folder = torch.steps()["sync_methods"], str(profile.meta.get("cwd") or "")
    call, nearest = "", (0, "?")
    row = stack
    while row:
        frame = frames[nodes.frame[stacks.node[row]]]
        if frame.kind == "native" and not nearest[0]:
            name = shorten_native(frame.name)
            if fnmatchcase(name, method):
                call = f".{name.removeprefix(method.rstrip('*'))}()"
            elif not call.startswith("."):
                call = f"{frame.python_name}()" if frame.python_name else call or name
        elif frame.kind == "python":
            short = shorten_file(frame.file or "?", "")
            here = frame.id, f"{shorten_file(short, folder)}:{stacks.line[row] or frame.line}"
            nearest = nearest if nearest[0] else here
            if short == frame.file:  # of no library
                return call, *here
        row = stacks.parent[row]
    return call, *nearest


def idle(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure, of the time in which the GPU's work was recorded, what it did nothing in, and what
    the program ran then."""
    profile = measured.profile
    spans = idle_spans(profile)
    recorded_ns = sum(each.end_ns - each.begin_ns for each in profile.gpu_windows)
    # What is in sums alone ran, too.
    known_ns = sum(each.end_ns - each.begin_ns for each in profile.gpu_activities)
    unknown_ns = sum(each.ns for each in profile.gpu) - known_ns
    idle_ns = sum(end - begin for begin, end in spans) - unknown_ns
    if not profile.gpu or not recorded_ns or idle_ns <= 0:
        return None
    begins = [begin for begin, _ in spans]
    stacks: Counter[int] = Counter()
    held = n = 0
    for chunk in profile.program_timeline():
        places = zip(times(chunk), chunk.place, periods_of(chunk), strict=True)
        for at_ns, place, periods in places:
            i = bisect_right(begins, at_ns) - 1
            if i >= 0 and at_ns < spans[i][1]:
                n += periods
                held += periods * (gil_name(place) == "held")
                stacks[stack_of(place)] += periods
    if not stacks:
        return None
    return {
        "share": idle_ns / recorded_ns,
        "seconds": idle_ns / 1e9,
        "recorded": recorded_ns / 1e9,
        "held": held / n,
        "function": _most(measured, stacks),
    }


def _most(measured: Measured, stacks: Counter[int]) -> str:
    """Return the Python function with most of it, or the backward pass, which own threads run."""
    node_of, frames = measured.profile.stacks.node, measured.profile.frames
    engine = NamePatterns(torch.steps()["engine"])
    is_backward = measured.below_frames(
        f.id for f in frames.values() if f.kind == "native" and engine.match(f.name)
    )
    running: Counter[str] = Counter()
    for stack, periods in stacks.items():
        node = node_of[stack]
        label = measured.labels.get(measured.python_frames[node], "native code")
        running["the backward pass" if is_backward[node] else label] += periods
    return running.most_common(1)[0][0]


GPU_MEASURES: dict[str, Callable[[Measured, dict[str, Any]], Evidence]] = {
    "syncs": syncs,
    "gpu_idle": idle,
}
