"""Requests of a server: the single calls of a function that was chosen, and what each waited for.

A call's time is parted by the samples of its thread, or of the turns of a coroutine: what it ran,
the GIL, locks, queues and events, sleep and system calls.  What a coroutine was not on is parted by
what the event loop did meanwhile: ran others, or waited.  CPU time is exact where it was measured
(--usage cpu).  With samples of CPU time a wait has no parts.  As what held it up what another
thread of the process was at for most of that time is named, with the GIL where that is meant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyhybrid.base.pseudo_frames import STEP_MARK
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import Call
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.calls.kept_functions import KeptFunction, kept_functions, weighted_quantile
from pyhybrid.views.serving.turn_samples import (
    ASLEEP,
    AWAITED,
    GIL,
    LOCKS,
    LOOP_BUSY,
    NOT_RUN,
    NOWHERE,
    QUEUES,
    RAN,
    REST,
    Busy,
    Sample,
    Turn,
    TurnSamples,
    Within,
)
from pyhybrid.views.training.phases import FORWARD
from pyhybrid.views.training.steps import steps_of
from pyhybrid.views.wait_pairs import Place

PARTS = (RAN, GIL, LOCKS, QUEUES, ASLEEP, NOT_RUN, LOOP_BUSY, AWAITED, REST)
OF_THREAD = (GIL, LOCKS, QUEUES, ASLEEP)  # of what a thread waits for within a call
LEAST = 0.005  # of the time of all requests: a part with less is not shown
MOST_LOOKED_AT = 20_000  # waits whose other threads are looked at: of more each n-th
MOST_PLACES = 12


class RequestPart(Record):
    """Hold what requests took for one thing: quantiles over requests, `share` of all their time."""

    part: str
    p50_ns: int
    p95_ns: int
    p99_ns: int
    share: float


class RequestPlace(Record):
    """Hold where requests waited (`part`: for what), and `other`, which another thread was at for
    most of that time; "": nothing of the program, or it is not known.

    `waits_for`: the library's function that was called, else "".
    """

    part: str
    function: str
    at: str
    waits_for: str
    other: str
    other_at: str
    other_thread: str
    total_ns: int


class ModelCalls(Record):
    """Hold the calls of models while requests were open.

    `open_p50`, `open_max`: how many were at each call, which is at least the batch it served; those
    that called the model themselves have it alone.  Of a request: `of_request_p50` calls began and
    ended in its time, `before_p50_ns` and `before_p95_ns` before the first, `in_p50_ns` in them.
    `tokens_p50`: those of a call; 0: not known.  `total_ns`: of all calls; `waited`: where their
    threads waited in them, the longest first.
    """

    calls: int
    open_p50: int
    open_max: int
    tokens_p50: int
    of_request_p50: int
    before_p50_ns: int
    before_p95_ns: int
    in_p50_ns: int
    total_ns: int
    waited: list[RequestPlace]


class SlowRequest(Record):
    """Hold a request, which part took most beyond its median, by `more_ns`, and as RequestPlace
    where that was, and what another thread was at."""

    call: int
    thread: str
    begin_ns: int
    total_ns: int
    attributes: str | None
    parts: dict[str, int]
    model_calls: int
    part: str
    more_ns: int
    function: str
    at: str
    waits_for: str
    other: str
    other_at: str
    other_thread: str


class Requests(Record):
    """Hold what `report requests --json` prints: times are ns, `begin_ns` since the start.

    `by_samples`: waits have parts, by samples of wall-clock time.  `n`: how many calls there were,
    of which the file may have a sample; `most_open`: at once, of those in the file.  `others`:
    further functions whose calls are kept.
    """

    function: str
    others: list[str]
    n: int
    per_second: float
    most_open: int
    by_samples: bool
    cpu_is_exact: bool
    whole: RequestPart
    parts: list[RequestPart]
    places: list[RequestPlace]
    model: ModelCalls | None
    slowest: list[SlowRequest]


class _Request(NamedTuple):
    """Hold a call, its turns, its time by part, and the samples in its turns."""

    call: Call
    turns: list[Turn]
    parts: dict[str, int]
    samples: list[Within]

    @property
    def total_ns(self) -> int:
        return self.call.end_ns - self.call.begin_ns


def requests_of(profile: Profile, name: str = "", n_slowest: int = 5) -> Requests:
    """Return the requests, which are the calls of the function `name`; "": of the one of which most
    time is kept, in no other one.  Raises PyhybridError where there are none.
    """
    function, others = _chosen(profile, name)
    return _View(profile, function, others).all(n_slowest)


def has_parts(profile: Profile) -> bool:
    """Are there calls that may be requests, and samples that tell what waits are for?"""
    is_wall = profile.meta.get("clock") == "wall" and profile.meta.get("mode") != "trace"
    return is_wall and bool(kept(profile))


def kept(profile: Profile) -> list[KeptFunction]:
    """Return the functions whose calls may be requests, most time first."""
    return [
        each
        for each in kept_functions(profile)
        if any(call.state != "partial" for call in each.calls)
        and (each.frame.kind, each.frame.name) != ("region", STEP_MARK)
    ]


def _chosen(profile: Profile, name: str) -> tuple[KeptFunction, list[str]]:
    functions = kept(profile)
    if not functions:
        raise PyhybridError(
            f"{profile.path}: no single calls are kept: run it with --keep NAME, the function that "
            "answers a request, and --clock wall"
        )
    if name:
        found = [each for each in functions if name in (each.name, each.frame.name)]
        if not found:
            names = ", ".join(each.name for each in functions)
            raise PyhybridError(f"{profile.path}: no calls of {name!r} are kept, but of {names}")
        chosen = found[0]
    else:
        outermost = [f for f in functions if any(call.parent is None for call in f.calls)]
        chosen = (outermost or functions)[0]
    return chosen, [each.name for each in functions if each is not chosen]


class _View:
    """Make the figures of a function's calls."""

    def __init__(self, profile: Profile, function: KeptFunction, others: list[str]) -> None:
        self._profile, self._function, self._others = profile, function, others
        self._by_samples = has_parts(profile)
        self._samples = profile.once(TurnSamples)
        self._start_ns = profile.process.start_ns or 0
        self._cpu_is_exact = bool(profile.usage)
        of_call: defaultdict[int, list[Turn]] = defaultdict(list)
        for row in profile.turns:
            of_call[row.call].append(Turn(row.thread, row.begin_ns, row.end_ns))
        ids = {call.id for call in function.calls}
        calls = {
            call: of_call[call.id] or [Turn(call.thread, call.begin_ns, call.end_ns)]
            for call in function.calls
            if call.state != "partial" and call.parent not in ids  # no recursion
        }
        if not calls:
            raise PyhybridError(f"{profile.path}: no call of {function.name} has ended")
        turns = (turn for each in calls.values() for turn in each)
        samples = self._samples.by_turn(turns, {function.frame.id})
        self._sampled_ns = Counter[str]()  # of all requests, weighted
        self._requests = [
            self._request(call, each, [s for turn in each for s in samples.get(turn, ())])
            for call, each in calls.items()
        ]
        self._opened = sorted(each.call.begin_ns for each in self._requests)
        self._closed = sorted(each.call.end_ns for each in self._requests)

    def _request(self, call: Call, turns: list[Turn], samples: list[Within]) -> _Request:
        parts = Counter[str]()
        used = self._profile.usage.get(call.id)
        exact = None if used is None else used.cpu_ns
        busy_ns = min(call.busy_ns, call.end_ns - call.begin_ns)
        away_ns = call.end_ns - call.begin_ns - busy_ns
        for each in samples:
            if each.sample.part in OF_THREAD or (each.sample.part == RAN and exact is None):
                parts[each.sample.part] += each.ns
        for part, ns in parts.items():
            self._sampled_ns[part] += ns * call.weight
        parts[RAN] = min(parts[RAN] if exact is None else exact, busy_ns)
        waited_ns = busy_ns - parts[RAN]
        sampled = sum(parts[part] for part in OF_THREAD)
        if sampled > waited_ns:
            for part in OF_THREAD:
                parts[part] = parts[part] * waited_ns // sampled
            sampled = sum(parts[part] for part in OF_THREAD)
        parts[REST if self._by_samples else NOT_RUN] = waited_ns - sampled
        if away_ns > 0:
            loop = self._samples.busy(call.thread)
            others = sum(loop.ns(begin, end) for begin, end in _between(call, turns))
            parts[LOOP_BUSY] = min(away_ns, others)
            parts[AWAITED] = away_ns - parts[LOOP_BUSY]
        return _Request(call, turns, +parts, samples)

    def all(self, n_slowest: int) -> Requests:
        """Return all figures."""
        requests, function = self._requests, self._function
        span_ns = max(self._closed) - min(self._opened)
        whole = self._part("request", [(r.total_ns, r.call.weight) for r in requests])
        figures = self._parts()
        n = max(function.durations.calls, len(requests))
        model, calls_of = self._model()
        medians = {each.part: each.p50_ns for each in figures}
        slow = sorted(requests, key=lambda each: (-each.total_ns, each.call.id))[:n_slowest]
        return Requests(
            *(function.name, self._others, n, n * 1e9 / (span_ns or 1), self._most_open()),
            *(self._by_samples, self._cpu_is_exact, whole),
            [each for each in figures if each.share >= LEAST],
            self._places(),
            model,
            [self._slow(each, medians, calls_of.get(each.call.id, 0)) for each in slow],
        )

    def _parts(self) -> list[RequestPart]:
        """Return them all; shares of those that are sampled are of all samples, however short the
        requests are that these fell in."""
        found = [
            self._part(part, [(r.parts.get(part, 0), r.call.weight) for r in self._requests])
            for part in PARTS
        ]
        all_ns = sum(each.total_ns * each.call.weight for each in self._requests) or 1
        shares = {each.part: each.share for each in found}
        shares |= {part: ns / all_ns for part, ns in self._sampled_ns.items()}
        rest = REST if self._by_samples else NOT_RUN
        shares[rest] = max(0.0, 1 - sum(share for part, share in shares.items() if part != rest))
        return [each._replace(share=shares[each.part]) for each in found]

    def _part(self, part: str, values: list[tuple[int, int]]) -> RequestPart:
        all_ns = sum(each.total_ns * each.call.weight for each in self._requests) or 1
        p50, p95, p99 = (weighted_quantile(values, q) for q in (0.5, 0.95, 0.99))
        return RequestPart(part, p50, p95, p99, sum(ns * n for ns, n in values) / all_ns)

    def _open_at(self, at_ns: int) -> int:
        return bisect_right(self._opened, at_ns) - bisect_left(self._closed, at_ns)

    def _most_open(self) -> int:
        return max(self._open_at(at_ns) for at_ns in self._opened)

    # --- where they waited ------------------------------------------------------------------------

    def _places(self) -> list[RequestPlace]:
        """Return where all requests waited, the longest first."""
        rows = self._waited(each for request in self._requests for each in request.samples)
        loops = Counter[Place]()
        for place, ns in self._loops():
            loops[place] += ns
        rows += [
            RequestPlace(LOOP_BUSY, *place, "", *NOWHERE, "", ns)
            for place, ns in loops.most_common(MOST_PLACES)
        ]
        if not self._by_samples:
            spans = [span for request in self._requests for span in self._not_run(request)]
            waited_ns = sum(end - begin for _, begin, end in spans)
            other = self._other(NOT_RUN, spans)
            rows.append(RequestPlace(NOT_RUN, *NOWHERE, "", *other[0], other[1], waited_ns))
        return sorted(rows, key=lambda row: -row.total_ns)

    def _loops(self) -> Iterator[tuple[Place, int]]:
        """Yield what event loops ran while requests were on no thread, and for how long these
        waited together."""
        of_loop: defaultdict[int, list[_Request]] = defaultdict(list)
        for request in self._requests:
            if LOOP_BUSY in request.parts:
                of_loop[request.call.thread].append(request)
        for thread, requests in of_loop.items():
            opened = sorted(each.call.begin_ns for each in requests)
            closed = sorted(each.call.end_ns for each in requests)
            on = Busy(sorted((t.begin, t.end) for each in requests for t in each.turns))
            for each in self._samples.of.get(thread, ()):
                if each.part in (AWAITED, QUEUES):
                    continue
                n = bisect_right(opened, each.begin) - bisect_left(closed, each.begin)
                ns = n * (each.end - each.begin) - on.ns(each.begin, each.end)
                if ns > 0:
                    yield self._samples.place(each.stack), ns

    def _waited(self, samples: Iterable[Within]) -> list[RequestPlace]:
        waited = Counter[tuple[str, Place, str]]()
        spans = defaultdict[tuple[str, Place, str], list[tuple[int, int, int]]](list)
        for each in samples:
            if each.sample.part in OF_THREAD:
                key = (
                    each.sample.part,
                    self._samples.place(each.sample.stack),
                    self._called(each.sample),
                )
                waited[key] += each.ns
                spans[key].append(each.span)
        rows = []
        for key, ns in waited.most_common(MOST_PLACES):
            part, place, called = key
            other, thread = self._other(part, spans[key])
            rows.append(RequestPlace(part, *place, called, *other, thread, ns))
        return rows

    def _not_run(self, request: _Request) -> Iterator[tuple[int, int, int]]:
        """Yield when its thread had no sample for some periods."""
        least_ns = 3 * self._profile.period_ns
        for thread, begin, end in request.turns:
            last = begin
            for each, _ in self._samples.within(thread, begin, end):
                if each.begin - last > least_ns:
                    yield thread, last, each.begin
                last = max(last, each.end)
            if end - last > least_ns:
                yield thread, last, end

    def _called(self, each: Sample) -> str:
        return self._samples.called(each.stack) if each.part in (QUEUES, ASLEEP) else ""

    def _other(self, part: str, spans: list[tuple[int, int, int]]) -> tuple[Place, str]:
        """Return what another thread was at for most of these times, and the thread."""
        others = Counter[tuple[Place, int]]()
        for thread, begin, end in spans[:: len(spans) // MOST_LOOKED_AT + 1]:
            self._samples.add_others(others, thread, begin, end, part)
        if not others:
            return NOWHERE, ""
        ((place, thread), _), *_ = others.most_common(1)
        return place, self._profile.thread_name(thread)

    # --- the model --------------------------------------------------------------------------------

    def _model(self) -> tuple[ModelCalls | None, dict[int, int]]:
        """Return figures of the calls of models, and how many each request had."""
        found = steps_of(self._profile)
        if not found or found.trains:
            return None, {}
        inside: defaultdict[int, list[Turn]] = defaultdict(list)
        for request in self._requests:
            for turn in request.turns:
                inside[turn.thread].append(turn)
        for turns in inside.values():
            turns.sort()
        calls = []
        for step in found.steps:
            if spans := step.spans.get(FORWARD):
                calls.append((spans[0][0], spans[-1][1], step.thread, step.tokens))
        calls.sort()
        open_at, own, seen = [], set[int](), list[Turn]()
        for at, (begin, end, thread, _) in enumerate(calls):
            turns = inside[thread]
            near = bisect_right(turns, (thread, begin, 1 << 63)) - 1
            is_own = near >= 0 and end <= turns[near].end
            if n := 1 if is_own else self._open_at(begin):
                open_at.append(n)
                seen.append(Turn(thread, begin, end))
            if is_own:
                own.add(at)
        if not open_at:
            return None, {}
        begins = [call[0] for call in calls]
        counts: dict[int, int] = {}
        before, in_model = [], []
        for request in self._requests:
            call, threads = request.call, {turn.thread for turn in request.turns}
            rows = [
                at
                for at in range(
                    bisect_left(begins, call.begin_ns), bisect_left(begins, call.end_ns)
                )
                if calls[at][1] <= call.end_ns and (at not in own or calls[at][2] in threads)
            ]
            counts[call.id] = len(rows)
            if rows:
                before.append((calls[rows[0]][0] - call.begin_ns, call.weight))
            in_model.append((sum(calls[at][1] - calls[at][0] for at in rows), call.weight))
        weights = {request.call.id: request.call.weight for request in self._requests}
        model = ModelCalls(
            len(open_at),
            weighted_quantile([(n, 1) for n in open_at], 0.5),
            max(open_at),
            weighted_quantile([(tokens, 1) for *_, tokens in calls], 0.5),
            weighted_quantile([(n, weights[call]) for call, n in counts.items()], 0.5),
            weighted_quantile(before, 0.5),
            weighted_quantile(before, 0.95),
            weighted_quantile(in_model, 0.5),
            sum(turn.end - turn.begin for turn in seen),
            self._waited(each for samples in self._in_model(seen) for each in samples),
        )
        return model, counts

    def _in_model(self, calls: list[Turn]) -> Iterable[list[Within]]:
        nodes = {call.node for call in self._profile.watched_calls}
        frames = {self._profile.nodes.frame[node] for node in nodes}
        return self._samples.by_turn(calls, frames).values()

    # --- why some were slow -----------------------------------------------------------------------

    def _slow(self, request: _Request, medians: dict[str, int], n_calls: int) -> SlowRequest:
        call = request.call
        part = max(PARTS, key=lambda each: request.parts.get(each, 0) - medians[each])
        waited, looked_at = Counter[tuple[Place, str]](), list[tuple[int, int, int]]()
        if part in (*OF_THREAD, RAN):
            for each in request.samples:
                if each.sample.part == part:
                    place = self._samples.place(each.sample.stack)
                    waited[place, self._called(each.sample)] += each.ns
                    looked_at.append(each.span)
        elif part == LOOP_BUSY:
            for begin, end in _between(call, request.turns):
                for sample, ns in self._samples.within(call.thread, begin, end):
                    if sample.part not in (AWAITED, QUEUES):
                        waited[self._samples.place(sample.stack), ""] += ns
        else:
            looked_at = [*self._not_run(request)] if part == NOT_RUN else [*request.turns]
            if part == AWAITED:
                looked_at = [(call.thread, a, b) for a, b in _between(call, request.turns)]
        (place, called), _ = next(iter(waited.most_common(1)), ((NOWHERE, ""), 0))
        is_alone = part in (RAN, LOOP_BUSY)
        other, other_thread = (NOWHERE, "") if is_alone else self._other(part, looked_at)
        return SlowRequest(
            call.id,
            self._profile.thread_name(call.thread),
            call.begin_ns - self._start_ns,
            request.total_ns,
            call.attributes,
            dict(request.parts),
            n_calls,
            part,
            request.parts.get(part, 0) - medians[part],
            *(*place, called, *other, other_thread),
        )


def _between(call: Call, turns: list[Turn]) -> Iterator[tuple[int, int]]:
    """Yield when a call was on no thread."""
    ends = [call.begin_ns, *(turn.end for turn in turns)]
    begins = [*(turn.begin for turn in turns), call.end_ns]
    return zip(ends, begins, strict=True)
