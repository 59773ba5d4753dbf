"""Memory of a training: what PyTorch's CPU allocator gave out, by module and call, and by step."""

from collections.abc import Sequence
from typing import Any

from pyhybrid.errors import PyhybridError
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.views.training.device_memory import DeviceMemory, known_devices
from pyhybrid.views.training.memory_calls import MemoryCall
from pyhybrid.views.training.steps import Growth, memory_growth, steps_of


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
    `followed`: else nothing is known but of the `devices`, GPUs, of a snapshot.  `notes`: lines
    on what is not known of these.
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
    followed: bool
    devices: list[DeviceMemory]
    notes: list[str]


@made_once
def memory_of(profile: Profile) -> Memory | None:
    """Return what is known; None: nothing was followed, and there is no snapshot."""
    found, (devices, notes) = profile.meta.get("memory"), known_devices(profile)
    if not found:
        return of_devices(devices, notes) if devices or notes else None
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
        True,
        devices,
        notes,
    )


def of_devices(devices: list[DeviceMemory], notes: Sequence[str] = ()) -> Memory:
    """Return what is known where that is of snapshots alone."""
    values: dict[str, Any] = dict.fromkeys(Memory._fields, 0)
    values |= {"every": 1, "resident": None, "calls": [], "steps": [], "followed": False}
    return Memory(**values | {"devices": devices, "notes": [*notes]})


def memory_figures(profile: Profile) -> Memory:
    """Return what is known.  Raises PyhybridError where nothing was followed."""
    found = memory_of(profile)
    if found is None:
        raise PyhybridError(
            f"{profile.path}: nothing of PyTorch's memory: run it with --torch memory"
            ", or import a snapshot of a GPU's"
        )
    return found


def _call(row: dict[str, Any]) -> MemoryCall:
    steps = row.get("grown_steps", 0)
    own = {
        "per_step": round(row["grown"] / steps) if steps else 0,
        "grown_steps": steps,
        "holders": row.get("holders", []),
    }
    return MemoryCall(**{name: row[name] for name in MemoryCall._fields if name in row} | own)
