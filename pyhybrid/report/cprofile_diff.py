"""Where cProfile and the exact half differ on one program, and why where that is known.

cProfile counts by function, over all threads; since it uses sys.monitoring (CPython 3.12) it gets
the events of every thread, but keeps one stack for them all: calls of different threads end up
below one another, and their times are those of a mixture (Modules/_lsprof.c, `ProfilerObject`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable

from pyhybrid.base.structs import Struct
from pyhybrid.report.table import Column, Listing, Table, text
from pyhybrid.symbols.plumbing import IMPORT_FILES
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import FunctionCalls, traced_calls
from pyhybrid.views.labels import shorten_file

SHARE, LEAST_NS = 0.2, 1_000_000  # times differ by more than both
EVENT_NS = 2_000  # what the events of a call cost at most

IMPORTS = "imports: not the same modules were loaded before"

Key = tuple[str, int, str]  # file, first line, qualified name


class Figures(Struct):
    """Hold the figures of one function by one profiler; each turn of a generator is a call."""

    calls: int = 0
    total_ns: int = 0


class Facts(Struct):
    """Hold what the paths have of a function: of its calls, how many were on other threads than the
    main one, in an import, or resumes; how many calls it led to; whether it called itself."""

    threaded: int = 0
    importing: int = 0
    resumes: int = 0
    below: int = 0
    recursive: bool = False


class Difference(Struct):
    """Hold a function with different figures; `why` is empty where that is not known."""

    key: Key
    theirs: Figures
    ours: Figures
    why: str = ""


def compare(profile: Profile, counts: Iterable[tuple[str, int, str, int, int]]) -> list[Difference]:
    """Return the differences, calls first and imports last; `counts` is of cli/cprofile_run.py.

    Raises PyhybridError where nothing was traced.
    """
    theirs: defaultdict[Key, Figures] = defaultdict(Figures)
    for file, line, name, calls, total_ns in counts:
        _add(theirs[file, line, name], calls, total_ns)
    ours: defaultdict[Key, Figures] = defaultdict(Figures)
    functions = traced_calls(profile)
    for frame, function in functions.items():
        if function.turns:
            _add(ours[_key(profile, frame)], function.turns, function.total_ns)
    facts = _facts(profile, functions)
    threaded = any(each.threaded for each in facts.values())
    differences = []
    for key in theirs.keys() | ours.keys():
        each = Difference(key, theirs[key], ours[key])
        if _differ(each):
            each.why = _why(each, facts[key], threaded)
            differences.append(each)
    return sorted(differences, key=_rank)


def _add(figures: Figures, calls: int, total_ns: int) -> None:
    figures.calls += calls
    figures.total_ns += total_ns


def _key(profile: Profile, frame: int) -> Key:
    row = profile.frames[frame]
    return row.file or "", row.line or 0, row.name


def _differ(each: Difference) -> bool:
    apart = abs(each.theirs.total_ns - each.ours.total_ns)
    most = max(each.theirs.total_ns, each.ours.total_ns)
    return each.theirs.calls != each.ours.calls or apart > max(SHARE * most, LEAST_NS)


def _rank(each: Difference) -> tuple[bool, int, int, Key]:
    calls = abs(each.theirs.calls - each.ours.calls)
    return each.why == IMPORTS, -calls, -abs(each.theirs.total_ns - each.ours.total_ns), each.key


def _facts(profile: Profile, functions: dict[int, FunctionCalls]) -> defaultdict[Key, Facts]:
    """Return what the paths have, by function."""
    nodes, main = profile.nodes, profile.process.pid
    facts: defaultdict[Key, Facts] = defaultdict(Facts)
    keys = {frame: _key(profile, frame) for frame in profile.frames}
    turns: defaultdict[int, int] = defaultdict(int)
    importing = [False] * len(nodes.parent)
    for node, (parent, frame) in enumerate(zip(nodes.parent, nodes.frame, strict=True)):
        if node:
            importing[node] = importing[parent] or keys[frame][0] in IMPORT_FILES
    for row in profile.exact:
        of, n = facts[keys[nodes.frame[row.node]]], row.calls + row.resumes
        turns[row.node] += n
        of.resumes += row.resumes
        of.threaded += n if profile.threads[row.thread].tid != main else 0
        of.importing += n if importing[row.node] else 0
    below: defaultdict[int, int] = defaultdict(int)
    for node in range(len(nodes.parent) - 1, 0, -1):
        if n := below[node] + turns.get(node, 0):
            below[nodes.parent[node]] += n
    for frame, function in functions.items():
        facts[keys[frame]].recursive |= function.turns > function.outer_turns
    for node in turns:
        of = facts[keys[nodes.frame[node]]]
        if not of.recursive or _is_outermost(profile, node):
            of.below += below[node]
    return facts


def _is_outermost(profile: Profile, node: int) -> bool:
    parent, frame = profile.nodes.parent, profile.nodes.frame
    above = parent[node]
    while above and frame[above] != frame[node]:
        above = parent[above]
    return not above


def _why(each: Difference, facts: Facts, threaded: bool) -> str:
    if each.theirs.calls != each.ours.calls:
        return _why_calls(each, facts, threaded)
    if facts.threaded:
        return "ran on other threads: cProfile keeps one stack for all"
    if threaded:
        return "other threads ran meanwhile: cProfile keeps one stack for all"
    apart = each.theirs.total_ns - each.ours.total_ns
    calls = facts.below + each.ours.calls
    if abs(apart) < EVENT_NS * calls:
        each_ns = abs(apart) / calls
        return f"{each_ns:.0f} ns for each of {calls} calls: the profilers' own work, or chance"
    return ""


def _why_calls(each: Difference, facts: Facts, threaded: bool) -> str:
    file, _, name = each.key
    all_importing = 0 < each.ours.calls == facts.importing
    if file in IMPORT_FILES or name == "<module>" or all_importing:
        return IMPORTS
    if facts.threaded:
        return "ran on other threads"
    if facts.resumes and each.ours.calls > each.theirs.calls:
        return "generator or coroutine: cProfile misses what is thrown through it to another"
    if facts.resumes:
        return "generator or coroutine: its turns may depend on timing"
    if not each.theirs.calls:
        return "not called in cProfile's run"
    if not each.ours.calls:
        return "not called in pyhybrid's run"
    return "other threads ran meanwhile" if threaded else ""


def difference_listing(differences: list[Difference], n: int) -> Listing:
    """Yield the first `n` of them, and why each is there."""
    if not differences:
        yield "no difference: calls are equal, times within 20 % or 1 ms"
        return
    yield f"{'calls':>19}  {'total s':>19}"
    yield Table(_COLUMNS, differences[:n])
    if len(differences) > n:
        yield f"and {len(differences) - n} more (-n)"


def _described(each: Difference) -> str:
    file, line, name = each.key
    label = f"{name} ({shorten_file(file, os.getcwd())}:{line})"
    label = label.encode("utf-8", "backslashreplace").decode().replace("\n", " ")
    return f"{label} - {each.why}" if each.why else label


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.4f}"


_COLUMNS = (
    Column("cProfile", 9, lambda each: each.theirs.calls),
    Column("pyhybrid", 10, lambda each: each.ours.calls),
    Column("cProfile", 11, lambda each: each.theirs.total_ns, _seconds),
    Column("pyhybrid", 10, lambda each: each.ours.total_ns, _seconds),
    text("function", _described),
)
