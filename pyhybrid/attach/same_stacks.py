"""Stacks of several threads and processes as text: those that are alike are shown once.

Of several processes the first lines tell where their main threads are, the most of them first:
whoever hangs apart from the others is one of the last ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pyhybrid.attach.stacks import ProcessStacks, StackFrame, ThreadStack
from pyhybrid.base.terminal_text import visible

MOST_NAMED = 8  # threads or processes in one line
_LIBRARIES = re.compile(r".*/(?:(?:site|dist)-packages|lib/python3\.\d+t?)/")


def label(process: ProcessStacks) -> str:
    """Return what a process is called among others."""
    return f"process {process.pid}" if process.rank is None else f"rank {process.rank}"


def listing(processes: list[ProcessStacks], *, full: bool = False) -> Iterator[str]:
    """Yield the lines: of all frames if `full`, else without plumbing."""
    for process in processes:
        head = f"{label(process)}: " if process.rank is not None else ""
        yield f"{head}process {process.pid}, Python {process.version}: {process.command}"
        yield from (f"note     {note}" for note in process.notes)
    if len(processes) > 1:
        yield ""
        yield from _where(processes)
    alike: defaultdict[tuple[StackFrame, ...], list[tuple[ProcessStacks, ThreadStack]]]
    alike = defaultdict(list)
    for process in processes:
        for thread in process.threads:
            alike[_shown(thread.frames, full)].append((process, thread))
    for frames, threads in sorted(
        alike.items(), key=lambda each: (not _any_main(each[1]), -len(each[1]))
    ):
        yield ""
        yield _head(threads, len(processes))
        for frame in frames:
            yield f"    {line_of(frame)}"
            yield from (visible(f"        {name} = {value}") for name, value in frame.variables)
        if not frames:
            yield "    (no frame could be read)"


def _any_main(threads: list[tuple[ProcessStacks, ThreadStack]]) -> bool:
    return any(thread.is_main for _, thread in threads)


def _where(processes: list[ProcessStacks]) -> Iterator[str]:
    """Yield where main threads are: `6 of 8 in all_reduce (distributed_c10d.py:2501)`."""
    places: defaultdict[str, list[ProcessStacks]] = defaultdict(list)
    for process in processes:
        main = next((each for each in process.threads if each.is_main), None)
        places[_place(main.frames if main else ())].append(process)
    for place, found in sorted(places.items(), key=lambda each: -len(each[1])):
        if len(found) == 1:
            yield f"{label(found[0])} in {place}"
        else:
            who = _listed([label(each) for each in found])
            yield f"{len(found)} of {len(processes)} in {place}: {who}"


def _place(frames: tuple[StackFrame, ...]) -> str:
    """Return the innermost function of Python's."""
    frame = next((each for each in frames if each.is_python), None)
    frame = frame or next((each for each in frames if not each.is_plumbing), None)
    return line_of(frame) if frame else "no known function"


def line_of(frame: StackFrame) -> str:
    """Return a frame as text, innermost and outermost alike."""
    if frame.is_python:
        file = _LIBRARIES.sub("", frame.file)
        return visible(f"{frame.name} ({file}:{frame.line})" if file else frame.name)
    return visible(f"{frame.name} [{frame.file}]" if frame.file else frame.name)


def _shown(frames: tuple[StackFrame, ...], full: bool) -> tuple[StackFrame, ...]:
    """Leave plumbing out, but for what the innermost Python function has called."""
    if full:
        return frames
    kept = [each for each in frames if not each.is_plumbing]
    return tuple(kept or frames)


def _head(threads: list[tuple[ProcessStacks, ThreadStack]], n_processes: int) -> str:
    """Return who they are, and what they do."""
    names = list(dict.fromkeys(_called(thread, n_processes) for _, thread in threads))
    who = names[0] if len(threads) == 1 else f"{len(threads)} threads: {_listed(names)}"
    if n_processes > 1:
        owners = list(dict.fromkeys(label(process) for process, _ in threads))
        if all(thread.is_main for _, thread in threads):
            who = "main thread" if len(threads) == 1 else f"{len(threads)} main threads"
        who += f" of {_listed(owners)}"
    does = _common(each.state for _, each in threads)
    gil = _common(each.gil for _, each in threads)
    why = _common(each.why for _, each in threads)
    return ", ".join(part for part in (who, does, gil, why and f"not whole: {why}") if part)


def _called(thread: ThreadStack, n_processes: int) -> str:
    if thread.is_main:
        return "main thread"
    return f"thread {thread.tid} {thread.name!r}" if n_processes == 1 else repr(thread.name)


def _common(words: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(each for each in words if each))


def _listed(names: list[str]) -> str:
    """Return them with commas; ranks in a row as `ranks 0-2, 4`."""
    ranks = [int(each.removeprefix("rank ")) for each in names if each[5:].isdigit()]
    if len(ranks) == len(names) and all(each.startswith("rank ") for each in names):
        return names[0] if len(names) == 1 else f"ranks {_ranges(sorted(ranks))}"
    shown = names[:MOST_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _ranges(numbers: list[int]) -> str:
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][1] + 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
