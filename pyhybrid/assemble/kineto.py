"""Work of a GPU, from a trace of torch.profiler's (Kineto), below the calls that launched it.

A kernel, copy or fill has the correlation number of its launch by the CUDA runtime, which has a
thread and a time; the event log (--events) tells which call ran there then.  What a backward pass
launched belongs to the call that made the node: the enclosing operator has the sequence number of
one of the forward pass.  What is not to be placed is left out, and counted by reason.

Kineto's times are those of the day, the profile's those of the monotonic clock: pairs of both at
its begin and end say how they lie to one another.
"""

import gzip
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyhybrid.damage import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file.profile import Profile
from pyhybrid.profile_file.tables import GpuWork

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHES = ("cuda_runtime", "cuda_driver")
GRAPH = "GraphLaunch"  # one launch, many kernels, as they were captured

NO_LAUNCH = "launched before the trace begins"
REPLAYED = "replayed by CUDA graphs"
OUTSIDE = "launched while no call was logged"


@dataclass(slots=True)
class Placed:
    """The work, sums by call and name, and how much of it is left out, by reason."""

    work: list[GpuWork]
    n_placed: int
    left_out: Counter[str] = field(default_factory=Counter)


def place(profile: Profile, path: str) -> Placed:
    """What the trace has, below the profile's calls.  Raises PyhybridError."""
    if not profile.query("SELECT 1 FROM event_log LIMIT 1"):
        raise PyhybridError(f"{profile.path}: no events, by which launches are placed (--events)")
    with damage_in(path):
        return _place(profile, path, *_read(path))


def _read(path: str) -> tuple[list[dict[str, Any]], int]:
    """The events with a time, and what these are since, in nanoseconds."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        trace = json.loads(text)
    except (OSError, EOFError, ValueError) as error:
        raise PyhybridError(f"cannot read {path}: {error}") from None
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    return events, int(trace.get("baseTimeNanoseconds", 0))


def _place(profile: Profile, path: str, events: list[dict[str, Any]], base_ns: int) -> Placed:
    pid = profile.process.pid
    launches = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") in LAUNCHES and "correlation" in e.get("args", {})
    }
    if launches and all(e.get("pid") != pid for e in launches.values()):
        raise PyhybridError(f"{path}: of another process than the profile, which is of {pid}")
    to_monotonic, calls = _clock(profile, base_ns), _Calls(profile)
    operators = _Operators(e for e in events if e.get("cat") == "cpu_op")
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    placed = Placed([], 0)
    for e in events:
        if e.get("cat") not in WORK:
            continue
        launch = launches.get(e.get("args", {}).get("correlation"))
        if launch is None:
            placed.left_out[NO_LAUNCH] += 1
            continue
        if GRAPH in launch["name"]:
            placed.left_out[REPLAYED] += 1
            continue
        tid, ts = launch["tid"], launch["ts"]
        made = operators.forward_of(tid, ts)
        if made:
            tid, ts = made
        node = calls.at(tid, to_monotonic(ts))
        if not node:
            placed.left_out[OUTSIDE] += 1
            continue
        args = e["args"]
        key = node, int(made is not None), e["name"], args.get("device", 0), args.get("stream", 0)
        sums[key][0] += 1
        sums[key][1] += round(e["dur"] * 1000)
        placed.n_placed += 1
    placed.work = [GpuWork(*key, *of) for key, of in sorted(sums.items())]
    return placed


def _clock(profile: Profile, base_ns: int) -> Callable[[float], int]:
    """From a trace's microseconds to the profile's nanoseconds."""
    meta = profile.meta
    if "start_ns" not in meta or "start_unix_ns" not in meta:
        raise PyhybridError(f"{profile.path}: it is not known at what time of day it began")
    start_ns, start_unix_ns = int(meta["start_ns"]), int(meta["start_unix_ns"])
    ahead_ns = start_unix_ns - start_ns
    stop_ns = int(meta.get("stop_ns", start_ns))
    # By how much more the time of day is ahead at the end: the system puts it right slowly.
    later_ns = int(meta.get("stop_unix_ns", start_unix_ns)) - stop_ns - ahead_ns
    lasted_ns = max(stop_ns - start_ns, 1)

    def to_monotonic(ts: float) -> int:
        time_ns = base_ns - ahead_ns + round(ts * 1000)
        return time_ns - round(later_ns * (time_ns - start_ns) / lasted_ns)

    return to_monotonic


class _Calls:
    """Which call runs on a thread at a time, by the event log."""

    def __init__(self, profile: Profile) -> None:
        tids = {number: thread.tid for number, thread in profile.threads.items()}
        self._times: defaultdict[int, list[int]] = defaultdict(list)
        self._nodes: defaultdict[int, list[int]] = defaultdict(list)
        stacks: defaultdict[int, list[int]] = defaultdict(list)
        for event in profile.events():
            tid, stack = tids[event.thread], stacks[event.thread]
            if event.kind in ("call", "resume"):
                stack.append(event.node)
            elif event.kind == "gap":
                stack.clear()
            elif stack:
                stack.pop()
            self._times[tid].append(event.time_ns)
            self._nodes[tid].append(stack[-1] if stack else 0)

    def at(self, tid: int, time_ns: int) -> int:
        """The innermost one's node; 0: none runs, or it is not known."""
        i = bisect_right(self._times.get(tid, []), time_ns)
        return self._nodes[tid][i - 1] if i else 0


class _Operators:
    """The operators of the CPU, and which one of the forward pass a backward one is of."""

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self._of_thread: defaultdict[int, list[tuple[float, float, dict[str, Any]]]]
        self._of_thread = defaultdict(list)
        self._forward: defaultdict[int, list[tuple[float, float, int]]] = defaultdict(list)
        for e in events:
            ts, args = e["ts"], e.get("args", {})
            self._of_thread[e["tid"]].append((ts, ts + e["dur"], args))
            if "Sequence number" in args and not args.get("Fwd thread id"):
                middle = ts + e["dur"] / 2  # its caller may have begun just before it
                self._forward[args["Sequence number"]].append((ts, middle, e["tid"]))
        for operators in self._of_thread.values():
            operators.sort(key=lambda each: (each[0], -each[1]))
        self._begins = {t: [each[0] for each in of] for t, of in self._of_thread.items()}
        self._outer = {tid: _enclosing(of) for tid, of in self._of_thread.items()}

    def forward_of(self, tid: int, ts: float) -> tuple[int, float] | None:
        """Thread and time of the operator whose backward ran there then; None: none did."""
        i = bisect_right(self._begins.get(tid, []), ts) - 1
        while i >= 0:
            begin, end, args = self._of_thread[tid][i]
            if end >= ts and args.get("Fwd thread id"):
                made = [each for each in self._forward[args["Sequence number"]] if each[0] < begin]
                if made:  # the innermost one of this number, the latest
                    _, at, of = max(made)
                    return of, at
            i = self._outer[tid][i]
        return None


def _enclosing(operators: list[tuple[float, float, dict[str, Any]]]) -> list[int]:
    """Of each, in order of begin, the place of the next one out; -1: none is around it."""
    outer: list[int] = []
    stack: list[int] = []
    for i, (begin, _, _) in enumerate(operators):
        while stack and operators[stack[-1]][1] <= begin:
            stack.pop()
        outer.append(stack[-1] if stack else -1)
        stack.append(i)
    return outer
