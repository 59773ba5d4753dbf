"""Memory of a training: what PyTorch's CPU allocator gave out, by module and call, and by step."""

import os
from typing import Any

from pyhybrid.errors import PyhybridError
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.views.training.steps import Growth, memory_growth, steps_of


class MemoryCall(Record):
    """Hold a call, by the module of a model around it, its function, and the innermost one of the
    program's: bytes.

    `at_peak`: that lived when the most did; `kept`: when the backward pass with the most began, of
    the forward pass before it, and `used`: of that, what was given back until it had ended, which
    autograd kept; `alive`: at the end; `allocated`: in all, as so many `pieces`;
    `later_allocated`, `later_alive`: by the backward pass of what it did.  `per_step`: by so much
    more lived after each of `grown_steps` steps; 0: it did not grow.  `holders`: who holds that, in
    words.
    """

    module: str
    of_class: str
    function: str
    file: str
    line: int
    caller: str
    caller_file: str
    caller_line: int
    at_peak: int
    kept: int
    used: int
    alive: int
    allocated: int
    pieces: int
    later_allocated: int
    later_alive: int
    per_step: int
    grown_steps: int
    holders: list[str]


class StepMemory(Record):
    """Hold a step: bytes that lived when it ended, and the most that did in it."""

    begin_ns: int
    alive: int
    peak: int


class Memory(Record):
    """Hold what `report memory --json` prints: bytes.

    `peak`: the most that lived, which `named_peak` of it calls had; `alive`: at the end; `kept`
    and `used`: the sums of all calls; `per_step`: of the calls that grow
    with the steps.  `lost`: pieces that found no room in the table, which no figure has, and
    `lost_bytes`.  `steps`: each `every`th.  `resident`: that of the process; null: not known.
    """

    peak: int
    named_peak: int
    alive: int
    kept: int
    used: int
    per_step: int
    n_steps: int
    lost: int
    lost_bytes: int
    every: int
    resident: Growth | None
    calls: list[MemoryCall]
    steps: list[StepMemory]


@made_once
def memory_of(profile: Profile) -> Memory | None:
    """Return what is known; None: nothing was followed."""
    found = profile.meta.get("memory")
    if not found:
        return None
    start_ns = profile.process.start_ns or 0
    calls = [_call(each) for each in found["calls"]]
    steps = steps_of(profile)
    return Memory(
        found["peak"],
        found["noted_peak"],
        found["alive"],
        sum(each.kept for each in calls),
        sum(each.used for each in calls),
        sum(each.per_step for each in calls),
        found["n_steps"],
        found["lost"],
        found["lost_bytes"],
        found["every"],
        memory_growth(steps.steps) if steps else None,
        calls,
        [StepMemory(begin - start_ns, alive, peak) for begin, alive, peak in found["steps"]],
    )


def memory_figures(profile: Profile) -> Memory:
    """Return what is known.  Raises PyhybridError where nothing was followed."""
    found = memory_of(profile)
    if found is None:
        raise PyhybridError(
            f"{profile.path}: nothing of PyTorch's memory: run it with --torch memory"
        )
    return found


def call_text(each: MemoryCall) -> str:
    """Return what a call is known by: module, function."""
    where = _place(each.caller, each.caller_file, each.caller_line)
    if each.module:
        return f"{each.module} [{each.of_class}]" + (f", {where}" if where else "")
    own = _place(each.function, each.file, each.line)
    if not own:
        return "no call that is known"
    return own if own == where or not where else f"{each.function} < {where}"


def _place(function: str, file: str, line: int) -> str:
    return f"{function} ({os.path.basename(file)}:{line})" if function else ""


def _call(row: dict[str, Any]) -> MemoryCall:
    steps = row.get("grown_steps", 0)
    own = {
        "per_step": round(row["grown"] / steps) if steps else 0,
        "grown_steps": steps,
        "holders": row.get("holders", []),
    }
    return MemoryCall(**{name: row[name] for name in MemoryCall._fields if name in row} | own)
