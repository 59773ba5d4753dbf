"""The tables that a profile's processes give to a folder of ranks, declared once, and their rows.

A row is of a process, known by `process`; functions and call paths have ids by their content, which
are the same in all files, so that nobody has to number them.  Ids have 64 bits, with sign.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Buffer, Iterator, Sequence
from typing import Any, NamedTuple

from pyhybrid._columns import add_up, inclusive, mark, nearest, outermost, rows_from, take
from pyhybrid.base.hashes import blake2b
from pyhybrid.base.name_patterns import LIBRARY_FOLDER, NamePatterns
from pyhybrid.frameworks import torch
from pyhybrid.tables import Frame, Process
from pyhybrid.tables.profile import Profile
from pyhybrid.views.garbage import garbage_of
from pyhybrid.views.labels import shorten_native
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.processes import ProcessFigures, identities, processes_of
from pyhybrid.views.training.phases import BACKWARD, COMMUNICATION, OTHER, frame_phases, node_phases
from pyhybrid.views.training.slow_steps import gc_ns
from pyhybrid.views.training.steps import Step, steps_of

SCHEMA = 2  # of these tables: in each row, so that files of several may lie together
# Phases with columns of their own; what later versions add is part of `other`.
PHASES = (
    *("data", "forward", "backward", "optimizer", "zero_grad", COMMUNICATION, "checkpoint"),
    *("compile", "evaluation", OTHER),
)
# Paths that took less, exactly and by samples, are part of their parents; functions are left out.
LEAST_EXACT_NS, LEAST_SAMPLED_NS, LEAST_FUNCTION_NS = 1_000_000, 3_000_000, 100_000
MOST_CALLS = 20_000  # of a process


class RankTable(NamedTuple):
    """A table has columns, each a name and the type of SQL; `sorted_by`: how compact() orders."""

    name: str
    columns: dict[str, str]
    sorted_by: str


def _table(name: str, columns: str, sorted_by: str) -> RankTable:
    words = f"schema SMALLINT, process BIGINT, {columns}".split(", ")
    return RankTable(name, dict(word.split() for word in words), sorted_by)


_PHASE_TIMES = ", ".join(f"{phase}_{kind} BIGINT" for phase in PHASES for kind in ("ns", "cpu_ns"))
_FIGURES = (
    "samples BIGINT, self_ns BIGINT, total_ns BIGINT, calls BIGINT, "
    "exact_total_ns BIGINT, exact_self_ns BIGINT"
)
_ALL = (
    # began_ns is the time of day; steps: how many; maker: the function in which most objects were
    # `made` that lived; file: the profile that has it.
    _table(
        "process",
        "host VARCHAR, pid INTEGER, began_ns BIGINT, wall_ns BIGINT, cpu_ns BIGINT, "
        "rank INTEGER, local_rank INTEGER, world_size INTEGER, role VARCHAR, name VARCHAR, "
        "command VARCHAR, python VARCHAR, mode VARCHAR, samples BIGINT, calls BIGINT, "
        "complete BOOLEAN, steps INTEGER, maker VARCHAR, made BIGINT, file VARCHAR",
        "rank, process",
    ),
    # Recursion counts once; own: it is the program's.
    _table(
        "function",
        "function BIGINT, kind VARCHAR, name VARCHAR, file VARCHAR, line INTEGER, "
        f"library VARCHAR, own BOOLEAN, {_FIGURES}",
        "function, process",
    ),
    # total_ns is by samples, of CPU time; wait_ns is the part of exact_total_ns that waited for
    # other ranks; phase: the one around it; outermost: the function is on no path above.
    _table(
        "path",
        "path BIGINT, parent BIGINT, depth SMALLINT, function BIGINT, phase VARCHAR, "
        f"outermost BOOLEAN, {_FIGURES}, wait_ns BIGINT",
        "path, process",
    ),
    _table(
        "call",
        "name VARCHAR, begin_ns BIGINT, end_ns BIGINT, busy_ns BIGINT, attributes VARCHAR",
        "name, process, begin_ns",
    ),
    # begin_ns is the time of day; wait_ns is the part of wall_ns that waited for other ranks;
    # tokens, and samples as batch: null where they are not known (views/training/steps.py).
    _table(
        "step",
        "step INTEGER, begin_ns BIGINT, wall_ns BIGINT, cpu_ns BIGINT, wait_ns BIGINT, "
        f"gc_ns BIGINT, {_PHASE_TIMES}, tokens BIGINT, batch BIGINT",
        "process, step",
    ),
    # Calls of a step that wait for other ranks, by function; end_ns: of the last, the time of day.
    _table(
        "wait",
        "step INTEGER, function BIGINT, phase VARCHAR, calls INTEGER, "
        "wall_ns BIGINT, cpu_ns BIGINT, end_ns BIGINT",
        "process, step",
    ),
)
TABLES = {table.name: table for table in _ALL}

Rows = dict[str, list[tuple[Any, ...]]]  # by table; a row lacks `schema`


def content_id(*parts: object) -> int:
    """Return the id of what has these parts."""
    return _hashed("\0".join(["" if part is None else str(part) for part in parts]))


def _hashed(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def path_id(parent: int, function: int) -> int:
    """Return the id of a function below a path; the root's is 0."""
    return _hashed(f"{parent}\0{function}")  # as content_id(), of very many


def process_key(facts: dict[str, Any], process: Process) -> int:
    """Return the id of a process, wherever its profile lies."""
    names = facts.get("hostname"), facts.get("boot_id"), process.pid, process.start_ns
    return content_id(*names)


def rows_of(profile: Profile, file: str) -> Rows:
    """Return the rows of all tables, of each process of the profile, which is named `file`."""
    made = _Made(profile)
    rows: Rows = {name: [] for name in TABLES}
    for figures in processes_of(profile):
        made.add(rows, figures, file)
    return rows


class _Made:
    """Hold what all processes of a profile share."""

    def __init__(self, profile: Profile) -> None:
        self.profile, nodes = profile, profile.nodes
        self.n_nodes, self.n_frames = len(nodes.frame), max(profile.frames, default=0) + 1
        self.identities = identities(profile)
        self.directory = os.path.join(str(profile.meta.get("cwd") or ""), "")
        self._functions: dict[int, int] = {}
        self.own = program_frames(profile)
        everything = bytes([1]) * self.n_nodes
        self.is_outer = outermost(nodes.parent, nodes.frame, everything)
        self.phase_of = self._phases()
        is_phase = mark(array("I", self.phase_of), self.n_nodes)
        self.phase_above = nearest(nodes.parent, is_phase)
        self.steps: defaultdict[int, list[Step]] = defaultdict(list)
        found = steps_of(profile)
        for step in found.steps if found else ():
            self.steps[profile.threads[step.thread].process].append(step)
        a, b = (profile.clock_pairs or [(0, 0)])[0]
        self.to_unix_ns = b - a
        self.reduces = self._reduces()

    def _reduces(self) -> bool:
        """Does the backward pass wait for other ranks in native code, which no call shows?"""
        table, frames = torch.steps(), self.profile.frames
        if any(
            frame.kind == "python"
            and frame.file
            and torch.is_listed(table["reduces_for"], frame.file, frame.name)
            for frame in frames.values()
        ):
            return True
        passes = array("I", (node for node, phase in self.phase_of.items() if phase == BACKWARD))
        below = rows_from(take(mark(passes, self.n_nodes), self.phase_above), 1)
        names = NamePatterns(table["reduces"])
        return any(
            frames[number].kind == "native" and names.match(shorten_native(frames[number].name))
            for number in {self.profile.nodes.frame[node] for node in below}
        )

    def _function(self, number: int) -> int:
        """Return the id of the function that a frame is of."""
        if number not in self._functions:
            self._functions[number] = self._id(self.profile.frames[number])
        return self._functions[number]

    def _id(self, frame: Frame) -> int:
        module = self.profile.modules.get(frame.module or 0)
        library = os.path.basename(module.path) if module else None
        file = LIBRARY_FOLDER.sub("", frame.file or "", count=1)
        where = frame.address if frame.kind == "native" and frame.is_nameless else None
        return content_id(frame.kind, frame.name, file, frame.line, library, where)

    def _phase(self, node: int) -> str:
        """Return the phase that is around a node, the nearest one; "": none."""
        return self.phase_of.get(self.phase_above[node], "")

    def _phases(self) -> dict[int, str]:
        """Return by node the phase that it is, of those that are one."""
        nodes = self.profile.nodes
        of_frame = {
            number: phase
            for number, frame in self.profile.frames.items()
            if frame.kind == "python" and (phase := torch.phase_of(frame.file or "", frame.name))
        }
        of_frame.update(frame_phases(self.profile))
        is_phase = bytes(number in of_frame for number in range(self.n_frames))
        of_node = node_phases(self.profile)
        return {
            node: of_node.get(node) or of_frame.get(nodes.frame[node], "")
            for node in rows_from(take(is_phase, nodes.frame), 1)
        }

    def add(self, rows: Rows, figures: ProcessFigures, file: str) -> None:
        """Add the rows of one process."""
        profile, number = self.profile, figures.id
        facts = profile.meta | self.identities[number]
        process = profile.processes[number]
        key = process_key(facts, process)
        steps = self._stepped(number)
        maker = garbage_of(profile).maker(process=number) if steps else None
        text = (process.start_ns or 0) + self.to_unix_ns if process.start_ns else None
        rows["process"].append(
            (
                *(key, facts.get("hostname") or "", figures.pid, text),
                *(figures.wall_ns, figures.cpu_ns, figures.rank, facts.get("local_rank")),
                *(facts.get("world_size"), figures.role, figures.name, " ".join(figures.argv)),
                *(facts.get("python"), facts.get("mode"), figures.samples, figures.calls),
                *(figures.end == "ended", len(steps), maker.function if maker else None),
                *(maker.objects if maker else None, file),
            )
        )
        if figures.rank is None:
            return
        self._add_tree(rows, key, number)
        self._add_calls(rows, key, number)
        self._add_steps(rows, key, steps)

    # --- functions and paths

    def _add_tree(self, rows: Rows, key: int, number: int) -> None:
        profile, n = self.profile, self.n_nodes
        parent, frame_of, exact = profile.nodes.parent, profile.nodes.frame, profile.exact
        threads = {each.id for each in profile.threads.values() if each.process == number}
        last = max(profile.threads, default=0)
        is_of = bytes(each in threads for each in range(last + 1))
        where = take(is_of, exact.thread)
        calls = add_up(exact.node, exact.calls, n, where)
        exact_total = add_up(exact.node, exact.total_ns, n, where)
        exact_self = add_up(exact.node, exact.self_ns, n, where)
        weight, samples = (array("q", bytes(8 * n)) for _ in range(2))
        for row in profile.sampled:
            if row.thread in threads:
                node = profile.stacks.node[row.stack]
                weight[node] += row.weight_ns
                samples[node] += row.samples
        total = inclusive(parent, weight)
        columns = samples, weight, total, calls, exact_total, exact_self
        self._add_functions(rows, key, columns)
        wait = inclusive(parent, self._waits(exact_total, total))
        kept = bytearray(n)
        kept[0] = 1
        for times, least in ((total, LEAST_SAMPLED_NS), (exact_total, LEAST_EXACT_NS)):
            for node in rows_from(times, least):
                while not kept[node]:
                    kept[node] = 1
                    node = parent[node]
        above = nearest(parent, kept)
        own_samples, own_weight, own_exact = (
            add_up(above, each, n) for each in (samples, weight, exact_self)
        )
        ids, depths = {0: 0}, {0: 0}
        for node in rows_from(kept, 1)[1:]:
            up = parent[node]
            function = self._function(frame_of[node])
            ids[node], depths[node] = path_id(ids[up], function), depths[up] + 1
            rows["path"].append(
                (
                    *(key, ids[node], ids[up], depths[node], function, self._phase(node)),
                    bool(self.is_outer[node]),
                    *(own_samples[node], own_weight[node], total[node], calls[node]),
                    *(exact_total[node], own_exact[node], wait[node]),
                )
            )

    def _waits(self, exact_total: Sequence[int], total: Sequence[int]) -> array[int]:
        """Return by node for how long it waited for other ranks, where it is a call that does."""
        nodes, wait = self.profile.nodes, array("q", bytes(8 * self.n_nodes))
        for node, phase in self.phase_of.items():
            above = self._phase(nodes.parent[node])
            if phase == COMMUNICATION != above:
                wait[node] = exact_total[node]
            elif self.reduces and phase == BACKWARD != above:
                wait[node] = max(0, exact_total[node] - total[node])
        return wait

    def _add_functions(self, rows: Rows, key: int, columns: Sequence[Buffer]) -> None:
        profile, n = self.profile, self.n_frames
        samples, weight, total, calls, exact_total, exact_self = columns
        frame = profile.nodes.frame
        sums = [
            *(add_up(frame, each, n) for each in (samples, weight)),
            add_up(frame, total, n, self.is_outer),
            add_up(frame, calls, n),
            add_up(frame, exact_total, n, self.is_outer),
            add_up(frame, exact_self, n),
        ]
        for number, each in profile.frames.items():
            figures = [column[number] for column in sums]
            if not figures[0] and figures[4] < LEAST_FUNCTION_NS:
                continue
            module = profile.modules.get(each.module or 0)
            library = os.path.basename(module.path) if module else None
            file = each.file and LIBRARY_FOLDER.sub("", each.file, count=1)
            file = file and file.removeprefix(self.directory)
            rows["function"].append(
                (
                    *(key, self._function(number), each.kind, each.name, file, each.line),
                    *(library, number in self.own, *figures),
                )
            )

    # --- single calls and steps

    def _add_calls(self, rows: Rows, key: int, number: int) -> None:
        profile = self.profile
        found = [c for c in profile.calls if profile.threads[c.thread].process == number]
        longest = sorted(found, key=lambda each: each.begin_ns - each.end_ns)[:MOST_CALLS]
        for call in sorted(longest, key=lambda each: each.begin_ns):
            name = profile.frames[profile.nodes.frame[call.node]].name
            times = call.begin_ns + self.to_unix_ns, call.end_ns + self.to_unix_ns
            rows["call"].append((key, name, *times, call.busy_ns, call.attributes))

    def _stepped(self, process: int) -> list[Step]:
        """Return the steps of the thread that has most of them."""
        steps = self.steps[process]
        threads = Counter(step.thread for step in steps)
        most = threads.most_common(1)
        return [step for step in steps if step.thread == most[0][0]] if most else []

    def _add_steps(self, rows: Rows, key: int, steps: list[Step]) -> None:
        garbage = garbage_of(self.profile)
        for at, step in enumerate(steps):
            wall = dict.fromkeys(PHASES, 0)
            cpu = dict.fromkeys(PHASES, 0)
            for into, of in ((wall, step.phases), (cpu, step.phases_cpu)):
                for phase, ns in of.items():
                    into[phase if phase in into else OTHER] += ns
            wait_ns = wall[COMMUNICATION]
            if self.reduces:
                wait_ns += max(0, wall[BACKWARD] - cpu[BACKWARD])
            rows["step"].append(
                (
                    *(key, at, step.begin_ns + self.to_unix_ns, step.total_ns, step.cpu_ns),
                    *(wait_ns, gc_ns(garbage, step)),
                    *(ns for phase in PHASES for ns in (wall[phase], cpu[phase])),
                    *(step.tokens or None, step.batch or None),
                )
            )
        rows["wait"] += self._wait_rows(key, steps)

    def _wait_rows(self, key: int, steps: list[Step]) -> Iterator[tuple[Any, ...]]:
        """Yield the calls in which steps waited for other ranks, by step and function."""
        if not steps:
            return
        begins, phase_of = [step.begin_ns for step in steps], frame_phases(self.profile)
        sums: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for call in self.profile.watched_calls:
            frame = self.profile.nodes.frame[call.node]
            if phase_of.get(frame) != COMMUNICATION or call.thread != steps[0].thread:
                continue
            at = bisect_right(begins, call.begin_ns) - 1
            if at >= 0 and call.end_ns <= steps[at].end_ns:
                of = sums[at, frame]
                of[0] += 1
                of[1] += call.end_ns - call.begin_ns
                of[2] += call.cpu_end_ns - call.cpu_begin_ns
                of[3] = max(of[3], call.end_ns + self.to_unix_ns)
        for (at, frame), figures in sums.items():
            yield key, at, self._function(frame), COMMUNICATION, *figures
