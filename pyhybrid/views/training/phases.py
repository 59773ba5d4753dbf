"""The phases of a training's steps: forward, backward, the optimizer... as spans within spans.

Which function is which phase, frameworks/torch.toml has; the calls are the table `watched_call`.
What the program's own code does within an optimizer is `other`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyhybrid.base.structs import Struct, made
from pyhybrid.frameworks import torch
from pyhybrid.tables import WatchedCall
from pyhybrid.tables.profile import Profile

DATA, FORWARD, BACKWARD, OPTIMIZER, OTHER = "data", "forward", "backward", "optimizer", "other"
COMPILE = "compile"


class Span(Struct):
    """Hold a call, and those in it."""

    phase: str
    call: WatchedCall
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
        """Did it bring data?  At the end of an epoch there is none."""
        return self.phase == DATA and not self.call.raised


def all_phases() -> list[str]:
    """Return the names, in the order in which they are shown."""
    return [*torch.phases(), OTHER]


def phase_spans(profile: Profile) -> dict[int, list[Span]]:
    """Return by thread those that are in no other one, in order of time."""
    phase_of = frame_phases(profile)
    frame_of = profile.nodes.frame
    threads: defaultdict[int, list[Span]] = defaultdict(list)
    open_spans: list[Span] = []
    for call in profile.watched_calls:
        while open_spans and not _is_in(call, open_spans[-1].call):
            open_spans.pop()
        phase = phase_of[frame_of[call.node]]
        around = {each.phase for each in open_spans}
        if COMPILE in around:
            phase = COMPILE  # it runs the model to see what it does
        elif phase == FORWARD and BACKWARD in around:
            phase = BACKWARD  # activations are computed again
        span = Span(phase, call)
        (open_spans[-1].inner if open_spans else threads[call.thread]).append(span)
        open_spans.append(span)
    return threads


def _is_in(call: WatchedCall, around: WatchedCall) -> bool:
    return call.thread == around.thread and call.begin_ns < around.end_ns


def frame_phases(profile: Profile) -> dict[int, str]:
    """Return the phases of the frames whose calls were watched."""
    watched = {profile.nodes.frame[call.node] for call in profile.watched_calls}
    frames = [profile.frames[number] for number in watched]
    return {each.id: torch.phase_of(each.file or "", each.name) or OTHER for each in frames}
