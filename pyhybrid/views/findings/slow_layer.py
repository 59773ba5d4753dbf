"""The layer of a model that stands out: for its part of the time, or beside those like it.

A layer of the program's own class is compared with all of its class: they run the same code.  One
of a library's class, whose work its sizes decide, only with those at its place in blocks that come
again: `layers.2.up` with `layers.0.up`.
"""

import re
from collections import Counter
from collections.abc import Set
from typing import Any

from pyhybrid._columns import add_up, take
from pyhybrid.base.quantiles import quantile
from pyhybrid.frameworks import torch
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.findings.measured_profile import Evidence, Measured
from pyhybrid.views.findings.step_measures import whole_of
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.training.compiles import compiles_of
from pyhybrid.views.training.model import ModuleFigures, model_figures

_IN_BLOCK = re.compile(r"\.\d+(?=\.)")  # the block's number, in a path


def layer(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure, of the steps' or run's time, what one module took in both passes, without those in
    it: if that is the rule's part `alone` (of a library's class: `alone_of_library`), or `times` as
    much as others like it.  Where nothing was counted it goes by samples.  It has nothing on a GPU.
    Compiling does not count; of a module that was compiled, which is itself and all in it, its part
    alone means nothing."""
    profile = measured.profile
    if profile.gpu or not any(frame.is_object for frame in profile.frames.values()):
        return None
    modules = model_figures(profile).modules
    times = _Times(measured, modules)
    forward = _program_forwards(profile)
    for most in sorted(modules, key=lambda m: -times.own_ns[m.name]):
        own_ns = times.own_ns[most.name]
        share, compared = min(1.0, own_ns / times.all_ns), ""
        if share < rule["least_share"]:
            return None
        place, key = forward.get(most.name), _key(most, forward)
        others = [m for m in modules if _key(m, forward) == key and m is not most]
        usual_ns = quantile([times.own_ns[m.name] for m in others] or [0], 0.5)
        is_compiled = most.exact_compile_ns or most.compile_weight_ns
        has_run = times.ran(most.name) >= rule["runs"] * share
        if len(others) > 1 and has_run and own_ns >= rule["times"] * usual_ns > 0:
            which = "others of its class" if place else "those like it in other blocks"
            compared = f", {own_ns / usual_ns:.1f} x {which}"
        elif is_compiled or share < rule["alone" if place else "alone_of_library"]:
            continue
        at = f" ({measured.labels[place.id].partition(' (')[2]}" if place else ""
        return {
            "share": share,
            "seconds": own_ns / 1e9,
            "whole": times.whole,
            "modules": len(modules),
            "module": f"{most.name} [{most.of_class}]{at}",
            "compared": compared if has_run else ", where the thread did not run",
        }
    return None


def uncompiled(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure, of the steps' or run's time, what one of the program's functions took in both
    passes, without what it called: one that runs as it is written, below a module that was
    compiled."""
    profile, n = measured.profile, measured.n_frames
    found = compiles_of(profile)
    if not found:
        return None
    frames, program = profile.frames, program_frames(profile)
    done = {(each.file, each.line) for each in found.compiles if not each.failure}
    as_written = {f for f in program if (frames[f].file, frames[f].line) not in done}
    modules = _called_by(profile, program - as_written, program)
    inside, exact = measured.below_frames(modules), profile.exact
    of_row, is_inside = take(measured.frame, exact.node), take(inside, exact.node)
    own_ns = Counter(dict(enumerate(add_up(of_row, exact.self_ns, n, is_inside))))
    for work in profile.backward:
        own_ns[measured.frame[work.node]] += work.self_ns * inside[work.node]
    frame = max(as_written, key=own_ns.__getitem__, default=0)
    if not own_ns[frame]:
        return None
    node = next(n for n, is_in in enumerate(inside) if is_in and measured.frame[n] == frame)
    while measured.frame[node] not in modules:
        node = measured.parent[node]
    all_ns, whole = whole_of(measured)
    return {
        "share": min(1.0, own_ns[frame] / all_ns),
        "seconds": own_ns[frame] / 1e9,
        "whole": whole,
        "function": measured.labels[frame],
        "module": measured.labels[measured.frame[node]],
    }


def _called_by(profile: Profile, functions: Set[int], program: Set[int]) -> set[int]:
    """Return the modules that call these functions with none of the program's in between."""
    nodes, frames, found = profile.nodes, profile.frames, set()
    for node, frame in enumerate(nodes.frame):
        if frame in functions:
            above = nodes.parent[node]
            while above and not frames[nodes.frame[above]].is_object:
                above = 0 if nodes.frame[above] in program else nodes.parent[above]
            found |= {nodes.frame[above]} if above else set()
    return found


class _Times:
    """Hold `own_ns`: of each module by its path, in both passes, without compiling and without
    modules in it; `all_ns`: of what they are part, which is called `whole`."""

    def __init__(self, measured: Measured, modules: list[ModuleFigures]) -> None:
        self.own_ns = {m.name: m.exact_own_ns + m.exact_own_backward_ns for m in modules}
        self.all_ns, self.whole = whole_of(measured)
        self._weights: Counter[tuple[str, bool]] = Counter()
        self._weight_ns = 0
        if not any(self.own_ns.values()):
            self.own_ns = {m.name: m.own_weight_ns for m in modules}
            self.all_ns, self.whole = measured.all_ns, "the samples"
        elif measured.steps and measured.samples:
            self._only_in_steps(measured, modules)

    def _only_in_steps(self, measured: Measured, modules: list[ModuleFigures]) -> None:
        """Leave out the part that by samples ran outside of steps: evaluation."""
        samples = measured.step_samples
        for step in measured.steps:
            spans = [(step.begin_ns, step.end_ns)]
            self._weights += samples.modules(step.thread, spans)
            self._weight_ns += samples.weight(step.thread, spans)
        for m in modules:
            if m.own_weight_ns:
                part = min(1.0, self._weights[m.name, False] / m.own_weight_ns)
                self.own_ns[m.name] -= round((1 - part) * m.exact_own_ns)

    def ran(self, module: str) -> float:
        """Return its part of what the steps' threads ran, by samples; 1 where none are of it."""
        if not self._weight_ns:
            return 1.0
        return (self._weights[module, False] + self._weights[module, True]) / self._weight_ns


def _key(module: ModuleFigures, forward: dict[str, Frame]) -> tuple[str, str]:
    """Return a key, equal for those to be compared: the class, and of a library's the place; one
    that is in no block is alone."""
    if module.name in forward:
        return module.of_class, ""
    return module.of_class, _IN_BLOCK.sub(".*", module.name)


def _program_forwards(profile: Profile) -> dict[str, Frame]:
    """Return by a module's path its `forward`, where that is the program's own function."""
    tree, frames, found = FoldedTree.of(profile), profile.frames, {}
    ending, program = torch.modules()["direct"], program_frames(profile)
    for parent, number in zip(tree.parent, tree.frame, strict=True):
        frame, module = frames.get(number), frames.get(tree.frame[parent])
        is_one = module and module.is_object and number in program
        if frame and module and is_one and frame.name.endswith(ending):
            found[module.name] = frame
    return found
