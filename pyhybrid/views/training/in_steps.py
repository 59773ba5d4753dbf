"""A profile with the samples of the steps of a training alone: what a training is profiled for.

Imports and the first use of everything are of its beginning: the longer it goes on, the less of its
time that is.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

from pyhybrid._columns import inclusive, rows_from, take
from pyhybrid.tables import Sampled, Thread, gil_name, stack_of, waits
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.timeline import Spans, times, within
from pyhybrid.views.training.steps import steps_of

FEWEST_STEPS = 4
FEWEST_SAMPLES = 100  # of the steps: with fewer shares are those of the run


class InSteps(NamedTuple):
    """Hold the samples of `n_steps` steps, on all threads, and how much weight that is.

    Exact figures are not kept by time: those of functions that have samples there, or below whom
    something has, are those of the run; there are no others.
    """

    profile: Profile
    n_steps: int
    weight_ns: int


def spans_of_steps(profile: Profile) -> tuple[Spans | None, int]:
    """Return when the steps of a training ran, and how many there are; (None, 0): too few."""
    found = None if profile.view.by_time else steps_of(profile)
    if not found or len(found.steps) < FEWEST_STEPS:
        return None, 0
    return _united([(step.begin_ns, step.end_ns) for step in found.steps]), len(found.steps)


@made_once
def in_steps(profile: Profile) -> InSteps | None:
    """Return that of a training's; None: there are too few steps, or samples in them."""
    spans, n_steps = spans_of_steps(profile)
    if spans is None:
        return None
    samples, weights = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for chunk in profile.timeline():
        kept = within(times(chunk), spans)
        for place, n in Counter(map(chunk.place.__getitem__, kept)).items():
            samples[chunk.thread, place] += n
            weights[chunk.thread, place] += n
        for at in chunk.weights.keys() & kept if chunk.weights else ():
            weights[chunk.thread, chunk.place[at]] += chunk.weights[at] - 1
    if samples.total() < FEWEST_SAMPLES:
        return None
    rows = [
        Sampled(
            *(thread, stack_of(place), gil_name(place), waits(place)),
            *(n, weights[thread, place] * profile.period_ns),
        )
        for (thread, place), n in sorted(samples.items())
    ]
    taken = Counter[int]()
    for row in rows:
        taken[row.thread] += row.weight_ns
    threads = [each._replace(recorded_weight_ns=taken[each.id]) for each in profile[Thread]]
    exact = _exact_of(profile, rows)
    part = profile.replaced({Sampled: rows, Thread: threads}, exact=exact)
    return InSteps(part, n_steps, sum(row.weight_ns for row in part.sampled))


def _exact_of(profile: Profile, rows: list[Sampled]) -> ExactTable:
    nodes, node_of = profile.nodes, profile.stacks.node
    own_ns = array("q", bytes(8 * len(nodes.parent)))
    for row in rows:
        own_ns[node_of[row.stack]] += row.weight_ns
    all_ns = inclusive(nodes.parent, own_ns)
    kept = rows_from(take(all_ns, profile.exact.node), 1)
    exact = ExactTable()
    exact.add([take(column, kept) for column in profile.exact.columns])
    return exact


def _united(spans: Spans) -> Spans:
    """Return them in order of time, those that meet as one."""
    united: Spans = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((begin, end))
    return united
