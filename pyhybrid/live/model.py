"""What is known now of all processes that are followed: figures that the screen and JSON share.

A program's process and its children's are followed, each by its spool.  What is asked of them
(Question) is answered of the last seconds, the window, and of all since the begin or a reset.
"""

from __future__ import annotations

import heapq
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import sub

from pyhybrid._columns import GIL_SHIFT, add_up, rows_from
from pyhybrid.base.structs import Struct, made
from pyhybrid.capture.children import PART
from pyhybrid.errors import PyhybridError
from pyhybrid.live.follower import BeginsAnew
from pyhybrid.live.functions import LIBRARIES, Function, Functions
from pyhybrid.live.process import HELD, Moment, Process, plus
from pyhybrid.live.steps import StepsNow
from pyhybrid.spool.content import Ticks

WINDOW_S = 5.0
_TREND_LEAST = 3.0  # standard deviations


class Question(Struct):
    """Hold what is to be shown: of which process and of which of its threads (None: all), which
    functions (those whose name contains `text`), how many, in which order; with what waits where
    `idle`."""

    pid: int | None = None
    threads: set[int] | None = None
    text: str = ""
    sort: str = "own"
    most: int = 50
    idle: bool = False
    native: str = LIBRARIES  # functions.ALL, LIBRARIES, NO_NATIVE
    tree_of: int = 0  # the function whose tree is asked for; 0: none


class FunctionNow(Struct):
    """Hold a function's figures: shares (0 to 1) of all that is shown in the window, seconds and
    calls of all since the begin.  None: not known, as calls are of what is only sampled.

    `trend`: 1 where its own share grows within the window, -1 where it falls.
    """

    number: int
    function: Function
    own: float
    total: float
    python: float
    native: float
    kernel: float
    gil: float
    own_s: float
    total_s: float
    calls: int | None
    calls_per_s: float | None
    mean_s: float | None
    trend: int


class ProcessNow(Struct):
    """Hold what a process is."""

    pid: int
    command: str
    runs: bool
    cpu: float  # processors
    path: str


class ThreadNow(Struct):
    """Hold a thread's share of the samples of the window, and of those how many had the GIL."""

    pid: int
    number: int
    name: str
    share: float
    gil: float


class Branch(Struct):
    """Hold a function below another one: shares as of FunctionNow."""

    depth: int
    function: Function
    own: float
    total: float
    calls_per_s: float | None


class TreeNow(Struct):
    """Hold what a function called (`below`, itself first), and its callers with their shares of its
    time."""

    below: list[Branch] = made(list)
    callers: list[tuple[Function, float]] = made(list)


class Now(Struct):
    """Hold all: shares are of the time of the window, `lost` of all samples' weight in it.

    `gil_held` and `gil_waited` are threads: of those that ran, how many held it on average.
    """

    seconds: float  # since profiling began
    window_s: float
    cpu: float  # processors
    gil_held: float
    gil_waited: float
    threads: int
    samples_per_s: float
    lost: float
    mode: str
    clock: str
    functions: list[FunctionNow] = made(list)
    processes: list[ProcessNow] = made(list)
    of_threads: list[ThreadNow] = made(list)
    steps: StepsNow | None = None
    tree: TreeNow | None = None
    ours: float = 0.0  # the profiler's own share of all time that was sampled
    notes: list[str] = made(list)
    ended: bool = False
    reader: float = 0.0  # what reading takes of a processor


class Live:
    """Follow the spool at `path` and those of the process's children."""

    def __init__(self, path: str, window_s: float = WINDOW_S) -> None:
        """Open it.  Raises PyhybridError."""
        self.path = path
        self.functions = Functions()
        self.window_s = window_s
        self.processes = [Process(path, self.functions, window_s)]
        self._folder = path.removesuffix(".part") + ".parts"
        self._known: set[str] = set()

    def close(self) -> None:
        """Close all."""
        for each in self.processes:
            each.close()

    @property
    def is_begun(self) -> bool:
        """Has the first process recorded anything?"""
        return self.processes[0].follower.is_begun

    @property
    def runs(self) -> bool:
        """Does any process still record?"""
        return any(each.follower.runs for each in self.processes)

    def read(self) -> None:
        """Take what is new.  Raises PyhybridError where the first spool cannot be read."""
        self._find_children()
        for index, each in enumerate(self.processes):
            try:
                each.read()
            except BeginsAnew:  # counts, too, are of the new window alone
                each.close()
                self.processes[index] = Process(each.follower.path, self.functions, self.window_s)
        for each in self.processes[1:]:
            if each.follower.is_window and not each.follower.runs:
                each.close()
                self.processes.remove(each)

    def _find_children(self) -> None:
        own = self.processes[0].spool.pid
        with suppress(OSError):
            for name in os.listdir(self._folder):
                path = os.path.join(self._folder, name)
                if not own or name.startswith(f"{own}-"):
                    continue  # a window of its flight recorder that has passed
                if name.endswith(PART) and path not in self._known and os.path.getsize(path):
                    self._known.add(path)
                    with suppress(PyhybridError):
                        self.processes.append(Process(path, self.functions, self.window_s))

    def reset(self) -> None:
        """Count what is shown of the whole run from now on."""
        for each in self.processes:
            each.reset()

    # --- answers ----------------------------------------------------------------------------------

    def answer(self, question: Question) -> Now:
        """Return what is known now."""
        chosen = [
            each
            for each in self.processes
            if each.follower.is_begun and question.pid in (None, each.spool.pid)
        ]
        now = self._head(chosen, question)
        for each in chosen:
            each.native = question.native
        parts = [_Part(each, question, len(self.functions.rows)) for each in chosen]
        if parts:
            now.functions = list(self._functions(parts, question))
            window = max(part.window_s for part in parts)
            now.window_s = window
            now.gil_held = sum(part.held_s for part in parts) / window
            now.gil_waited = sum(part.waited_s for part in parts) / window
            now.ours = sum(part.recent.ours for part in parts) / (
                sum(part.recent.ours + part.recent.all for part in parts) or 1
            )
            now.steps = next((s for part in parts if (s := part.process.steps.now())), None)
            if question.tree_of:
                now.tree = _tree(parts, question.tree_of, self.functions)
            now.of_threads = [each for part in parts for each in part.threads()]
            now.of_threads.sort(key=lambda each: -each.share)
        return now

    def _head(self, chosen: list[Process], question: Question) -> Now:
        meta = self.processes[0].spool.meta
        cpu = {each.spool.pid: _rate(each, lambda m: m.cpu_ns / 1e9) for each in chosen}
        started = meta.get("start_ns", 0)
        last = max((each.now.time_ns for each in chosen), default=started)
        return Now(
            seconds=(last - started) / 1e9,
            window_s=0.0,
            cpu=sum(cpu.values()),
            gil_held=0.0,
            gil_waited=0.0,
            threads=sum(_active(each) for each in chosen),
            samples_per_s=sum(_samples_per_s(each) for each in chosen),
            lost=_lost(chosen),
            mode=str(meta.get("mode", "")),
            clock=str(meta.get("clock", "")),
            processes=[
                ProcessNow(
                    each.spool.pid,
                    " ".join(map(str, each.spool.meta.get("argv", ()))),
                    each.follower.runs,
                    cpu.get(each.spool.pid, 0.0),
                    each.follower.path,
                )
                for each in self.processes
            ],
            notes=[note for each in chosen for note in each.notes],
            ended=not self.runs,
        )

    def _functions(self, parts: list[_Part], question: Question) -> Iterator[FunctionNow]:
        first, *others = parts
        sums = dict(first.columns)
        for part in others:
            sums = {name: plus(each, part.columns[name]) for name, each in sums.items()}
        rows = self.functions.rows
        window_s = max(part.window_s for part in parts)
        unit_s, tick_s = first.unit_ns / 1e9, first.tick_ns / 1e9
        all_now = sum(part.all for part in parts) or 1
        all_later = sum(part.all_later for part in parts)
        for number in self._in_order(sums, question):
            of = {name: int(column[number]) for name, column in sums.items()}
            total, is_counted = of["total"] or 1, of["calls"] > 0
            calls, ticks = of["calls"] - of["calls_0"], of["ticks"] - of["ticks_0"]
            earlier = of["own"] - of["own_later"]
            yield FunctionNow(
                number,
                rows[number],
                of["own"] / all_now,
                of["total"] / all_now,
                1 - (of["native"] + of["kernel"]) / total if of["total"] else 0.0,
                of["native"] / total,
                of["kernel"] / total,
                of["held"] / total,
                of["own_all"] * unit_s,
                of["total_all"] * unit_s,
                of["calls"] - of["calls_base"] if is_counted else None,
                calls / window_s if is_counted else None,
                ticks * tick_s / calls if is_counted and calls else None,
                _trend(earlier, of["own_later"], all_now - all_later, all_later),
            )

    def _in_order(self, sums: dict[str, memoryview], question: Question) -> list[int]:
        """Return the first functions by what is asked; those that have none of that come last."""
        rows, text = self.functions.rows, question.text.lower()
        key = _key(question.sort, sums)
        found: list[int] = []
        seen: set[int] = set()
        for name in (_COLUMNS_OF.get(question.sort, question.sort), "own_all", "calls"):
            new = [
                number
                for number in rows_from(sums[name], 1)
                if number not in seen
                and rows[number].is_shown(question.native)
                and (not text or text in rows[number].name.lower())
            ]
            most = (question.most or len(new) + len(found)) - len(found)
            found += heapq.nsmallest(most, new, key=lambda n: (-key(n), rows[n].name, n))
            seen.update(new)
            if question.most and len(found) >= question.most:
                break
        return found


class _Part:
    """Hold what one process has, in columns by function, in units of `unit_ns`: periods of samples,
    or ticks of exact times where nothing is sampled."""

    def __init__(self, process: Process, question: Question, n: int) -> None:
        """Add it up for `n` functions."""
        self.process, self._n = process, n
        ticks = Ticks(process.spool)
        self.tick_ns = ticks.multiply / ticks.divide
        now, before, base = process.now, process.before, process.base
        self.window_s = max((now.time_ns - before.time_ns) / 1e9, 1e-3)
        self.columns = {
            "calls": process.shown(now.calls, n),
            "calls_0": process.shown(before.calls, n),
            "calls_base": process.shown(base.calls, n),
            "ticks": process.shown(now.ticks, n),
            "ticks_0": process.shown(before.ticks, n),
        }
        self.asked = question.threads if question.pid is not None else None, question.idle
        self.recent = process.recent(*self.asked)
        self.all, self.all_later = self.recent.all, self.recent.all_later
        if process.is_sampled:
            self.unit_ns = float(process.spool.meta["period_ns"])
            self._add_samples()
        else:
            self.unit_ns = self.tick_ns
            self._add_times()

    def _add_samples(self) -> None:
        process, n, recent = self.process, self._n, self.recent
        own, total = process.sums(recent.own, n)
        own_all, total_all = process.sums(process.since(*self.asked), n)
        self.columns |= {"own": own, "total": total, "own_all": own_all, "total_all": total_all}
        kinds = {"native": recent.native, "kernel": recent.kernel, "held": recent.held}
        for name, of_nodes in kinds.items():
            self.columns[name] = process.sums(of_nodes, n)[1]
        self.columns["own_later"] = add_up(process.tree.function, recent.later, n)

    def _add_times(self) -> None:
        process, n = self.process, self._n
        nothing = memoryview(array("q", bytes(8 * n)))
        self.columns |= dict.fromkeys(("native", "kernel", "held", "own_later"), nothing)

        def of(moment: Moment, which: int) -> memoryview:
            return process.shown(moment.times[which], n) if moment.times else nothing

        for which, name in enumerate(("own", "total")):
            now = of(process.now, which)
            for key, before in ((name, process.before), (f"{name}_all", process.base)):
                less = of(before, which)
                self.columns[key] = memoryview(array("q", map(sub, now, less)))
        self.all, self.all_later = sum(self.columns["own"][2:]), 0

    @property
    def held_s(self) -> float:
        """Return for how long threads that ran had the GIL, in the window."""
        return self.recent.all_held * self.unit_ns / 1e9

    @property
    def waited_s(self) -> float:
        """Return for how long threads waited for it, as far as samples show."""
        return self.recent.waited * self.unit_ns / 1e9

    def threads(self) -> Iterator[ThreadNow]:
        """Yield those that were seen in the window."""
        seen, held = Counter[int](), Counter[int]()
        for moment in self.process.moments:
            for thread, places in moment.weights.items():
                for place, weight in places.items():
                    seen[thread] += weight
                    if place >> GIL_SHIFT & 3 == HELD:
                        held[thread] += weight
        for thread, weight in seen.items():
            name = self.process.name_of_thread(thread)
            share, gil = weight * self.unit_ns / 1e9 / self.window_s, held[thread] / weight
            yield ThreadNow(self.process.spool.pid, thread, name, share, gil)


_LEAST = 0.005  # of the function's time: branches with less are left out
_MOST_CALLERS, _DEEPEST = 8, 200


class _Merged(Struct):
    """Hold a function below another one in all processes."""

    own: int = 0
    total: int = 0
    calls_per_s: float = 0.0
    children: dict[int, _Merged] = made(dict)


def _tree(parts: list[_Part], number: int, functions: Functions) -> TreeNow:
    root, callers = _Merged(), Counter[int]()
    for part in parts:
        below = part.process.below(number, *part.asked)
        callers.update(below.callers)
        least = _LEAST * (below.total[1] if len(below.total) > 1 else 0)
        merged = {0: root}
        for node in range(1, len(below.parent)):
            above = merged.get(below.parent[node])
            rate = below.calls_per_s.get(node, 0.0)
            if above is None or (below.total[node] < least and node != 1):
                continue
            it = above.children.setdefault(below.function[node], _Merged())
            it.own += below.own[node]
            it.total += below.total[node]
            it.calls_per_s += rate
            merged[node] = it
    all_now = sum(part.all for part in parts) or 1
    rows = functions.rows
    result = TreeNow()

    def walk(node: _Merged, depth: int) -> None:
        for child, it in sorted(node.children.items(), key=lambda item: -item[1].total):
            shares = it.own / all_now, it.total / all_now
            result.below.append(Branch(depth, rows[child], *shares, it.calls_per_s or None))
            if depth < _DEEPEST:
                walk(it, depth + 1)

    walk(root, 0)
    of_all = sum(callers.values()) or 1
    result.callers = [(rows[n], w / of_all) for n, w in callers.most_common(_MOST_CALLERS)]
    return result


# Of what it is sorted by: the column that has something wherever that has.
_COLUMNS_OF = {
    "own_s": "own_all",
    "total_s": "total_all",
    "gil": "held",
    "calls_per_s": "calls",
    "mean_s": "calls",
}


def _key(sort: str, sums: dict[str, memoryview]) -> Callable[[int], float]:
    calls, own = sums["calls"], sums["own_all"]
    if sort == "calls_per_s":
        before = sums["calls_0"]
        return lambda number: calls[number] - before[number]
    if sort == "mean_s":
        ticks = sums["ticks"]
        return lambda number: ticks[number] / calls[number] if calls[number] else 0.0
    column = sums[_COLUMNS_OF.get(sort, sort)]
    return lambda number: column[number] + own[number] / (own[number] + 1)


def _trend(earlier: int, later: int, all_earlier: int, all_later: int) -> int:
    """Return whether a share of samples grew (1) or fell (-1) by more than chance."""
    if not all_earlier or not all_later:
        return 0
    difference = later / all_later - earlier / all_earlier
    share = (earlier + later) / (all_earlier + all_later)
    noise = share * (1 / all_earlier + 1 / all_later)
    if difference**2 <= _TREND_LEAST**2 * noise:
        return 0
    return 1 if difference > 0 else -1


def _rate(process: Process, of: Callable[[Moment], float]) -> float:
    """Return by how much a figure grew a second, within the window."""
    now, before = process.now, process.before
    seconds = (now.time_ns - before.time_ns) / 1e9
    return (of(now) - of(before)) / seconds if seconds > 0 else 0.0


def _samples_per_s(process: Process) -> float:
    now, before = process.now, process.before
    seconds = (now.time_ns - before.time_ns) / 1e9
    n = sum(moment.samples for moment in process.moments if moment.time_ns > before.time_ns)
    return n / seconds if seconds > 0 else 0.0


def _lost(processes: list[Process]) -> float:
    lost = recorded = 0
    for process in processes:
        before = process.before
        lost += process.now.lost - before.lost
        for moment in process.moments:
            recorded += sum(sum(each.values()) for each in moment.weights.values())
    return lost / (lost + recorded) if lost else 0.0


def _active(process: Process) -> int:
    return len({thread for moment in process.moments for thread in moment.weights})
