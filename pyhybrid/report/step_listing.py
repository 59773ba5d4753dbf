"""`report steps`: the steps of a training or of inference, their phases, and why the slowest were
slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pyhybrid.base.quantiles import quantile
from pyhybrid.report.table import Column, Listing, Table, number, share, text
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.garbage import Garbage, about, garbage_of
from pyhybrid.views.gpu import LaunchedWork
from pyhybrid.views.labels import labels_of, short_time
from pyhybrid.views.training.phase_functions import phase_functions
from pyhybrid.views.training.slow_steps import SlowStep, SlowSteps, gc_ns
from pyhybrid.views.training.step_samples import StepSamples
from pyhybrid.views.training.steps import (
    Growth,
    Steps,
    find_steps,
    kind_text,
    memory_growth,
    spans_of,
    steps_of,
)
from pyhybrid.views.training.token_times import CallTimes, call_times

SLOWEST = 5
N_PHASES = 2  # in the summary
LEAST_PHASE, LEAST_IN_PHASE, IN_PHASE = 0.05, 0.05, 3  # of the steps, of the phase; rows of each
LEAST_GC = 0.005  # of the steps' time: then it has a column
STEP_COLUMN = "step"


class PhaseFigures(Record):
    """Hold figures of a phase, or of whole steps; `share` of all steps' time.

    `gpu_median_ns`: time on the GPU of what was launched in it, of the steps of which it is known;
    null: of none.
    """

    median_ns: int
    p95_ns: int
    share: float
    cpu_share: float
    gpu_median_ns: int | None


class InPhase(Record):
    """Hold a function of the program in a phase of all steps (views/training/phase_functions.py):
    its exact time, `share` that of the phase's, and CPU time by samples; null: there are none."""

    phase: str
    function: str
    total_ns: int
    share: float
    cpu_ns: int | None
    waits_in: str


class StepReport(Record):
    """Hold what --json prints: times are ns, `begin_ns` and `end_ns` those since the start.

    `phases`: by name, and `step`, the whole; `reducing_ns`: by samples, in other phases than
    communication, where it exchanged gradients with other ranks, or waited for them; `sync_ns`: of
    all steps, by samples, where the thread waited for a device or copied from one; `helped_ns`:
    what backward's own threads ran meanwhile.  `gpu_steps`: in so many steps the GPU's work was
    recorded; of a step `gpu` has by phase the time of what was launched, else null.  `gc_ns`: what
    garbage collections took, on whichever thread, which is part of the phases; `gc`: its figures,
    as those of a phase; null: next to nothing.  `trains`: else a step is a call of a model, with
    what ran since the one before, and `calls` are their times by kind.  `tokens`: that models were
    called with in all steps (the elements of a tensor of integers), the new ones where a decode
    loop gives all again, or as the program noted; 0: none are known.  `tokens_per_s`, and samples
    as `batch_per_s`: of the steps of a training of which they are known; null: of none.  `memory`:
    that of the process, with the steps; null: it is not known.
    """

    n_steps: int
    trains: bool
    tokens: int
    memory: Growth | None
    calls: list[CallTimes]
    phases: dict[str, PhaseFigures]
    reducing_ns: int
    sync_ns: int
    helped_ns: int
    between_ns: int
    n_lacking: int
    gpu_steps: int
    gc: PhaseFigures | None
    tokens_per_s: float | None
    batch_per_s: float | None
    functions: list[InPhase]
    slowest: list[SlowStep]
    steps: list[dict[str, object]]


class StepSummary(Record):
    """Hold the summary's part: `shares` of all steps' time by phase, the largest first; as
    StepReport's `trains` and `tokens`."""

    n_steps: int
    trains: bool
    tokens: int
    total_ns: int
    median_ns: int
    shares: dict[str, float]


def step_summary(profile: Profile) -> StepSummary | None:
    """Return the summary; None: there are no steps."""
    found = steps_of(profile)
    if not found:
        return None
    figures = _figures(found, [])
    whole = figures.pop(STEP_COLUMN)
    ordered = sorted(figures.items(), key=lambda item: -item[1].share)
    shares = {phase: each.share for phase, each in ordered}
    taken = _tokens(found), sum(step.total_ns for step in found.steps)
    return StepSummary(len(found.steps), found.trains, *taken, whole.median_ns, shares)


def steps_text(steps: StepSummary) -> str:
    """Return one line of the summary."""
    first = [f"{phase} {share:.0%}" for phase, share in steps.shares.items()][:N_PHASES]
    n = f"{steps.n_steps:,} {kind_text(steps.trains)}, median {short_time(steps.median_ns)}"
    return f"{n}{_speed(steps.tokens, steps.total_ns)}: {', '.join(first)}"


def _tokens(found: Steps) -> int:
    if found.trains:
        return sum(step.tokens for step in found.steps)
    return sum(each.tokens for each in call_times(found))


def _speed(tokens: int, ns: int) -> str:
    """Return `, 512 tokens a second`; empty: none are known."""
    return f", {tokens / ns * 1e9:,.0f} tokens a second" if tokens and ns else ""


def step_report(profile: Profile, n_slowest: int | None = None) -> StepReport:
    """Return the report; raises PyhybridError where there are no steps."""
    found = find_steps(profile)
    samples = profile.once(StepSamples)
    start_ns = profile.process.start_ns or 0
    gpu = _gpu(profile, found)
    garbage = garbage_of(profile)
    steps: list[dict[str, object]] = [
        {
            "number": step.number,
            "thread": profile.threads[step.thread].tid,
            "begin_ns": step.begin_ns - start_ns,
            "end_ns": step.end_ns - start_ns,
            "cpu_ns": step.cpu_ns,
            "phases": step.phases,
            "phases_cpu": step.phases_cpu,
            "gpu": gpu.get(step.number),
            "gc_ns": gc_ns(garbage, step),
            "tokens": step.tokens,
            "batch": step.batch,
            "resident": step.resident,
        }
        for step in found.steps
    ]
    slow_steps = SlowSteps(profile, found, samples)
    return StepReport(
        len(steps),
        found.trains,
        _tokens(found),
        memory_growth(found.steps),
        call_times(found),
        _figures(found, list(gpu.values())),
        samples.reducing_ns(found.steps),
        sum(samples.sync_stacks(s.thread, [(s.begin_ns, s.end_ns)]).total() for s in found.steps),
        sum(map(slow_steps.helped_ns, found.steps)),
        found.between_ns,
        found.n_lacking,
        len(gpu),
        _gc_figures(found, garbage),
        per_second((s.tokens, s.total_ns) for s in found.steps if found.trains),
        per_second((s.batch, s.total_ns) for s in found.steps if found.trains),
        _in_phases(profile),
        slow_steps.slowest(n_slowest or SLOWEST),
        steps,
    )


def _gpu(profile: Profile, found: Steps) -> dict[int, dict[str, int]]:
    """Return the GPU's time of what was launched, by step, of those known, and by phase."""
    if not profile.gpu_activities:
        return {}
    launched, figures = LaunchedWork(profile), {}
    for step in found.steps:
        if launched.recorded(step.begin_ns, step.end_ns):
            of_phases = {phase: launched.ns(spans_of(step, phase)) for phase in found.phases}
            whole = launched.ns([(step.begin_ns, step.end_ns)])
            figures[step.number] = {STEP_COLUMN: whole, **of_phases}
    return figures


def _figures(found: Steps, gpu: list[dict[str, int]]) -> dict[str, PhaseFigures]:
    all_ns = sum(step.total_ns for step in found.steps) or 1
    columns = {STEP_COLUMN: [(step.total_ns, step.cpu_ns) for step in found.steps]}
    for phase in found.phases:
        columns[phase] = [(s.phases.get(phase, 0), s.phases_cpu.get(phase, 0)) for s in found.steps]
    figures = {}
    for name, each in columns.items():
        wall, cpu = zip(*each, strict=True)
        quantiles = round(quantile(wall, 0.5)), round(quantile(wall, 0.95))
        on_gpu = round(quantile((step[name] for step in gpu), 0.5)) if gpu else None
        figures[name] = PhaseFigures(*quantiles, sum(wall) / all_ns, sum(cpu) / all_ns, on_gpu)
    return figures


def per_second(counts: Iterable[tuple[int, int]]) -> float | None:
    """Return how many there are in a second, of counts with the ns that each took; None: there are
    none."""
    known = [(n, ns) for n, ns in counts if n]
    return sum(n for n, _ in known) * 1e9 / (sum(ns for _, ns in known) or 1) if known else None


def _gc_figures(found: Steps, garbage: Garbage) -> PhaseFigures | None:
    each = [gc_ns(garbage, step) for step in found.steps]
    all_ns = sum(step.total_ns for step in found.steps) or 1
    part = sum(each) / all_ns
    quantiles = round(quantile(each, 0.5)), round(quantile(each, 0.95))
    return PhaseFigures(*quantiles, part, part, None) if part >= LEAST_GC else None


def step_listing(report: StepReport) -> Listing:
    """Yield a column a phase, then the slowest steps, the slowest first."""
    figures = report.phases
    whole = figures[STEP_COLUMN]
    of = kind_text(report.trains) + ("" if report.trains else ", calls of a model")
    rates = {"tokens": report.tokens_per_s, "samples": report.batch_per_s}
    speed = "".join(f", {rate:,.0f} {name} a second" for name, rate in rates.items() if rate)
    yield f"{report.n_steps:,} steps {of}: median {short_time(whole.median_ns)}{speed}"
    if report.calls:
        yield Table(_CALL_COLUMNS, report.calls)
    width = max(10, *(len(name) + 1 for name in figures))
    phases = [Column(name, width, partial(_cell, each)) for name, each in figures.items()]
    if report.gc:
        phases.append(Column("(gc)", width, partial(_cell, report.gc)))
    rows = _ROWS if report.gpu_steps else _ROWS[:-1]
    yield Table([text("", lambda row: row[0], 8), *phases], rows)
    yield from _functions(report)
    if report.gpu_steps:
        of_all = "" if report.gpu_steps == report.n_steps else f" of {report.gpu_steps:,} steps"
        yield f"on GPU: the median{of_all}, of what was launched in each phase"
    if report.gc:
        yield "gc: garbage collection, which is part of the other columns"
    if report.memory:
        last, per_step = report.memory.last / 1e6, report.memory.per_step / 1e6
        yield f"resident memory: {last:,.0f} MB after the last step, {per_step:+,.2f} MB a step"
    if report.reducing_ns:
        reducing = short_time(report.reducing_ns)
        yield f"by samples {reducing} in exchanges with other ranks, in backward and other columns"
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


def _tokens_text(each: CallTimes) -> str:
    if not each.tokens:
        return ""
    n = f"{each.first_tokens:,}"
    return n if each.first_tokens == each.last_tokens else f"{n}..{each.last_tokens:,}"


_CALL_COLUMNS = [
    text("calls", "kind", 11),
    Column("n", 8, "n", number),
    Column("p50", 10, "p50_ns", short_time),
    Column("p95", 10, "p95_ns", short_time),
    Column("p99", 10, "p99_ns", short_time),
    Column("in model", 10, "model_p50_ns", short_time),
    Column("tokens", 12, _tokens_text),
    Column("a second", 10, lambda each: round(each.tokens / each.total_ns * 1e9) or None, number),
]


def _functions(report: StepReport) -> Listing:
    """Yield who is in the phases: three functions of each that takes some time."""
    rows = [
        row
        for phase, figures in report.phases.items()
        if figures.share >= LEAST_PHASE
        for row in [each for each in report.functions if each.phase == phase][:IN_PHASE]
        if row.share >= LEAST_IN_PHASE
    ]
    if not rows:
        return
    columns = [
        text("phase", "phase", 11),
        Column("a step", 10, lambda row: short_time(round(row.total_ns / report.n_steps))),
        Column("of it", 8, "share", share),
        text("function, with what it called in libraries", _with_wait),
    ]
    yield Table(columns, rows)


def _in_phases(profile: Profile) -> list[InPhase]:
    labels = {0: "", **labels_of(profile, full_names=False)}
    return [
        InPhase(
            *(each.phase, labels[each.frame], each.total_ns, each.share, each.cpu_ns),
            labels[each.waits_in],
        )
        for each in phase_functions(profile)
    ]


def _with_wait(row: InPhase) -> str:
    wait_ns = row.total_ns - (row.cpu_ns or 0)
    waits = f", did not run for {wait_ns / row.total_ns:.0%} of it"
    if row.waits_in not in ("", row.function):
        waits += f", in {row.waits_in}"
    return row.function + (waits if row.waits_in else "")


# What a line has of each phase.
_ROWS: tuple[tuple[str, Callable[[PhaseFigures], str]], ...] = (
    ("median", lambda each: short_time(each.median_ns)),
    ("p95", lambda each: short_time(each.p95_ns)),
    ("share", lambda each: share(each.share)),
    ("on CPU", lambda each: share(each.cpu_share)),
    ("on GPU", lambda each: short_time(each.gpu_median_ns or 0)),
)


def _cell(of: PhaseFigures, row: tuple[str, Callable[[PhaseFigures], str]]) -> str:
    return row[1](of)


def why_slow(slow: SlowStep, median_ns: int) -> str:
    """Return how long it took, and why."""
    text = short_time(slow.total_ns)
    if median_ns:
        text += f", {slow.total_ns / median_ns:.1f} x the median"
    text += f": {slow.phase} +{short_time(slow.more_ns)}"
    if slow.compiled:
        text += f", of {slow.compiled}"
    if slow.has_waited:
        text += f", for {short_time(slow.idle_ns)} of it the thread did not run"
    if slow.is_garbage:
        made = f", {about(slow.objects)} objects made in {slow.maker}" if slow.maker else ""
        gc = short_time(slow.gc_ns)
        text += f", {gc} of it garbage collection (generation {slow.generation}{made})"
    elif slow.function:
        text += f"; more samples in {slow.function}: +{short_time(slow.more_weight_ns)}"
    return text
