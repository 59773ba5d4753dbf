"""What the program's threads waited, by function: exact time less CPU time.

Samples of CPU time have nothing of a wait, exact times, which are wall-clock times, have all of it.
Where both halves were recorded a function waited for its exact time less the sampled CPU time below
it; in a trace, without samples, for its exact time less all CPU time of its thread, at least.

What waits because there is nothing to do (an event loop, a pool's worker, a server's main thread)
is idle (call_tree/waiting.py).  A thread whose waiting is mostly in one call of one function is
taken for one that is idle in a loop of its own, too; the main thread only if others had work.  On a
busy machine it is known of the main thread alone: the kernel has for how long that had no
processor.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from pyhybrid._columns import add_up, mark, nearest, pairs, rows_from, take
from pyhybrid.base.structs import Struct, made
from pyhybrid.tables import ProcessMeta
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.imports import import_frames, imports_of
from pyhybrid.views.call_tree.waiting import CALLBACK, LOOP, WORK, states_of
from pyhybrid.views.labels import labels_of
from pyhybrid.views.lines.program_lines import program_frames

LEAST_NS = 100_000_000  # less is of no interest
LEAST_SHARE = 0.05  # of the time of all threads
OWN_LOOP = 0.5  # of what a thread waited, in one call of one function
SURE = 3  # standard errors
BUSY = 0.1  # seconds without a processor for each of CPU time


class ThreadWaits(Struct):
    """Hold one thread that ran Python: its exact time, how much of it was idle, and what it waited.

    `functions`: by frame, what it waited there at least; the nearest function of the program.
    `in_callbacks_ns`: what of it blocked an event loop.  `gil_ns`: for so long other threads held
    the GIL, for which it may have waited.  `unknown_ns`: so long it waited or had no processor;
    which of the two is not known.
    """

    thread: int
    is_main: bool
    has_loop: bool
    total_ns: int
    waited_ns: int
    idle_ns: int
    in_callbacks_ns: int = 0
    gil_ns: int = 0
    functions: Counter[int] = made(Counter)
    unknown_ns: int = 0


@made_once
def waits_of(profile: Profile) -> list[ThreadWaits]:
    """Return the threads that waited, most first; none where that is not known: the clock sees
    waits itself, there are no exact times, or only a part of the samples is looked at."""
    meta, exact = profile.meta, profile.exact
    samples_see_it = meta.get("clock") == "wall" and meta.get("mode") != "trace"
    if profile.view.by_time or samples_see_it or not exact:
        return []
    group, first = pairs(exact.thread, exact.thread)
    sums = add_up(group, exact.self_ns, len(first))
    total_ns = Counter({exact.thread[row]: ns for row, ns in zip(first, sums, strict=True)})
    cpu_ns = {t: each.cpu_ns for t, each in profile.threads.items() if each.cpu_ns is not None}
    waited_ns = sum(max(0, total_ns[thread] - ns) for thread, ns in cpu_ns.items())
    if waited_ns < max(LEAST_NS, LEAST_SHARE * total_ns.total()):
        return []
    found = _Threads(profile, total_ns, cpu_ns).all()
    return sorted(found, key=lambda each: -each.waited_ns)


class _Threads:
    """Hold the columns that the threads' waits are made of."""

    def __init__(self, profile: Profile, total_ns: Counter[int], cpu_ns: dict[int, int]) -> None:
        self._profile, self._total_ns, self._cpu_ns = profile, total_ns, cpu_ns
        nodes, exact = profile.nodes, profile.exact
        self._delay_ns = self._delays()
        self._states = states_of(profile)
        named = _named(profile, self._states)
        # Of each (thread, function, state): exact time, the CPU time of samples, and how many.
        self._exact_ns: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        self._sampled_ns: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        self._samples: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        self._outside_ns: Counter[int] = Counter()  # in no Python function
        self._held_ns: Counter[int] = Counter()  # with the GIL
        state_of = take(self._states, exact.node)
        where, _ = pairs(take(named, exact.node), array("I", state_of))
        group, first = pairs(exact.thread, where)
        sums = add_up(group, exact.self_ns, len(first))
        for row, ns in zip(first, sums, strict=True):
            key = named[exact.node[row]], state_of[row]
            self._exact_ns[exact.thread[row]][key] += ns
        owner = nearest(nodes.parent, mark(exact.node, len(nodes.parent)))
        for each in profile.sampled:
            if each.gil == "held":
                self._held_ns[each.thread] += each.weight_ns
            if node := owner[profile.stacks.node[each.stack]]:
                key = named[node], self._states[node]
                self._sampled_ns[each.thread][key] += each.weight_ns
                self._samples[each.thread][key] += each.samples
            else:
                self._outside_ns[each.thread] += each.weight_ns

    def all(self) -> Iterable[ThreadWaits]:
        """Yield those whose CPU time is known."""
        mains = {
            each.id
            for each in self._profile.threads.values()
            if each.tid == self._profile.processes[each.process].pid
        }
        loops, busy = self._loops(), self._busy()
        for thread in self._exact_ns:
            process = self._profile.threads[thread].process
            is_known = process in self._delay_ns and (thread in mains or process not in busy)
            if thread not in self._cpu_ns:
                continue
            found = self._one(thread, thread in mains)
            others_ns = self._others(thread, self._cpu_ns)
            beside = others_ns >= max(self._cpu_ns[thread], found.total_ns / 10)
            is_loop = loops.get(thread, 0) >= OWN_LOOP * found.waited_ns
            if is_loop and (beside or not found.is_main):
                found.idle_ns += found.waited_ns
                found.waited_ns, found.functions = 0, Counter()
            if not is_known:
                found.unknown_ns, found.waited_ns, found.gil_ns = found.waited_ns, 0, 0
                found.in_callbacks_ns, found.functions = 0, Counter()
            yield found

    def _one(self, thread: int, is_main: bool) -> ThreadWaits:
        exact_ns, sampled_ns = self._exact_ns[thread], self._sampled_ns[thread]
        total_ns, in_python_ns = self._total_ns[thread], sampled_ns.total()
        cpu_ns = max(in_python_ns, self._cpu_ns[thread] - self._outside_ns[thread])
        process = self._profile.threads[thread].process
        delay_ns = self._delay_ns.get(process, 0) if is_main else 0
        ran_ns = min(total_ns, cpu_ns + delay_ns)
        found = ThreadWaits(thread, is_main, False, total_ns, 0, 0)
        for (frame, state), ns in exact_ns.items():
            used_ns, error_ns = ran_ns, 0.0  # at most, where there are no samples
            if in_python_ns:  # what was lost or had no signal is as the rest, and so are delays
                used_ns = round(sampled_ns[frame, state] * ran_ns / in_python_ns)
                error_ns = (
                    self._profile.period_ns * (self._samples[thread][frame, state] + 1) ** 0.5
                )
            least_ns = ns - used_ns if ns - used_ns > SURE * error_ns else 0
            found.has_loop |= state in (LOOP, CALLBACK)
            if state in (WORK, CALLBACK):
                found.functions[frame] += least_ns
                found.in_callbacks_ns += least_ns * (state == CALLBACK)
        work = [key for key in exact_ns if key[1] in (WORK, CALLBACK)]
        work_ns, work_used_ns = sum(exact_ns[key] for key in work), ran_ns
        if in_python_ns:
            work_used_ns = sum(sampled_ns[key] for key in work) * ran_ns // in_python_ns
        found.waited_ns = max(0, work_ns - work_used_ns)
        found.idle_ns = max(0, total_ns - ran_ns - found.waited_ns)
        # Where it had no processor is not known: as if that had been where it waited, or ran.
        known_ns = found.functions.total()
        if known_ns > found.waited_ns:
            part = found.waited_ns / known_ns
            found.functions = Counter({f: round(ns * part) for f, ns in found.functions.items()})
            found.in_callbacks_ns = round(found.in_callbacks_ns * part)
        found.functions = +found.functions
        found.gil_ns = min(found.waited_ns, self._others(thread, self._held_ns or self._cpu_ns))
        return found

    def _others(self, thread: int, of_threads: Mapping[int, int]) -> int:
        """Return the sum of the figures of the other threads of its process."""
        threads = self._profile.threads
        process = threads[thread].process
        ns = sum(ns for each, ns in of_threads.items() if threads[each].process == process)
        return ns - of_threads.get(thread, 0)

    def _delays(self) -> dict[int, int]:
        """Return by process, where it is known, for how long its main thread was ready to run, but
        had no processor."""
        profile, key = self._profile, "main_delay_ns"
        if len(profile.processes) == 1 and key in profile.meta:
            return {next(iter(profile.processes)): int(profile.meta[key])}
        of_each = [each for each in profile[ProcessMeta] if each.key == key]
        return {each.process: int(each.value) for each in of_each if isinstance(each.value, int)}

    def _busy(self) -> set[int]:
        """Return processes whose main thread waited for processors: others may have done nothing
        else, of which it is not known."""
        profile, found = self._profile, set()
        for process, delay_ns in self._delay_ns.items():
            pid = profile.processes[process].pid
            threads = [each for each in profile.threads.values() if each.process == process]
            main_ns = sum(each.cpu_ns or 0 for each in threads if each.tid == pid)
            if delay_ns > BUSY * main_ns:
                found.add(process)
        return found

    def _loops(self) -> dict[int, int]:
        """Return by thread the own time of a function that was called once for most of the thread's
        time: where that is what it waited, it is its loop."""
        exact, found = self._profile.exact, dict[int, int]()
        for row in rows_from(exact.self_ns, LEAST_NS):
            thread, is_one = exact.thread[row], exact.calls[row] + exact.seeded[row] == 1
            if is_one and 2 * exact.total_ns[row] >= self._total_ns[thread]:
                found[thread] = max(found.get(thread, 0), exact.self_ns[row])
        return found


class FunctionWait(Record):
    """Hold what threads waited in a function (`by_function`), at least."""

    name: str
    waited_ns: int


class Waits(Record):
    """Hold the sums of all threads that ran Python: their exact time, what they waited, and what of
    the rest they were idle.  `functions`: those of the program with most of the waiting first.
    `unknown_threads`: so many others did not run for as long, but may have had no processor;
    `unknown_ns`: for so long together."""

    total_ns: int
    waited_ns: int
    idle_ns: int
    functions: list[FunctionWait]
    unknown_threads: int
    unknown_ns: int


def all_waits(profile: Profile, most: int) -> Waits | None:
    """Return the sums, with so many functions; None: hardly anything waited."""
    threads = waits_of(profile)
    known = [each for each in threads if not each.unknown_ns]
    waited_ns = sum(each.waited_ns for each in known)
    total_ns = sum(each.total_ns for each in known)
    unknown = [each.unknown_ns for each in threads if each.unknown_ns >= LEAST_NS]
    if waited_ns < max(LEAST_NS, LEAST_SHARE * total_ns) and not unknown:
        return None
    functions = sum((each.functions for each in known), Counter[int]())
    named = [
        FunctionWait(wait_label(profile, frame), ns) for frame, ns in functions.most_common(most)
    ]
    idle_ns = sum(each.idle_ns for each in known)
    return Waits(total_ns, waited_ns, idle_ns, named, len(unknown), sum(unknown))


def wait_label(profile: Profile, frame: int) -> str:
    """Return how a function is named that waited."""
    if frame in import_frames(profile):
        return "import statements"
    return labels_of(profile, full_names=False)[frame]


def _named(profile: Profile, states: bytes) -> memoryview:
    """Return for each node the frame that is named: the nearest function of the program, itself or
    above, of what an import runs the import; where there is none, or it runs the loop, its own."""
    nodes, n = profile.nodes, len(profile.nodes.frame)
    imports, own = imports_of(profile), program_frames(profile)
    is_own = bytes(f in own for f in range(max(profile.frames, default=0) + 1))
    program = take(is_own, nodes.frame)
    above = nearest(nodes.parent, program)
    called = states.translate(bytes(state == CALLBACK for state in range(256)))
    # All rows as one number: 1 where its frame is named for the node and what is below it.
    every, imported, outer, by_program, in_none, is_called, called_above = map(
        int.from_bytes,
        (
            *(bytes([1]) * n, imports.where, imports.outer, program),
            *(take(bytes([1]) + bytes(n - 1), above), called, take(called, above)),
        ),
    )
    others = by_program | in_none | is_called & ~called_above
    marks = (imported & outer | others & ~imported) & every
    return take(nodes.frame, nearest(nodes.parent, marks.to_bytes(n)))
