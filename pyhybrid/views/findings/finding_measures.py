"""What findings measure: functions of a profile's columns, which return evidence, or None."""

import os
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Buffer, Callable
from typing import Any

from pyhybrid._columns import add_up, descend, nearest, outermost, rows_from, take
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.base.pseudo_frames import IMPORT_FUNCTIONS, KERNEL
from pyhybrid.frameworks import torch
from pyhybrid.symbols.plumbing import KERNEL_MODULE, is_interpreter, plain_symbol
from pyhybrid.tables import Frame, gil_name, stack_of
from pyhybrid.tables.timeline import times
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.imports import imports_of
from pyhybrid.views.call_tree.spinning_threads import pools, spinning
from pyhybrid.views.findings.measured_profile import Evidence, Measured
from pyhybrid.views.garbage import about, garbage_of
from pyhybrid.views.labels import short_time, shorten_native
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.processes import unprofiled
from pyhybrid.views.stack_quality import GAPPED, TRUNCATED, stack_quality, unaccounted_ns
from pyhybrid.views.training.module_calls import framework_folder
from pyhybrid.views.training.step_time import step_time
from pyhybrid.views.waits import ThreadWaits, wait_label, waits_of

# 1: code that calls what it is given, 2: what it is looked for below, 3: code without a name, which
# is a part of what called it.
_CALLER, _PYTHON, _NAMELESS = 1, 2, 3
_CALLED = bytes(
    {_CALLER: _CALLER, _PYTHON: _PYTHON * (above == _CALLER), _NAMELESS: above % 2}.get(kind, 0)
    for above in range(3)
    for kind in range(256)
)
_IS_2 = bytes(state == 2 for state in range(256))
MOST_WAITS = 2000  # samples that waited for the GIL, for which it is looked who held it
LEAST_WAITING = 0.95  # of the time of a thread of a native pool that only waits


def below(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure weight at or below the functions of the rule."""
    names, library = NamePatterns(rule["functions"]), rule["library"]
    of_rule = NamePatterns([library])

    def is_library(path: str) -> bool:
        name = os.path.basename(path)
        return is_interpreter(name) if library == "{python}" else of_rule.match(name)

    of_none = is_library("")  # code in no module
    in_library = {m.id: is_library(m.path) for m in measured.profile.modules.values()}

    def is_one(frame: Frame) -> bool:
        if library == KERNEL_MODULE:
            return frame.kind == "kernel" and names.match(plain_symbol(frame.symbol))
        if frame.kind != "native" or not in_library.get(frame.module or 0, of_none):
            return False
        name = plain_symbol(frame.symbol) or frame.python_name or ""
        return names.match(name) or names.match(shorten_native(frame.name))

    found = {f.id for f in measured.profile.frames.values() if is_one(f)}
    if "walks_by" in rule:
        found |= _nameless_callers(measured, is_library, rule["walks_by"])
    where = measured.below_frames(found)
    if "entered_by" in rule:
        where = _either(where, _unnamed_kernel(measured, NamePatterns(rule["entered_by"])))
    weight_ns = measured.weight_ns(where)
    if not weight_ns:
        return None
    return {
        **measured.share(weight_ns),
        "whole": f"the {measured.time}",
        "made": "",
        "function": measured.most(where),
    }


def garbage(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure garbage collections, of the steps' time where they are a training's; and who made the
    objects that were there before."""
    profile, steps = measured.profile, measured.steps
    if len(steps) < rule["steps"] or not profile.collections:
        return below(measured, rule)
    found, taken, frame_of = garbage_of(profile), Counter[int](), profile.nodes.frame
    for step in steps:
        for row in found.within(step.thread, step.begin_ns, step.end_ns):
            taken[frame_of[row.node]] += min(row.end_ns, step.end_ns) - row.begin_ns
    if not taken:
        return None
    maker = found.maker(steps[0].begin_ns)
    return {
        "share": taken.total() / (step_time(profile).steps_ns or 1),
        "seconds": taken.total() / 1e9,
        "whole": f"the time of {len(steps)} steps",
        "function": measured.labels[taken.most_common(1)[0][0]],
        "made": f"; {about(maker.objects)} objects that it looks at were made in {maker.function}"
        if maker and maker.objects >= rule["many"]
        else "",
    }


def _nameless_callers(
    measured: Measured, is_library: Callable[[str], bool], called: list[str]
) -> set[int]:
    """Return the library's functions without a name that call ones which the interpreter's method
    tables call so: that is what they are known by."""
    frames, names = measured.profile.frames, NamePatterns(called)
    of_name = {f.id for f in frames.values() if f.python_name and names.match(f.python_name)}
    paths = {m.id: m.path for m in measured.profile.modules.values()}
    nameless = {
        f.id for f in frames.values() if f.is_nameless and is_library(paths.get(f.module or 0, ""))
    }
    if not of_name or not nameless:
        return set()
    callers = {
        measured.frame[measured.parent[node]] for node in rows_from(measured.marked(of_name), 1)
    }
    return callers & nameless


def _unnamed_kernel(measured: Measured, names: NamePatterns) -> memoryview:
    """Mark with 1 nodes of a kernel that hides names, right below functions of these names."""
    kinds = {}
    for frame in measured.profile.frames.values():
        if frame.kind == "kernel":
            kinds[frame.id] = _PYTHON if frame.name == KERNEL else 0
        elif frame.is_nameless:
            kinds[frame.id] = _NAMELESS
        elif frame.kind == "native" and names.match(plain_symbol(frame.symbol)):
            kinds[frame.id] = _CALLER
    states = descend(measured.parent, measured.kinds(kinds, measured.frame), _CALLED)
    return memoryview(bytes(states).translate(_IS_2))


def _either(one: Buffer, other: Buffer) -> memoryview:
    """Mark with 1 where either is, of two columns of marks."""
    n = memoryview(one).nbytes
    return memoryview((int.from_bytes(one) | int.from_bytes(other)).to_bytes(n))


def spun(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure threads of a pool that spin for one another, of the pool that does so most: those
    that sleep do not (wall-clock time sees both)."""
    where, node_of = spinning(measured.profile), measured.profile.stacks.node
    rows = [r for r in measured.profile.sampled if where[node_of[r.stack]] and not r.waits]
    by_pool: Counter[int] = Counter()
    for row in rows:
        by_pool[where[node_of[row.stack]]] += row.weight_ns
    if not by_pool:
        return None
    ((pool, weight_ns), *_others) = by_pool.most_common()
    by_frame: Counter[int] = Counter()
    rows = [row for row in rows if where[node_of[row.stack]] == pool]
    for row in rows:
        by_frame[measured.frame[node_of[row.stack]]] += row.weight_ns
    in_pool = pools()[pool - 1].library
    paths = {m.id: os.path.basename(m.path) for m in measured.profile.modules.values()}
    frames = [measured.profile.frames[frame] for frame, _ in by_frame.most_common()]
    return {
        **measured.share(weight_ns),
        "pool": pools()[pool - 1].name,
        "functions": [
            measured.labels[f.id] for f in frames if in_pool.match(paths.get(f.module or 0, ""))
        ],
        "threads": len({row.thread for row in rows}),
        "cpus": int(measured.profile.meta.get("n_cpus") or 0),
    }


def imports(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure import statements, and the module whose import took most."""
    found = imports_of(measured.profile)
    weight_ns = measured.weight_ns(found.where)
    if not weight_ns:
        return None
    module = next(iter(found.modules(measured.labels, measured.self_ns)), "?")
    return {**measured.share(weight_ns), "module": module}


def gil(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure who waits for the GIL, and the Python function that held it most of that time."""
    if measured.waiting_ns < rule["least_share"] * measured.all_ns:
        return None
    waits: list[int] = []
    held: list[tuple[int, int]] = []
    threads = set()
    for chunk in measured.profile.timeline():
        for at_ns, place in zip(times(chunk), chunk.place, strict=True):
            state = gil_name(place)
            if state == "waiting":
                waits.append(at_ns)
                threads.add(chunk.thread)
            elif state == "held":
                held.append((at_ns, stack_of(place)))
                threads.add(chunk.thread)
    held.sort()
    begins = [at_ns for at_ns, _ in held]
    holders: Counter[int] = Counter()
    for at_ns in waits[:: len(waits) // MOST_WAITS + 1]:
        after = bisect_left(begins, at_ns)
        near = [held[i] for i in (after - 1, after) if 0 <= i < len(held)]
        if near:
            stack = min(near, key=lambda each: abs(each[0] - at_ns))[1]
            holders[measured.python_frames[measured.profile.stacks.node[stack]]] += 1
    if not holders:
        return None
    (holder, n), *_rest = holders.most_common(1)
    return {
        **measured.share(measured.waiting_ns),
        "threads": len(threads),
        "holder": measured.labels.get(holder, "native code"),
        "held": n / holders.total(),
    }


def tiny_calls(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Find the function whose many short calls take most of the traced time; calls within one of
    its own are part of that one's time."""
    exact, n = measured.profile.exact, measured.n_frames
    of_row = take(measured.frame, exact.node)
    everywhere = bytes([1]) * len(measured.parent)
    is_outer = take(outermost(measured.parent, measured.frame, everywhere), exact.node)
    calls = add_up(of_row, exact.calls, n)
    total_ns = add_up(of_row, exact.total_ns, n, is_outer)
    limit_ns, least = rule["most_call_us"] * 1000, rule["least_calls"]
    frames = measured.profile.frames.values()
    sums = {each.id for each in frames if each.symbol == IMPORT_FUNCTIONS}  # of many functions
    tiny = [
        (total_ns[frame], frame)
        for frame, n in enumerate(calls)
        if n >= least and total_ns[frame] <= limit_ns * n and frame not in sums
    ]
    if not tiny:
        return None
    taken_ns, frame = max(tiny)
    per_call = taken_ns / calls[frame] / 1000
    return {
        "share": taken_ns / (sum(exact.self_ns) or 1),
        "seconds": taken_ns / 1e9,
        "calls": calls[frame],
        "call_us": per_call,
        "per_call": per_call,
        "function": measured.labels[frame],
    }


def one_by_one(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Find the program's function that calls PyTorch's transforms of functions most often, of one
    sample each."""
    profile = measured.profile
    frames = [f for f in profile.frames.values() if f.kind == "python"]

    def listed(names: str) -> list[int]:
        return [f.id for f in frames if torch.is_listed(rule[names], f.file or "", f.name)]

    if not (transforms := listed("transforms")):
        return None
    below, own = measured.below_frames(listed("vectorized")), program_frames(profile)
    marked = bytes(a & (1 - b) for a, b in zip(measured.marked(transforms), below, strict=True))
    everywhere = array("I", bytes(4 * len(measured.parent)))
    outer = outermost(measured.parent, everywhere, marked)
    caller = take(measured.frame, nearest(measured.parent, measured.marked(own)))
    calls, times, what = Counter[int](), Counter[int](), dict[int, int]()
    for row in profile.exact:
        if marked[row.node] and outer[row.node] and caller[row.node]:
            calls[caller[row.node]] += row.calls
            times[caller[row.node]] += row.total_ns
            what[caller[row.node]] = measured.frame[row.node]
    if not calls:
        return None
    frame, n = calls.most_common(1)[0]
    return {
        "share": times[frame] / (sum(profile.exact.self_ns) or 1),
        "seconds": times[frame] / 1e9,
        "calls": n,
        "what": measured.labels[what[frame]],
        "function": measured.labels[frame],
    }


def called_from_c(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Find the Python function that native code of the rule calls, which takes most time."""
    profile, names = measured.profile, NamePatterns(rule["callers"])
    folder = framework_folder(profile)  # what PyTorch calls of its own is its way
    kinds = {f.id: _PYTHON for f in profile.frames.values() if f.kind == "python"}
    kinds |= {f.id: _NAMELESS for f in profile.frames.values() if f.is_nameless}
    kinds |= {
        f.id: _CALLER
        for f in profile.frames.values()
        if f.kind == "native"
        and any(
            names.match(n) for n in (f.symbol or "", shorten_native(f.name), f.python_name or "")
        )
    }
    tree = FoldedTree.of(profile)
    states = descend(tree.parent, measured.kinds(kinds, tree.frame), _CALLED)
    is_called = bytes(states).translate(_IS_2)
    at = nearest(tree.parent, is_called)
    calls_it = {frame: int(kind == _CALLER) for frame, kind in kinds.items()}
    caller_of = nearest(tree.parent, measured.kinds(calls_it, tree.frame))
    weights: Counter[tuple[int, int]] = Counter()
    for node in measured.nodes:
        top = at[tree.of_node[node]]
        if top and not (profile.frames[tree.frame[top]].file or "").startswith(folder):
            caller = caller_of[tree.parent[top]]
            weights[tree.frame[top], tree.frame[caller]] += measured.self_ns[node]
    if not weights:
        return None
    ((frame, caller), weight_ns), *_rest = weights.most_common(1)
    if weight_ns < rule["least_share"] * measured.all_ns:
        return None
    exact = profile.exact
    calls = sum(
        n
        for node, n in zip(exact.node, exact.calls, strict=True)
        if is_called[tree.of_node[node]] and tree.frame[tree.of_node[node]] == frame
    )
    label = measured.labels
    evidence = {"function": label[frame], "caller": label[caller], "calls": calls}
    return {**measured.share(weight_ns), **evidence}


def blocked(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Find what waited most by exact times: the main thread, an event loop, or other threads that
    did so in the same function; and where."""
    groups: defaultdict[tuple[str, int], list[ThreadWaits]] = defaultdict(list)
    for each in waits_of(measured.profile):
        if each.functions:
            frame = each.functions.most_common(1)[0][0]
            blocks = each.has_loop and 2 * each.in_callbacks_ns > each.functions.total()
            who = "the event loop" if blocks else "the main thread" if each.is_main else "threads"
            groups[who, frame].append(each)
    if not groups:
        return None
    (who, frame), threads = max(groups.items(), key=lambda item: _waited_ns(item[1]))
    waited_ns = _waited_ns(threads)
    total_ns = sum(each.total_ns for each in threads)
    there_ns = sum(each.functions[frame] for each in threads)
    gil_ns = sum(each.gil_ns for each in threads)
    if who == "threads":
        n = sum(measured.profile.threads[each.thread].n_threads for each in threads)
        who = "a thread" if n == 1 else f"{n:,} threads"
    elif len(threads) > 1:
        who = f"{who} of {len(threads)} processes"
    loop = "event loop" in who
    meanwhile = f"; other threads held the GIL for {short_time(gil_ns)} of that"
    return {
        "share": waited_ns / total_ns,
        "seconds": waited_ns / 1e9,
        "who": who,
        "verb": "was blocked" if loop else "did not run",
        "waited": f"{waited_ns / 1e9:.1f} of {total_ns / 1e9:.1f} s",
        "most": "most of it"
        if 2 * there_ns > waited_ns
        else f"at least {short_time(there_ns)} of it",
        "function": wait_label(measured.profile, frame),
        "meanwhile": meanwhile if 2 * gil_ns > waited_ns else "",
    }


def throttled(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure a container's quota of CPU time, where it held the program back."""
    meta = measured.profile.meta
    ns = int(meta.get("throttled_ns") or 0)
    if not ns or not measured.wall_ns:
        return None
    share = min(1.0, ns / measured.wall_ns)  # the time is that of all processors together
    return {"share": share, "seconds": ns / 1e9, "times": int(meta.get("throttled") or 0)}


def _waited_ns(threads: list[ThreadWaits]) -> int:
    return sum(each.waited_ns for each in threads)


def waiting(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Find out why there are few samples: the program hardly ran.  What ran while profiling was
    paused (`-p`) is not known."""
    meta, cpu_ns = measured.profile.meta, measured.profile.process.cpu_ns
    if meta.get("clock") != "cpu" or meta.get("mode") == "trace" or not measured.wall_ns:
        return None
    if cpu_ns is None or meta.get("paused") or meta.get("start_at"):
        return None
    return {
        "samples": measured.samples,
        "wall": measured.wall_ns / 1e9,
        "wall_seconds": measured.wall_ns / 1e9,
        "cpu": cpu_ns / 1e9,
        "cpu_share": cpu_ns / measured.wall_ns,
    }


def children(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Find what is in child processes, which nothing of the profile is about."""
    process, others = measured.profile.process, unprofiled(measured.profile)
    if not others or others.known or not others.cpu_ns or not process.cpu_ns:
        return None
    return {
        "share": others.cpu_ns / (others.cpu_ns + process.cpu_ns),
        "seconds": others.cpu_ns / 1e9,
        "processes": others.n,
    }


def lost(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Count signals without a sample."""
    signals = sum(thread.signals for thread in measured.profile.threads.values())
    reasons: Counter[str] = Counter()
    for loss in measured.profile.losses:
        reasons[loss.reason.replace("_", " ")] += loss.samples
    if not signals or not reasons:
        return None
    share = reasons.total() / signals
    return {"share": share, "signals": signals, "reasons": ", ".join(reasons)}


def unaccounted(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure CPU time of the process that no thread's samples stand for."""
    ns, cpu_ns = unaccounted_ns(measured.profile), measured.profile.process.cpu_ns
    return {"share": ns / cpu_ns, "seconds": ns / 1e9} if cpu_ns else None


def broken(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure stacks that are not whole."""
    shares = stack_quality(measured.profile)
    gapped, truncated = shares[GAPPED], shares[TRUNCATED]
    share = gapped + truncated
    return {"share": share, "gapped": gapped, "truncated": truncated, "samples": measured.samples}


MEASURES: dict[str, Callable[[Measured, dict[str, Any]], Evidence]] = {
    "spinning": spun,
    "imports": imports,
    "gil": gil,
    "tiny_calls": tiny_calls,
    "called_from_c": called_from_c,
    "below": below,
    "garbage": garbage,
    "blocked": blocked,
    "throttled": throttled,
    "children": children,
    "one_by_one": one_by_one,
    "waiting": waiting,
    "lost": lost,
    "unaccounted": unaccounted,
    "broken": broken,
}


def idle(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Find threads that no Python ran on, and that hardly ever ran; and what they are, mostly: the
    outermost function of theirs that is shown."""
    profile = measured.profile
    node_of = profile.stacks.node
    all_ns: Counter[int] = Counter()
    waiting_ns: Counter[int] = Counter()
    with_python = set()
    for row in profile.sampled:
        all_ns[row.thread] += row.weight_ns
        if row.waits:
            waiting_ns[row.thread] += row.weight_ns
        if measured.python_frames[node_of[row.stack]]:
            with_python.add(row.thread)
    threads = {
        thread
        for thread in set(waiting_ns) - with_python
        if waiting_ns[thread] >= LEAST_WAITING * all_ns[thread]
    }
    if not threads:
        return None
    tree, starts = FoldedTree.of(profile), Counter[int]()
    for row in profile.sampled:
        if row.thread in threads:
            path = tree.path(tree.of_node[node_of[row.stack]])
            starts[path[0] if path else 0] += row.weight_ns
    function = measured.labels.get(starts.most_common(1)[0][0], "native code")
    share = measured.share(sum(all_ns[thread] for thread in threads))
    return {**share, "threads": len(threads), "function": function}
