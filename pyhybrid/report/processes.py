"""`pyhybrid report processes`: the processes of a profile, in groups or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyhybrid.report.ellipsis import middle
from pyhybrid.report.table import Column, Listing, Table, number, seconds, share, text
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.processes import (
    CUT_OFF,
    FORKS_OF,
    RANK,
    RANKS_OF,
    ProcessFigures,
    ProcessGroup,
    Unprofiled,
    grouped,
    processes_of,
    unprofiled,
)

N_NAMED, LONGEST = 8, 100


class LeftOut(Record):
    """Count processes that are not in the profile, and why."""

    why: str
    command: str
    n: int


class NotMerged(Record):
    """Name a process whose spool could not be read, or not be added up with the others."""

    pid: int
    why: str


class Processes(Record):
    """Hold the keys of `pyhybrid report processes --json`."""

    groups: list[ProcessGroup]
    processes: list[ProcessFigures]
    still_running: list[int]  # pids: what they recorded is in PREFIX.pyhybrid.parts
    left_out: list[LeftOut]
    not_merged: list[NotMerged]
    unprofiled: Unprofiled | None  # child processes that are not in the profile; null: none


def processes_report(profile: Profile, by: str) -> Processes:
    """Collect it; `by` as of grouped()."""
    meta, every = profile.meta, processes_of(profile)
    return Processes(
        groups=grouped(every, by),
        processes=every,
        still_running=list(meta.get("still_running") or ()),
        left_out=[LeftOut(*row) for row in meta.get("left_out") or ()],
        unprofiled=unprofiled(profile),
        not_merged=[NotMerged(*row) for row in meta.get("not_merged") or ()],
    )


def group_label(group: ProcessGroup) -> str:
    """Return `4 loader workers (Process-1, Process-4)`."""
    if group.n == 1:
        name, pid = group.names[0], group.pids[0]
        role = f" ({group.role})" if group.role else ""
        if str(pid) in group.what:
            return group.what
        if group.what.startswith(FORKS_OF):
            return f"a fork of {name}{role}, pid {pid}"
        rank = f"{group.what}: " if group.what.startswith(RANK) else ""
        return f"{rank}{name}{role}, pid {pid}"
    is_word = group.role or group.what.startswith((RANKS_OF, FORKS_OF))
    words = f"{group.n} {'' if is_word else 'times '}{group.what}{'s' if group.role else ''}"
    names = [name for name in group.names if name not in group.what]
    return words + (f" ({' … '.join(names)})" if names else "")


def group_columns() -> list[Column]:
    """Return the columns that the first screen has, too."""
    return [
        Column("CPU", 7, "share", share),
        Column("time", 10, "cpu_ns", seconds),
        text("processes", group_label),
    ]


def processes_listing(report: Processes, every: bool) -> Listing:
    """Return the groups, and with `every` each process."""
    first, time, last = group_columns()
    more = [
        Column("wall", 10, "wall_ns", seconds),
        Column("samples", 10, "samples", number),
        Column("calls", 12, "calls", number),
        Column("cut off", 9, lambda group: group.cut_off or None),
    ]
    yield Table([first, time, *more, last], report.groups)
    if every:
        yield ""
        yield Table(_COLUMNS, report.processes)
    yield from _missing(report)
    yield from _unknown(report)


def _missing(report: Processes) -> Listing:
    if report.still_running:
        pids = _few([str(pid) for pid in report.still_running])
        yield f"still ran when the profile was made, and are not in it: {pids}"
    for missing in report.not_merged[:N_NAMED]:
        yield f"not in the profile: {missing.pid}: {missing.why}"
    for each in report.left_out[:N_NAMED]:
        yield middle(f"not profiled: {each.n} {each.why}: {each.command}", LONGEST)


def _unknown(report: Processes) -> Listing:
    named = sum(each.n for each in report.left_out)
    if report.unprofiled and (n := report.unprofiled.n - named) > 0:
        yield f"not profiled: {n} of which it is not known why (no Python, or another one's)"


def _few(words: Sequence[str]) -> str:
    return ", ".join(words[:N_NAMED]) + (", ..." if len(words) > N_NAMED else "")


def _began(process: ProcessFigures) -> str:
    return {"root": "", "fork": "forked", "start": "started", "exec": "by exec"}.get(
        process.how, process.how
    )


def _label(process: ProcessFigures) -> str:
    rank = "" if process.rank is None else f"{RANK}{process.rank}: "
    role = f" ({process.role})" if process.role else ""
    return f"{rank}{process.name}{role}"


def _seconds(value: Any) -> str:
    return f"{value / 1e9:.3f}"


_COLUMNS = [
    Column("pid", 8, "pid"),
    Column("parent", 8, "parent"),
    Column("began s", 9, "began_ns", _seconds),
    Column("wall s", 9, "wall_ns", _seconds),
    Column("CPU s", 9, "cpu_ns", _seconds),
    Column("samples", 9, "samples", number),
    Column("calls", 11, "calls", number),
    text("began", _began, 7),
    text("end", lambda each: each.end if each.end == CUT_OFF else "", 7),
    text("process", _label),
]
