"""Memory of a GPU, of a snapshot (gpu/memory_snapshot.py): by the module and function that asked.

A stack of the snapshot has functions and lines alone.  The module is known where the profile's call
tree has that stack: of paths with these functions on them, the innermost module.  The tree has no
lines, but for those of samples, by which paths are told apart.  Where several paths fit, what
differs is `*`: `LM.layers.*.mlp`.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.errors import PyhybridError
from pyhybrid.frameworks import torch_device_memory
from pyhybrid.frameworks.torch import is_plumbing
from pyhybrid.gpu.memory_snapshot import DeviceSnapshot, Stack, read_snapshot
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.training.memory_calls import MemoryCall
from pyhybrid.views.training.steps import steps_of

META = "memory_devices"  # of the profile: what `import memory` found


class FailedRequest(Record):
    """Hold a request for memory that failed: bytes; `free`: what the device had; `at`: the line."""

    wanted: int
    free: int
    function: str
    at: str


class DeviceMemory(Record):
    """Hold what a snapshot of a device's memory has: bytes, as DeviceSnapshot.

    `snapshot`: the file's name.  `peak_step`: the step of the profile in which the peak was; null:
    not known.
    """

    snapshot: str
    device: int
    peak: int
    alive: int
    reserved: int
    stuck: int
    largest_free: int
    rounded: int
    before: int
    n_events: int
    peak_step: int | None
    failed: list[FailedRequest]
    calls: list[MemoryCall]


def device_memory(
    path: str, devices: Iterable[DeviceSnapshot], profile: Profile | None
) -> list[DeviceMemory]:
    """Return each device; with a profile of the same run by module, too."""
    modules = Modules(profile) if profile else None
    found = []
    for each in devices:
        calls: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for stack, site in each.sites.items():
            of = calls[_key(stack, modules)]
            for name in ("at_peak", "alive", "allocated", "pieces"):
                of[name] += getattr(site, name)
        rows = [_call(key, figures) for key, figures in calls.items()]
        rows.sort(key=lambda row: (-row.at_peak, -row.alive, -row.allocated))
        failed = [FailedRequest(one.wanted, one.free, *_where(one.stack)) for one in each.failed]
        found.append(
            DeviceMemory(
                *(os.path.basename(path), each.number, each.peak, each.alive, each.reserved),
                *(each.stuck, each.largest_free, each.rounded, each.before, each.n_events),
                _step_at(profile, each.peak_ns) if profile else None,
                failed,
                rows,
            )
        )
    return found


def known_devices(profile: Profile) -> tuple[list[DeviceMemory], list[str]]:
    """Return what was imported into a profile, else what a snapshot has that was made in the run
    and lies beside it; and notes on that one."""
    recorded = profile.meta.get(torch_device_memory.META)
    if META not in profile.meta and recorded:
        return _recorded(profile, recorded)
    imported = [
        DeviceMemory(
            **{
                **each,
                "failed": [FailedRequest(**one) for one in each["failed"]],
                "calls": [MemoryCall(**one) for one in each["calls"]],
            }
        )
        for each in profile.meta.get(META) or ()
    ]
    return imported, []


def _recorded(profile: Profile, facts: dict[str, Any]) -> tuple[list[DeviceMemory], list[str]]:
    notes = [f"PyTorch's history of GPU memory: {facts['error']}"] if facts["error"] else []
    path = os.path.join(os.path.dirname(profile.path), facts["snapshot"])
    try:
        devices = device_memory(path, read_snapshot(path), profile)
    except PyhybridError as error:
        return [], [*notes, *([] if facts["error"] else [str(error)])]
    return devices, notes


def _call(key: tuple[Any, ...], figures: Counter[str]) -> MemoryCall:
    names = MemoryCall._fields
    values: dict[str, Any] = dict.fromkeys(names[len(key) :], 0)
    return MemoryCall(*key, **(values | {"holders": []} | dict(figures)))


def _key(stack: Stack, modules: Modules | None) -> tuple[Any, ...]:
    """Return the first fields of a MemoryCall."""
    module, of_class = modules.of(stack) if modules else ("", "")
    own = next(
        ((name, file, line) for file, line, name in stack if not _plumbing(file, name)), None
    )
    caller = next(((name, file, line) for file, line, name in stack if not is_librarys(file)), None)
    return module, of_class, *(own or ("", "", 0)), *(caller or ("", "", 0))


def _plumbing(file: str, name: str) -> bool:
    return is_plumbing(file, f"Module.{name}") or file.startswith("<")


def _where(stack: Stack) -> tuple[str, str]:
    for file, line, name in (*(each for each in stack if not is_librarys(each[0])), *stack):
        return name, f"{os.path.basename(file)}:{line}"
    return "", ""


def _step_at(profile: Profile, unix_ns: int) -> int | None:
    steps = steps_of(profile)
    offset = next((unix - ns for ns, unix in profile.clock_pairs), None)
    if not unix_ns or offset is None or not steps:
        return None
    at_ns = unix_ns - offset
    return next((s.number for s in steps.steps if s.begin_ns <= at_ns < s.end_ns), None)


type _Function = int  # its frame; 0: the profile does not know it


class Modules:
    """Find the module of a model in which a stack of functions is, in a profile's tree."""

    def __init__(self, profile: Profile) -> None:
        """Take the profile of a run of the same program."""
        self._frames, self._nodes = profile.frames, profile.nodes
        python = {frame.id for frame in profile.frames.values() if frame.kind == "python"}
        self._of_function: defaultdict[_Function, list[int]] = defaultdict(list)
        for node, frame in enumerate(profile.nodes.frame):
            if frame in python:
                self._of_function[frame].append(node)
        self._named: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for frame in python & self._of_function.keys():
            known = profile.frames[frame]
            name = known.file or "", known.name.rpartition(".")[2]
            self._named[name].append((known.line or 0, frame))
        self._called_at = self._lines(profile, python)
        self._known: dict[Stack, tuple[str, str]] = {}

    def _lines(self, profile: Profile, python: set[int]) -> dict[int, set[int]]:
        """Return by node of a function the lines of the one that called it, as far as samples are
        below it."""
        stacks, lines = profile.stacks, defaultdict[int, set[int]](set)
        for row, node in enumerate(stacks.node):
            if self._nodes.frame[node] not in python:
                continue
            above = stacks.parent[row]
            while above and self._nodes.frame[stacks.node[above]] not in python:
                above = stacks.parent[above]
            if above and (line := stacks.line[above]):
                lines[node].add(line)
        return lines

    def of(self, stack: Stack) -> tuple[str, str]:
        """Return its path and class; empty: it is in none, or not known."""
        if stack not in self._known:
            self._known[stack] = self._find(stack)
        return self._known[stack]

    def _function(self, file: str, line: int, name: str) -> _Function:
        """Return the function of that name that begins last before the line."""
        begins = [each for each in self._named.get((file, name), ()) if each[0] <= line]
        return max(begins, default=(0, 0))[1]

    def _find(self, stack: Stack) -> tuple[str, str]:
        functions = [(self._function(*each), each[1]) for each in stack]
        known = [each for each in functions if each[0]]
        if not known:
            return "", ""
        found: dict[bool, dict[str, str]] = {True: {}, False: {}}
        for node in self._of_function[known[0][0]]:
            agrees = self._agrees(node, known)
            if agrees is not None and (module := self._module(node)):
                found[agrees][module[0]] = module[1]
        return _together(found[True] or found[False])

    def _agrees(self, node: int, stack: Sequence[tuple[_Function, int]]) -> bool | None:
        """Return None where the functions on its path are not the stack's; else whether the lines
        are, as far as they are known."""
        at, is_same = 0, True
        while node:
            frame = self._nodes.frame[node]
            if frame in self._of_function:
                if at == len(stack) or stack[at][0] != frame:
                    return None
                lines = self._called_at.get(node)
                at += 1
                is_same &= not lines or at == len(stack) or stack[at][1] in lines
            node = self._nodes.parent[node]
        return is_same if at == len(stack) else None

    def _module(self, node: int) -> tuple[str, str] | None:
        while node:
            frame = self._frames[self._nodes.frame[node]]
            if frame.is_object:
                return frame.name, frame.symbol or ""
            node = self._nodes.parent[node]
        return None


def _together(modules: dict[str, str]) -> tuple[str, str]:
    """Return the path and class of modules as one: `*` where they differ."""
    if not modules:
        return "", ""
    paths, classes = [path.split(".") for path in modules], set(modules.values())
    of_class = min(classes) if len(classes) == 1 else ""
    columns = list(zip(*paths, strict=False))
    if len({len(path) for path in paths}) > 1:
        same = [each[0] for each in takewhile(lambda each: len(set(each)) == 1, columns)]
        return ".".join([*same, "*"]), of_class
    return ".".join("*" if len(set(each)) > 1 else each[0] for each in columns), of_class
