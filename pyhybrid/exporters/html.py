"""One HTML page that shows a profile: it needs no network, no server and no other program.

Its script and style are made of web/, its data are columns (page/__init__.py), its policy allows
nothing else.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from types import MappingProxyType
from typing import BinaryIO

from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.page import Columns, document, steps
from pyhybrid.exporters.page.samples import TICK_NS, Samples
from pyhybrid.exporters.page.tree import Strings, Tree
from pyhybrid.report.cautions import MOST_COUNTING, MOST_SAMPLING
from pyhybrid.report.memory_listing import memory_listing, memory_rows
from pyhybrid.report.processes import group_label
from pyhybrid.report.source_text import Source, Sources
from pyhybrid.report.step_listing import STEP_COLUMN, step_report, why_slow
from pyhybrid.report.summary import Summary, summarize
from pyhybrid.report.table import plain
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.waiting import MOST_WAITING
from pyhybrid.views.lines.program_lines import program_files
from pyhybrid.views.lines.python_lines import function_lines
from pyhybrid.views.processes import (
    CUT_OFF,
    ProcessFigures,
    ProcessGroup,
    grouped,
    processes_of,
)
from pyhybrid.views.training.memory import memory_of
from pyhybrid.views.training.memory_calls import call_text
from pyhybrid.views.training.phases import all_phases
from pyhybrid.views.training.steps import steps_of

FEW_PATHS = 20_000  # sampled ones; all their frames take some 10 bytes each

# What the page adds up itself, or does not show, of a summary.
LEFT_OUT = (
    "functions",
    "program_lines",
    "tree",
    "paths",
    "lines",
    "written",
    "left_out",
    "min_time_ns",
)


class ProcessMeta(Record):
    """Describe a process of the profile; `began` and `end` are ns after the first one's begin."""

    group: int  # its place in `groups`
    frame: int  # it stands at the root of its own paths, where they are shown apart
    pid: int
    command: str
    parent: int | None  # its pid; null: not known
    how: str  # it began: root, fork, start, exec (of one that is here, too)
    began: int
    end: int | None  # null: not known
    cut_off: bool


class ThreadMeta(Record):
    """Describe a thread: how much the columns have of it."""

    process: int  # its place in `processes`
    name: str
    tid: int
    samples: int
    exact: int
    cpu_ns: int | None
    lost: int


class WhySlow(Record):
    """Describe why a step was slow."""

    number: int
    why: str


class StepsMeta(Record):
    """Hold what the page knows of all steps beside the columns."""

    phases: list[str]
    median_ns: int
    slowest: list[WhySlow]


class PageMemoryCall(Record):
    """Hold a call that had memory: as `report memory` has it, in bytes."""

    text: str
    at_peak: int
    per_step: int
    holders: list[str]


class MemoryMeta(Record):
    """Hold what PyTorch's allocator gave out: `steps` are the most and what lived at the end."""

    texts: list[str]
    calls: list[PageMemoryCall]  # those that grow first, then most at the peak
    steps: list[tuple[int, int]]


class GpuMeta(Record):
    """Hold what is beside the columns: streams are (device, stream), windows (begin, end)."""

    tick_ns: int
    streams: list[tuple[int, int]]
    windows: list[tuple[int, int]]
    n_left_out: int


class SourceFile(Record):
    """Hold what the page knows of a file."""

    file: str
    note: str
    library: bool  # is it no file of the program itself?
    runs: list[tuple[int, int]]  # (first, last) of the lines that its text has


class Meta(Record):
    """Hold what the page knows beside its columns."""

    format: int
    summary: Summary  # without LEFT_OUT
    start_unix_ns: str
    host: str
    cpu: str
    is_part: bool
    tick_ns: int
    exact_unit_ns: int
    threads: list[ThreadMeta]
    processes: list[ProcessMeta]  # the first one first, then by begin
    groups: list[str]  # of `summary.processes`: what each is called
    sources: list[SourceFile]
    program_files: list[int]  # of its own Python files: the numbers of their names
    n_calls: int
    steps: StepsMeta | None
    memory: MemoryMeta | None
    plumbing: bool
    import_frame: int
    gpu: GpuMeta | None  # null: nothing is known of one
    most_counting: float  # from here on costs need care: shares of the CPU time
    most_sampling: float
    most_waiting: float  # a line of which more waits for other threads comes last


class Html(Exporter):
    """Write the page."""

    name = "html"
    help = "a page for a browser, which holds all it needs: flame graph, table, threads, source"
    suffix = ".html"
    all_frames = False  # paths with plumbing are there, too, also where they are many
    with_source = True  # source text that the program's files have
    texts: Mapping[str, str] = MappingProxyType({})  # source text of what has no file, by its name
    notes: Sequence[str] = ()  # on the choice of samples

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write the page."""
        strings, columns = Strings(), Columns()
        plumbing = self.all_frames or len(profile.sampled) < FEW_PATHS
        tree = Tree(profile, strings, plumbing)
        figures = processes_of(profile)
        of_processes = tree.add_frames(columns, [_names(each) for each in figures])
        tree.add_nodes(columns)
        n_exact, unit_ns = tree.add_exact(columns)
        tree.add_functions(columns)
        samples = Samples(profile, tree, strings)
        n_samples = samples.add(columns)
        n_calls = add_calls(profile, tree, strings, columns)
        add_lines(profile, strings, columns)
        steps = add_steps(profile, columns)
        gpu = add_gpu(profile, tree, strings, columns)
        known, texts = (
            sources(profile, samples.by_line(), self.texts) if self.with_source else ([], [])
        )
        own_files = [strings.number(file) for file in sorted(program_files(profile))]
        columns.add_text("source", texts)
        columns.add_text("strings", strings)
        summary = summarize(profile, [], list(self.notes))
        meta = Meta(
            format=1,
            summary=summary,
            start_unix_ns=str(profile.meta.get("start_unix_ns") or ""),
            host=str(profile.meta.get("hostname") or ""),
            cpu=str(profile.meta.get("cpu") or ""),
            is_part=profile.view.by_time,
            tick_ns=TICK_NS,
            exact_unit_ns=unit_ns,
            threads=_threads(profile, figures, n_samples, n_exact),
            processes=_processes(figures, summary.processes, of_processes),
            groups=list(map(group_label, summary.processes)),
            sources=known,
            program_files=own_files,
            n_calls=n_calls,
            steps=steps,
            memory=memory_meta(profile),
            plumbing=plumbing,
            import_frame=tree.import_frame,
            gpu=gpu,
            most_counting=MOST_COUNTING,
            most_sampling=MOST_SAMPLING,
            most_waiting=MOST_WAITING,
        )
        shown = plain(meta)
        for name in LEFT_OUT:
            del shown["summary"][name]
        text = document(_command_line(profile.process.argv), shown, columns)
        file.write(text.encode("utf-8", "backslashreplace"))
        return []


def _command_line(argv: Sequence[str]) -> str:
    program, *arguments = argv or ["?"]
    return " ".join([os.path.basename(program), *arguments])


def _names(process: ProcessFigures) -> tuple[str, str, str]:
    """Return its whole name, the short one, and its pid."""
    [alone] = grouped([process], "process")
    rank = "" if process.rank is None else f"rank {process.rank}"
    return f"{rank}: {alone.what}".removeprefix(": "), rank or process.name, f"pid {process.pid}"


def _processes(
    figures: Sequence[ProcessFigures], groups: Sequence[ProcessGroup], frame: int
) -> list[ProcessMeta]:
    """Return what the page has of each; their frames are numbered from `frame` on."""
    place = {group.what: at for at, group in enumerate(groups)}
    return [
        ProcessMeta(
            group=place[grouped([each])[0].what] if groups else 0,
            frame=frame + at,
            pid=each.pid,
            command=_command_line(each.argv),
            parent=each.parent,
            how=each.how,
            began=(began := max(0, each.began_ns or 0)),
            end=None if each.wall_ns is None else began + each.wall_ns,
            cut_off=each.end == CUT_OFF,
        )
        for at, each in enumerate(figures)
    ]


def _threads(
    profile: Profile, figures: Sequence[ProcessFigures], n_samples: list[int], n_exact: list[int]
) -> list[ThreadMeta]:
    lost = dict.fromkeys(profile.threads, 0)
    for loss in profile.losses:
        lost[loss.thread] += loss.samples
    processes = {each.id: at for at, each in enumerate(figures)}
    return [
        ThreadMeta(
            process=processes[thread.process],
            name=thread.name,
            tid=thread.tid,
            samples=samples,
            exact=exact,
            cpu_ns=thread.cpu_ns,
            lost=lost[thread.id],
        )
        for thread, samples, exact in zip(profile.threads.values(), n_samples, n_exact, strict=True)
    ]


# Single calls that were kept, and the lines that were counted, for the page.

MAX_CALLS = 20_000  # the slowest ones
STATES = ("returned", "raised", "partial")  # web/src/columns.ts has these, too.


def add_calls(profile: Profile, tree: Tree, strings: Strings, columns: Columns) -> int:
    """Add the slowest calls in order of time; returns how many there are in all."""
    start_ns = profile.process.start_ns or 0
    threads = {thread: at for at, thread in enumerate(profile.threads)}
    calls = sorted(
        nlargest(MAX_CALLS, profile.calls, key=lambda call: call.end_ns - call.begin_ns),
        key=itemgetter(3),  # begin_ns
    )
    frames = (tree.number(profile.nodes.frame[call.node]) for call in calls)
    columns.add("call.thread", (threads[call.thread] for call in calls))
    columns.add("call.frame", frames)
    columns.add("call.begin", steps(max(0, call.begin_ns - start_ns) for call in calls))
    columns.add("call.duration", (call.end_ns - call.begin_ns for call in calls))
    columns.add("call.busy", (call.busy_ns for call in calls))
    columns.add("call.state", (STATES.index(call.state) for call in calls))
    columns.add("call.attributes", (strings.number(call.attributes or "") for call in calls))
    return len(profile.calls)


def add_lines(profile: Profile, strings: Strings, columns: Columns) -> None:
    """Add hits and times of the lines that a run with --lines recorded."""
    rows = [(each.file, line) for each in function_lines(profile) for line in each.lines]
    columns.add("line.file", (strings.number(file) for file, _ in rows))
    columns.add("line.line", (line.line for _, line in rows))
    columns.add("line.hits", (line.hits for _, line in rows))
    columns.add("line.total", (line.total_ns for _, line in rows))


# The steps of a training, for the page: when each was, what its phases took, why it was slow.


def add_steps(profile: Profile, columns: Columns) -> StepsMeta | None:
    """Add the steps in order of time; returns what is known of all; None: there are none."""
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
    slowest = [WhySlow(slow.number, why_slow(slow, median_ns)) for slow in report.slowest]
    return StepsMeta(phases, median_ns, slowest)


MOST_MEMORY_CALLS, MOST_MEMORY_STEPS = 6, 500


def memory_meta(profile: Profile) -> MemoryMeta | None:
    """Return what the page has of memory (--torch memory); None: nothing was followed."""
    if not (found := memory_of(profile)):
        return None
    calls = [
        PageMemoryCall(call_text(each), each.at_peak, each.per_step, each.holders)
        for each in [*memory_rows(found), *(c for d in found.devices for c in d.calls)]
    ][:MOST_MEMORY_CALLS]
    texts = [line for line in memory_listing(found) if isinstance(line, str)][:3]
    shown = found.steps[:: len(found.steps) // MOST_MEMORY_STEPS + 1]
    return MemoryMeta(texts, calls, [(each.peak, each.alive) for each in shown])


# A GPU's work for the page: time by call path, and single activities of each stream.

MAX_ACTIVITIES = 50_000  # the longest ones: some 6 bytes each
GPU_TICK_NS = 100  # of their times


def add_gpu(profile: Profile, tree: Tree, strings: Strings, columns: Columns) -> GpuMeta | None:
    """Add it; returns what the page has beside the columns; None: nothing is known of a GPU."""
    if not profile.gpu:
        return None
    start_ns = profile.process.start_ns or 0
    streams = sorted({(work.device, work.stream) for work in profile.gpu})
    row_of = {work.id: at for at, work in enumerate(profile.gpu)}
    columns.add("gpu.node", (tree.folded.of_node[work.node] for work in profile.gpu))
    columns.add("gpu.ns", (work.ns for work in profile.gpu))
    columns.add("gpu.launches", (work.launches for work in profile.gpu))
    columns.add("gpu.backward", (work.backward for work in profile.gpu))
    columns.add("gpu.name", (strings.number(work.name) for work in profile.gpu))
    columns.add("gpu.stream", (streams.index((w.device, w.stream)) for w in profile.gpu))
    longest = nlargest(
        MAX_ACTIVITIES, profile.gpu_activities, key=lambda each: each.end_ns - each.begin_ns
    )
    shown = sorted(longest, key=lambda each: (each.begin_ns, each.work))
    begins = [max(0, each.begin_ns - start_ns) // GPU_TICK_NS for each in shown]
    columns.add("activity.work", (row_of[each.work] for each in shown))
    columns.add("activity.begin", steps(begins))
    columns.add("activity.ticks", ((e.end_ns - e.begin_ns) // GPU_TICK_NS for e in shown))
    # How long it waited; 0: that is not known.
    lags = ((e.begin_ns - e.launch_ns) // GPU_TICK_NS if e.launch_ns else 0 for e in shown)
    columns.add("activity.lag", (max(0, lag) for lag in lags))
    windows = [
        (max(0, each.begin_ns - start_ns), each.end_ns - start_ns) for each in profile.gpu_windows
    ]
    n_left_out = sum(work.launches for work in profile.gpu) - len(shown)
    return GpuMeta(GPU_TICK_NS, streams, windows, n_left_out)


# The source text that the page has: the program's own files, and of libraries what is hot.

AROUND = 12  # lines before and after a hot one of a library
HOT = 0.001  # share of the samples, from which on a library's line is
MAX_LINES = 20_000  # of a file
MAX_CHARACTERS = 2_000_000  # of all


def sources(
    profile: Profile, by_line: Counter[tuple[str, int]], others: Mapping[str, str]
) -> tuple[list[SourceFile], list[str]]:
    """Return the files and their texts, those with most samples first.

    `others`: the text of what has no file.
    """
    files = Sources(profile.meta)
    least = HOT * sum(row.weight_ns for row in profile.sampled) / profile.period_ns
    weights: Counter[str] = Counter()
    hot: defaultdict[str, set[int]] = defaultdict(set)
    for (file, line), n in by_line.items():
        weights[file] = max(weights[file], n)
        if n >= least:
            hot[file].add(line)
    recorded = {each.file for each in function_lines(profile)}
    known, texts, room = [], [], MAX_CHARACTERS
    for file in [*recorded, *(file for file, _ in weights.most_common() if file not in recorded)]:
        wanted: Iterable[int] = range(1, MAX_LINES)
        is_foreign = file not in others and is_librarys(file)
        if file not in recorded and is_foreign:
            wanted = {at for line in hot[file] for at in range(line - AROUND, line + AROUND + 1)}
        if not wanted:
            continue
        if file in others:
            source = Source(dict(enumerate(others[file].split("\n"), 1)), "")
        else:
            source = files.lines(file, wanted)
        text = "\n".join(source.lines[line] for line in sorted(source.lines))
        if source.lines and len(text) <= room:
            room -= len(text)
            known.append(SourceFile(file, source.note, is_foreign, _runs(source.lines)))
            texts.append(text)
    return known, texts


def _runs(lines: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for line in sorted(lines):
        if runs and line == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], line
        else:
            runs.append((line, line))
    return runs
