"""The summary of a profile: what was measured, how well, and where the time went.

`summarize` collects it, `plain` (table.py) gives it to programs, `print_summary` (screen.py) to
people.
"""

from __future__ import annotations

from pyhybrid.base.pseudo_frames import SIGNALS_BLOCKED
from pyhybrid.report.run_parts import Calls, Clock, Cost, Run, Samples
from pyhybrid.report.source_text import NOT_FOUND, Sources
from pyhybrid.report.step_listing import StepSummary, step_summary
from pyhybrid.tables.call_durations import function_durations
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.hot_paths import Hot
from pyhybrid.views.call_tree.imports import (
    exact_without_imports,
    import_frames,
    import_line,
    summed_functions,
)
from pyhybrid.views.calls.compensate import COMPENSATED
from pyhybrid.views.calls.function_calls import FunctionCalls, function_calls, own_calls
from pyhybrid.views.findings import Finding, findings
from pyhybrid.views.gpu import GpuSummary, gpu_summary
from pyhybrid.views.labels import labels_of, short_time, shorten_file
from pyhybrid.views.lines.program_lines import ProgramLine, program_lines
from pyhybrid.views.lines.program_tree import TreeRow, program_tree
from pyhybrid.views.lines.python_lines import FunctionLines, function_lines
from pyhybrid.views.processes import ProcessGroup, grouped, processes_of
from pyhybrid.views.training.compiles import Compiles, compiler_frames, compiles_of
from pyhybrid.views.training.in_steps import in_steps
from pyhybrid.views.waits import Waits, all_waits

N_FUNCTIONS, N_PATHS, N_LINES, N_TREE = 50, 10, 50, 50


class Function(Record):
    """Describe a function: see hot_paths.HotFunction for the three weights.

    Exact figures are of functions that were traced: function_calls.FunctionCalls; null where they
    were not.
    """

    name: str  # as in folded stacks: `qualname (file:line)`, or the demangled symbol
    kind: str  # python, native, kernel, pseudo, region
    module: str | None  # native: the file
    python_name: str | None  # native: by which Python reaches it
    declared_at: str | None  # native: `file:line`, where debug information has it
    samples: int
    self_ns: int
    total_ns: int
    python_ns: int
    calls: int | None = None
    raised: int | None = None
    exact_self_ns: int | None = None
    exact_total_ns: int | None = None
    waits: bool = False  # mostly, for other threads, as wall-clock time shows


class Path(Record):
    """Hold a call path, root first, and the weight of the samples that end in it."""

    frames: list[str]
    weight_ns: int


class CallDurations(Record):
    """Hold how long single calls of a function (-t) or region took; quantiles to 12 %."""

    name: str
    kind: str  # python, region
    calls: int
    mean_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    histogram: list[tuple[int, int]]  # (from_ns, calls)


class Counter(Record):
    """Hold values that native code sampled (pyhybrid.h, PerfStubs)."""

    name: str
    n: int
    sum: float
    min: float
    max: float
    sum_of_squares: float


class StepsPart(Record):
    """Hold the part of the run that `program_lines` and `tree` are of: a training's steps."""

    n_steps: int
    weight_ns: int


class Summary(Record):
    """Hold the keys of `pyhybrid report --json`, in this order; null where it is not known."""

    file: str
    run: Run
    clock: Clock
    samples: Samples
    calls: Calls | None  # null: nothing was traced
    cost: Cost
    waited: Waits | None  # of threads that ran Python, by exact times; null: hardly, or not known
    compensated: bool  # counting is subtracted from exact times (--compensate)
    min_time_ns: int  # functions with a total below are left out (--min-time)
    left_out: int  # how many
    processes: list[ProcessGroup]  # most CPU time first; empty: it is one process
    findings: list[Finding]  # what stands out, at most five
    functions: list[Function]  # the first by self_ns, and the first Python ones by python_ns
    # Traced, but without samples: the first by exact_self_ns instead.
    program_lines: list[ProgramLine]  # the first: its own by weight, those that wait last
    tree: list[TreeRow]  # the largest of the program's functions, in the order of the tree
    in_steps: StepsPart | None  # what both are of; null: of the whole run
    paths: list[Path]  # the first by weight
    durations: list[CallDurations]  # of chosen functions and regions, most time first
    compiler_calls: bool  # what compilers call is counted, too
    compiles: Compiles | None  # by torch.compile; null: none
    steps: StepSummary | None  # of a training; null: none
    gpu: GpuSummary | None  # its work, below what launched it; null: nothing is known of it
    lines: list[FunctionLines] | None  # of the functions chosen; null: not recorded
    counters: list[Counter]  # of native code, by name
    metadata: dict[str, str]  # that native code gave
    notes: list[str]
    written: list[str]  # files, this one first

    def ended(self, end_cpu_ns: int | None, written: list[str], notes: list[str]) -> Summary:
        """Return it with what the interpreter's end took, and what exports add."""
        return self._replace(
            run=self.run._replace(end_cpu_ns=end_cpu_ns),
            written=self.written + written,
            notes=self.notes + notes,
        )


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
    meta, calls = profile.meta, Calls.of(profile)
    functions, paths, left_out = _functions(profile, min_time_ns, all_frames, imports)
    part = in_steps(profile)
    base = part.profile if part else profile
    lines, source_notes = _program_lines(base)
    views = _views(profile)
    if left_out:
        views.append(f"{left_out:,} functions below {short_time(min_time_ns)} are left out")
    counters = [Counter(**each) for each in meta.get("counters") or ()]
    return Summary(
        file=profile.path,
        run=Run.of(profile),
        clock=Clock.of(profile),
        samples=Samples.of(profile),
        calls=calls,
        cost=Cost.of(profile, calls),
        waited=all_waits(profile, N_FUNCTIONS),
        compensated=profile.view.compensated,
        min_time_ns=min_time_ns,
        left_out=left_out,
        processes=grouped(processes_of(profile)) if len(profile.processes) > 1 else [],
        findings=findings(profile),
        functions=functions,
        program_lines=lines,
        tree=program_tree(base, N_TREE),
        in_steps=StepsPart(part.n_steps, part.weight_ns) if part else None,
        paths=paths,
        durations=_durations(profile),
        compiler_calls=bool(meta.get("compiler_calls")),
        compiles=compiles_of(profile),
        steps=step_summary(profile),
        gpu=gpu_summary(profile, all_frames),
        lines=function_lines(profile) if meta.get("lines") else None,
        counters=sorted(counters, key=lambda each: each.name),
        metadata=dict(meta.get("metadata") or {}),
        notes=[*views, *meta.get("notes", ()), *source_notes, *notes],
        written=written,
    )


def _views(profile: Profile) -> list[str]:
    """Return what of the run is in the profile, in words."""
    views = [COMPENSATED] if profile.view.compensated else []
    if decorated := profile.meta.get("decorated"):
        more = f" and {len(decorated) - 5} more" if len(decorated) > 5 else ""
        views.append(f"only while decorated functions ran: {', '.join(decorated[:5])}{more}")
    return views


def _program_lines(profile: Profile) -> tuple[list[ProgramLine], list[str]]:
    """Return the first, with their text, and why some have none."""
    sources, lines = Sources(profile.meta), program_lines(profile)[:N_LINES]
    texts: dict[tuple[str, int], str] = {}
    notes = []
    for file in dict.fromkeys(each.file for each in lines):
        wanted = [each.line for each in lines if each.file == file]
        source = sources.lines(file, wanted)
        here = {} if source.changed else source.lines
        texts |= {(file, line): here.get(line, "").strip() for line in wanted}
        if source.note not in ("", NOT_FOUND) and not all(texts[file, line] for line in wanted):
            notes.append(f"{shorten_file(file, str(profile.meta.get('cwd') or ''))}: {source.note}")
    return [each._replace(text=texts[each.file, each.line]) for each in lines], notes


def _durations(profile: Profile) -> list[CallDurations]:
    labels = labels_of(profile) if profile.call_times else {}
    compilers = compiler_frames(profile)  # these are shown as compiles
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


def _functions(
    profile: Profile, min_time_ns: int, all_frames: bool, imports: bool
) -> tuple[list[Function], list[Path], int]:
    """Return functions and paths, and how many functions are left out."""
    hot = Hot(profile, all_frames, imports)
    every, labels, imported = own_calls(profile), labels_of(profile, True, all_frames), hot.imported
    traced = every
    if not imports and profile.exact:
        exact, by_exact_time = exact_without_imports(profile)
        traced = function_calls(profile, with_callers=False, exact=exact)
        imported = imported or by_exact_time
    if imported:
        rest = every.keys() - traced.keys()
        n = sum(profile.frames[each].kind != "pseudo" for each in rest) + summed_functions(profile)
        text = import_line(imported) + (f" ({n:,} functions: --imports)" if n else " (--imports)")
        labels = labels | dict.fromkeys(import_frames(profile), text)
    return _hot(profile, hot, traced, min_time_ns, labels)


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
    waits = {each.frame for each in ranked if each.waits}
    order = [each.frame for each in ranked if each.frame in chosen]
    order += [frame for frame in by_time[:N_FUNCTIONS] if frame not in chosen]
    functions = []
    for number in order:
        frame = profile.frames[number]
        module = profile.modules[frame.module].path if frame.module else None
        native_at = f"{frame.file}:{frame.line}" if frame.kind == "native" and frame.file else None
        what = (labels[number], frame.kind, module, frame.python_name, native_at)
        tally = traced.get(number)
        exact = (tally.calls, tally.raised, tally.self_ns, tally.total_ns) if tally else (None,) * 4
        function = Function(*what, *weights.get(number, (0, 0, 0, 0)), *exact)
        functions.append(function._replace(waits=number in waits))
    paths = [Path([labels[f] for f in p.frames], p.weight_ns) for p in hot.paths(N_PATHS)]
    return functions, paths, left_out
