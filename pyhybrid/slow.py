"""Slow calls select samples: when each thread was inside them.

A call's time says when, the samples within it say why.
"""

from collections import defaultdict
from dataclasses import dataclass

from pyhybrid.durations import function_durations
from pyhybrid.errors import PyhybridError
from pyhybrid.names import short_time
from pyhybrid.profile_file import Profile
from pyhybrid.rows import Call

Spans = list[tuple[int, int]]


@dataclass(slots=True)
class SlowerThan:
    """Calls of the function or region `name` (as -t takes it) that took `least_ns` or longer."""

    name: str
    least_ns: int


def spans_of(
    profile: Profile, limits: list[SlowerThan], any_thread: bool = False
) -> tuple[dict[int, Spans], list[str]]:
    """When each thread was in these calls, and a note for each limit.

    With `any_thread` all threads were, when one was.  Raises PyhybridError where no calls of that
    name were kept.
    """
    turns: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for turn in profile.turns:
        turns[turn.call].append((turn.thread, turn.begin_ns, turn.end_ns))
    spans: defaultdict[int, Spans] = defaultdict(list)
    notes = []
    for limit in limits:
        calls, note = _calls(profile, limit)
        notes.append(note)
        for call in calls:
            for thread, begin, end in turns[call.id] or [(call.thread, call.begin_ns, call.end_ns)]:
                for each in profile.threads if any_thread else (thread,):
                    spans[each].append((begin, end))
    return {thread: _united(of_thread) for thread, of_thread in spans.items()}, notes


def _calls(profile: Profile, limit: SlowerThan) -> tuple[list[Call], str]:
    nodes, frames = profile.nodes.frame, profile.frames
    named = {
        number
        for number, frame in frames.items()
        if frame.kind in ("python", "region")
        and (frame.name == limit.name or limit.name.endswith(f".{frame.name}"))
    }
    of_name = [call for call in profile.calls if nodes[call.node] in named]
    if not of_name:
        raise PyhybridError(
            f"{profile.path}: no single calls of {limit.name!r}: choose it with `-t {limit.name}`, "
            "or make it a region"
        )
    slow = [call for call in of_name if call.end_ns - call.begin_ns >= limit.least_ns]
    durations = function_durations(profile)
    n = sum(durations[frame].calls for frame in named if frame in durations)
    text = f"only samples within {len(slow):,} of {n:,} calls of {limit.name}"
    return slow, f"{text} that took {short_time(limit.least_ns)} or longer"


def _united(spans: Spans) -> Spans:
    united: Spans = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((begin, end))
    return united
