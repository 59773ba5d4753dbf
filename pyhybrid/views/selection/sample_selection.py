"""Which samples and frames a view is about: by process, call, time, thread, the GIL, Python or
native."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property

from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file.long_tables import LongTables
from pyhybrid.profile_file.profile import Profile
from pyhybrid.profile_file.tables import (
    Chunk,
    Process,
    Sampled,
    Thread,
    gil_name,
    stack_of,
    waits,
)
from pyhybrid.profile_file.timeline import Spans, parts, times, within
from pyhybrid.views.labels import short_time
from pyhybrid.views.selection.one_kind import NATIVE_ONLY, PYTHON_ONLY, OneKind
from pyhybrid.views.selection.process_selection import chosen_processes, meta_of
from pyhybrid.views.selection.slow_calls import SlowerThan, spans_of


@dataclass(slots=True)
class Choice:
    """What is wanted; as it is made, everything.

    `processes`: pids or names (process_selection.py), `threads`: names, kernel names or tids, as
    patterns of the shell.  `gil`: one of rows.GIL.  `off_cpu`: only samples off the CPU, or only
    those on it.  Times count from the start.
    """

    slower_than: list[SlowerThan] = field(default_factory=list)
    any_thread: bool = False
    processes: list[str] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
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
    """A profile with what was chosen, and notes that say so; without a choice the profile itself.

    With `slower_than` a call's samples are those of its thread while it ran there, or with
    `any_thread` of all threads.  Exact figures stay where the choice is by thread or frame: they
    are not kept by time, nor are losses.  Of some processes of a merged profile everything is as in
    a profile of these alone: times count from their start.  Raises PyhybridError where no such
    call, thread or process is in the profile.
    """
    notes: list[str] = []
    if choice.processes:
        processes = chosen_processes(profile, choice.processes)
        of_them = {t for t, thread in profile.threads.items() if thread.process in processes}
        if processes != profile.processes:
            profile = Selection(profile, Choice(), of_them, None, processes)
        pids = sorted({process.pid for process in processes.values()})
        notes.append(f"only process{'es' * (len(pids) > 1)} " + ", ".join(map(str, pids)))
        choice = replace(choice, processes=[])
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
    selection = Selection(profile, choice, threads, spans)
    if choice.slower_than and spans is not None and not choice.by_state:
        notes += _waited_note(selection, spans)
    lost = sum(loss.samples for loss in profile.losses if loss.thread in threads)
    if selection.is_part and lost:
        notes.append(f"of these threads {lost:,} samples were lost in all, it is not known when")
    if choice.frames:
        what = "Python functions" if choice.frames == PYTHON_ONLY else "native code"
        notes.append(f"only {what}{selection.frameless_note()}")
    return selection, notes


class Selection(Profile):
    """A profile with some of its samples and frames."""

    def __init__(
        self,
        profile: Profile,
        choice: Choice,
        threads: set[int],
        spans: dict[int, Spans] | None,
        processes: dict[int, Process] | None = None,
    ) -> None:
        """Of `threads`, and within `spans` of each (None: always).

        `processes`: of these alone; `threads` are all of theirs.
        """
        # Not only the file's: views have made some of the tables (inlined functions).
        long = LongTables(profile.nodes, profile.stacks, profile.exact, profile.frames)
        self.__dict__ |= profile.__dict__
        for made in ("recorded", "recorded_stacks", "own_stacks", "sampled", "sampled_stacks"):
            self.__dict__.pop(made, None)
        super().__init__(profile.path, profile._database, long)
        self._profile, self._choice, self._spans = profile, choice, spans
        self._rows = OneKind(profile, choice.frames) if choice.frames else None
        if self._rows:
            self.nodes, self.stacks = self._rows.nodes, self._rows.stacks
            self.places = {}
        self.is_part = profile.is_part or spans is not None or choice.by_state
        by_time = self.is_part or choice.frames == NATIVE_ONLY
        self.exact = profile.exact.of_threads(set() if by_time else threads)
        if self._rows and not by_time:
            self.exact = self._rows.python_rows(self.exact)
        self.calls = [call for call in profile.calls if call.thread in threads]
        self.watched_calls = [call for call in profile.watched_calls if call.thread in threads]
        is_all = len(threads) == len(profile.threads)  # of some rows the thread is not known
        backward = [row for row in profile.backward if is_all or row.thread in threads]
        self.backward = [] if by_time else backward
        # Of which thread it is, is not kept.
        self.gpu, self.gpu_activities, self.gpu_waits, self.gpu_windows = [], [], [], []
        self.turns = [turn for turn in profile.turns if turn.thread in threads]
        self.call_times = [each for each in profile.call_times if each.thread in threads]
        self.lines = [] if by_time else [line for line in profile.lines if line.thread in threads]
        # When a signal was lost is not known.
        lost = [] if self.is_part else [loss for loss in profile.losses if loss.thread in threads]
        self.losses = lost
        chosen = {key: thread for key, thread in profile.threads.items() if key in threads}
        self.threads = chosen
        if by_time or choice.frames:
            rows: dict[int, list[Sampled]] = defaultdict(list)
            for row in self.recorded:
                rows[row.thread].append(row)
            n_lost = Counter[int]()
            for loss in lost:
                n_lost[loss.thread] += loss.samples
            self.threads = {
                key: _restricted(each, rows[key], n_lost[key]) for key, each in chosen.items()
            }
        if processes:
            self.processes, self.meta = processes, meta_of(profile, list(processes))
            first, *others = processes.values()
            self.process = first.with_(others)
        elif self.is_part or len(chosen) < len(profile.threads):
            cpu_ns = sum(thread.cpu_ns or 0 for thread in self.threads.values())
            self.process = replace(profile.process, cpu_ns=cpu_ns or None)

    @cached_property
    def recorded(self) -> list[Sampled]:
        """Self samples and weight, as the profile's."""
        counted: Counter[tuple[int, int, str, int]] = Counter()
        weights: Counter[tuple[int, int, str, int]] = Counter()
        for row in self._recorded_rows():
            stack = self._rows.of_stack[row.stack] if self._rows else row.stack
            if stack:
                key = (row.thread, stack, row.gil, row.waits)
                counted[key] += row.samples
                weights[key] += row.weight_ns
        return [Sampled(*key, counted[key], weights[key]) for key in sorted(counted)]

    def _recorded_rows(self) -> Iterable[Sampled]:
        if self._spans is None:
            return (
                row
                for row in self._profile.recorded
                if row.thread in self.threads and self._wants(row.gil, row.waits)
            )
        period_ns = self._profile.period_ns
        return (
            Sampled(
                *(chunk.thread, stack_of(place), gil_name(place), waits(place)),
                *(1, chunk.weights.get(at, 1) * period_ns),
            )
            for chunk in self._chunks()
            for at, place in enumerate(chunk.place)
        )

    @property
    def with_all_frames(self) -> Profile:
        """The same samples, with all their frames."""
        if self._rows is None:
            return self
        choice = replace(self._choice, frames=None)
        return Selection(self._profile, choice, set(self.threads), self._spans)

    def timeline(self) -> Iterator[Chunk]:
        """Those samples, in chunks by thread and time."""
        for chunk in self._chunks():
            if self._rows is None:
                yield chunk
                continue
            of_stack = self._rows.of_stack
            kept = [at for at, place in enumerate(chunk.place) if of_stack[stack_of(place)]]
            for part in parts(chunk, times(chunk), kept):
                places = (
                    place - stack_of(place) + of_stack[stack_of(place)] for place in part.place
                )
                yield replace(part, place=array("I", places))

    def frameless_note(self) -> str:
        """What to say of samples that have no frame that is shown."""
        total = sum(row.weight_ns for row in self._recorded_rows())
        left = total - sum(row.weight_ns for row in self.recorded)
        return f"; {left / total:.1%} of the samples have none" if total and left else ""

    def _chunks(self) -> Iterator[Chunk]:
        for chunk in self._profile.timeline():
            if chunk.thread not in self.threads:
                continue
            at_ns = times(chunk)
            kept: Sequence[int] = range(len(at_ns))
            if self._spans is not None:
                kept = within(at_ns, self._spans.get(chunk.thread, []))
            if self._choice.by_state:
                places = chunk.place
                kept = [at for at in kept if self._wants(gil_name(places[at]), waits(places[at]))]
            yield from parts(chunk, at_ns, kept)

    def _wants(self, gil: str, off_cpu: int) -> bool:
        return self._choice.gil in (None, gil) and self._choice.off_cpu in (None, bool(off_cpu))


def _waited_note(selection: Selection, spans: dict[int, Spans]) -> list[str]:
    """Where the threads hardly ran in the calls that were chosen: that samples cannot say why."""
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


def _restricted(thread: Thread, rows: list[Sampled], lost: int) -> Thread:
    recorded = sum(row.samples for row in rows)
    weight_ns = sum(row.weight_ns for row in rows)
    return replace(
        thread,
        signals=recorded + lost,
        recorded=recorded,
        recorded_weight_ns=weight_ns,
        missed_weight_ns=0,
        cpu_ns=sum(row.weight_ns for row in rows if not row.waits),
    )


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
