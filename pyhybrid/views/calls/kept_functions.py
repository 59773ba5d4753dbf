"""Calls that were kept, function by function: exact durations, and what each used."""

from __future__ import annotations

from collections import Counter, defaultdict

from pyhybrid.base.structs import Struct
from pyhybrid.tables import Call, Code, Frame
from pyhybrid.tables.call_durations import Durations, function_durations
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import labels_of


class KeptFunction(Struct):
    """Hold a function or region whose calls were kept.

    `name` is its own where no other one has it, else a longer one; `durations` are of all its
    calls, `calls` those in the file, by begin.
    """

    name: str
    frame: Frame
    code: Code | None
    durations: Durations
    calls: list[Call]

    @property
    def n_lacking(self) -> int:
        """Return how many calls are counted that the file does not have."""
        return max(0, self.durations.calls - sum(call.state != "partial" for call in self.calls))


def kept_functions(profile: Profile) -> list[KeptFunction]:
    """Return those that were called, most time first."""
    calls: defaultdict[int, list[Call]] = defaultdict(list)
    for call in profile.calls:
        calls[profile.nodes.frame[call.node]].append(call)
    durations = function_durations(profile)
    frames = [profile.frames[frame] for frame in {*calls, *durations}]
    labels, codes = labels_of(profile), profile.codes
    paths = {f.id: codes[f.id].path if f.id in codes else labels[f.id] for f in frames}
    n_names = Counter(frame.name for frame in frames)
    n_paths = Counter(paths.values())

    def name_of(frame: Frame) -> str:
        if n_names[frame.name] == 1:
            return frame.name
        path = paths[frame.id]
        return path if n_paths[path] == 1 else f"{labels[frame.id]} #{frame.id}"

    functions = [
        KeptFunction(
            name_of(frame),
            frame,
            codes.get(frame.id),
            durations.get(frame.id, Durations()),
            calls[frame.id],
        )
        for frame in frames
    ]
    return sorted(functions, key=lambda each: (-each.durations.total_ns, each.name))


def slowest(calls: list[Call], n: int | None) -> list[Call]:
    """Return the n that took longest (None: all), in the order that they are in."""
    if n is None or n >= len(calls):
        return calls
    longest = sorted(calls, key=lambda call: call.begin_ns - call.end_ns)[:n]
    chosen = {call.id for call in longest}
    return [call for call in calls if call.id in chosen]


def weighted_quantile(values: list[tuple[int, int]], q: float) -> int:
    """Return, of (value, weight), the value that the share `q` of the weight does not exceed."""
    ordered = sorted(values)
    rank = q * sum(weight for _, weight in ordered)
    seen = 0
    for value, weight in ordered:
        seen += weight
        if seen >= rank:
            return value
    return ordered[-1][0] if ordered else 0
