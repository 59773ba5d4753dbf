"""The steps of a training, for the page: when each was, what its phases took, why it was slow."""

from typing import Any

from pyhybrid.exporters.page.columns import Columns, steps
from pyhybrid.report.step_listing import STEP_COLUMN, step_report, why_slow
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.phases import all_phases
from pyhybrid.views.training.steps import steps_of


def add_steps(profile: Profile, columns: Columns) -> dict[str, Any] | None:
    """The steps in order of time, and what to say of them all; None: there are none."""
    found = steps_of(profile)
    if not found:
        return None
    report = step_report(profile)
    start_ns = profile.process.start_ns or 0
    threads = {thread: at for at, thread in enumerate(profile.threads)}
    columns.add("step.thread", (threads[step.thread] for step in found.steps))
    columns.add("step.begin", steps(max(0, step.begin_ns - start_ns) for step in found.steps))
    columns.add("step.duration", (step.total_ns for step in found.steps))
    phases = all_phases()
    for number, phase in enumerate(phases):
        times = (max(0, step.phases.get(phase, 0)) for step in found.steps)
        columns.add(f"step.phase.{number}", times)
    median_ns = report.phases[STEP_COLUMN].median_ns
    return {
        "phases": phases,
        "median_ns": median_ns,
        "slowest": [
            {"number": slow.number, "why": why_slow(slow, median_ns)} for slow in report.slowest
        ],
    }
