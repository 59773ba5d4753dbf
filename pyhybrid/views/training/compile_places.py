"""In which modules of a model torch.compile compiled for the backward pass.

A forward pass is compiled below its module, where the tree has it; what is compiled when a backward
pass first runs is below the engine alone.  It belongs to the module in which the same function's
forward pass was compiled.
"""

from collections import Counter
from collections.abc import Iterator

from pyhybrid.tables import WatchedCall
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.compiles import Compile, compiles_of
from pyhybrid.views.training.phases import BACKWARD, COMPILE, Span, phase_spans


def backward_compiles(profile: Profile) -> Counter[int]:
    """Nanoseconds by the frame of the module."""
    found, taken = compiles_of(profile), Counter[int]()
    if not found:
        return taken
    start_ns = profile.process.start_ns or 0
    forward: dict[tuple[str, int, str, int], int] = {}  # the module in which it was compiled
    for call, in_backward in _compiler_calls(profile):
        for each in found.compiles:
            if not call.begin_ns <= start_ns + each.middle_ns < call.end_ns:
                continue
            if not each.backward:
                forward[_key(each)] = _module(profile, call.node)
            elif in_backward:
                taken[forward.get(_key(each), 0)] += each.took_ns
    del taken[0]
    return taken


def _key(each: Compile) -> tuple[str, int, str, int]:
    return each.file, each.line, each.name, each.number


def _compiler_calls(profile: Profile) -> Iterator[tuple[WatchedCall, bool]]:
    """The outermost ones of each thread, in order of time; is each in a backward pass?"""

    def of(spans: list[Span], in_backward: bool) -> Iterator[tuple[WatchedCall, bool]]:
        for span in spans:
            if span.phase == COMPILE:
                yield span.call, in_backward
            else:
                yield from of(span.inner, in_backward or span.phase == BACKWARD)

    for spans in phase_spans(profile).values():
        yield from of(spans, False)


def _module(profile: Profile, node: int) -> int:
    """The frame of the module in which a node is; 0: none."""
    nodes, frames = profile.nodes, profile.frames
    while node and not frames[nodes.frame[node]].is_object:
        node = nodes.parent[node]
    return nodes.frame[node] if node else 0
