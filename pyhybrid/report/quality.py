"""`pyhybrid report quality`: how far a profile can be trusted, and where it is thin."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from pyhybrid.report.run_parts import Calls, Clock, Cost, Run, Samples
from pyhybrid.report.table import Column, Listing, Table, share, text
from pyhybrid.symbols import jit
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.labels import losses_text, shares_text
from pyhybrid.views.stack_quality import HandlerCost, busy_threads

# Sources of a frame's name: tables/, Frame.
NAMED = (
    *("symtab", "debug file", "debugdata", "dynsym", "plt"),
    *("exported data", "method table", "role"),
    *jit.SOURCES,
)
N_MODULES = 12
MAX_CHUNKS = 2000  # of a thread, whose steps of time are looked at


class ModuleNames(Record):
    """Hold how many of a library's frames have names: shares of the weight of samples' frames.

    `by_source`: the shares by where the name came from; fde: its function's start, none: nothing.
    """

    module: str  # its file's name
    path: str
    weight_ns: int
    named: float
    by_source: dict[str, float]


class QualityReport(Record):
    """Hold the keys of `pyhybrid report quality --json`; null where it is not known."""

    file: str
    clock: Clock
    samples: Samples
    cost: Cost
    turns: int | None  # calls, and generators' goings on, that were counted
    cpu_ns: int | None  # of the process, while profiling ran
    kernel_frames: bool
    no_kernel_frames: str  # why not
    kernel_lost: int  # ticks of which it is not known where in the kernel they came
    kernel_mute: int  # clocks that could not say that
    named: float | None  # share of all native frames
    modules: list[ModuleNames]  # most weight first
    handler_p50_ns: int | None
    handler_p99_ns: int | None
    handler_max_ns: int | None  # at most: where its bucket ends, the last of which has none
    handler_histogram: list[tuple[int, int]]  # (from_ns, samples)
    # Wall-clock time from one sample of a busy thread to its next, in periods: p1, p50, p90, p99.
    interval: dict[str, float]
    unplaced_regions: int  # pushed by native code where they could not be counted
    unmatched_regions: int  # popped by it, without one that was open


def quality_report(profile: Profile) -> QualityReport:
    """Collect it."""
    cost, meta = HandlerCost(profile), profile.meta
    modules = _modules(profile)
    calls = Calls.of(profile)
    weight_ns = sum(each.weight_ns for each in modules)
    named_ns = sum(each.weight_ns * each.named for each in modules)
    return QualityReport(
        file=profile.path,
        clock=Clock.of(profile),
        samples=Samples.of(profile),
        cost=Cost.of(profile, calls),
        turns=calls.turns if calls else None,
        cpu_ns=Run.of(profile).cpu_ns,
        kernel_frames=bool(meta.get("kernel_frames")),
        no_kernel_frames=str(meta.get("no_kernel_frames") or ""),
        kernel_lost=int(meta.get("kernel_lost") or 0),
        kernel_mute=int(meta.get("kernel_mute") or 0),
        named=named_ns / weight_ns if weight_ns else None,
        modules=modules,
        handler_p50_ns=cost.quantile_ns(0.5),
        handler_p99_ns=cost.quantile_ns(0.99),
        handler_max_ns=cost.quantile_ns(1.0),
        handler_histogram=cost.histogram(),
        interval=_interval(profile),
        unplaced_regions=int(meta.get("unplaced_regions") or 0),
        unmatched_regions=int(meta.get("unmatched_regions") or 0),
    )


def _modules(profile: Profile) -> list[ModuleNames]:
    nodes = profile.nodes
    weights = [0] * len(nodes.parent)
    for sampled in profile.sampled:
        weights[profile.stacks.node[sampled.stack]] += sampled.weight_ns
    for node in range(len(weights) - 1, 0, -1):
        weights[nodes.parent[node]] += weights[node]
    by_module: dict[int, Counter[str]] = {}
    for node in range(1, len(weights)):
        frame = profile.frames[nodes.frame[node]]
        if frame.kind == "native":
            by_module.setdefault(frame.module or 0, Counter())[frame.source] += weights[node]
    found = []
    for number, sources in by_module.items():
        total = sources.total()
        path = profile.modules[number].path if number else "[no library]"
        if total:
            named = sum(sources[source] for source in NAMED) / total
            shares = {source: weight / total for source, weight in sources.most_common()}
            found.append(ModuleNames(os.path.basename(path), path, total, named, shares))
    return sorted(found, key=lambda each: (-each.weight_ns, each.path))


def _interval(profile: Profile) -> dict[str, float]:
    seen = dict.fromkeys((thread.id for thread in busy_threads(profile)), 0)
    steps: list[int] = []
    for chunk in () if profile.view.by_time else profile.timeline():
        if seen.get(chunk.thread, MAX_CHUNKS) < MAX_CHUNKS:
            seen[chunk.thread] += 1
            steps += (step for at, step in enumerate(chunk.dt_ns) if at and at not in chunk.weights)
    steps.sort()
    if not steps:
        return {}
    ranks = {"p1": 0.01, "p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {
        name: steps[min(len(steps) - 1, int(rank * len(steps)))] / profile.period_ns
        for name, rank in ranks.items()
    }


def quality_listing(report: QualityReport) -> Listing:
    """Yield the report as text."""
    clock, samples = report.clock, report.samples
    why = f" ({clock.engine_reason})" if clock.engine_reason else ""
    yield f"clock     {clock.hz} Hz by {clock.engine}{why}"
    reached = "the rate is not known: no thread was busy, or only some samples are shown"
    if clock.hz_reached:
        reached = f"reached {clock.hz_reached:.0f} samples per second"
    yield f"          {reached}"
    if report.interval:
        steps = ", ".join(f"{name} {value:.2f}" for name, value in report.interval.items())
        yield f"          periods from sample to sample of busy threads: {steps}"
    yield f"kernel    {_kernel_text(report)}"
    missed = samples.missed_weight_ns / (samples.missed_weight_ns + samples.recorded_weight_ns or 1)
    lost = losses_text(samples.losses)
    yield f"samples   {samples.signals:,} signals, {samples.recorded:,} recorded; lost: {lost}"
    yield f"          {missed:.2%} of the time no signal stood for"
    unaccounted_s = samples.unaccounted_ns / 1e9
    yield f"          {unaccounted_s:.2f} s of CPU time no thread's samples stand for"
    yield f"stacks    {shares_text(samples.stacks)}"
    yield f"GIL       {shares_text(samples.gil)}"
    if samples.off_cpu is not None:
        yield f"threads   off the CPU {share(samples.off_cpu)}"
    if samples.blocked:
        yield f"blocked   signals, by the threads {', '.join(samples.blocked)}"
    if report.unplaced_regions or report.unmatched_regions:
        yield (
            f"regions   of native code: {report.unplaced_regions:,} not counted (their function is "
            f"not profiled); {report.unmatched_regions:,} ends without a begin"
        )
    for at, line in enumerate(_costs(report)):
        yield f"{'' if at else 'cost':10}{line}"
    if report.handler_p50_ns is not None:
        times = (report.handler_p50_ns, report.handler_p99_ns or 0, report.handler_max_ns or 0)
        p50, p99, most = (f"{ns / 1e3:.1f} us" for ns in times)
        yield f"handler   p50 {p50}, p99 {p99}, max {most}"
        yield from _bars(report.handler_histogram)
    if report.named is not None:
        yield f"names     {share(report.named)} of the native frames have one; by library:"
        yield Table(_NAMES, report.modules[:N_MODULES])
        if more := report.modules[N_MODULES:]:
            yield f"                   and {len(more)} more (--json has them)"


def _costs(report: QualityReport) -> Iterator[str]:
    """Yield what profiling took, a line each for sampling, counting, and what samples met of it."""
    cost, samples = report.cost, report.samples
    if cost.sample_ns and cost.overhead is not None:
        took = f"{cost.sample_ns / 1e3:.0f} us a sample, {share(cost.overhead)} of the CPU time"
        yield f"sampling: {took}"
    if cost.counting_ns is not None and report.turns is not None:
        seconds = cost.counting_ns / 1e9
        took = f"about {seconds:.2f} s" if seconds >= 0.01 else "less than 0.01 s"
        of = f", {share(cost.counting_ns / report.cpu_ns)} of the CPU time" if report.cpu_ns else ""
        yield f"counting {report.turns:,} calls and resumes: {took}{of}"
    if samples.own_weight_ns:
        own = share(samples.own_weight_ns / samples.recorded_weight_ns)
        yield f"[pyhybrid], what samples met of it: {own}, outside all shares"


_NAMES = (
    Column("", 17, "named", share),
    text("", lambda each: f"{each.module}: {_sources(each.by_source)}"),
)


def _sources(by_source: dict[str, float]) -> str:
    return ", ".join(f"{name} {share(part)}" for name, part in by_source.items())


def _kernel_text(report: QualityReport) -> str:
    if not report.kernel_frames:
        return f"no frames of it: {report.no_kernel_frames or 'not known why'}"
    mute = f"; {report.kernel_mute} clocks have none (descriptors, or locked memory, are few)"
    return f"its frames, lost {report.kernel_lost:,} times{mute if report.kernel_mute else ''}"


def _bars(histogram: list[tuple[int, int]]) -> list[str]:
    """Return a line for each power of two: its share, and a bar."""
    powers: Counter[int] = Counter()
    for from_ns, n in histogram:
        powers[max(from_ns, 1).bit_length()] += n
    total = powers.total() or 1
    return [
        f"          from {(1 << power - 1) / 1e3:8.1f} us {n / total:7.2%} "
        + "#" * round(40 * n / total)
        for power, n in sorted(powers.items())
    ]
