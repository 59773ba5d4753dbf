"""The time of a training's steps of which findings give shares, and of that the compiles that were
made again."""

from collections.abc import Iterable

from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.views.training.compiles import Compile, compiles_of
from pyhybrid.views.training.phases import COMPILE
from pyhybrid.views.training.steps import Step, steps_of


class StepTime:
    """Hold the times of a profile.

    `steps_ns`: the time of the steps, without what was compiled for the first time: the longer a
    training goes on, the less of its time that is.  `again`: the compiles of functions that had
    been compiled; `again_ns`: what these took in the steps, which is part of `steps_ns`.
    """

    def __init__(self, profile: Profile) -> None:
        found, compiled = steps_of(profile), compiles_of(profile)
        steps = found.steps if found else []
        self.again = [each for each in compiled.compiles if each.number > 1] if compiled else []
        start_ns = profile.process.start_ns or 0
        self.again_ns = sum(
            each.took_ns for step in steps for each in compiles_in(step, self.again, start_ns)
        )
        all_ns = sum(step.total_ns for step in steps)
        compiling_ns = sum(step.phases.get(COMPILE, 0) for step in steps)
        self.steps_ns = all_ns - max(0, compiling_ns - self.again_ns)


@made_once
def step_time(profile: Profile) -> StepTime:
    """Return the profile's."""
    return StepTime(profile)


def compiles_in(step: Step, compiles: Iterable[Compile], start_ns: int) -> list[Compile]:
    """Return those that were made in the step; `start_ns`: when profiling began."""
    middles = ((each, start_ns + each.middle_ns) for each in compiles)
    return [each for each, at_ns in middles if step.begin_ns <= at_ns < step.end_ns]
