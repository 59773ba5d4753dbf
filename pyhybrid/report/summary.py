"""The summary of a profile: what was measured, how well, and where the time went.

`summarize` collects it, `as_json` gives it to programs, `print_summary` (screen.py) to people.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from pyhybrid.assemble.calls import function_durations
from pyhybrid.base.pseudo_frames import SIGNALS_BLOCKED, UNKNOWN_PYTHON
from pyhybrid.report.source_text import NOT_FOUND, Sources
from pyhybrid.report.step_listing import StepSummary, step_summary
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.hot_paths import Hot
from pyhybrid.views.call_tree.imports import exact_without_imports, import_frames, import_line
from pyhybrid.views.calls.compensate import COMPENSATED
from pyhybrid.views.calls.function_calls import FunctionCalls, function_calls
from pyhybrid.views.findings import Finding, findings
from pyhybrid.views.gpu import GpuSummary, gpu_summary
from pyhybrid.views.labels import Labels, short_time, shorten_file
from pyhybrid.views.lines.program_lines import ProgramLine, program_lines
from pyhybrid.views.lines.python_lines import FunctionLines, function_lines
from pyhybrid.views.stack_quality import (
    HandlerCost,
    busy_threads,
    gil_shares,
    hz_reached,
    off_cpu_share,
    stack_quality,
    unaccounted_ns,
)
from pyhybrid.views.training.compiles import Compiles, compiler_frames, compiles_of
from pyhybrid.views.waits import Waits, all_waits

N_FUNCTIONS, N_PATHS, N_LINES = 50, 10, 50


@dataclass(slots=True)
class Function:
    """A function: see hot_paths.HotFunction for the three weights.

    The last four, of functions that were traced: function_calls.FunctionCalls; null where they
    were not.
    """

    name: str  # as in folded stacks: `qualname (file:line)`, or the demangled symbol
    kind: str  # python, native, kernel, pseudo, region
    module: str | None  # native: the file
    python_name: str | None  # native: by which Python reaches it
    declared_at: str | None  # native: `file:line`, where debug information tells
    samples: int
    self_ns: int
    total_ns: int
    python_ns: int
    calls: int | None = None
    raised: int | None = None
    exact_self_ns: int | None = None
    exact_total_ns: int | None = None


@dataclass(slots=True)
class Path:
    """A call path, root first, and the weight of the samples that end in it."""

    frames: list[str]
    weight_ns: int


@dataclass(slots=True)
class CallDurations:
    """How long single calls of a function (-t) or region took; quantiles to 12 %."""

    name: str
    kind: str  # python, region
    calls: int
    mean_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    histogram: list[tuple[int, int]]  # (from_ns, calls)


@dataclass(slots=True)
class Counter:
    """Values that native code sampled (pyhybrid.h, PerfStubs)."""

    name: str
    n: int
    sum: float
    min: float
    max: float
    sum_of_squares: float


@dataclass(slots=True)
class Summary:
    """The keys of `pyhybrid report --json`, in this order; null where it is not known."""

    file: str
    version: str  # of the pyhybrid that recorded
    python: str
    argv: list[str]
    pid: int
    start_unix_ns: int | None  # when it began
    complete: bool  # false: the process was killed, or the file's end is missing
    mode: str  # sample, trace, hybrid
    clock: str  # cpu, wall
    wall_threads: list[str]  # patterns of the names of those sampled by wall-clock time; empty: all
    engine: str  # sigtrap, perf_event, timer, monotonic; none: no samples
    engine_reason: str  # why this one
    hz_asked: int | None
    hz: int | None  # what the engine was set to
    hz_reached: float | None  # samples per second of the clock, over busy threads
    period_ns: int  # what one sample stands for
    wall_ns: int | None
    cpu_ns: int | None  # of the process, while profiling ran
    main_delay_ns: int | None  # for so long the main thread was ready, but had no processor
    end_cpu_ns: int | None  # of the interpreter's end, which comes after that and is not sampled
    n_threads: int
    n_busy_threads: int
    n_forked: int | None  # child processes, which are not profiled
    n_spawned: int | None
    signals: int  # == recorded + the sum of losses
    recorded: int
    losses: dict[str, int]  # samples, by reason
    recorded_weight_ns: int
    missed_weight_ns: int  # CPU time (or wall-clock time) that no signal stood for
    unaccounted_ns: int  # CPU time that no thread's samples stand for; 0: none, or not known
    own_weight_ns: int  # of what ran only because of the profiler: outside all shares
    calls: int | None  # of Python functions, counted exactly; null: not traced
    n_traced: int | None  # functions that were called
    unknown_calls: int | None  # counted, of Python functions that are not told apart
    c_calls: int | None  # of C functions, by Python functions; null: not counted
    n_c_traced: int | None
    traced_ns: int | None  # self time of all traced functions together
    quality: dict[str, float]  # complete, re_anchored, gapped, truncated: shares of the weight
    gil: dict[str, float]  # held, waiting, neither: shares of the weight
    off_cpu: float | None  # share of the weight in threads that waited; null: a CPU clock
    handler_median_ns: int | None
    handler_p99_ns: int | None
    sample_cost_ns: int | None  # of one sample, interrupt and all, measured at start
    overhead: float | None  # share of the CPU time that sampling took, by that
    turns: int | None  # what events counted: calls, and generators' goings on
    call_cost_ns: float | None  # what counting one of them costs, measured at start
    waited: Waits | None  # of threads that ran Python, by exact times; null: hardly, or not known
    counting_ns: int | None  # what counting took: an estimate by that, own_weight_ns if it is more
    compensated: bool  # it is subtracted from exact times (--compensate)
    min_time_ns: int  # functions with a total below are left out (--min-time)
    left_out: int  # how many
    findings: list[Finding]  # what stands out, at most five
    functions: list[Function]  # the first by self_ns, and the first Python ones by python_ns
    # Traced, but without samples: the first by exact_self_ns instead.
    program_lines: list[ProgramLine]  # the first by weight: its own, with what libraries did there
    paths: list[Path]  # the first by weight
    durations: list[CallDurations]  # of chosen functions and regions, most time first
    compiler_calls: bool  # what compilers call is counted, too
    compiles: Compiles | None  # by torch.compile; null: none
    steps: StepSummary | None  # of a training; null: none
    gpu: GpuSummary | None  # its work, below what launched it; null: nothing is known of it
    lines: list[FunctionLines] | None  # of the functions chosen; null: not recorded
    counters: list[Counter]  # of native code, by name
    metadata: dict[str, str]  # that native code told
    notes: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # files, this one first


def summarize(
    profile: Profile,
    written: list[str],
    notes: list[str],
    min_time_ns: int = 0,
    all_frames: bool = False,
    imports: bool = True,
) -> Summary:
    """Collect the summary; `written` and `notes` are what the exports add.

    Functions with a total below `min_time_ns` are left out: exact where they were traced, else
    sampled.  With `all_frames` nothing is folded (call_tree/folded_tree.py); without `imports` all
    that import statements run is one function, in `functions` and `paths`.
    """
    meta, process, threads = profile.meta, profile.process, list(profile.threads.values())
    losses: dict[str, int] = {}
    for loss in profile.losses:
        losses[loss.reason] = losses.get(loss.reason, 0) + loss.samples
    ends_ns = (t.last_ns or 0 for t in threads)
    end_ns = process.end_ns or max(int(meta.get("recorded_until_ns") or 0), *ends_ns, 0)
    cost = HandlerCost(profile)
    hot = Hot(profile, all_frames, imports)
    traced = function_calls(profile, with_callers=False)
    python = [f for frame, f in traced.items() if profile.frames[frame].kind == "python"]
    native = [f for frame, f in traced.items() if profile.frames[frame].kind == "native"]
    unknown = [f for frame, f in traced.items() if profile.frames[frame].symbol == UNKNOWN_PYTHON]
    shown, imported = traced, hot.imported
    if not imports and profile.exact:
        exact, by_exact_time = exact_without_imports(profile)
        shown = function_calls(profile, with_callers=False, exact=exact)
        imported = imported or by_exact_time
    labels = Labels(profile, all_frames=all_frames).of_frame
    if imported:
        n = len(traced) - len(shown)
        text = import_line(imported) + (f" ({n:,} functions: --imports)" if n else " (--imports)")
        labels |= dict.fromkeys(import_frames(profile), text)
    functions, paths, left_out = _hot(profile, hot, shown, min_time_ns, labels)
    lines, source_notes = _program_lines(profile)
    turns = sum(f.turns for f in traced.values()) if profile.exact else None
    n_c_calls = sum(f.calls for f in native) if meta.get("c_calls") else None
    call_cost_ns = meta.get("call_cost_ns")
    views = [COMPENSATED] if profile.view.compensated else []
    if decorated := meta.get("decorated"):
        more = f" and {len(decorated) - 5} more" if len(decorated) > 5 else ""
        views.append(f"only while decorated functions ran: {', '.join(decorated[:5])}{more}")
    if len(profile.processes) > 1:
        pids = sorted({each.pid for each in profile.processes.values()})
        few = ", ".join(map(str, pids[:5])) + (", ..." if len(pids) > 5 else "")
        views.append(f"of {len(profile.processes)} processes: {few}")
    if left_out:
        views.append(f"{left_out:,} functions below {short_time(min_time_ns)} are left out")
    return Summary(
        file=profile.path,
        version=str(meta.get("version") or "?"),
        python=str(meta.get("python") or "?"),
        argv=process.argv,
        pid=process.pid,
        start_unix_ns=meta.get("start_unix_ns"),
        complete=bool(meta.get("complete")),
        mode=str(meta.get("mode") or "sample"),
        clock=str(meta.get("clock") or "?"),
        wall_threads=list(meta.get("wall_threads") or ()),
        engine=str(meta.get("engine") or "?"),
        engine_reason=str(meta.get("engine_reason") or ""),
        hz_asked=meta.get("hz_asked"),
        hz=meta.get("hz"),
        hz_reached=hz_reached(profile),
        period_ns=profile.period_ns,
        wall_ns=end_ns - process.start_ns if process.start_ns and end_ns else None,
        cpu_ns=process.cpu_ns or sum(t.cpu_ns or 0 for t in threads) or None,
        main_delay_ns=meta.get("main_delay_ns"),
        end_cpu_ns=meta.get("end_cpu_ns"),
        n_threads=sum(thread.n_threads for thread in threads),
        n_busy_threads=len(busy_threads(profile)),
        n_forked=process.n_forked,
        n_spawned=process.n_spawned,
        signals=sum(t.signals for t in threads),
        recorded=sum(t.recorded for t in threads),
        losses=losses,
        recorded_weight_ns=sum(t.recorded_weight_ns for t in threads),
        missed_weight_ns=sum(t.missed_weight_ns for t in threads),
        unaccounted_ns=unaccounted_ns(profile),
        own_weight_ns=profile.own_weight_ns,
        calls=sum(f.calls for f in python) if profile.exact else None,
        n_traced=sum(f.calls > 0 for f in python) if profile.exact else None,
        unknown_calls=sum(f.calls for f in unknown) if profile.exact else None,
        c_calls=n_c_calls,
        n_c_traced=sum(f.calls > 0 for f in native) if meta.get("c_calls") else None,
        traced_ns=sum(f.self_ns for f in traced.values()) if profile.exact else None,
        quality=stack_quality(profile),
        gil=gil_shares(profile),
        off_cpu=off_cpu_share(profile),
        handler_median_ns=cost.quantile_ns(0.5),
        handler_p99_ns=cost.quantile_ns(0.99),
        sample_cost_ns=round(meta.get("cost_ns", 0)) or None,  # a merged profile's is a mean
        overhead=cost.overhead(),
        turns=turns,
        call_cost_ns=call_cost_ns,
        waited=all_waits(profile, N_FUNCTIONS),
        counting_ns=_counting_ns(profile, turns, n_c_calls or 0, profile.own_weight_ns),
        compensated=profile.view.compensated,
        min_time_ns=min_time_ns,
        left_out=left_out,
        findings=findings(profile),
        functions=functions,
        program_lines=lines,
        paths=paths,
        durations=_durations(profile),
        compiler_calls=bool(meta.get("compiler_calls")),
        compiles=compiles_of(profile),
        steps=step_summary(profile),
        gpu=gpu_summary(profile, all_frames),
        lines=function_lines(profile) if profile.meta.get("lines") else None,
        counters=sorted(
            (Counter(**each) for each in meta.get("counters") or ()), key=lambda each: each.name
        ),
        metadata=dict(meta.get("metadata") or {}),
        notes=[*views, *meta.get("notes", ()), *source_notes, *notes],
        written=written,
    )


def _counting_ns(
    profile: Profile, turns: int | None, n_c_calls: int, own_weight_ns: int
) -> int | None:
    """Of a turn two events, as of a C function's call, of a line one; what some took beyond that.

    What samples met of it is true, too: of a killed process nothing else tells of the latter.
    """
    call_cost_ns = float(profile.meta.get("call_cost_ns") or 0)
    if turns is None or not call_cost_ns:
        return None
    n_lines = sum(row.hits for row in profile.lines)
    more_ns = int(profile.meta.get("counting_more_ns") or 0)
    counted_ns = round((turns + n_c_calls + n_lines / 2) * call_cost_ns) + more_ns
    return max(counted_ns, own_weight_ns if profile.meta.get("clock") == "cpu" else 0)


def _program_lines(profile: Profile) -> tuple[list[ProgramLine], list[str]]:
    """The first, with their text, and why some have none."""
    sources, lines = Sources(profile.meta), program_lines(profile)[:N_LINES]
    notes = []
    for file in dict.fromkeys(each.file for each in lines):
        here = [each for each in lines if each.file == file]
        wanted = [each.line for each in here]
        source = sources.lines(file, wanted)
        for each in here if not source.changed else ():
            each.text = source.lines.get(each.line, "").strip()
        if source.note not in ("", NOT_FOUND) and not all(each.text for each in here):
            notes.append(f"{shorten_file(file, str(profile.meta.get('cwd') or ''))}: {source.note}")
    return lines, notes


def _durations(profile: Profile) -> list[CallDurations]:
    labels = Labels(profile).of_frame if profile.call_times else {}
    compilers = compiler_frames(profile)  # these are told as compiles
    durations = function_durations(profile)
    found = [item for item in durations.items() if item[0] not in compilers]
    return [
        CallDurations(
            *(labels[frame], profile.frames[frame].kind, each.calls, each.mean_ns),
            *(each.quantile_ns(0.5), each.quantile_ns(0.99), each.max_ns),
            sorted(each.histogram.items()),
        )
        for frame, each in sorted(found, key=lambda item: (-item[1].total_ns, item[0]))
    ]


def _hot(
    profile: Profile,
    hot: Hot,
    traced: dict[int, FunctionCalls],
    min_time_ns: int,
    labels: dict[int, str],
) -> tuple[list[Function], list[Path], int]:
    frames = profile.frames
    ranked = [
        each
        for each in hot.functions()
        if frames[each.frame].kind != "pseudo" or frames[each.frame].symbol == SIGNALS_BLOCKED
    ]
    totals = {each.frame: each.total_ns for each in ranked}
    totals |= {frame: tally.total_ns for frame, tally in traced.items()}
    small = {frame for frame, total_ns in totals.items() if total_ns < min_time_ns}
    ranked = [each for each in ranked if each.frame not in small]
    left_out = sum(frame in traced or totals[frame] > 0 for frame in small)
    traced = {frame: tally for frame, tally in traced.items() if frame not in small}
    by_python = sorted(ranked, key=lambda f: (-f.python_ns, f.frame))
    chosen = {each.frame for each in ranked[:N_FUNCTIONS] + by_python[:N_FUNCTIONS]}
    by_time = sorted(traced, key=lambda frame: (-traced[frame].self_ns, frame))
    weights = {e.frame: (e.samples, e.self_ns, e.total_ns, e.python_ns) for e in ranked}
    order = [each.frame for each in ranked if each.frame in chosen]
    order += [frame for frame in by_time[:N_FUNCTIONS] if frame not in chosen]
    functions = []
    for number in order:
        frame = profile.frames[number]
        module = profile.modules[frame.module].path if frame.module else None
        native_at = f"{frame.file}:{frame.line}" if frame.kind == "native" and frame.file else None
        what = (labels[number], frame.kind, module, frame.python_name, native_at)
        function = Function(*what, *weights.get(number, (0, 0, 0, 0)))
        if tally := traced.get(number):
            function.calls, function.raised = tally.calls, tally.raised
            function.exact_self_ns, function.exact_total_ns = tally.self_ns, tally.total_ns
        functions.append(function)
    paths = [Path([labels[f] for f in p.frames], p.weight_ns) for p in hot.paths(N_PATHS)]
    return functions, paths, left_out


def as_json(summary: Summary) -> dict[str, Any]:
    """The summary as plain values for `json.dumps`."""
    return asdict(summary)
