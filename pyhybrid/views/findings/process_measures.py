"""What findings measure of the processes of a run: which waits for which, and what that one did.

A process waits where its main thread is in the functions of process_waits.toml, by exact times.
"""

import math
from collections import defaultdict
from functools import cache
from typing import Any

from pyhybrid.base.files import table_beside
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.tables import Frame
from pyhybrid.views.findings.measured_profile import Evidence, Measured
from pyhybrid.views.labels import shorten_file
from pyhybrid.views.lines.program_lines import program_lines
from pyhybrid.views.processes import ProcessFigures, processes_of
from pyhybrid.views.selection.sample_selection import Choice, choose

CHILDREN, RANKS, LOADER = "children", "ranks", "loader worker"
BUSY = 0.8  # of their time: workers that use more of it are what limits
WORTH_NAMING = 0.3  # of what they did


def awaited(measured: Measured, rule: dict[str, Any]) -> Evidence:
    """Find the process that waited most for others, in which function, and what these did."""
    profile = measured.profile
    if len(profile.processes) == 1:
        return None
    processes = {each.id: each for each in processes_of(profile)}
    found = max(
        (
            (waited_ns / wall_ns, waited_ns, process, role, frame)
            for (process, role), by_frame in _waits(measured).items()
            for frame, waited_ns in by_frame.items()
            if (wall_ns := processes[process].wall_ns) and _others(processes, process, role)
        ),
        default=None,
    )
    if not found or found[0] < rule["least_share"]:
        return None
    share, waited_ns, process, role, frame = found
    if role == LOADER and len(measured.steps) >= rule["steps"]:
        return None  # the finding `loader` has it, of the steps' time
    others = _others(processes, process, role)
    of = processes[process]
    who = "the first process" if of.id == min(processes) else of.name
    who = who if of.rank is None else f"rank {of.rank}"
    return {
        "share": min(1.0, share),
        "seconds": waited_ns / 1e9,
        "who": who,
        "whom": _whom(others, role),
        "function": measured.labels[frame],
        "spent": spent(measured, others),
        "enough": enough(measured, others, share) if role not in (CHILDREN, RANKS) else "",
    }


def loader_workers(measured: Measured, share: float) -> str:
    """Return what the workers of a training's loader did while the training waited, in words; "":
    it has none that are known.  `share`: of the training's time."""
    workers = [each for each in processes_of(measured.profile) if each.role == LOADER]
    if not workers:
        return ""
    did = spent(measured, workers) + enough(measured, workers, share)
    return f"; it has {len(workers)} loader worker{'s' * (len(workers) > 1)}{did}"


def spent(measured: Measured, processes: list[ProcessFigures]) -> str:
    """Return `, which spent 71% in decode (data.py:41)`; "": in nothing of the program's mostly."""
    profile, _ = choose(measured.profile, Choice(processes=[str(each.pid) for each in processes]))
    all_ns = sum(thread.recorded_weight_ns for thread in profile.threads.values())
    lines = program_lines(profile)
    if not lines or not all_ns or lines[0].weight_ns < WORTH_NAMING * all_ns:
        return ""
    line = lines[0]
    place = f"{shorten_file(line.file, str(profile.meta.get('cwd') or ''))}:{line.line}"
    return f", which spent {line.weight_ns / all_ns:.0%} in {line.function} ({place})"


def enough(measured: Measured, workers: list[ProcessFigures], share: float) -> str:
    """Return `; 6 would keep up`, where the workers were busy all the time, and there are as many
    processors; "": that is not known."""
    known = [each for each in workers if each.wall_ns]
    walls_ns = sum(each.wall_ns or 0 for each in known)
    busy = sum(each.cpu_ns for each in known) / walls_ns if walls_ns else 0
    n = needed(len(workers), busy, share)
    return f"; {n} would keep up" if n and n < int(measured.profile.meta.get("n_cpus") or 0) else ""


def needed(n: int, busy: float, share: float) -> int:
    """Return how many workers it takes for nobody to wait for them, where `n` are busy for such a
    share of their time, and are waited for in such a share of another's; 0: that is no question of
    their number."""
    return math.ceil(n / (1 - share)) if busy >= BUSY and share < 1 else 0


def _others(processes: dict[int, ProcessFigures], process: int, role: str) -> list[ProcessFigures]:
    of = processes[process]
    if role == RANKS:
        ranks = [each for each in processes.values() if each.rank is not None]
        return [each for each in ranks if each.id != process] if of.rank is not None else []
    own = [each for each in processes.values() if each.parent == of.pid and each.id != process]
    return own if role == CHILDREN else [each for each in own if each.role == role]


def _whom(others: list[ProcessFigures], role: str) -> str:
    n = len(others)
    if role == RANKS:
        return "the other rank" if n == 1 else f"the {n} other ranks"
    what = "child process" if role == CHILDREN else role
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"its {what}" if n == 1 else f"its {n} {plural}"


def _waits(measured: Measured) -> dict[tuple[int, str], dict[int, int]]:
    """Return by process and role how long each function of the table took, nanoseconds by frame:
    the outermost one of a path alone."""
    profile = measured.profile
    roles = {number: role for number, frame in profile.frames.items() if (role := _role(frame))}
    nodes, found = profile.nodes, dict[tuple[int, str], dict[int, int]]()
    if not roles:
        return found
    wanted = {node for node, frame in enumerate(nodes.frame) if frame in roles}

    def is_outermost(node: int) -> bool:
        while node := nodes.parent[node]:
            if node in wanted:
                return False
        return True

    outermost = {node for node in wanted if is_outermost(node)}
    found = defaultdict(lambda: defaultdict(int))
    for row in profile.exact:
        thread = profile.threads[row.thread]
        if row.node in outermost and thread.tid == profile.processes[thread.process].pid:
            frame = nodes.frame[row.node]
            found[thread.process, roles[frame]][frame] += row.total_ns
    return found


def _role(frame: Frame) -> str:
    if frame.kind == "python" and frame.file:
        for functions, file, role in _table():
            if file.match("/" + frame.file) and functions.match(frame.name):
                return role
    return ""


@cache
def _table() -> list[tuple[NamePatterns, NamePatterns, str]]:
    rows = table_beside(__file__, "process_waits")["wait"]
    return [
        (NamePatterns(each["functions"]), NamePatterns([f"*/{each['file']}"]), each["role"])
        for each in rows
    ]
