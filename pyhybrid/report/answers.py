"""What a profile has to say in one record: `pyhybrid ask`, for a script or an agent.

It has the findings and the first rows of each view, and the commands that show more; parts of which
the profile has nothing are null or empty.
"""

from __future__ import annotations

from collections.abc import Callable

from pyhybrid.errors import PyhybridError
from pyhybrid.report.cautions import cautions
from pyhybrid.report.run_parts import Run
from pyhybrid.report.step_listing import StepSummary, step_report
from pyhybrid.report.summary import CallDurations, Function, StepsPart, summarize
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.findings import Finding
from pyhybrid.views.gpu import GpuSummary
from pyhybrid.views.lines.program_lines import ProgramLine
from pyhybrid.views.lines.program_tree import TreeRow, program_tree
from pyhybrid.views.training.compiles import Compiles
from pyhybrid.views.training.in_steps import in_steps
from pyhybrid.views.training.model import ModuleFigures, model_figures
from pyhybrid.views.training.operators import OperatorFigures, operators_of
from pyhybrid.views.training.slow_steps import SlowStep
from pyhybrid.views.waits import Waits

TREE_ROWS = 2  # times as many as other views have


class More(Record):
    """Hold a command, and what it shows that is not here."""

    command: str
    shows: str


class Answers(Record):
    """Hold the keys of `pyhybrid ask`, in this order."""

    file: str
    run: Run
    cautions: list[str]  # what makes the measurement worse than usual
    findings: list[Finding]  # what stands out, at most five
    waited: Waits | None  # of threads that ran Python; null: hardly, or not known
    tree: list[TreeRow]  # the largest of the program's functions, in the order of the tree
    program_lines: list[ProgramLine]  # most weight first, those that wait last
    in_steps: StepsPart | None  # what both are of; null: of the whole run
    functions: list[Function]  # all that runs, most time in itself first
    durations: list[CallDurations]  # of chosen functions and regions, most time first
    steps: StepSummary | None  # of a training; null: none
    slow_steps: list[SlowStep]  # the slowest first
    modules: list[ModuleFigures]  # of a PyTorch model, most time of their own first
    operators: list[OperatorFigures]  # of PyTorch, most time of their own first
    compiles: Compiles | None  # by torch.compile; null: none
    gpu: GpuSummary | None
    notes: list[str]
    more: list[More]  # what the command line has to show


def answers(profile: Profile, n: int) -> Answers:
    """Collect them: `n` rows of each view, and no commands yet."""
    found = summarize(profile, [], [], imports=False)
    steps, part = _if_any(lambda: step_report(profile, n)), in_steps(profile)
    model = _if_any(lambda: model_figures(profile))
    operators = _if_any(lambda: operators_of(profile))
    modules = model.modules if model else []
    modules.sort(key=lambda each: (-each.exact_own_ns, -each.own_weight_ns, each.name))
    waited = found.waited and found.waited._replace(functions=found.waited.functions[:n])
    return Answers(
        file=found.file,
        run=found.run,
        cautions=cautions(found),
        findings=found.findings,
        waited=waited,
        tree=program_tree(part.profile if part else profile, TREE_ROWS * n),
        program_lines=found.program_lines[:n],
        in_steps=found.in_steps,
        functions=found.functions[:n],
        durations=found.durations[:n],
        steps=found.steps,
        slow_steps=steps.slowest[:n] if steps else [],
        modules=modules[:n],
        operators=operators.operators[:n] if operators else [],
        compiles=found.compiles,
        gpu=found.gpu,
        notes=found.notes,
        more=[],
    )


def _if_any[T](view: Callable[[], T]) -> T | None:
    """Return what a view has; None: the profile has nothing of it."""
    try:
        return view()
    except PyhybridError:
        return None
