"""The processes of a profile: what each is, what it took, and those that are alike as groups."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pyhybrid.base.files import table_beside
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.capture.children import program_of
from pyhybrid.merge import IDENTITY
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record

BY = ("process", "name", "rank")  # how processes are grouped
NUMBERS = re.compile(r"[-_ :.#]*\d+")  # what those of a pool differ by
NO_ROOM = "disk"  # of what is left out: the spools took all that they may (capture/children.py)
MUCH, MUCH_NS = 0.01, 50_000_000  # of the run's CPU time, and time
# Of the children's CPU time: what they took as they began and ended is not known.
LEAST_UNPROFILED = 0.1
RANK, RANKS_OF, FORKS_OF = "rank ", "ranks of ", "forks of "
# Cut off: by a signal, or without a word: nothing recorded its end.
ENDED, CUT_OFF, GOES_ON = "ended", "cut off", "goes on"


class ProcessFigures(Record):
    """Describe one process.  Null where it is not known, or there is none."""

    id: int
    pid: int
    parent: int | None  # its pid
    how: str  # it began: root, fork, start, exec (of one that is here, too)
    name: str  # multiprocessing's, or the program's
    role: str  # what it is for (process_roles.toml); "": not known
    rank: int | None  # of a distributed run
    argv: list[str]
    began_ns: int | None  # after the first process
    wall_ns: int | None
    cpu_ns: int
    samples: int
    calls: int
    end: str  # ended, cut off, goes on


class ProcessGroup(Record):
    """Describe processes that are alike: their sums, `names` of the first and of the last one."""

    what: str  # a role, a name without its number, `rank 3`
    role: str  # "": not known, or they are no group by what they are for
    n: int
    pids: list[int]
    names: list[str]
    wall_ns: int  # of all, one after another
    cpu_ns: int
    share: float  # of the CPU time of all processes
    samples: int
    calls: int
    cut_off: int


def processes_of(profile: Profile) -> list[ProcessFigures]:
    """Return them, the first one first, then in the order of their begin."""
    return profile.once(_processes)


def _processes(profile: Profile) -> list[ProcessFigures]:
    known, roles = identities(profile), _roles(profile)
    is_snapshot = bool(profile.meta.get("snapshot"))
    first = profile.processes[min(profile.processes)]
    calls: dict[int, int] = dict(
        profile.query("SELECT process, sum(calls) FROM exact GROUP BY process")
    )
    threads = defaultdict(list)
    for thread in profile.threads.values():
        threads[thread.process].append(thread)
    cpu_ns = processes_cpu_ns(profile)
    found: list[ProcessFigures] = []
    pids: set[int] = set()
    for process in sorted(profile.processes.values(), key=lambda each: each.start_ns or 0):
        facts, of = known[process.id], threads[process.id]
        ends = [end for thread in of if (end := thread.last_ns)]
        end_ns = process.end_ns or max(ends, default=None)
        wall_ns = end_ns - process.start_ns if end_ns and process.start_ns else None
        began = process.start_ns and first.start_ns and process.start_ns - first.start_ns
        found.append(
            ProcessFigures(
                id=process.id,
                pid=process.pid,
                parent=facts.get("ppid"),
                how="exec" if process.pid in pids else str(facts.get("how") or "root"),
                name=str(facts.get("name") or program_of(process.argv, process.executable)),
                role=roles.get(process.id, ""),
                rank=facts.get("rank"),
                argv=process.argv,
                began_ns=began,
                wall_ns=wall_ns,
                cpu_ns=cpu_ns[process.id],
                samples=sum(thread.recorded for thread in of),
                calls=calls.get(process.id) or 0,
                end=ENDED if process.end_ns else GOES_ON if is_snapshot else CUT_OFF,
            )
        )
        pids.add(process.pid)
    return sorted(found, key=lambda each: (each.id != first.id, each.began_ns or 0, each.id))


def grouped(processes: Sequence[ProcessFigures], by: str = "name") -> list[ProcessGroup]:
    """Return processes that are alike as one, most CPU time first; `by` is one of BY."""
    of: dict[str, list[ProcessFigures]] = defaultdict(list)
    for each in processes:
        of[_what(each, by)].append(each)
    all_ns = sum(each.cpu_ns for each in processes) or 1
    groups = [
        ProcessGroup(
            what=what,
            role=members[0].role if what == members[0].role else "",
            n=len(members),
            pids=[each.pid for each in members],
            names=_ends(
                sorted({each.name for each in members}, key=lambda name: (len(name), name))
            ),
            wall_ns=sum(each.wall_ns or 0 for each in members),
            cpu_ns=(cpu_ns := sum(each.cpu_ns for each in members)),
            share=cpu_ns / all_ns,
            samples=sum(each.samples for each in members),
            calls=sum(each.calls for each in members),
            cut_off=sum(each.end == CUT_OFF for each in members),
        )
        for what, members in of.items()
    ]
    return sorted(groups, key=lambda each: -each.cpu_ns)


def _ends(names: list[str]) -> list[str]:
    return names if len(names) == 1 else [names[0], names[-1]]


def _what(process: ProcessFigures, by: str) -> str:
    rank = "" if process.rank is None else f"{RANK}{process.rank}"
    if by == "process":
        return f"{process.name} (pid {process.pid})"
    if by == "rank":
        return rank or "no rank"
    if process.role:
        return process.role
    if rank:
        return f"{RANKS_OF}{process.name}"
    if process.name == program_of(process.argv):  # a script's number is its own
        return f"{FORKS_OF}{process.name}" if process.how == "fork" else process.name
    return NUMBERS.sub("", process.name) or process.name


class Unprofiled(Record):
    """Count child processes of which the profile has nothing."""

    n: int
    cpu_ns: int  # of those that have ended, about; 0: next to nothing
    kinds: dict[str, int]  # how many of what is left out on purpose, or for want of room
    known: bool  # they are all of these kinds
    much: bool  # they took more than what libraries start as they are imported, or had no room


def unprofiled(profile: Profile) -> Unprofiled | None:
    """Return what is known of them; None: there are none."""
    return profile.once(_unprofiled)


def _unprofiled(profile: Profile) -> Unprofiled | None:
    known = identities(profile)
    profiled = [n for n, facts in known.items() if facts.get("how", "root") != "root"]
    process, meta = profile.process, profile.meta
    n = (process.n_forked or 0) + (process.n_spawned or 0) - len(profiled)
    if n <= 0:
        return None
    kinds: dict[str, int] = {}
    for why, _, times in meta.get("left_out") or ():
        kinds[why] = kinds.get(why, 0) + times
    all_ns = int(meta.get("children_cpu_ns") or 0)
    taken = processes_cpu_ns(profile)
    spent_ns = all_ns - sum(taken[n] + int(known[n].get("before_ns") or 0) for n in profiled)
    if spent_ns <= LEAST_UNPROFILED * all_ns:
        spent_ns = 0
    return Unprofiled(
        n=n,
        cpu_ns=spent_ns,
        kinds=kinds,
        known=n <= sum(kinds.values()) and NO_ROOM not in kinds,
        much=NO_ROOM in kinds or spent_ns >= max(MUCH_NS, MUCH * sum(taken.values())),
    )


def processes_cpu_ns(profile: Profile) -> dict[int, int]:
    """Return the CPU time of each, while it was profiled: of one that was killed its threads'."""
    threads: dict[int, int] = defaultdict(int)
    for thread in profile.threads.values():
        threads[thread.process] += thread.cpu_ns or 0
    return {n: each.cpu_ns or threads[n] for n, each in profile.processes.items()}


def identities(profile: Profile) -> dict[int, dict[str, Any]]:
    """Return what each process recorded of what it is (capture/children.py), by its id."""
    if len(profile.processes) == 1:
        known = {key: profile.meta[key] for key in IDENTITY if key in profile.meta}
        return dict.fromkeys(profile.processes, known)
    of_each: dict[int, dict[str, Any]] = {number: {} for number in profile.processes}
    keys = ",".join("?" * len(IDENTITY))
    rows = profile.query(
        f"SELECT process, key, value FROM process_meta WHERE key IN ({keys})", *IDENTITY
    )
    for number, key, value in rows:
        if number in of_each:
            of_each[number][key] = json.loads(value)
    return of_each


def _roles(profile: Profile) -> dict[int, str]:
    """Return what processes are for, by their ids, as far as it is known: by functions that were
    called there, or where calls were not counted by those that samples are below."""
    if len(profile.processes) == 1:
        return {}
    of_frame = {number: at for number, frame in profile.frames.items() for at in _role_of(frame)}
    if not of_frame:
        return {}
    found: dict[int, set[int]] = defaultdict(set)
    for process, frame in profile.query(_CALLED if len(profile.exact) else _SAMPLED):
        if frame in of_frame:
            found[process].add(of_frame[frame])
    names = [role for role, _, _ in _table()]
    return {process: names[min(numbers) - 1] for process, numbers in found.items()}


_CALLED = (
    "SELECT DISTINCT exact.process, node.frame FROM exact "
    "JOIN node ON node.id = exact.node WHERE exact.calls"
)
_SAMPLED = (
    "WITH RECURSIVE there(process, node) AS ("
    "SELECT DISTINCT sampled.process, stack.node FROM sampled "
    "JOIN stack ON stack.id = sampled.stack "
    "UNION SELECT process, parent FROM there JOIN node ON node.id = there.node WHERE parent) "
    "SELECT DISTINCT process, frame FROM there JOIN node ON node.id = there.node"
)


def _role_of(frame: Frame) -> Iterator[int]:
    if frame.kind == "python" and frame.file:
        for at, (_, functions, files) in enumerate(_table(), 1):
            if functions.match(frame.name) and files.match("/" + frame.file):
                yield at
                return


@cache
def _table() -> list[tuple[str, NamePatterns, NamePatterns]]:
    rows = table_beside(__file__, "process_roles")["role"]
    return [
        (each["role"], NamePatterns([each["function"]]), NamePatterns([f"*/{each['file']}"]))
        for each in rows
    ]
