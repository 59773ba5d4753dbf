"""The screen of `pyhybrid live` as lines: what each level shows, in so many columns.

Nothing here knows of a terminal: a line is a list of (text, style), as in report/terminal.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pyhybrid.base.structs import Struct, made
from pyhybrid.live.functions import Function
from pyhybrid.live.model import FunctionNow, Now, Question
from pyhybrid.live.steps import StepsNow
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, cut_line
from pyhybrid.views.labels import shorten_file

MIN_COLUMNS, MIN_LINES = 60, 12
FUNCTIONS, TREE, STEPS, THREADS, PROCESSES, HELP = (
    "functions",
    "tree",
    "steps",
    "threads",
    "processes",
    "help",
)
CHOSEN, GROWS, FALLS, HEAD = "7", "32", "31", "1;4"  # styles, of SGR as those of terminal.py
_LOST, _OURS = 0.01, 0.25  # from which shares on these are worth a warning
KEYS = (
    ("1-7 < >", "sort by a column"),
    ("up down", "choose a row"),
    ("Enter", "what the chosen function calls, and its callers; the chosen thread or process"),
    ("Esc", "back"),
    ("Tab", "functions, steps"),
    ("/", "functions whose name contains a text"),
    ("n", "Python functions alone, with the native code below them; or all"),
    ("i", "count waiting, too (--clock wall)"),
    ("t", "threads"),
    ("P", "processes"),
    ("p Space", "pause"),
    ("r", "count seconds and calls from now on"),
    ("f", "freeze: a profile of what was recorded until now"),
    ("+ -", "read anew more often, less often"),
    ("q", "quit"),
)


class State(Struct):
    """Hold what is shown: the level, which row is chosen, from which one on it is shown."""

    level: str = FUNCTIONS
    question: Question = made(Question)
    chosen: int = 0
    follows: object = None  # what the chosen row is of, where that is to stay chosen
    first: int = 0
    is_paused: bool = False
    typed: str | None = None  # of a text that is being typed
    message: str = ""
    directory: str = ""
    title: str = ""


class _Column(NamedTuple):
    name: str
    width: int
    text: Callable[[FunctionNow], str]
    sort: str = ""


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _whole(value: float) -> str:
    return f"{100 * value:.0f}" if value >= 0.005 else ""


def _count(value: float | None) -> str:
    if value is None:
        return ""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 10 * size:
            return (
                f"{value / size:.1f}{unit}" if value < 100 * size else f"{value / size:.0f}{unit}"
            )
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def time_text(seconds: float | None) -> str:
    """Return a time in three digits."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return (
                f"{seconds / size:.3g} {unit}"
                if seconds < 100 * size
                else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds / 1e-9:.0f} ns"


_TRENDS = {1: ("▲", GROWS), -1: ("▼", FALLS), 0: (" ", "")}
COLUMNS = (
    _Column("%own", 6, lambda f: _percent(f.own), "own"),
    _Column("%total", 7, lambda f: _percent(f.total), "total"),
    _Column("own s", 8, lambda f: f"{f.own_s:.2f}", "own_s"),
    _Column("total s", 8, lambda f: f"{f.total_s:.2f}", "total_s"),
    _Column("calls/s", 8, lambda f: _count(f.calls_per_s), "calls_per_s"),
    _Column("a call", 8, lambda f: time_text(f.mean_s), "mean_s"),
    _Column("%GIL", 5, lambda f: _whole(f.gil), "gil"),
    _Column("py", 4, lambda f: _whole(f.python)),
    _Column("nat", 4, lambda f: _whole(f.native)),
    _Column("krn", 4, lambda f: _whole(f.kernel)),
)
SORTS = tuple(each.sort for each in COLUMNS if each.sort)
_LEFT_OUT = ("own s", "py", "nat", "krn", "total s", "a call", "%GIL")  # where it is narrow
_NAME_LEAST = 30


def columns_for(width: int) -> list[_Column]:
    """Return those that leave room for names."""
    shown = list(COLUMNS)
    for name in _LEFT_OUT:
        if sum(each.width for each in shown) + _NAME_LEAST + 2 <= width:
            break
        shown = [each for each in shown if each.name != name]
    return shown


def label(function: Function, directory: str) -> str:
    """Return a function's name and where it is."""
    if function.kind == "python":
        return f"{function.name} ({shorten_file(function.file, directory)}:{function.line})"
    if function.kind == "native" and function.file:
        return f"{function.name} ({os.path.basename(function.file)})"
    return function.name


def screen(now: Now, state: State, width: int, height: int) -> list[Line]:
    """Return exactly so many lines; too few of them are one that says so."""
    if width < MIN_COLUMNS or height < MIN_LINES:
        text = f"{width} x {height} is too small: {MIN_COLUMNS} x {MIN_LINES} is needed"
        return [[(text[:width], WARN)], *([] for _ in range(height - 1))]
    head = list(_head(now, state, width))
    body = _BODIES[state.level](now, state, width)
    titles, rows = body
    room = height - len(head) - len(titles) - 1
    state.chosen = max(0, min(_followed(now, state), len(rows) - 1))
    if state.chosen < state.first:
        state.first = state.chosen
    state.first = max(min(state.first, len(rows) - room), state.chosen - room + 1, 0)
    lines = head + titles
    for at, row in enumerate(rows[state.first : state.first + room], state.first):
        if at == state.chosen and state.level in (FUNCTIONS, THREADS, PROCESSES):
            text = "".join(part for part, _ in row)
            row = [(f"{text:<{width}}", CHOSEN)]
        lines.append(row)
    lines += [[] for _ in range(height - 1 - len(lines))]
    lines.append(_foot(state))
    return [cut_line(line, width) for line in lines]


def identity(now: Now, state: State) -> object:
    """Return what the chosen row is of; None: of nothing that moves."""
    if state.level == FUNCTIONS and state.chosen < len(now.functions):
        return now.functions[state.chosen].number
    if state.level == THREADS and 0 < state.chosen <= len(now.of_threads):
        of = now.of_threads[state.chosen - 1]
        return of.pid, of.number
    return None


def _followed(now: Now, state: State) -> int:
    """Return where the chosen row is by now."""
    if state.follows is None:
        return state.chosen
    if state.level == FUNCTIONS:
        rows: list[object] = [each.number for each in now.functions]
    else:
        rows = [None, *((each.pid, each.number) for each in now.of_threads)]
    return rows.index(state.follows) if state.follows in rows else state.chosen


def _head(now: Now, state: State, width: int) -> Iterator[Line]:
    runs = [each for each in now.processes if each.runs]
    which = state.title
    if len(now.processes) > 1:
        which += f"  {len(now.processes)} processes, {len(runs)} run"
    is_over = "ended" if now.ended else "paused" if state.is_paused else ""
    right = f"{_clock(now.seconds)}, the last {now.window_s:.0f} s "
    left = f"pyhybrid live  {which}"
    room = width - len(right) - len(is_over) - 2
    yield [(f"{left[:room]:<{room}} ", STRONG), (is_over, WARN), (f" {right}", DIM)]
    sampled = now.clock != ""
    facts: Line = [(f"CPU {100 * now.cpu:.0f} %", STRONG), (f"  threads {now.threads}", "")]
    if sampled and now.mode != "trace":
        waited = f", waited for {100 * now.gil_waited:.0f} %" if now.gil_waited >= 0.005 else ""
        facts += [(f"  GIL held {100 * now.gil_held:.0f} %{waited}", "")]
        facts += [(f"  {now.samples_per_s:,.0f} samples/s", "")]
        facts += [(f"  lost {100 * now.lost:.1f} %", WARN if now.lost > _LOST else "")]
    if now.ours >= 0.01:
        facts += [(f"  pyhybrid itself {100 * now.ours:.0f} %", WARN if now.ours > _OURS else DIM)]
    yield facts
    if now.steps:
        yield _step_line(now.steps)
    yield []


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"


def _step_line(steps: StepsNow) -> Line:
    largest = sorted(steps.phases.items(), key=lambda item: -item[1])[:3]
    phases = ", ".join(f"{name} {time_text(s)}" for name, s in largest if s)
    return [
        (f"steps {steps.kind} {steps.steps_per_s:.3g}/s", STRONG),
        (f"  median {time_text(steps.median_s)}, last {time_text(steps.last_s)}", ""),
        (f"  ({phases})", DIM),
    ]


_Body = tuple[list[Line], list[Line]]  # titles, rows


def _functions(now: Now, state: State, width: int) -> _Body:
    shown = columns_for(width)
    titles: Line = []
    for each in shown:
        mark = "▾" if each.sort and each.sort == state.question.sort else ""
        titles.append((f"{each.name + mark:>{each.width}}", HEAD if mark else DIM))
    titles.append(("   function", DIM))
    rows: list[Line] = []
    for of in now.functions:
        cells = "".join(f"{each.text(of):>{each.width}}" for each in shown)
        style = "" if of.function.kind == "python" else DIM
        rows.append([(cells, ""), (" ", ""), _TRENDS[of.trend], (" ", "")])
        rows[-1].append((label(of.function, state.directory), style))
    if not rows:
        rows = [[("nothing ran", DIM)]]
    return [titles], rows


def _tree(now: Now, state: State, width: int) -> _Body:
    tree = now.tree
    if tree is None or not tree.below:
        return [[("nothing of it ran in the last seconds (Esc: back)", DIM)]], []
    rows: list[Line] = [[("called by", STRONG)]]
    for function, share in tree.callers:
        name = label(function, state.directory) if function.name else "nothing: it is outermost"
        rows.append([(f"{_percent(share):>7}%  ", ""), (name, "")])
    rows += [[], [(f"{'%total':>7}{'%own':>7}{'calls/s':>9}  what it calls", STRONG)]]
    for each in tree.below:
        figures = f"{_percent(each.total):>7}{_percent(each.own):>7}{_count(each.calls_per_s):>9}  "
        style = "" if each.function.kind == "python" else DIM
        indent = "  " * min(each.depth, 20)
        rows.append([(figures, ""), (indent + label(each.function, state.directory), style)])
    return [], rows


def _steps(now: Now, state: State, width: int) -> _Body:
    steps = now.steps
    if steps is None:
        why = "no steps are known: an optimizer or a model of PyTorch makes them, where calls are"
        return [[(f"{why} counted (Tab: functions)", DIM)]], []
    rows: list[Line] = [
        [(f"the last {steps.n:,} steps {steps.kind}, {steps.steps_per_s:.3g} a second", STRONG)],
        [(f"{'':14}{'median':>10}{'last':>10}{'share':>8}", DIM)],
        [(f"{'step':14}{time_text(steps.median_s):>10}{time_text(steps.last_s):>10}", "")],
    ]
    of_all = sum(steps.phases.values()) or 1
    for name, seconds in sorted(steps.phases.items(), key=lambda item: -item[1]):
        share, last = seconds / of_all, time_text(steps.last_phases.get(name))
        bar = "█" * round(share * 30)
        figures = f"{name:14}{time_text(seconds):>10}{last:>10}{_percent(share):>7}%  "
        rows.append([(figures, ""), (bar, GROWS)])
    rows.append([(f"slowest of the last {time_text(steps.slowest_s)}", "")])
    if steps.tokens_per_s:
        rows.append([(f"tokens {_count(steps.tokens_per_s)}/s", "")])
    most = max(steps.times_s)
    bars = "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * each / most))] for each in steps.times_s)
    rows += [[], [("the last ones  ", DIM), (bars, GROWS)]]
    return [], rows


def _threads(now: Now, state: State, width: int) -> _Body:
    rows: list[Line] = [[("all threads", "")]]
    for each in now.of_threads:
        text = f"{_percent(each.share):>7}{_whole(each.gil):>7}  {each.name}"
        rows.append([(text + (f"  of {each.pid}" if len(now.processes) > 1 else ""), "")])
    return [[(f"{'%CPU':>7}{'%GIL':>7}  thread (Enter: of this one alone)", DIM)]], rows


def _processes(now: Now, state: State, width: int) -> _Body:
    rows: list[Line] = [[("all processes", "")]]
    for each in now.processes:
        runs = "" if each.runs else "  ended"
        rows.append([(f"{each.pid:>8}{100 * each.cpu:>6.0f} %  {each.command}{runs}", "")])
    return [[(f"{'pid':>8}{'CPU':>8}  process (Enter: of this one alone)", DIM)]], rows


def _help(now: Now, state: State, width: int) -> _Body:
    rows: list[Line] = [[(f"{key:>9}  ", STRONG), (text, "")] for key, text in KEYS]
    notes = [
        "",
        "%own, %total: of all that was sampled in the last seconds, in it and with what it calls",
        "own s, total s: the same since the begin, in seconds (r: from now on)",
        "calls/s, a call: counted, not sampled; a call's time is wall-clock time",
        "%GIL: of its samples, when the thread had the GIL; py, nat, krn: of its time, with what",
        "it calls, in Python, native code, and the kernel.  ▲▼: grows, falls, by more than chance",
    ]
    return [], rows + [[(each, DIM)] for each in notes]


_BODIES: dict[str, Callable[[Now, State, int], _Body]] = {
    FUNCTIONS: _functions,
    TREE: _tree,
    STEPS: _steps,
    THREADS: _threads,
    PROCESSES: _processes,
    HELP: _help,
}


def _foot(state: State) -> Line:
    if state.typed is not None:
        return [(f"/{state.typed}_", STRONG), ("  Enter: show these, Esc: all", DIM)]
    if state.message:
        return [(state.message, WARN)]
    keys = "q quit  h help  Enter tree  Tab steps  1-7 sort  / filter  t threads  p pause  f freeze"
    text = f"  shown: {state.question.text!r}" if state.question.text else ""
    return [(keys, DIM), (text, WARN)]
