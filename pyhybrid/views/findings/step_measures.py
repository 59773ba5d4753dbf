"""What findings measure of trainings: shares of the steps' time (steps.py), or of the backward
pass, and what is compiled again."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from pyhybrid._columns import add_up, descend, take
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.base.quantiles import quantile
from pyhybrid.frameworks import torch
from pyhybrid.views.findings.measured_profile import Evidence, Measured
from pyhybrid.views.findings.phase_places import RUNS, phase_place
from pyhybrid.views.findings.process_measures import loader_workers
from pyhybrid.views.garbage import garbage_of
from pyhybrid.views.processes import identities
from pyhybrid.views.training.compiles import function_of, why_again
from pyhybrid.views.training.memory import memory_of
from pyhybrid.views.training.memory_calls import call_text
from pyhybrid.views.training.module_calls import framework_folder, hook_figures
from pyhybrid.views.training.phases import BACKWARD, COMPILE, frame_phases
from pyhybrid.views.training.slow_steps import SlowSteps
from pyhybrid.views.training.step_time import step_time
from pyhybrid.views.training.steps import Step, find_steps, memory_growth, spans_of, steps_of
from pyhybrid.views.training.token_times import AGAIN, call_times
from pyhybrid.views.wait_pairs import ran_meanwhile

UNLIKE = 1.5  # times the usual share of a phase: then a rank is not like the others
MEANWHILE = 0.25  # of the time in which a thread did not run: what another one ran is why

# 1: the backward pass, 2: the program's Python, the first of it below that, 3: what is below it,
# and what is to be left out.
_BACKWARD, _PROGRAM, _LEFT_OUT = 1, 2, 3
_FIRST_BELOW = bytes(
    (int(kind == _BACKWARD), max(kind, 1) if kind <= _LEFT_OUT else 1, 3, 3)[above]
    for above in range(4)
    for kind in range(256)
)
_IS_2 = bytes(state == 2 for state in range(256))


def phase(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure the rule's `phase` of the steps, and where it is spent (phase_places.py); with
    `functions` where one of these ran, which is it then."""
    name = rule["phase"]
    steps, of_rank = _of_slow_rank(measured, name)
    taken_ns = sum(step.phases.get(name, 0) for step in steps)
    if rule.get("without_gc"):
        garbage = garbage_of(measured.profile)
        taken_ns -= sum(garbage.ns(s.thread, spans_of(s, name)) for s in steps)
    all_ns = step_time(measured.profile).steps_ns
    if of_rank:
        all_ns = sum(step.total_ns for step in steps)
    share = taken_ns / (all_ns or 1)
    if share < rule["least_share"]:
        return None
    evidence = {
        "share": share,
        "seconds": taken_ns / 1e9,
        "steps": len(steps),
        "of_rank": of_rank,
    }
    if not (patterns := rule.get("functions")):
        place = phase_place(measured, name, steps)
        is_small = share < rule.get("waits_share", 0)
        if is_small and (place.ran < RUNS or not place.is_programs):
            return None
        idle = ""
        if place.ran < RUNS:
            idle = f"; for {1 - place.ran:.0%} of it the thread did not run{meanwhile(measured)}"
        workers = loader_workers(measured, share) if name == "data" else ""
        return {
            **evidence,
            "function": place.function,
            "at": place.at,
            "idle": idle,
            "workers": workers,
        }
    exact = measured.profile.exact
    total_ns = add_up(take(measured.frame, exact.node), exact.total_ns, measured.n_frames)
    frames = measured.profile.frames.values()
    names = NamePatterns(patterns)
    among = [f.id for f in frames if total_ns[f.id] and names.match(f.name)]
    if not among:
        return None
    return {**evidence, "function": measured.labels[max(among, key=total_ns.__getitem__)]}


def _of_slow_rank(measured: Measured, name: str) -> tuple[list[Step], str]:
    """Return the steps of the rank that has much more of a phase than the others, and ` of rank 1`;
    where there is none all steps, and nothing."""
    known, of_rank = identities(measured.profile), defaultdict[int, list[Step]](list)
    for step in measured.steps:
        rank = known[measured.profile.threads[step.thread].process].get("rank")
        if rank is not None:
            of_rank[int(rank)].append(step)
    if len(of_rank) < 2:
        return measured.steps, ""
    shares = {
        rank: sum(s.phases.get(name, 0) for s in steps) / (sum(s.total_ns for s in steps) or 1)
        for rank, steps in of_rank.items()
    }
    most, *others = sorted(shares, key=lambda rank: -shares[rank])
    if shares[most] < UNLIKE * quantile([shares[rank] for rank in others], 0.5):
        return measured.steps, ""
    return of_rank[most], f" of rank {most}"


def meanwhile(measured: Measured) -> str:
    """Return `, while THAT did`: the function of another thread that ran for much of the time in
    which the one of the steps did not; empty: there is none."""
    steps = measured.steps
    idle_ns = sum(step.total_ns - step.cpu_ns for step in steps)
    ran = ran_meanwhile(measured.profile)
    if not ran:
        return ""
    place, n = ran.most_common(1)[0]
    if not place.function or n * measured.profile.period_ns < MEANWHILE * idle_ns:
        return ""
    return f", while {place.function} ({place.at}) did"


def held_up(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure how long the thread of the steps did not run in phases in which it works, while
    another one of the program did: which had the GIL, as a rule."""
    steps, ns = measured.steps, Counter[str]()
    for step in steps:
        for phase in rule["phases"]:
            ns[phase] += step.phases.get(phase, 0) - step.phases_cpu.get(phase, 0)
    # For so long it had no processor, whoever had that.
    idle_ns = ns.total() - int(measured.profile.meta.get("main_delay_ns") or 0)
    share = idle_ns / (step_time(measured.profile).steps_ns or 1)
    if share < rule["least_share"] or not (others := meanwhile(measured)):
        return None
    return {
        "share": share,
        "seconds": idle_ns / 1e9,
        "steps": len(steps),
        "phase": ns.most_common(1)[0][0],
        "meanwhile": others,
    }


def kept_memory(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure how much more of what PyTorch's allocator gave to a call lives after each step, as
    part of its peak, and who holds it."""
    found = memory_of(measured.profile)
    most = max(found.calls, key=lambda each: each.per_step, default=None) if found else None
    if not found or not most or not most.per_step:
        return None
    more = most.per_step * most.grown_steps
    holder = f", held by {most.holders[0]}" if most.holders else ""
    return {
        "share": min(1.0, most.per_step * found.n_steps / found.peak),
        "mb": more / 1e6,
        "steps": most.grown_steps,
        "per_step": f"{most.per_step / 1e6:.2g}",
        "call": call_text(most),
        "holder": holder,
    }


def memory(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure by how much the process's memory grows with the steps, as part of what it is, where
    it is not known which call it is."""
    if kept_memory(measured, {}):
        return None
    steps = [step for step in measured.steps if step.resident]
    of_process = {measured.profile.threads[step.thread].process for step in steps}
    growth = memory_growth(steps) if len(of_process) == 1 else None
    if not growth or growth.per_step <= 0:
        return None
    more = growth.per_step * len(steps)
    return {
        "share": min(1.0, more / growth.last),
        "mb": more / 1e6,
        "steps": len(steps),
        "per_step": f"{growth.per_step / 1e6:.2g}",
        "first": round(growth.first / 1e6),
        "last": round(growth.last / 1e6),
    }


def tokens_again(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure the calls of a decode loop that gives the model all tokens again each time."""
    found = steps_of(measured.profile)
    again = (
        next((each for each in call_times(found) if each.kind == AGAIN), None) if found else None
    )
    if not found or not again:
        return None
    return {
        "share": again.total_ns / (step_time(measured.profile).steps_ns or 1),
        "seconds": again.total_ns / 1e9,
        "steps": len(found.steps),
        "calls": again.n,
        "first": again.first_tokens,
        "last": again.last_tokens,
    }


def communication(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure of the steps what exchanging with other ranks took: calls of collectives, and by
    samples that of gradients in the backward pass; and in which most was spent."""
    steps, samples = measured.steps, measured.step_samples
    name = rule["phase"]
    called_ns = sum(step.phases.get(name, 0) for step in steps)
    reducing_ns = samples.reducing_ns(steps)
    share = (called_ns + reducing_ns) / (step_time(measured.profile).steps_ns or 1)
    if share < rule["least_share"]:
        return None
    place = phase_place(measured, name) if called_ns >= reducing_ns else None
    return {
        "share": min(1.0, share),
        "seconds": (called_ns + reducing_ns) / 1e9,
        "steps": len(steps),
        "function": place.function + place.at if place else "the exchange of gradients",
    }


def python_in_backward(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure, of the steps' or run's time, what the program's Python functions take that the
    backward pass calls, and which of them most; by events."""
    profile = measured.profile
    frames = profile.frames
    backward = [f for f, each in frame_phases(profile).items() if each == BACKWARD]
    if not backward:
        return None
    folder = framework_folder(profile)
    python = {f.id: f.file or "" for f in frames.values() if f.kind == "python"}
    left_out, engine = NamePatterns(rule["left_out"]), NamePatterns(torch.steps()["engine"])
    kinds = {number: _PROGRAM for number, file in python.items() if not file.startswith(folder)}
    kinds |= {
        f: _LEFT_OUT
        for f, file in python.items()
        if left_out.match(file) or torch.is_generated(file)
    }
    kinds |= dict.fromkeys(backward, _BACKWARD)
    kinds |= {
        f.id: _BACKWARD for f in frames.values() if f.kind == "native" and engine.match(f.name)
    }
    states = bytes(descend(measured.parent, measured.kinds(kinds, measured.frame), _FIRST_BELOW))
    exact, n = profile.exact, measured.n_frames
    of_row, state = take(measured.frame, exact.node), bytes(take(states, exact.node))
    in_python = add_up(of_row, exact.total_ns, n, state.translate(_IS_2))
    calls = add_up(of_row, exact.calls, n, state.translate(_IS_2))
    all_ns = measured.outermost_ns(backward)
    if not all_ns or not any(in_python):
        return None
    frame = max(range(n), key=in_python.__getitem__)
    taken_ns = sum(in_python)
    whole_ns, whole = whole_of(measured)
    return {
        "share": min(1.0, taken_ns / whole_ns),
        "of_backward": min(1.0, taken_ns / all_ns),
        "whole": whole,
        "seconds": taken_ns / 1e9,
        "calls": calls[frame],
        "function": measured.labels[frame],
    }


def hooks(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure, of the steps' or run's time, the hook of modules or the callback that takes most,
    but for those of the framework."""
    most = next((h for h in hook_figures(measured.profile) if not h.is_framework), None)
    if not most:
        return None
    whole_ns, whole = whole_of(measured)
    n = most.modules
    return {
        "share": min(1.0, most.total_ns / whole_ns),
        "seconds": most.total_ns / 1e9,
        "whole": whole,
        "kind": "hook of modules" if n else "callback",
        "function": most.function,
        "calls": most.calls,
        "modules": f", of {n:,} module{'s' * (n != 1)}" if n else "",
    }


def whole_of(measured: Measured) -> tuple[int, str]:
    """Return what shares are part of, and how that is called."""
    if measured.steps:
        steps_ns = step_time(measured.profile).steps_ns
        return steps_ns or 1, f"the time of {len(measured.steps)} steps"
    return measured.wall_ns or 1, "the run"


def slow_steps(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Measure what steps of the rule's `times` the median and more took beyond it, and why most.
    The first step is none of them: much is made then.  What compiling took does not count."""
    steps = measured.steps[1:]
    if not steps:
        return None
    net_ns = {step.number: step.total_ns - step.phases.get(COMPILE, 0) for step in steps}
    median_ns = quantile(net_ns.values(), 0.5)
    slow = [step for step in steps if net_ns[step.number] >= rule["times"] * median_ns]
    if not slow:
        return None
    slow.sort(key=lambda step: -net_ns[step.number])
    why: Counter[str] = Counter()
    explained = SlowSteps(measured.profile, find_steps(measured.profile), measured.step_samples)
    for step in slow[: rule["explained"]]:
        each = explained.explained(step, but=COMPILE)
        where = ", where the thread did not run" if each.has_waited else ""
        if each.is_garbage:
            made = f", of objects made in {each.maker}" if each.maker else ""
            where = f": garbage collection{made}"
        elif each.more_weight_ns >= rule["explains"] * each.more_ns:
            where = f": {each.function}"
        why[each.phase + where] += each.more_ns
    more_ns = sum(net_ns[step.number] for step in slow) - len(slow) * median_ns
    most = why.most_common(1)[0][0]
    return {
        "share": more_ns / (step_time(measured.profile).steps_ns or 1),
        "seconds": more_ns / 1e9,
        "steps": len(measured.steps),
        "slow": len(slow),
        "ones": "one" if len(slow) == 1 else "ones",
        "most": most,
    }


def recompiles(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Measure, of the steps' or run's time, what compiles took of functions that had been compiled,
    and why."""
    times = step_time(measured.profile)
    again = times.again
    if not again:
        return None
    by_function, reasons = Counter[str](), Counter[tuple[str, str]]()
    for each in again:
        by_function[function_of(each)] += each.took_ns
        reasons[function_of(each), why_again(each)] += each.took_ns
    function = by_function.most_common(1)[0][0]
    known = (why for (which, why), _ in reasons.most_common() if which == function)
    reason = next(filter(None, known), "")
    taken_ns, (whole_ns, whole) = sum(each.took_ns for each in again), whole_of(measured)
    if 2 * times.again_ns >= taken_ns:
        taken_ns = times.again_ns
    else:
        whole_ns, whole = measured.wall_ns or 1, "the run"
    return {
        "share": min(1.0, taken_ns / whole_ns),
        "seconds": taken_ns / 1e9,
        "whole": whole,
        "again": sum(not each.backward for each in again),
        "function": function,
        "because": f", because {reason}" if reason else "",
    }


STEP_MEASURES: dict[str, Callable[[Measured, dict[str, Any]], Evidence]] = {
    "phase": phase,
    "tokens_again": tokens_again,
    "memory": memory,
    "kept_memory": kept_memory,
    "held_up": held_up,
    "communication": communication,
    "python_in_backward": python_in_backward,
    "hooks": hooks,
    "slow_steps": slow_steps,
    "recompiles": recompiles,
}
