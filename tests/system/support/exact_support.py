"""What the tests of the exact half share: its trees as plain values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from pyhybrid.base.pseudo_frames import IMPORT_FUNCTIONS
from pyhybrid.tables import Exact
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import shorten_native

# Modes that count.  What is asked of both, `make test` asks of the one that samples, too.
MODES = [pytest.param("trace", marks=pytest.mark.slow), "hybrid"]


@dataclass
class Counts:
    """Of one function: calls (each turn of a generator is one, as cProfile counts) and callers."""

    calls: int = 0
    callers: Counter[str] = field(default_factory=Counter)


def python_calls(profile: Profile) -> int:
    """All calls of Python functions, those that imports ran too."""
    frames, frame_of = profile.frames.values(), profile.nodes.frame
    python = {f.id for f in frames if f.kind == "python" or f.symbol == IMPORT_FUNCTIONS}
    return sum(row.calls for row in profile.exact if frame_of[row.node] in python)


def key(profile: Profile, node: int) -> str:
    frame = profile.frames[profile.nodes.frame[node]]
    return f"{frame.file}:{frame.line}:{frame.name}"


def python_caller(profile: Profile, node: int) -> int:
    """The nearest Python node above; 0: none."""
    nodes = profile.nodes
    node = nodes.parent[node]
    while node and profile.frames[nodes.frame[node]].kind != "python":
        node = nodes.parent[node]
    return node


def counts_below(profile: Profile, root: str) -> dict[str, Counts]:
    """Calls of what ran in (and below) the function with this key, by function."""
    inside: dict[int, bool] = {0: False}

    def is_inside(node: int) -> bool:
        if node not in inside:
            inside[node] = key(profile, node) == root or is_inside(python_caller(profile, node))
        return inside[node]

    counts: dict[str, Counts] = {}
    for row in profile.exact:
        n = row.calls + row.resumes
        if n and is_inside(row.node):
            of = counts.setdefault(key(profile, row.node), Counts())
            of.calls += n
            if key(profile, row.node) != root:
                of.callers[key(profile, python_caller(profile, row.node))] += n
    return counts


def check_exact(profile: Profile) -> None:
    """What holds for every exact tree."""
    by_thread: dict[int, dict[int, Exact]] = {}
    for row in profile.exact:
        by_thread.setdefault(row.thread, {})[row.node] = row
    for rows in by_thread.values():
        roots = 0
        for node, row in rows.items():
            assert row.calls + row.resumes + row.seeded > 0 or row.raised
            assert 0 <= row.self_ns <= row.total_ns
            assert row.raised <= row.calls + row.resumes + row.seeded
            parent = profile.nodes.parent[node]
            while parent and parent not in rows:
                parent = profile.nodes.parent[parent]
            if not parent:
                roots += row.total_ns
        assert sum(row.self_ns for row in rows.values()) == roots


def check_halves(profile: Profile) -> None:
    """Every Python function that was sampled on a path was counted on it.

    But for the innermost one, where it had not begun: the making of a generator, the shim that runs
    `__init__`.
    """
    counted = {row.node for row in profile.exact}
    nodes, frames = profile.nodes, profile.frames
    samples = not_begun = 0
    for row in profile.sampled:
        node, innermost = profile.stacks.node[row.stack], True
        samples += row.samples
        while node:
            frame = frames[nodes.frame[node]]
            if frame.kind == "python":
                assert node in counted or innermost, path_of(profile, node)
                not_begun += row.samples * (node not in counted)
                innermost = False
            node = nodes.parent[node]
    few = 0.01 * samples
    assert not_begun <= few + 4 * few**0.5  # timers take 250 a second: chance has its part


def path_of(profile: Profile, node: int) -> list[str]:
    """Names from the root to the node, without compilers' suffixes."""
    names = []
    while node:
        frame = profile.frames[profile.nodes.frame[node]]
        names.append(shorten_native(frame.name) if frame.kind == "native" else frame.name)
        node = profile.nodes.parent[node]
    return names[::-1]


def of_function(profile: Profile, name: str) -> list[Exact]:
    """The rows of all functions with this name."""
    frames, nodes = profile.frames, profile.nodes
    return [r for r in profile.exact if frames[nodes.frame[r.node]].name == name]
