"""Why a step of a training (steps.py) was slower than most: which phase, and what ran in it.

What a phase took beyond its median is set against its CPU time beyond the median: where that is
less, the thread did not run; what the backward pass's own threads (of each GPU) ran meanwhile, by
their samples, counts as if it had.  Functions are named by their samples: of those in that phase of
that step the one that has most more than in the others, and of several the innermost.  Where
torch.compile compiled, what it compiled is named, and why, instead.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from pyhybrid.base.quantiles import quantile
from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import Spans
from pyhybrid.views.garbage import Garbage, garbage_of, generation
from pyhybrid.views.labels import labels_of
from pyhybrid.views.training.compiles import compiles_of, label_of, why_again
from pyhybrid.views.training.phases import BACKWARD, COMPILE
from pyhybrid.views.training.step_samples import StepSamples
from pyhybrid.views.training.step_time import compiles_in
from pyhybrid.views.training.steps import Step, Steps, spans_of

LEAST_PERIODS = 3
BY_GARBAGE = 0.5  # of what a phase took more: from there on garbage collections are why
NOT_RUN = 0.5  # of what a phase took more: from there on the thread did not run


def gc_ns(garbage: Garbage, step: Step) -> int:
    """Return what garbage collections took in a step, on whichever thread."""
    return garbage.ns(step.thread, [(step.begin_ns, step.end_ns)])


class SlowStep(Struct):
    """Hold one step: the `phase` that took most beyond its median, and by how much, in wall-clock
    and CPU time.

    `function`: in which there are more samples than in the other steps, by their weight, as views
    write it; empty: there is none.  `compiled`: what was compiled for most of the time, and why
    again; empty where that is not what took more.  `gc_ns`: what garbage collections took in it
    beyond the median; where that is most of it, the oldest `generation` of them, `maker` and
    `objects` (views/garbage.py).
    """

    number: int
    total_ns: int
    phase: str
    more_ns: int
    more_cpu_ns: int
    function: str = ""
    more_weight_ns: int = 0
    compiled: str = ""
    gc_ns: int = 0
    generation: int | None = None
    maker: str = ""
    objects: int = 0

    @property
    def is_garbage(self) -> bool:
        """Were garbage collections most of what it took more?"""
        return self.generation is not None

    @property
    def idle_ns(self) -> int:
        """Return the part of what the phase took more in which the thread did not run."""
        return self.more_ns - max(0, self.more_cpu_ns)

    @property
    def has_waited(self) -> bool:
        """Did it not run for most of that?"""
        return self.idle_ns > NOT_RUN * self.more_ns


class SlowSteps:
    """Explain the steps of a profile."""

    def __init__(self, profile: Profile, found: Steps, samples: StepSamples) -> None:
        """Take `found` and `samples`, which are the profile's."""
        self._profile, self._found, self._samples = profile, found, samples
        self._least_ns = LEAST_PERIODS * profile.period_ns
        self._labels = labels_of(profile, full_names=False)
        self._medians = {phase: self._median(phase) for phase in found.phases}
        self._all: dict[tuple[int, str], Counter[int]] = {}

    def _median(self, phase: str) -> tuple[int, int]:
        """Return the median of the phase's wall-clock and CPU time."""
        steps = self._found.steps
        each = [(step.phases.get(phase, 0), step.phases_cpu.get(phase, 0)) for step in steps]
        wall, cpu = (round(quantile(values, 0.5)) for values in zip(*each, strict=True))
        return wall, cpu

    def slowest(self, n: int) -> list[SlowStep]:
        """Return the slowest first, each with why."""
        steps = sorted(self._found.steps, key=lambda step: (-step.total_ns, step.number))
        return [self.explained(step) for step in steps[:n]]

    def explained(self, step: Step, but: str = "") -> SlowStep:
        """Return one of the steps, with why; the phase `but` is not the reason."""

        def more_ns(phase: str) -> int:
            return step.phases.get(phase, 0) - self._medians[phase][0]

        phase = max((each for each in self._found.phases if each != but), key=more_ns)
        more_cpu_ns = step.phases_cpu.get(phase, 0) - self._medians[phase][1]
        if phase == BACKWARD:
            more_cpu_ns += max(0, self.helped_ns(step) - self._helped_usually_ns)
        slow = SlowStep(step.number, step.total_ns, phase, more_ns(phase), more_cpu_ns)
        if phase == COMPILE:
            slow.compiled = self._compiled(step)
            return slow
        self._add_garbage(slow, step)
        others = max(len(self._found.steps) - 1, 1)
        here = self._functions(step.thread, phase, spans_of(step, phase))
        everywhere = self._in_all(step.thread, phase)
        more = {
            frame: weight - (everywhere[frame] - weight) // others for frame, weight in here.items()
        }
        frame = self._samples.innermost(more)
        if more.get(frame, 0) >= self._least_ns:
            slow.function, slow.more_weight_ns = self._labels[frame], more[frame]
        return slow

    def _add_garbage(self, slow: SlowStep, step: Step) -> None:
        slow.gc_ns = max(0, gc_ns(self._garbage, step) - self._gc_usually_ns)
        if not slow.gc_ns or slow.gc_ns < BY_GARBAGE * slow.more_ns:
            return
        rows = self._garbage.within(step.thread, step.begin_ns, step.end_ns)
        slow.generation = max(map(generation, rows))
        if maker := self._garbage.maker(step.end_ns):
            slow.maker, slow.objects = maker.function, maker.objects

    @cached_property
    def _garbage(self) -> Garbage:
        return garbage_of(self._profile)

    @cached_property
    def _gc_usually_ns(self) -> int:
        return round(quantile((gc_ns(self._garbage, s) for s in self._found.steps), 0.5))

    def _compiled(self, step: Step) -> str:
        found = compiles_of(self._profile)
        start_ns = self._profile.process.start_ns or 0
        here = compiles_in(step, found.compiles, start_ns) if found else []
        if not here:
            return ""
        most = max(here, key=lambda each: each.took_ns)
        reason = why_again(most)
        return label_of(most) + (f", recompiled because {reason}" if reason else "")

    def helped_ns(self, step: Step) -> int:
        """Return what other threads ran for its backward pass, by their samples."""
        spans, helpers = spans_of(step, BACKWARD), self._helpers(step.thread, BACKWARD)
        return sum(self._samples.weight(thread, spans) for thread in helpers)

    @cached_property
    def _helped_usually_ns(self) -> int:
        return round(quantile(map(self.helped_ns, self._found.steps), 0.5))

    def _helpers(self, thread: int, phase: str) -> list[int]:
        """Return other threads that carry out this phase for it."""
        helpers = self._samples.helpers if phase == BACKWARD else []
        return [helper for helper in helpers if helper != thread]

    def _functions(self, thread: int, phase: str, spans: Spans) -> Counter[int]:
        """Return the weight below each function there."""
        weights: Counter[int] = Counter()
        for each in (thread, *self._helpers(thread, phase)):
            weights.update(self._samples.functions(each, spans))
        return weights

    def _in_all(self, thread: int, phase: str) -> Counter[int]:
        """Return the same, in this phase of all of the thread's steps."""
        key = thread, phase
        if key not in self._all:
            steps = [step for step in self._found.steps if step.thread == thread]
            spans = [span for step in steps for span in spans_of(step, phase)]
            self._all[key] = self._functions(thread, phase, spans)
        return self._all[key]
