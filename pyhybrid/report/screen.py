"""The summary on one screen: when a run ends at most 24 lines, as wide as the terminal.

`pyhybrid report` fills the terminal, with the heaviest paths of the call tree below.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from time import gmtime, strftime
from typing import Any, TextIO

from pyhybrid.base.terminal_text import visible
from pyhybrid.report.cautions import cautions
from pyhybrid.report.ellipsis import around, middle
from pyhybrid.report.processes import group_columns
from pyhybrid.report.run_parts import Run
from pyhybrid.report.step_listing import steps_text
from pyhybrid.report.summary import CallDurations, Counter, Function, Summary
from pyhybrid.report.table import Column, Table, seconds, share, text
from pyhybrid.report.terminal import (
    DIM,
    FACT_COLUMNS,
    NOTE_LINES,
    STRONG,
    USUAL_COLUMNS,
    WARN,
    Line,
    cut_line,
    fact,
    height_of,
    lines_of,
    note_lines,
    show,
)
from pyhybrid.report.training import took_text
from pyhybrid.report.tree import STEP, CallTree
from pyhybrid.symbols.plumbing import is_interpreter
from pyhybrid.views.findings import SHOWN, Finding
from pyhybrid.views.gpu import GpuSummary
from pyhybrid.views.labels import (
    bare,
    count,
    short_time,
    shorten_native,
)
from pyhybrid.views.lines.program_tree import TreeRow
from pyhybrid.views.lines.python_lines import FunctionLines
from pyhybrid.views.processes import Unprofiled
from pyhybrid.views.waits import Waits

MAX_LINES = 24  # when a run ends
TALL = 32  # of a report
MIN_SHARE = 0.002  # of what a report's tables have
N_NOTES, N_TRACED, N_DURATIONS, N_COUNTERS = 2, 14, 2, 2
N_LINES, MOST_PROGRAM_LINES, MAX_PLACE = 3, 5, 40
MIN_SELF, N_GPU, N_NATIVE = 4, 3, 3
ROOMY_TREE = 6  # lines: with fewer the tree has all that is left
CHAINED = 0.95  # of a row's share: so much is one function's, it is one row with that
LEAST_NATIVE = 0.05  # of the samples: less in itself is no native function for the first screen
LEAST_UNPLACED = 0.01
FINDING_LINES = CAUTION_LINES = WAITED_LINES = 2
LEAST_DELAY, LEAST_DELAY_NS = 0.05, 50_000_000  # share of the wall-clock time, and time
LEAST_OUTSIDE = 0.05  # of the samples: then it is shown that they are in none of the steps
LEAST_END, LEAST_END_NS = 0.02, 20_000_000  # share of the CPU time, and time
LEAST_WAIT_NS = 5_000_000  # shorter ones are 0.00 s
N_WAITED, N_GROUPS = 3, 4
N_CHILDREN, CHILDREN_LINES = 4, 2
PLACES = ("function", "caller", "holder", "place", "module", "most")  # in a finding's evidence
FOLDERS = re.compile(r"[^\s()]*/(?=[^\s()/]+:\d)")  # of a file and its line


def print_summary(summary: Summary, stream: TextIO) -> None:
    """Print it on `stream`; a stream that is gone is no error."""
    with suppress(OSError):
        show(lambda columns: render(summary, columns), stream)


def print_written(paths: list[str], notes: list[str], stream: TextIO) -> None:
    """Print what follows a summary that was printed before these files were made; so `stream` may
    be gone, too."""

    def lines(columns: int) -> list[Line]:
        more = [line for note in notes for line in note_lines("note", note, columns, WARN)]
        if paths:
            more.append(fact("wrote", _files(paths)))
        return [cut_line(line, columns) for line in more]

    with suppress(OSError):
        show(lines, stream)


def print_report(summary: Summary, tree: CallTree, stream: TextIO, height: int | None) -> None:
    """Print it with its hot paths on one screen, or in `height` lines.

    What is no terminal has room for as much as the largest screen.  Raises OSError.
    """
    lines = height or height_of(stream)
    show(lambda columns: render_report(summary, tree, columns, lines), stream)


def render(summary: Summary, columns: int = USUAL_COLUMNS) -> list[Line]:
    """Return the lines, none longer than `columns`."""
    lines, last = [*_facts(summary, columns), [("", "")]], _last(summary)
    lines += _findings(summary, columns, SHOWN, MAX_LINES - len(lines) - len(last))
    lines += _table(group_columns(), summary.processes[:N_GROUPS], columns)
    lines += _program_lines(summary, columns, N_LINES)
    room = MAX_LINES - len(lines) - len(last) - 1
    native = _native_functions(summary, columns)
    if len(native) > room - ROOMY_TREE:
        native = []
    lines += _tree(summary, columns, room - len(native))
    if not summary.samples.recorded:
        lines += _functions(summary, columns, MAX_LINES - len(lines) - len(last) - 1, 0)
    return _screen([*lines, *native], last, columns, MAX_LINES)


def render_report(summary: Summary, tree: CallTree, columns: int, height: int) -> list[Line]:
    """Return the summary in `height` lines (at least 23), mostly the tree's heaviest paths."""
    is_tall, last = height > TALL, _last(summary)
    note = NOTE_LINES if is_tall else 1
    lines = [*_facts(summary, columns, summary.run.start_unix_ns, note), [("", "")]]
    most, room = SHOWN + 2 * is_tall, height - len(lines) - len(last)
    lines += _findings(summary, columns, most, room, is_tall)
    room = height - len(lines) - len(last) - 3  # headings
    n_lines = max(1, min(MOST_PROGRAM_LINES, room // 5))
    program = _program_lines(summary, columns, n_lines, MIN_SHARE)
    lines += program
    room -= len(program)
    n_self, n_python = max(2, room * 3 // 10), max(1, room // 5)
    if not summary.samples.recorded:
        n_self = max(MIN_SELF, room // 2)
    lines += _functions(summary, columns, n_self, n_python, MIN_SHARE)
    lines += _gpu_functions(summary, columns)
    left = height - len(lines) - len(last)
    if left > 1:
        head, *paths = tree.hot_lines(left - 1, columns)
        lines += [[(head, DIM)], *([(path, "")] for path in paths)] if paths else []
    return _screen(lines, last, columns, height)


def _screen(lines: list[Line], last: list[Line], columns: int, height: int) -> list[Line]:
    """Return what fits of `lines`, cut before a heading rather than after it, and the last ones."""
    shown = lines[: height - len(last)]
    while len(shown) < len(lines) and len(shown[-1]) == 1 and shown[-1][0][1] == DIM:
        shown.pop()
    return [cut_line(line, columns) for line in shown + last]


def _last(s: Summary) -> list[Line]:
    lines = [fact("wrote", _files(s.written))] if s.written else []
    if s.lines:
        lines.append(fact("lines", _lines(s.lines, s.file)))
    return lines


def _lines(functions: list[FunctionLines], file: str) -> str:
    n = sum(len(function.lines) for function in functions)
    folder, name = os.path.split(file)
    shown = name if folder in ("", _working_directory()) else file
    command = "pyhybrid report lines" + (f" {shown}" if shown != "out.pyhybrid" else "")
    return f"{n} of {len(functions)} functions: `{command}` shows them"


def _findings(s: Summary, columns: int, most: int, room: int, is_tall: bool = False) -> list[Line]:
    """Return what stands out; each has one line where two of each are more than `room` has."""
    shown = s.findings[:most]
    n_lines = FINDING_LINES if FINDING_LINES * len(shown) <= room else 1
    return [line for each in shown for line in _finding(each, columns, n_lines, is_tall)]


def _finding(each: Finding, columns: int, most: int, is_tall: bool) -> list[Line]:
    """Return at most so many lines, with the command that shows it where there is room behind the
    text, or on a tall screen below it.
    """
    text = _shortened(each, columns - FACT_COLUMNS, most)
    lines = note_lines("found", text, columns, STRONG, most)
    command, left = f"`{each.command}`", columns - sum(len(text) for text, _ in lines[-1])
    if len(f": {command}") <= left:
        lines[-1].append((f": {command}", DIM))
    elif is_tall and left and len(lines) < most and len(command) <= columns - FACT_COLUMNS:
        lines[-1].append((":", DIM))
        lines.append([*fact("", "")[:1], (command, DIM)])
    return lines


def _shortened(each: Finding, columns: int, most: int) -> str:
    """Return its text within so many lines: without folders, then without the rest but places."""
    places = [visible(each.evidence[key]) for key in PLACES if key in each.evidence]
    text = visible(each.text)
    if lines_of(text, columns) <= most:
        return text
    text, *places = (FOLDERS.sub("…/", part) for part in (text, *places))
    starts = [(at, place) for place in places if (at := text.rfind(f" {place}") + 1)]
    kept = slice(
        min((at for at, _ in starts), default=0),
        max((at + len(place) for at, place in starts), default=0),
    )
    sizes = range(most * columns, columns - 1, -1)  # words leave columns free where a line ends
    shorter = (around(text, kept, size) for size in sizes)
    return next(part for part in shorter if lines_of(part, columns) <= most)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the program removed it
        return ""


def _files(paths: list[str]) -> str:
    """Return the files, those beside the first one by their names: `a, b in /folder; /tmp/c`."""
    folder = os.path.dirname(paths[0])
    beside = [p for p in paths if os.path.dirname(p) == folder]
    where = "" if not folder or folder == _working_directory() else f" in {folder}"
    names = ", ".join(map(os.path.basename, beside)) + where
    return "; ".join([names, *(p for p in paths if p not in beside)])


def _facts(
    s: Summary, columns: int, start_unix_ns: int | None = None, most: int = NOTE_LINES
) -> list[Line]:
    """Return the facts; `start_unix_ns`: it is printed, too; `most`: lines of a note."""
    began = strftime("; began %Y-%m-%d %H:%M UTC", gmtime((start_unix_ns or 0) / 1e9))
    run = s.run
    argv = " ".join([os.path.basename(run.argv[0]), *run.argv[1:]]) if run.argv else "?"
    lines: list[Line] = [
        [
            ("pyhybrid ", STRONG),
            (f"{argv}  ", STRONG),
            (f"pid {run.pid}, Python {run.python}", DIM),
        ],
        fact("time", _time(run) + (began if start_unix_ns else "")),
    ]
    if (run.end_cpu_ns or 0) >= max(LEAST_END_NS, LEAST_END * (run.cpu_ns or 0)):
        text = f"{short_time(run.end_cpu_ns or 0)} of CPU time after the program's, not sampled"
        lines.append(fact("end", f"[interpreter's end] {text}"))
    lines.append(_measured(s))
    if worse := cautions(s):
        lines += note_lines("caution", "; ".join(worse), columns, WARN, CAUTION_LINES)
    if s.waited:
        lines += note_lines("waited", _waited(s.waited), columns, "", WAITED_LINES)
    lines += [fact("duration", _duration(each)) for each in s.durations[:N_DURATIONS]]
    if s.steps:
        lines.append(fact("steps", f"{steps_text(s.steps)}: `pyhybrid report steps`"))
    if s.compiles:
        text = f"{took_text(s.compiles)}: `pyhybrid report compiles`"
        lines.append(fact("compile", text, bool(s.compiles.again)))
    if s.gpu:
        lines.append(fact("GPU", _gpu(s.gpu)))
    lines += [fact("counter", _counter(each)) for each in s.counters[:N_COUNTERS]]
    if len(s.counters) > N_COUNTERS or s.metadata:
        text = f"{len(s.counters)} counters and {len(s.metadata)} facts that native code told"
        lines.append(fact("native", f"{text}: `pyhybrid report --json`"))
    if run.unprofiled and run.unprofiled.much:
        text = _children(run, run.unprofiled)
        lines += note_lines("children", text, columns, WARN, CHILDREN_LINES)
    if run.still_running:
        pids = ", ".join(map(str, run.still_running[:N_CHILDREN]))
        rest = " and more" if len(run.still_running) > N_CHILDREN else ""
        text = f"{pids}{rest} still ran: `pyhybrid merge` adds what is in PREFIX.pyhybrid.parts"
        lines += note_lines("children", text, columns, WARN, CHILDREN_LINES)
    if run.snapshot:
        lines.append(fact("note", f"a snapshot ({run.snapshot}): the program goes on"))
    elif not run.complete:
        lines.append(fact("note", "the process was killed, or its end is missing", True))
    for note in s.notes[:N_NOTES]:
        lines += note_lines("note", note, columns, WARN, most)
    if len(s.notes) > N_NOTES:
        more = f"and {len(s.notes) - N_NOTES} more in `pyhybrid report --json`"
        lines.append(fact("", more))
    return lines


def _children(run: Run, others: Unprofiled) -> str:
    of = f" of {run.n_processes - 1 + others.n}" if run.n_processes > 1 else ""
    plural = "es" if others.n > 1 or of else ""
    text = f"{others.n}{of} child process{plural} not profiled"
    if others.cpu_ns:
        text += f", {others.cpu_ns / 1e9:.2f} s of CPU time"
    kinds = [f"{n} {kind}" for kind, n in others.kinds.items()]
    names = kinds or (run.children if run.n_processes == 1 else [])
    rest = f" and {len(names) - N_CHILDREN} more" if len(names) > N_CHILDREN else ""
    return text + (f" ({', '.join(names[:N_CHILDREN])}{rest})" if names else "")


def _waited(waits: Waits) -> str:
    parts = []
    if waits.waited_ns >= LEAST_WAIT_NS or waits.idle_ns > waits.total_ns / 100:
        idle = f", idle {waits.idle_ns / 1e9:.2f} s" if waits.idle_ns > waits.total_ns / 100 else ""
        seconds = f"{waits.waited_ns / 1e9:.2f} of threads' {waits.total_ns / 1e9:.2f} s"
        parts.append(f"{seconds} in Python{idle}")
    for each in waits.functions[:N_WAITED]:
        parts.append(f"{each.waited_ns / 1e9:.2f} s {FOLDERS.sub('', each.name)}")
    if n := waits.unknown_threads:
        threads = f"{n} {'other ' if parts else ''}thread{'s' if n > 1 else ''}"
        seconds = f"{waits.unknown_ns / 1e9:.2f} s"
        parts.append(f"{threads} waited or had no processor for {seconds}: which is not known")
    return "; ".join(parts)


def _gpu(gpu: GpuSummary) -> str:
    devices = f"{gpu.devices} GPUs, " if gpu.devices > 1 else ""
    known = gpu.below_no_call_ns / gpu.total_ns if gpu.total_ns else 0
    lost = f"; {known:.0%} of it below no call" if known >= LEAST_UNPLACED else ""
    recorded = f"{devices}recorded for {short_time(gpu.recorded_ns)}, busy {gpu.busy:.0%} of it"
    return f"{recorded}; {gpu.launches:,} kernels and copies: {short_time(gpu.total_ns)}{lost}"


def _counter(each: Counter) -> str:
    mean = each.sum / each.n
    values = f"sum {each.sum:g}, mean {mean:g}, from {each.min:g} to {each.max:g}"
    return f"{each.name}: {each.n:,} values, {values}"


def _time(run: Run) -> str:
    wall = "?" if run.wall_ns is None else f"{run.wall_ns / 1e9:.2f} s"
    cpu = "?" if run.cpu_ns is None else f"{run.cpu_ns / 1e9:.2f} s"
    delay_ns = run.main_delay_ns or 0
    if delay_ns >= max(LEAST_DELAY_NS, LEAST_DELAY * (run.wall_ns or 0)):
        cpu += f", ready without a processor {delay_ns / 1e9:.2f} s"
    threads = f"{run.n_threads} thread{'s' * (run.n_threads != 1)}"
    return f"wall {wall}, CPU {cpu}; {threads}, {run.n_busy_threads} busy"


def _measured(s: Summary) -> Line:
    """Return what was counted, and how often the clock gave a sample."""
    run, clock, calls = s.run, s.clock, s.calls
    of = f"of {_time_title(s)} time"
    only = f" of the threads {', '.join(clock.wall_threads)}" if clock.wall_threads else ""
    asked = f"{clock.hz_asked} Hz asked"
    if not calls:
        return fact("samples", f"{s.samples.recorded:,} {of}{only}, {asked}")
    c = calls.c_calls
    by_c = "" if c is None else f", {c:,} of {calls.n_c_traced:,} C functions"
    but = " but what compilers call" if s.compiles and not s.compiler_calls else ""
    if n := sum(each.cut_off for each in s.processes):
        but += f" but the last tenth of a second of {n} process{'es' * (n > 1)} cut off"
    counted = f"{calls.calls:,} of {calls.n_traced:,} Python functions{by_c}, all counted{but}"
    if run.mode == "trace":
        return fact("calls", counted)
    of = f" {of}{only}" if clock.kind == "wall" else ""
    return fact("calls", f"{counted}; {s.samples.recorded:,} samples{of}, {asked}")


def _duration(d: CallDurations) -> str:
    times = (("p50", d.p50_ns), ("p99", d.p99_ns), ("max", d.max_ns))
    text = ", ".join(f"{name} {short_time(ns)}" for name, ns in times)
    return f"{d.calls:,} calls, {text}: {d.name}"


def _percent(weight_ns: int, s: Summary) -> str:
    return share(weight_ns / ((s.samples.recorded_weight_ns - s.samples.own_weight_ns) or 1))


def _program_lines(s: Summary, columns: int, most: int, least_share: float = 0) -> list[Line]:
    least_ns = max(1, least_share * _base_ns(s))
    shown = [each for each in s.program_lines if each.weight_ns >= least_ns][:most]
    if not shown:
        return []
    title = f"line of the program, with what it called in libraries{_in_steps(s)}"
    lines: list[Line] = [[(f"  {_time_title(s):>5}      time  {title}", DIM)]]
    for each in shown:
        head = f"{share(each.weight_ns / _base_ns(s)):>7}{seconds(each.weight_ns):>10}  "
        place = f"{middle(os.path.basename(each.file), MAX_PLACE)}:{each.line}"
        text = each.text or f"in {each.function}"
        style, waits = (DIM, "  waits:") if each.waits else ("", "")
        lines.append([(head, style), (place, style or STRONG), (f"{waits}  {text}", style)])
    return lines + _outside(s)


def _base_ns(s: Summary) -> int:
    """Return of what lines and the tree have shares: of the steps of a training, or of the run."""
    run_ns = s.samples.recorded_weight_ns - s.samples.own_weight_ns
    return (s.in_steps.weight_ns if s.in_steps else run_ns) or 1


def _in_steps(s: Summary) -> str:
    return f", in {s.in_steps.n_steps:,} steps" if s.in_steps else ""


def _outside(s: Summary) -> list[Line]:
    """Return a row of what is in none of the steps."""
    run_ns = s.samples.recorded_weight_ns - s.samples.own_weight_ns
    left_ns = run_ns - s.in_steps.weight_ns if s.in_steps else 0
    if left_ns < LEAST_OUTSIDE * run_ns:
        return []
    what = f"{share(left_ns / run_ns)} of the run: imports, warm-up, what is between the steps"
    return [[(f"{'':>7}{seconds(left_ns):>10}  not in steps, {what}", DIM)]]


def _time_title(s: Summary) -> str:
    """Return what shares are of."""
    return "wall" if s.clock.kind == "wall" else "CPU"


def _tree(s: Summary, columns: int, most: int) -> list[Line]:
    """Return so many of the program's functions, as a tree."""
    every = _chains(s.tree)
    largest = sorted((row.share for row in every), reverse=True)[: max(0, most)]
    rows = [row for row in every if largest and row.share >= largest[-1]][:most]
    sampled = [Column(_time_title(s), 7, "weight_ns", lambda ns: share(ns / _base_ns(s)))]
    if not s.samples.recorded:
        sampled = []
    elif not s.calls:
        sampled.append(Column("time", 10, "weight_ns", seconds))
    exact = [Column("time", 10, "exact_total_ns", seconds), _CALLS] if s.calls else []
    title = f"function, with what it called in libraries{_in_steps(s)}"
    name = text(title, lambda row: STEP * row.depth + row.function)
    return _table([*sampled, *exact, name], rows, columns)


def _chains(rows: list[TreeRow]) -> list[TreeRow]:
    """Return the rows of the tree, where one whose time is nearly all that of the only row below it
    is one with that: `main > train (train.py:170)`."""
    rows, shown = [*rows], list[TreeRow]()
    above: list[int] = []  # how much less deep it is, of the rows on the way to this one
    for at, row in enumerate(rows):
        del above[row.depth :]
        less = above[-1] if above else 0
        below = [each.depth for each in rows[at + 1 :]]
        end = next((n for n, depth in enumerate(below) if depth <= row.depth), len(below))
        is_chained = below[:end].count(row.depth + 1) == 1 and _passes_on(row, rows[at + 1])
        above.append(less + is_chained)
        if is_chained:
            name = f"{bare(row.function)} > {rows[at + 1].function}"
            rows[at + 1] = rows[at + 1]._replace(function=name)
        else:
            shown.append(row._replace(depth=row.depth - less))
    return shown


def _passes_on(row: TreeRow, below: TreeRow) -> bool:
    """Is nearly all of it the other one's?  A function of the program keeps its own place."""
    return (
        row.kind == below.kind
        and row.calls == below.calls
        and below.share >= CHAINED * row.share
        and not row.function.startswith("[")
    )


def _native_functions(s: Summary, columns: int) -> list[Line]:
    """Return the first ones by what they took themselves, but for the interpreter's."""
    least_ns = max(1, LEAST_NATIVE * s.samples.recorded_weight_ns)
    shown = [
        each
        for each in s.functions
        if each.kind == "native" and each.self_ns >= least_ns and not _is_known(each.module or "")
    ]
    return _table(
        [*_self_columns(s), text("native function, itself", _short)],
        _waits_last(shown[:N_NATIVE]),
        columns,
    )


def _is_known(module: str) -> bool:
    """Is it of the interpreter, or its dynamic linker: no more than how Python runs?"""
    file = os.path.basename(module)
    return is_interpreter(file) or file.startswith("ld-linux")


def _self_columns(s: Summary) -> list[Column]:
    return [
        Column("self", 7, "self_ns", lambda ns: _percent(ns, s)),
        Column("time", 10, "self_ns", seconds),
    ]


def _functions(
    s: Summary, columns: int, n_self: int, n_python: int, least_share: float = 0
) -> list[Line]:
    if s.calls and not s.samples.recorded:
        return _traced(s, columns, n_self)
    least_ns = max(1, least_share * s.samples.recorded_weight_ns)
    by_self = [f for f in s.functions if f.self_ns >= least_ns][:n_self]
    python = sorted(s.functions, key=lambda f: -f.python_ns)
    by_python = [f for f in python if f.python_ns >= least_ns][:n_python]
    total = Column("total", 8, "total_ns", lambda ns: _percent(ns, s))
    rest = [total, *([_CALLS] if s.calls else [])]
    first = _self_columns(s)
    lines = _table([*first, *rest, text("function", _short)], _waits_last(by_self), columns)
    first = [
        first[0]._replace(title="below", of="python_ns"),
        first[1]._replace(of="python_ns"),
    ]
    title = "Python function, with the native code below it"
    return lines + _table([*first, *rest, text(title, _short)], _waits_last(by_python), columns)


def _gpu_functions(s: Summary, columns: int) -> list[Line]:
    """Return where the GPU's work was launched."""
    if not s.gpu or not s.gpu.total_ns:
        return []
    all_ns = s.gpu.total_ns
    table = (
        Column("on GPU", 7, lambda each: each.self_ns / all_ns, share),
        Column("total", 8, lambda each: each.total_ns / all_ns, share),
        _CALLS._replace(title="launches", of="launches"),
        text("function, by its own and all work that it launched", "name"),
    )
    return _table(table, s.gpu.functions[:N_GPU], columns)


def _traced(s: Summary, columns: int, most: int) -> list[Line]:
    """Return the functions by exact time, where there are no samples."""
    all_ns = s.calls.traced_ns or 1 if s.calls else 1
    table = (
        Column("self", 7, lambda f: f.exact_self_ns / all_ns, share),
        Column("time", 10, "exact_self_ns", seconds),
        Column("total", 8, lambda f: f.exact_total_ns / all_ns, share),
        _CALLS,
        text("function", "name"),
    )
    traced = [f for f in s.functions if f.exact_self_ns is not None]
    traced.sort(key=lambda f: -(f.exact_self_ns or 0))
    return _table(table, traced[:most], columns)


def _table(table: Sequence[Column], rows: Sequence[Any], columns: int) -> list[Line]:
    """Return a table of functions, whose names stand out; without rows nothing."""
    return [*Table(table, rows, lambda row: ("", STRONG)).lines(columns)] if rows else []


_CALLS = Column("calls", 11, "calls", lambda n: count(n).strip())


def _waits_last(functions: list[Function]) -> list[Function]:
    """Return those that are shown, what mostly waits for other threads below the others."""
    return sorted(functions, key=lambda each: each.waits)


def _short(function: Function) -> str:
    if function.waits:
        return f"waits: {_short(function._replace(waits=False))}"
    if function.kind != "native":
        return function.name
    short = shorten_native(function.name)
    module = os.path.basename(function.module or "")
    python_name = function.python_name or ""
    place = os.path.basename(function.declared_at or "")
    more = [text for text in (python_name, place, module) if text and text not in short]
    return f"{short} ({', '.join(more)})" if more else short
