"""The phases of a training's steps: forward, backward, the optimizer... as spans within spans.

Which function is which phase, frameworks/torch.toml has; the calls are the table `watched_call`.
What the program's own code does within an optimizer is `other`.  A forward pass that made no
autograd node is `evaluation`, as are the batches that went through such passes alone; one in the
loader (a transform) is `data`, and one in the backward pass is computed again, and `backward`.
What a function of the program does after it called one that saves, to its own end, is `checkpoint`.
Where no backward pass and no optimizer ran, models are not trained but used: a forward pass is one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from pyhybrid.base.structs import Struct, made
from pyhybrid.frameworks import torch
from pyhybrid.tables import WatchedCall
from pyhybrid.tables.profile import Profile, made_once

DATA, FORWARD, BACKWARD, OPTIMIZER, OTHER = "data", "forward", "backward", "optimizer", "other"
COMPILE, EVALUATION = "compile", "evaluation"
COMMUNICATION, CHECKPOINT = "communication", "checkpoint"
_TRAINS = (FORWARD, BACKWARD, OPTIMIZER)  # a batch that comes before one of these is trained with


class Span(Struct):
    """Hold a call, and those in it."""

    phase: str
    call: WatchedCall
    brings_batch: bool
    inner: list[Span] = made(list)

    def flat(self) -> Iterator[Span]:
        """Yield it, and all that are in it."""
        yield self
        for each in self.inner:
            yield from each.flat()

    def has(self, phase: str) -> bool:
        """Is it such a phase, or is one in it?"""
        return any(each.phase == phase for each in self.flat())

    @property
    def is_batch(self) -> bool:
        """Did it bring data that is trained with?  At the end of an epoch there is none."""
        return self.phase == DATA and self.brings_batch and not self.call.raised


def all_phases() -> list[str]:
    """Return the names, in the order in which they are shown."""
    return [*torch.phases(), OTHER]


def phase_spans(profile: Profile) -> dict[int, list[Span]]:
    """Return by thread those that are in no other one, in order of time."""
    phase_of = _listed_phases(profile)
    frame_of = profile.nodes.frame
    is_training = trains(profile)
    threads: defaultdict[int, list[Span]] = defaultdict(list)
    open_spans: list[Span] = []
    calls, rests = profile.watched_calls, _rests(profile)
    for at, call in enumerate(calls):
        if rests.get(at) is False:
            continue
        while open_spans and not _is_in(call, open_spans[-1].call):
            open_spans.pop()
        frame = frame_of[call.node]
        around = {each.phase for each in open_spans}
        phase = _phase(call, rests.get(at) or phase_of[frame], around, is_training)
        span = Span(phase, call, torch.brings_batch(profile.frames[frame].name))
        (open_spans[-1].inner if open_spans else threads[call.thread]).append(span)
        open_spans.append(span)
    for spans in threads.values() if is_training else ():
        _mark_evaluated(spans)
    return threads


@made_once
def trains(profile: Profile) -> bool:
    """Did a backward pass run, or an optimizer?"""
    return not {BACKWARD, OPTIMIZER}.isdisjoint(watched_phases(profile).values())


@made_once
def _rests(profile: Profile) -> dict[int, str | Literal[False]]:
    """Return of calls that are the rest of one in them, with which they begin, the phase, by place;
    False: another phase is in them, too, so they are none.  In an optimizer they may be what that
    called back."""
    calls, frame_of, phase_of = profile.watched_calls, profile.nodes.frame, _listed_phases(profile)
    rests: dict[int, str | Literal[False]] = {}
    optimizer: WatchedCall | None = None
    for at, call in enumerate(calls):
        phase = phase_of[frame_of[call.node]]
        if phase == OPTIMIZER:
            optimizer = call
        if phase != OTHER or (optimizer and _is_in(call, optimizer)):
            continue
        phase, end = torch.steps()["with_rest"], at + 1
        while _holds(calls, call, end) and phase_of[frame_of[calls[end].node]] == phase:
            end += 1
        is_alone = end > at + 1 and not _holds(calls, call, end)
        rests[at] = phase if is_alone else False
    return rests


def _holds(calls: Sequence[WatchedCall], around: WatchedCall, at: int) -> bool:
    return at < len(calls) and _is_in(calls[at], around)


def _phase(call: WatchedCall, phase: str, around: set[str], is_training: bool) -> str:
    """Return the phase of a call whose function is `phase`, within calls that are `around` it."""
    if COMPILE in around:
        return COMPILE  # it runs the model to see what it does
    if phase == FORWARD:
        for each in (DATA, EVALUATION, BACKWARD):  # a transform; activations are computed again
            if each in around:
                return each
        is_alone = is_training and FORWARD not in around
        return EVALUATION if call.no_graph and is_alone else FORWARD
    return EVALUATION if phase == DATA and EVALUATION in around else phase


def _mark_evaluated(spans: list[Span]) -> None:
    """Make batches that only evaluation followed, before the next one, part of it, with what begins
    and ends their epoch.  A loader may fetch one ahead."""
    trains = evaluates = False
    following = ""  # the phase of the next batch of this epoch
    for span in reversed(spans):
        trains |= span.phase in _TRAINS
        evaluates |= span.phase == EVALUATION
        if span.phase != DATA:
            continue
        if span.call.raised:
            trains = False  # the loader had no more
            continue
        if trains or evaluates:
            span.phase = DATA if trains else EVALUATION
        else:
            span.phase = following or DATA
        following = span.phase if span.brings_batch else ""
        trains = evaluates = False
    last = DATA
    for span in spans:
        if span.brings_batch and span.call.raised and span.phase == DATA:
            span.phase = last
        elif span.brings_batch:
            last = span.phase


def _is_in(call: WatchedCall, around: WatchedCall) -> bool:
    return call.thread == around.thread and call.begin_ns < around.end_ns


def frame_phases(profile: Profile) -> dict[int, str]:
    """Return the phases of the frames whose calls were watched."""
    frame_of, calls = profile.nodes.frame, profile.watched_calls
    rests = {frame_of[calls[at].node]: phase for at, phase in _rests(profile).items() if phase}
    return _listed_phases(profile) | rests


def node_phases(profile: Profile) -> dict[int, str]:
    """Return the phases of the nodes whose calls were watched: in which most of their time was."""
    times: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for spans in phase_spans(profile).values():
        for span in (each for top in spans for each in top.flat()):
            times[span.call.node][span.phase] += span.call.end_ns - span.call.begin_ns
    return {node: of_node.most_common(1)[0][0] for node, of_node in times.items()}


@made_once
def _listed_phases(profile: Profile) -> dict[int, str]:
    """Return the same by the functions' names alone."""
    phases = watched_phases(profile)
    if not trains(profile):
        phases = {f: OTHER if each == EVALUATION else each for f, each in phases.items()}
    return phases


@made_once
def watched_phases(profile: Profile) -> dict[int, str]:
    """Return the phases of those frames as frameworks/torch.toml has them."""
    watched = {profile.nodes.frame[call.node] for call in profile.watched_calls}
    frames = [profile.frames[number] for number in watched]
    return {each.id: torch.phase_of(each.file or "", each.name) or OTHER for each in frames}
