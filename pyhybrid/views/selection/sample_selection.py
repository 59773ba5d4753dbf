"""Which samples and frames a view is about: by process, call, time, thread, the GIL, Python or
native."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pyhybrid.base.structs import Struct, made
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import (
    Backward,
    CallTime,
    Chunk,
    Line,
    Process,
    Sampled,
    Thread,
    gil_name,
    stack_of,
    waits,
)
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Row
from pyhybrid.tables.timeline import Spans, parts, times, within
from pyhybrid.views.labels import short_time
from pyhybrid.views.selection.frames_of_kind import NATIVE_ONLY, PYTHON_ONLY, OneKind
from pyhybrid.views.selection.process_selection import chosen_processes, meta_of
from pyhybrid.views.selection.slow_calls import SlowerThan, spans_of


class Choice(Struct):
    """Hold what is wanted; as it is made, everything.

    `processes`: pids or names (process_selection.py), `threads`: names, kernel names or tids, as
    patterns of the shell.  `gil`: one of tables.GIL.  `off_cpu`: only samples off the CPU, or only
    those on it.  Times count from the start.
    """

    slower_than: list[SlowerThan] = made(list)
    any_thread: bool = False
    processes: list[str] = made(list)
    threads: list[str] = made(list)
    gil: str | None = None
    off_cpu: bool | None = None
    begin_ns: int | None = None
    end_ns: int | None = None
    frames: str | None = None  # PYTHON_ONLY, NATIVE_ONLY

    @property
    def by_state(self) -> bool:
        """Does what a thread was about decide?"""
        return self.gil is not None or self.off_cpu is not None


def choose(profile: Profile, choice: Choice) -> tuple[Profile, list[str]]:
    """Return a profile of what was chosen, and notes on that; without a choice the profile.

    With `slower_than` a call's samples are those of its thread while it ran there, or with
    `any_thread` of all threads.  Exact figures stay where the choice is by thread or frame: they
    are not kept by time, nor are losses.  Of some processes of a merged profile everything is as in
    a profile of these alone: times count from their start.  Raises PyhybridError where no such
    call, thread or process is in the profile.
    """
    notes: list[str] = []
    if choice.processes:
        processes = chosen_processes(profile, choice.processes)
        if processes != profile.processes:
            profile = _of_processes(profile, processes)
        pids = sorted({process.pid for process in processes.values()})
        notes.append(f"only process{'es' * (len(pids) > 1)} " + ", ".join(map(str, pids)))
        choice = choice.replaced(processes=[])
    if choice == Choice():
        return profile, notes
    if choice.off_cpu is not None and profile.meta.get("clock") != "wall":
        raise PyhybridError(
            f"{profile.path}: sampled by CPU time, so never off the CPU (record with --clock wall)"
        )
    spans: dict[int, Spans] | None = None
    if choice.slower_than:
        spans, of_calls = spans_of(profile, choice.slower_than, choice.any_thread)
        notes += of_calls
    threads = _threads(profile, choice.threads)
    if choice.threads:
        notes.append(
            "only threads " + ", ".join(sorted({profile.threads[t].name for t in threads}))
        )
    if choice.begin_ns is not None or choice.end_ns is not None:
        window, note = _window(profile, choice)
        notes.append(note)
        inside: Spans = [window]
        spans = {t: inside if spans is None else _both(spans.get(t, []), window) for t in threads}
    if choice.gil:
        notes.append(f"only samples of threads whose part in the GIL is: {choice.gil}")
    if choice.off_cpu is not None:
        notes.append(f"only samples {'off' if choice.off_cpu else 'on'} the CPU")
    selection = _of_samples(profile, choice, threads, spans)
    if choice.slower_than and spans is not None and not choice.by_state:
        notes += _waited_note(selection, spans)
    lost = sum(loss.samples for loss in profile.losses if loss.thread in threads)
    if selection.view.by_time and lost:
        notes.append(f"of these threads {lost:,} samples were lost in all, it is not known when")
    if choice.frames:
        whole, selection = selection, of_kind(selection, choice.frames)
        what = "Python functions" if choice.frames == PYTHON_ONLY else "native code"
        notes.append(f"only {what}{_frameless_note(whole, selection)}")
    return selection, notes


def of_threads(profile: Profile, threads: Collection[int]) -> Profile:
    """Return the profile of these threads alone.

    Rows of which the thread is not known are left out, where other threads are.
    """
    processes = {profile.threads[thread].process for thread in threads}

    def narrow(row: type[Row], rows: Sequence[Any]) -> Sequence[Any]:
        table = row.table
        if table.describes:
            return rows
        if row is Thread:
            return [each for each in rows if each.id in threads]
        if row is Process:
            return rows
        if of_thread := table.that_refer("thread"):
            (at,) = of_thread
            known = {0, *threads} if len(threads) == len(profile.threads) else threads
            return [each for each in rows if each[at] in known]
        if of_call := table.that_refer("call"):
            calls = {call.id for call in profile.calls if call.thread in threads}
            return [each for each in rows if each[of_call[0]] in calls]
        if of_process := table.that_refer("process"):
            return [each for each in rows if each[of_process[0]] in processes]
        return []

    def chunks() -> Iterator[Chunk]:
        return (chunk for chunk in profile.timeline() if chunk.thread in threads)

    exact = profile.exact.of_threads(threads)
    return profile.replaced(narrow=narrow, exact=exact, chunks=chunks)


def _of_processes(profile: Profile, processes: dict[int, Process]) -> Profile:
    """Return what of a merged profile a profile of these processes alone would have."""
    threads = {t for t, thread in profile.threads.items() if thread.process in processes}
    rows: dict[type[Row], Sequence[Any]] = {Process: list(processes.values())}
    meta = meta_of(profile, list(processes))
    return of_threads(profile, threads).replaced(rows, meta=meta)


def _of_samples(
    profile: Profile, choice: Choice, threads: set[int], spans: dict[int, Spans] | None
) -> Profile:
    """Return that of `threads`, within `spans` of each (None: always), in the chosen states."""
    chosen = of_threads(profile, threads)
    is_whole = len(threads) == len(profile.threads)
    if spans is None and not choice.by_state:
        return chosen if is_whole else _with_cpu_time(chosen)

    def wants(gil: str, off_cpu: int) -> bool:
        return choice.gil in (None, gil) and choice.off_cpu in (None, bool(off_cpu))

    def chunks() -> Iterator[Chunk]:
        for chunk in profile.timeline():
            if chunk.thread not in threads:
                continue
            at_ns = times(chunk)
            kept: Sequence[int] = range(len(at_ns))
            if spans is not None:
                kept = within(at_ns, spans.get(chunk.thread, []))
            if choice.by_state:
                places = chunk.place
                kept = [at for at in kept if wants(gil_name(places[at]), waits(places[at]))]
            yield from parts(chunk, at_ns, kept)

    period_ns = profile.period_ns
    if spans is None:
        recorded = [row for row in chosen.recorded if wants(row.gil, row.waits)]
    else:
        recorded = _counted(
            Sampled(
                *(chunk.thread, stack_of(place), gil_name(place), waits(place)),
                *(1, chunk.weights.get(at, 1) * period_ns),
            )
            for chunk in chunks()
            for at, place in enumerate(chunk.place)
        )

    def narrow(row: type[Row], rows: Sequence[Any]) -> Sequence[Any]:
        """Narrow the rows: sums of whole threads are not known of a part of their time."""
        table = row.table
        if table.describes or not table.that_refer("thread") or table.of_kind("Time"):
            return rows
        return [] if row not in KEPT_SUMS else rows

    rows: dict[type[Row], Sequence[Any]] = {Sampled: recorded}
    rows |= {Thread: _restricted(chosen, recorded, lost=False)}
    view = profile.view._replace(by_time=True)
    part = chosen.replaced(rows, narrow, view, exact=ExactTable(), chunks=chunks)
    return _with_cpu_time(part)


# Sums of calls: `report calls` has them whole, whatever samples are chosen.
KEPT_SUMS = (CallTime,)


def of_kind(profile: Profile, frames: str) -> Profile:
    """Return the profile with Python frames alone, or native ones (PYTHON_ONLY, NATIVE_ONLY)."""
    kind = OneKind(profile, frames)
    of_stack = kind.of_stack

    def moved() -> Iterator[Sampled]:
        for row in profile.recorded:
            if stack := of_stack[row.stack]:
                yield row._replace(stack=stack)

    def chunks() -> Iterator[Chunk]:
        for chunk in profile.timeline():
            kept = [at for at, place in enumerate(chunk.place) if of_stack[stack_of(place)]]
            for part in parts(chunk, times(chunk), kept):
                places = (
                    place - stack_of(place) + of_stack[stack_of(place)] for place in part.place
                )
                yield part._replace(place=array("I", places))

    recorded = _counted(moved())
    rows: dict[type[Row], Sequence[Any]] = {Sampled: recorded}
    rows[Thread] = _restricted(profile, recorded, lost=True)
    exact = ExactTable()
    if frames == NATIVE_ONLY:
        rows |= {Line: [], Backward: []}
    elif not profile.view.by_time:
        exact = kind.python_rows(profile.exact)
    made = {"nodes": kind.nodes, "stacks": kind.stacks, "places": {}, "process": profile.process}
    view = profile.view._replace(all_frames=profile)
    return profile.replaced(rows, None, view, exact=exact, chunks=chunks, **made)


def _counted(rows: Iterable[Sampled]) -> list[Sampled]:
    """Return one row for all that have the same place."""
    counted: Counter[tuple[int, int, str, int]] = Counter()
    weights: Counter[tuple[int, int, str, int]] = Counter()
    for thread, stack, gil, off_cpu, samples, weight_ns in rows:
        key = (thread, stack, gil, off_cpu)
        counted[key] += samples
        weights[key] += weight_ns
    return [Sampled(*key, counted[key], weights[key]) for key in sorted(counted)]


def _with_cpu_time(profile: Profile) -> Profile:
    """Give it as its process's CPU time that of its threads."""
    cpu_ns = sum(thread.cpu_ns or 0 for thread in profile.threads.values())
    return profile.replaced(process=profile.process._replace(cpu_ns=cpu_ns or None))


def _frameless_note(whole: Profile, shown: Profile) -> str:
    """Return the note on samples that have no frame that is shown."""
    total = sum(row.weight_ns for row in whole.recorded)
    left = total - sum(row.weight_ns for row in shown.recorded)
    return f"; {left / total:.1%} of the samples have none" if total and left else ""


def _waited_note(selection: Profile, spans: dict[int, Spans]) -> list[str]:
    """Return a note where threads hardly ran in the chosen calls: samples cannot show why."""
    if selection.meta.get("mode") == "trace":
        return ["a trace has no samples (record with --mode hybrid)"]
    whole_ns = sum(
        end - begin for thread in selection.threads for begin, end in spans.get(thread, [])
    )
    ran_ns = sum(row.weight_ns for row in selection.sampled)
    if selection.meta.get("clock") != "cpu" or 2 * ran_ns >= whole_ns:
        return []
    times = f"{ran_ns / 1e9:.2f} of {whole_ns / 1e9:.2f} s"
    return [f"threads ran for only {times} there: `--clock wall` records where they wait, too"]


def _restricted(profile: Profile, recorded: Iterable[Sampled], lost: bool) -> list[Thread]:
    """Return the threads with the figures of what is `recorded` alone.

    lost: their losses are still known; when one was is not.
    """
    of_thread: defaultdict[int, list[Sampled]] = defaultdict(list)
    for row in recorded:
        of_thread[row.thread].append(row)
    n_lost = Counter[int]()
    for loss in profile.losses if lost else ():
        n_lost[loss.thread] += loss.samples
    restricted = []
    for thread in profile[Thread]:
        rows = of_thread[thread.id]
        n = sum(row.samples for row in rows)
        one = thread._replace(
            signals=n + n_lost[thread.id],
            recorded=n,
            recorded_weight_ns=sum(row.weight_ns for row in rows),
            missed_weight_ns=0,
            cpu_ns=sum(row.weight_ns for row in rows if not row.waits),
        )
        restricted.append(one)
    return restricted


def _threads(profile: Profile, patterns: list[str]) -> set[int]:
    if not patterns:
        return set(profile.threads)
    chosen = set()
    for pattern in patterns:
        of_pattern = {
            key
            for key, thread in profile.threads.items()
            if any(
                fnmatchcase(each, pattern) for each in (thread.name, thread.comm, str(thread.tid))
            )
        }
        if not of_pattern:
            names = sorted({thread.name for thread in profile.threads.values()})
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise PyhybridError(f"{profile.path}: no thread {pattern!r}; there are: {shown}")
        chosen |= of_pattern
    return chosen


def _window(profile: Profile, choice: Choice) -> tuple[tuple[int, int], str]:
    start = profile.process.start_ns or 0
    begin, end = choice.begin_ns or 0, choice.end_ns
    if end is not None and end <= begin:
        raise PyhybridError("--to is not after --from")
    until = "the end" if end is None else short_time(end)
    note = f"only samples from {short_time(begin)} to {until}"
    return (start + begin, 1 << 63 if end is None else start + end), note


def _both(spans: Spans, window: tuple[int, int]) -> Spans:
    cut = [(max(begin, window[0]), min(end, window[1])) for begin, end in spans]
    return [(begin, end) for begin, end in cut if begin <= end]
