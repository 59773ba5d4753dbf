"""`report --steps`: the steps of a training, their phases, and why the slowest were slow."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyhybrid.profile_file.profile import Profile
from pyhybrid.views.labels import short_time
from pyhybrid.views.slow_steps import SlowStep, SlowSteps, quantile
from pyhybrid.views.step_samples import StepSamples
from pyhybrid.views.steps import Steps, find_steps

SLOWEST = 5
NOT_RUN = 0.5  # of what a phase took more: from there on it is said that the thread did not run
STEP_COLUMN = "step"


@dataclass(slots=True)
class PhaseFigures:
    """Of a phase, or of whole steps; `share` of all steps' time."""

    median_ns: int
    p95_ns: int
    share: float
    cpu_share: float


@dataclass(slots=True)
class StepReport:
    """What --json prints: times are nanoseconds, `begin_ns` and `end_ns` those since the start.

    `phases`: by name, and `step`, the whole; `sync_ns`: of all steps, by samples, where the thread
    waited for a device or copied from one; `helped_ns`: what backward's own threads ran meanwhile.
    """

    n_steps: int
    phases: dict[str, PhaseFigures]
    sync_ns: int
    helped_ns: int
    between_ns: int
    n_lacking: int
    slowest: list[SlowStep]
    steps: list[dict[str, object]]


def step_report(
    profile: Profile, n_slowest: int | None = None, found: Steps | None = None
) -> StepReport:
    """Of the profile's steps, which may have been `found`; raises PyhybridError where there are
    none."""
    found = found or find_steps(profile)
    samples = StepSamples(profile)
    start_ns = profile.process.start_ns or 0
    steps: list[dict[str, object]] = [
        {
            "number": step.number,
            "thread": profile.threads[step.thread].tid,
            "begin_ns": step.begin_ns - start_ns,
            "end_ns": step.end_ns - start_ns,
            "cpu_ns": step.cpu_ns,
            "phases": step.phases,
            "phases_cpu": step.phases_cpu,
        }
        for step in found.steps
    ]
    slow_steps = SlowSteps(profile, found, samples)
    return StepReport(
        len(steps),
        _figures(found),
        sum(samples.syncs(s.thread, [(s.begin_ns, s.end_ns)]).total() for s in found.steps),
        sum(map(slow_steps.helped_ns, found.steps)),
        found.between_ns,
        found.n_lacking,
        slow_steps.slowest(n_slowest or SLOWEST),
        steps,
    )


def _figures(found: Steps) -> dict[str, PhaseFigures]:
    all_ns = sum(step.total_ns for step in found.steps) or 1
    columns = {STEP_COLUMN: [(step.total_ns, step.cpu_ns) for step in found.steps]}
    for phase in found.phases:
        columns[phase] = [(s.phases.get(phase, 0), s.phases_cpu.get(phase, 0)) for s in found.steps]
    figures = {}
    for name, each in columns.items():
        wall, cpu = zip(*each, strict=True)
        quantiles = quantile(wall, 0.5), quantile(wall, 0.95)
        figures[name] = PhaseFigures(*quantiles, sum(wall) / all_ns, sum(cpu) / all_ns)
    return figures


def step_lines(report: StepReport) -> Iterator[str]:
    """A column a phase, then the slowest steps, the slowest first."""
    figures = report.phases
    whole = figures[STEP_COLUMN]
    yield f"{report.n_steps:,} steps of a training: median {short_time(whole.median_ns)}"
    names = list(figures)
    width = max(10, *(len(name) + 1 for name in names))
    yield " " * 8 + "".join(f"{name:>{width}}" for name in names)
    rows = {
        "median": [short_time(each.median_ns) for each in figures.values()],
        "p95": [short_time(each.p95_ns) for each in figures.values()],
        "share": [f"{each.share:.1%}" for each in figures.values()],
        "on CPU": [f"{each.cpu_share:.1%}" for each in figures.values()],
    }
    for label, texts in rows.items():
        yield f"{label:<8}" + "".join(f"{text:>{width}}" for text in texts)
    if report.sync_ns:
        yield f"by samples {short_time(report.sync_ns)} in .item(), .cpu() and the like"
    if report.helped_ns:
        helped = short_time(report.helped_ns)
        yield f"by samples {helped} of CPU time in backward's own threads, not in the columns"
    if report.between_ns > 0:
        yield f"between steps: {short_time(report.between_ns)} (evaluation, and batches not used)"
    if report.n_lacking:
        yield f"{report.n_lacking:,} later optimizer calls are in no step: their times are not kept"
    yield "slowest, and why (steps count from 0):"
    for slow in report.slowest:
        yield f"  step {slow.number}: {why_slow(slow, whole.median_ns)}"


def why_slow(slow: SlowStep, median_ns: int) -> str:
    """How long it took, and why."""
    text = short_time(slow.total_ns)
    if median_ns:
        text += f", {slow.total_ns / median_ns:.1f} x the median"
    text += f": {slow.phase} +{short_time(slow.more_ns)}"
    idle_ns = slow.more_ns - max(0, slow.more_cpu_ns)
    if idle_ns > NOT_RUN * slow.more_ns:
        text += f", for {short_time(idle_ns)} of it the thread did not run"
    if slow.function:
        text += f"; more samples in {slow.function}: +{short_time(slow.more_weight_ns)}"
    return text
