"""Slow calls select samples: when each thread was inside them.

A call's time shows when, the samples within it show why.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pyhybrid.errors import PyhybridError
from pyhybrid.options.function_filter import is_one_of, named
from pyhybrid.tables import Call
from pyhybrid.tables.call_durations import function_durations
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.tables.timeline import Spans
from pyhybrid.views.labels import short_time

MOST_NAMED = 5  # functions, where one is not there


class SlowerThan(Record):
    """Choose calls of function or region `name` (as -t takes it) that took `least_ns` or longer."""

    name: str
    least_ns: int


def spans_of(
    profile: Profile, limits: list[SlowerThan], any_thread: bool = False
) -> tuple[dict[int, Spans], list[str]]:
    """Return when each thread was in these calls, and a note for each limit.

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
    nodes, named = profile.nodes.frame, _named(profile, limit.name)
    of_name = [call for call in profile.calls if nodes[call.node] in named]
    if not of_name:
        raise PyhybridError(
            f"{profile.path}: no single calls of {limit.name!r}{_kept(profile)}: choose it with "
            f"`-t {limit.name}`, or make it a region"
        )
    slow = [call for call in of_name if call.end_ns - call.begin_ns >= limit.least_ns]
    durations = function_durations(profile)
    counted = [durations[frame] for frame in named if frame in durations]
    n = sum(each.calls for each in counted)
    text = f"only samples within {len(slow):,} of {n:,} calls of {limit.name}"
    text += f" that took {short_time(limit.least_ns)} or longer"
    n_slow = sum(each.calls_from(limit.least_ns) for each in counted)
    if n_slow > len(slow):
        text += f" ({n_slow:,} or more did, of which the slowest were kept)"
    return slow, text


def _kept(profile: Profile) -> str:
    """Name what there are single calls of: of most first."""
    nodes, frames = profile.nodes.frame, profile.frames
    names = Counter(frames[nodes[call.node]].name for call in profile.calls)
    first = [name for name, _ in names.most_common(MOST_NAMED)]
    first += ["others"] * (len(names) > MOST_NAMED)
    return f", but of {', '.join(first)}" if first else ""


def _named(profile: Profile, name: str) -> set[int]:
    """Return the frames of a function, as `-t` takes it, or of a region; in old files, of functions
    of the same name in several modules, those whose file is the module's, if there are any."""
    names = named([name])
    known = {
        code.frame
        for code in profile.codes.values()
        if is_one_of(names, profile.frames[code.frame].name, code.module, code.file)
    }
    if known:
        return known | {
            f.id for f in profile.frames.values() if (f.kind, f.name) == ("region", name)
        }
    frames = [f for f in profile.frames.values() if f.kind in ("python", "region")]
    exactly = {frame.id for frame in frames if frame.name == name}
    ends = [f for f in frames if f.kind == "python" and name.endswith(f".{f.name}")]
    in_module = [f for f in ends if _is_module(f.file or "", name.removesuffix(f".{f.name}"))]
    return exactly | {frame.id for frame in in_module or ends}


def _is_module(file: str, module: str) -> bool:
    path = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f".{path}".endswith(f".{module}")


def _united(spans: Spans) -> Spans:
    united: Spans = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((begin, end))
    return united
