"""Reads a snapshot of CUDA memory (`torch.cuda.memory._dump_snapshot`): what lived at the peak and
at the end, by the line that asked for it, and how fragmented the rest is.

The file is a pickle.  Nothing but plain containers, texts and numbers is taken from it: what names
a class or a function is refused, so no code runs.  The format is that of torch/cuda/memory.py
(`_snapshot`), PyTorch 2.1 to 2.15.  A trace of what was given out and back may have lost its begin:
what lived then is known of what is in the segments at the end, or was given back in the trace.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any, NoReturn

from pyhybrid.base.structs import Struct, made
from pyhybrid.errors import PyhybridError

ALLOC, FREED, OOM = "alloc", "free_completed", "oom"
LIVES = ("active_allocated", "active_awaiting_free", "active_pending_free")
UNKNOWN: Stack = ()

type Stack = tuple[tuple[str, int, str], ...]  # file, line, function: the innermost first


class Site(Struct):
    """Hold what one stack of calls got: bytes."""

    at_peak: int = 0
    alive: int = 0
    allocated: int = 0
    pieces: int = 0


class OutOfMemory(Struct):
    """Hold a request that failed: bytes, and what the device had; `at_ns`: of the day, or 0."""

    wanted: int
    free: int
    at_ns: int
    stack: Stack


class DeviceSnapshot(Struct):
    """Hold a device: bytes.

    `reserved`: of all segments; `alive`: in use at the end, of which `rounded` was not asked for;
    `largest_free`: the largest piece that is not, in one.  `stuck`: what is free in segments of
    which something is in use, so that they cannot be given back.  `peak`: the most in use while it
    was traced; `peak_ns`: of the day; 0: it is not known.  `before`: in use when the trace began.
    """

    number: int
    reserved: int = 0
    alive: int = 0
    rounded: int = 0
    largest_free: int = 0
    stuck: int = 0
    peak: int = 0
    peak_ns: int = 0
    before: int = 0
    n_events: int = 0
    sites: dict[Stack, Site] = made(dict)
    failed: list[OutOfMemory] = made(list)


class _Plain(pickle.Unpickler):
    """Takes nothing but containers, texts and numbers."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse it: to make one would run its code."""
        raise pickle.UnpicklingError(f"it names {module}.{name}, and has code to run")

    def persistent_load(self, pid: object) -> NoReturn:
        """Refuse it."""
        raise pickle.UnpicklingError("it refers to something outside")


def read_snapshot(path: str) -> list[DeviceSnapshot]:
    """Return the devices that had memory.  Raises PyhybridError, in one line, where the file cannot
    be read, or is something else."""
    try:
        with open(path, "rb") as file:
            found = _Plain(BytesIO(file.read())).load()
    except OSError as error:
        raise PyhybridError(f"cannot read {path}: {error.strerror}") from None
    except Exception as error:  # of whatever the bytes are
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PyhybridError(f"{path}: no snapshot of CUDA memory: {text}") from None
    if isinstance(found, list):  # of old versions: segments alone
        found = {"segments": found, "device_traces": []}
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise PyhybridError(f"{path}: no snapshot of CUDA memory: it has no segments")
    try:
        return list(_devices(found))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PyhybridError(f"{path}: not a snapshot as PyTorch makes it ({what})") from None


def _devices(found: dict[str, Any]) -> Iterator[DeviceSnapshot]:
    segments: dict[int, list[dict[str, Any]]] = {}
    for each in found["segments"]:
        segments.setdefault(int(each.get("device", 0)), []).append(each)
    traces = found.get("device_traces") or []
    for number in sorted({*segments, *(n for n, trace in enumerate(traces) if trace)}):
        trace = traces[number] if number < len(traces) else []
        yield _device(number, segments.get(number, []), trace)


def _device(number: int, segments: Sequence[dict[str, Any]], trace: list[Any]) -> DeviceSnapshot:
    device = DeviceSnapshot(number, n_events=len(trace))
    alive = dict[int, tuple[int, Stack]]()  # by address, at the end
    for segment in segments:
        total = int(segment["total_size"])
        device.reserved += total
        used = 0
        for address, block in _blocks(segment):
            size = int(block["size"])
            if block["state"] in LIVES:
                requested, stack = _extra(block)
                device.alive += size
                device.rounded += max(0, size - requested)
                alive[address] = size, stack
                used += size
            else:
                device.largest_free = max(device.largest_free, size)
        device.stuck += total - used if used else 0
    for size, stack in alive.values():
        _site(device, stack).alive += size
    _follow(device, trace, alive)
    return device


def _blocks(segment: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield them with their addresses, which old versions do not have."""
    address = int(segment["address"])
    for block in segment["blocks"]:
        yield int(block.get("address", address)), block
        address += int(block["size"])


def _extra(block: dict[str, Any]) -> tuple[int, Stack]:
    """Return how much was asked for, and where."""
    if "frames" in block or "history" not in block:
        return int(block.get("requested_size", block["size"])), _stack(block.get("frames"))
    latest = block["history"][0]
    return int(latest["real_size"]), _stack(latest.get("frames"))


def _stack(frames: Iterable[dict[str, Any]] | None) -> Stack:
    """Return the Python functions; those of C++ have no file that is Python's."""
    known = ((str(f["filename"]), int(f["line"]), str(f["name"])) for f in frames or ())
    return tuple(each for each in known if each[0].endswith(".py") or each[0].startswith("<"))


def _site(device: DeviceSnapshot, stack: Stack) -> Site:
    return device.sites.setdefault(stack, Site())


def _follow(device: DeviceSnapshot, trace: list[Any], alive: dict[int, tuple[int, Stack]]) -> None:
    """Find the peak: what lived when the most did."""
    first = _first(trace, alive)
    device.before = sum(size for size, _ in first.values())
    now = device.peak = device.before
    at = 0  # the peak is before this event
    live = dict(first)
    for place, each in enumerate(trace):
        if each["action"] == ALLOC:
            size, stack = int(each["size"]), _stack(each.get("frames"))
            site = _site(device, stack)
            site.allocated += size
            site.pieces += 1
            now += size - live.get(each["addr"], (0, UNKNOWN))[0]
            live[each["addr"]] = size, stack
            if now > device.peak:
                device.peak, at = now, place + 1
        elif each["action"] == FREED:
            now -= live.pop(each["addr"], (0, UNKNOWN))[0]
        elif each["action"] == OOM:
            free, at_ns = int(each.get("device_free", 0)), 1000 * int(each.get("time_us", 0))
            stack = _stack(each.get("frames"))
            device.failed.append(OutOfMemory(int(each["size"]), free, at_ns, stack))
    live = dict(first)
    for each in trace[:at]:
        if each["action"] == ALLOC:
            live[each["addr"]] = int(each["size"]), _stack(each.get("frames"))
        elif each["action"] == FREED:
            live.pop(each["addr"], None)
    if at:
        device.peak_ns = 1000 * int(trace[at - 1].get("time_us", 0))
    for size, stack in live.values():
        _site(device, stack).at_peak += size


def _first(trace: list[Any], alive: dict[int, tuple[int, Stack]]) -> dict[int, tuple[int, Stack]]:
    """Return what lived when the trace began: what it gives back before it gave it out, and what
    lives at the end without that."""
    first, touched = dict[int, tuple[int, Stack]](), Counter[int]()
    for each in trace:
        if each["action"] == FREED and not touched[each["addr"]]:
            first[each["addr"]] = int(each["size"]), UNKNOWN
        if each["action"] in (ALLOC, FREED):
            touched[each["addr"]] += 1
    return first | {at: piece for at, piece in alive.items() if not touched[at]}
