"""Which ranks of a run are slow, by how much, in which phase, and why.

Ranks that wait for one another in each step have steps that are equally long: the slow one is the
one that waits least.  So what is compared is a rank's own time, without its waits for others, phase
by phase, and step by step with what is usual in that step.  A rank is slow in a phase where most of
its steps are, in wall-clock or in CPU time: on a busy machine all ranks have single slow steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pyhybrid.base.structs import Struct, made
from pyhybrid.capture.children import program_of
from pyhybrid.ranks.store import Engine
from pyhybrid.tables.schema import Record
from pyhybrid.views.training.phases import BACKWARD, DATA, FORWARD, OTHER

SLOW = 0.02  # of a step: from there on a rank is slow
LEAST = 0.01  # of a step: what is no reason
LEAST_GARBAGE = 0.01  # of all steps, by collections of ranks in turn
LEAST_OF_TURNS = 0.1  # of these those of other ranks than the one that collects most
MOST_STEPS = 0.8  # of a rank's steps: in so many it has to be slow
LEAST_STEPS = 8
BURSTS = 0.1  # of a rank's steps: in so many it has to wait long for its loader
# Of what it took more: from there on it computes.  Where processors lack, all that computes takes
# many times its CPU time: then from RAN_LEAST on, if its CPU time grew by half as much as its time.
RAN, RAN_LEAST, GROWS = 0.2, 0.05, 0.5
IN_FUNCTION = 0.5  # of what a phase took more: a function that has it is named
ALL, CANDIDATES, USUAL, COMPARED = 256, 8, 64, 16  # ranks that are looked at step by step
GARBAGE = "garbage collection"
IN_PHASES = ("data", "forward", "backward", "optimizer", "other")  # of the sums of a rank
BY_MEANS = ("wait", "gc", *IN_PHASES, *(f"{phase}_cpu" for phase in IN_PHASES))


class Reason(Struct):
    """Hold a phase in which a rank is slow, or `garbage collection`: by how much in a step.

    `in_steps` of `steps` it was so; `how`: computes, waits (it does not run), collects.  `function`
    is where: of the program, if it has one there; `calls_more`: more often than in others.
    """

    phase: str
    more_ns: int
    usual_ns: int
    more_cpu_ns: int
    steps: int
    in_steps: int
    how: str
    function: str = ""
    calls_more: bool = False
    in_worker: bool = False


class SlowRank(Struct):
    """Hold a rank that is slow: `more_ns` of each step, `share` of it; the largest reason first.

    `tokens_ratio`: so many times the tokens of other ranks are in its steps; null: not known.
    """

    rank: int
    host: str
    pid: int
    more_ns: int
    share: float
    reasons: list[Reason] = made(list)
    tokens_ratio: float | None = None


class RankFigures(Record):
    """Hold figures of a rank, of a step on average; `wait_ns`: for other ranks; `tokens_per_s`: of
    the steps of which the program noted how many, null: of none."""

    rank: int
    host: str
    pid: int
    steps: int
    step_ns: int
    own_ns: int
    wait_ns: int
    cpu_ns: int
    gc_ns: int
    data_ns: int
    tokens_per_s: float | None
    file: str
    complete: bool


class HostClock(Record):
    """Hold by how much a host's clock is ahead of that of the first rank's host, by `ends` of
    collectives that are common to both; half of these lie in `spread_ns`."""

    host: str
    ahead_ns: int
    spread_ns: int
    ends: int


class Verdict(Struct):
    """Hold the answer on a run: `slow` ranks, the slowest first.

    `compared`: so many were looked at step by step.  `garbage`: the part of all steps that went to
    collections of ranks in turn; 0: less than is of interest.  `missing`: ranks of which nothing is
    there.  `runs`: so many are in the folder, of which the last one is looked at.  `clocks`: of
    hosts but the first one, as far as collectives show them.
    """

    command: str
    began_ns: int
    world_size: int
    step_ns: int
    wait_share: float
    compared: int
    slow: list[SlowRank]
    ranks: list[RankFigures]
    garbage: float
    garbage_ranks: int
    missing: list[int]
    runs: int
    clocks: list[HostClock] = made(list)
    notes: list[str] = made(list)

    @property
    def too_short(self) -> bool:
        """Are there too few steps to tell?"""
        return max((each.steps for each in self.ranks), default=0) < LEAST_STEPS


def last_run(processes: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the processes of the last run, and how many runs there are.

    Processes are of one run that lived at the same time, or along with others that did.  What has
    no rank decides nothing: a launcher lives on while it starts its ranks again.
    """
    ranks = [each for each in processes if each["rank"] is not None] or processes
    known = [each for each in ranks if each["began_ns"] is not None]
    runs: list[list[dict[str, Any]]] = []
    end_ns = None
    for each in sorted(known, key=lambda one: (one["began_ns"], one["process"])):
        if end_ns is None or each["began_ns"] > end_ns:
            runs.append([])
            end_ns = each["began_ns"]
        runs[-1].append(each)
        end_ns = max(end_ns, each["began_ns"] + (each["wall_ns"] or 0))
    return (runs[-1] if runs else list(processes)), max(1, len(runs))


def judge(ranks: Engine) -> Verdict:
    """Return the verdict on the last run of a folder."""
    return judged(ranks).verdict()


def judged(ranks: Engine) -> Judged:
    """Return the last run of a folder."""
    names, rows = ranks.named("SELECT * FROM process ORDER BY process")
    processes = [dict(zip(names, row, strict=True)) for row in rows]
    every, runs = last_run(processes)
    return Judged(ranks, every, runs, _command(min(every, key=_by_rank), processes))


def _by_rank(process: dict[str, Any]) -> tuple[bool, int]:
    return process["rank"] is None, process["rank"] or 0


def _command(of: dict[str, Any], processes: Sequence[dict[str, Any]]) -> str:
    """Return the command of the program that a process is of: that of a pool's or Ray's worker
    names no program, so that of its run."""
    if of["role"] or of["name"] != program_of(of["command"].split()):
        run = [each for each in processes if each["file"] == of["file"]]
        of = min(run, key=lambda each: each["began_ns"] or 0)
    return str(of["command"])


class Judged:
    """Hold a run's processes, and what is asked of their steps."""

    def __init__(self, ranks: Engine, every: list[dict[str, Any]], runs: int, command: str) -> None:
        self.ranks, self.every, self.runs, self.command = ranks, every, runs, command
        self.notes = list[str]()
        of_rank: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for each in every:
            if each["rank"] is not None:
                of_rank[each["rank"]].append(each)
        twice: list[int] = []
        self.main: dict[int, dict[str, Any]] = {}  # the one that takes steps, else the first
        for rank, of in of_rank.items():
            of.sort(key=lambda one: (one["began_ns"] or 0, one["process"]))
            stepping = [each for each in of if each["steps"]] or of[:1]
            if len(stepping) > 1:
                twice.append(rank)
            self.main[rank] = max(stepping, key=lambda one: (one["began_ns"] or 0, one["process"]))
        if twice:
            self.notes.append(
                f"{len(twice):,} ranks are there more than once, as of several runs at once: "
                f"of rank {min(twice)} the last one counts"
            )
        if not self.main:
            self.notes.append(
                "no process has a rank: no launcher that is known gave it one, nor did PyTorch"
            )
        self.rank_of = {each["process"]: rank for rank, each in self.main.items()}
        rows = ranks.ask("rank_steps", processes=self.rank_of)
        self.sums = {row["process"]: row for row in rows}
        walls = sorted(row["wall_ns"] // row["steps"] for row in rows)
        self.step_ns = walls[(len(walls) - 1) // 2] if walls else 0

    def verdict(self) -> Verdict:
        """Make it."""
        sizes = [each["world_size"] for each in self.main.values() if each["world_size"]]
        size = max(sizes, default=len(self.main))
        looked_at = self._looked_at()
        wall_ns = sum(row["wall_ns"] for row in self.sums.values())
        turns = self._garbage_turns()
        if self.main and not self.sums:
            self.notes.append(
                "no steps of a training are known (an optimizer of PyTorch's ends one): ranks "
                "cannot be compared step by step"
            )
        elif self.sums and max(row["steps"] for row in self.sums.values()) < LEAST_STEPS:
            self.notes.append(f"fewer than {LEAST_STEPS} steps are too few to tell")
        if len(self.sums) > 1 and not any(row["wait_ns"] for row in self.sums.values()):
            self.notes.append(
                "no waits of ranks for one another are known: if there are some, a slow rank may "
                "not show"
            )
        counts = {row["steps"] for row in self.sums.values()}
        few, many = min(counts, default=0), max(counts, default=0)
        if few < MOST_STEPS * many:
            self.notes.append(f"ranks took {few:,} to {many:,} steps: these are compared by number")
        return Verdict(
            command=self.command,
            began_ns=min((each["began_ns"] or 0 for each in self.every), default=0),
            world_size=size,
            step_ns=self.step_ns,
            wait_share=sum(r["wait_ns"] for r in self.sums.values()) / (wall_ns or 1),
            compared=len(looked_at),
            slow=self._slow(looked_at),
            ranks=[self._figures(rank) for rank in sorted(self.main)],
            garbage=turns[0],
            garbage_ranks=turns[1],
            missing=sorted(set(range(size)) - self.main.keys()),
            runs=self.runs,
            clocks=self._clocks(),
            notes=self.notes,
        )

    def _figures(self, rank: int) -> RankFigures:
        process = self.main[rank]
        sums = self.sums.get(process["process"], {})
        steps = sums.get("steps", 0)

        wall, wait, cpu, gc, data = (
            int(sums.get(f"{name}_ns", 0) // (steps or 1))
            for name in ("wall", "wait", "cpu", "gc", "data")
        )
        return RankFigures(
            rank=rank,
            host=process["host"],
            pid=process["pid"],
            steps=steps,
            step_ns=wall,
            own_ns=wall - wait,
            wait_ns=wait,
            cpu_ns=cpu,
            gc_ns=gc,
            data_ns=data,
            tokens_per_s=_ratio(sums.get("tokens"), sums.get("tokens_wall_ns"), 1e9),
            file=process["file"],
            complete=bool(process["complete"]),
        )

    def _looked_at(self) -> list[int]:
        """Return the processes that are compared step by step: all, or of very many those whose
        sums stand out, and some others."""
        keys = sorted(self.sums)
        if len(keys) <= ALL:
            return keys
        chosen = set(keys[:: max(1, len(keys) // USUAL)])
        for name in BY_MEANS:
            sign = 1 if name == "wait" else -1
            column = f"{name}_ns"
            chosen |= set(
                sorted(
                    keys, key=lambda k: (sign * self.sums[k][column] / self.sums[k]["steps"], k)
                )[:CANDIDATES]
            )
        return sorted(chosen)

    def _garbage_turns(self) -> tuple[float, int]:
        if not self.sums:
            return 0.0, 0
        (row,) = self.ranks.ask("garbage_turns", processes=self.sums)
        gc_ns = row["gc_ns"] or 0
        share = gc_ns / (row["wall_ns"] or 1)
        in_turn = share >= LEAST_GARBAGE and row["but_one_ns"] >= LEAST_OF_TURNS * gc_ns
        return (share, row["ranks"]) if in_turn else (0.0, 0)

    def _clocks(self) -> list[HostClock]:
        hosts = {self.main[rank]["host"] for rank in self.main}
        if len(hosts) < 2 or not self.sums:
            return []
        first = self.main[min(self.main)]["host"]
        rows = self.ranks.ask("clock_offsets", processes=self.sums, host=first)
        return [
            HostClock(row["host"], row["ahead_ns"], row["high_ns"] - row["low_ns"], row["ends"])
            for row in rows
        ]

    def _slow(self, processes: list[int]) -> list[SlowRank]:
        found: dict[int, list[Reason]] = defaultdict(list)
        least_ns = LEAST * self.step_ns
        rows = self.ranks.ask("phase_excess", processes=processes) if len(processes) > 1 else []
        for row in rows:
            if row["steps"] < LEAST_STEPS:
                continue
            sure = MOST_STEPS * row["steps"]
            wall_ns = row["wall_ns"] if row["wall_steps"] >= sure else 0
            cpu_ns = row["cpu_ns"] if row["cpu_steps"] >= sure else 0
            more_ns = max(wall_ns, cpu_ns)
            if more_ns < least_ns:
                continue
            in_steps = row["wall_steps"] if wall_ns >= cpu_ns else row["cpu_steps"]
            how = "computes" if _computes(row, more_ns, cpu_ns) else "waits"
            figures = (more_ns, row["usual_ns"], cpu_ns, row["steps"], in_steps, how)
            found[row["process"]].append(Reason(row["phase"], *figures))
        self._add_bursts(found, processes)
        self._add_garbage(found, processes, least_ns)
        slow = []
        for process, reasons in found.items():
            more_ns = sum(each.more_ns for each in reasons)
            if more_ns >= SLOW * self.step_ns:
                reasons.sort(key=lambda each: (-each.more_ns, each.phase))
                of = self.main[self.rank_of[process]]
                share = more_ns / (self.step_ns or 1)
                where = of["rank"], of["host"], of["pid"]
                ratio = self._tokens_ratio(process)
                slow.append(SlowRank(*where, more_ns, share, reasons, ratio))
        slow.sort(key=lambda each: (-each.more_ns, each.rank))
        usual = [key for key in processes if key not in found][:COMPARED]
        named = slow[:CANDIDATES]
        if named and usual:
            keys = [self.main[each.rank]["process"] for each in named]
            self.ranks.keep("near_path", "path", [*keys, *usual])
            for each in named:
                self._add_functions(each, usual)
        if slow and len(processes) < len(self.sums):
            self._note_alike(slow, len(processes))
        return slow

    def _tokens_ratio(self, process: int) -> float | None:
        """Return its tokens of a step as so many times the usual number."""
        means = {key: self._tokens(row) for key, row in self.sums.items() if key != process}
        usual = sorted(n for n in means.values() if n is not None)
        own = self._tokens(self.sums[process])
        return _ratio(own, usual[(len(usual) - 1) // 2]) if usual else None

    @staticmethod
    def _tokens(row: dict[str, Any]) -> float | None:
        return _ratio(row["tokens"], row["tokens_steps"])

    def _note_alike(self, slow: Sequence[SlowRank], n: int) -> None:
        """Note how many ranks there may be that are slow, where not all were looked at."""
        reason = slow[0].reasons[0]
        columns = [name for name in (reason.phase, f"{reason.phase}_cpu") if name in BY_MEANS]
        if reason.phase == GARBAGE:
            columns = ["gc"]
        alike = set()
        for name in columns:
            means = {k: row[f"{name}_ns"] / row["steps"] for k, row in self.sums.items()}
            usual_ns = sorted(means.values())[(len(means) - 1) // 2]
            alike |= {k for k, ns in means.items() if ns - usual_ns >= reason.more_ns / 2}
        words = f"{n:,} of {len(self.sums):,} ranks were compared step by step"
        if alike:
            words += f"; slow in {reason.phase} by their sums: {len(alike):,}"
        self.notes.append(words)

    def _add_bursts(self, found: dict[int, list[Reason]], processes: Iterable[int]) -> None:
        """Add waits for a loader that come with some steps alone: its workers bring several batches
        at once.  Its longest ones, of a beginning or by chance, do not count."""
        means = {key: self.sums[key]["data_ns"] / self.sums[key]["steps"] for key in processes}
        usual_ns = sorted(means.values())[(len(means) - 1) // 2] if means else 0
        least_ns = SLOW * self.step_ns
        for process, mean_ns in means.items():
            if mean_ns - usual_ns < least_ns or self.sums[process]["steps"] < LEAST_STEPS:
                continue
            if any(each.phase == DATA for each in found.get(process, ())):
                continue
            rows = self.ranks.execute(f"SELECT data_ns FROM step WHERE process = {process}")
            waits = sorted(ns for (ns,) in rows)[: -(1 + len(rows) // 20)]
            more_ns = sum(waits) // len(waits) - round(usual_ns)
            in_steps = sum(ns >= usual_ns + least_ns for ns in waits)
            if more_ns >= least_ns and in_steps >= BURSTS * len(rows):
                figures = (more_ns, round(usual_ns), 0, len(rows), in_steps, "waits")
                found[process].append(Reason(DATA, *figures))

    def _add_garbage(
        self, found: dict[int, list[Reason]], processes: Iterable[int], least_ns: float
    ) -> None:
        """Add what collections took beyond the usual: it is part of phases, whose it is no more."""
        means = {key: self.sums[key]["gc_ns"] // self.sums[key]["steps"] for key in processes}
        if not means:
            return
        usual_ns = sorted(means.values())[(len(means) - 1) // 2]
        for process, ns in means.items():
            steps = self.sums[process]["steps"]
            if ns - usual_ns < least_ns or steps < LEAST_STEPS:
                continue
            reason = Reason(GARBAGE, ns - usual_ns, usual_ns, 0, steps, 0, "collects")
            maker = self.main[self.rank_of[process]]["maker"]
            reason.function = maker or ""
            (row,) = self.ranks.execute(
                f"SELECT count(*) FROM step WHERE process = {process} AND gc_ns > {usual_ns}"
            )
            reason.in_steps = row[0]
            left_ns = reason.more_ns
            for other in found[process]:
                part = min(left_ns, other.more_ns)
                other.more_ns -= part
                left_ns -= part
            found[process][:] = [o for o in found[process] if o.more_ns >= least_ns] + [reason]

    # --- where

    def _add_functions(self, slow: SlowRank, others: Sequence[int]) -> None:
        process = self.main[slow.rank]["process"]
        rows = self.ranks.ask("function_excess", slow=process, others=others)
        steps = self.sums[process]["steps"]
        others_steps = sum(self.sums[key]["steps"] for key in others)
        keys = {row["function"] for row in rows if 2 * row["calls"] >= steps}
        names = {
            row["function"]: row
            for row in self.ranks.ask("names", processes=[process], functions=keys)
        }
        for reason in slow.reasons:
            if reason.phase == GARBAGE:
                continue
            phase = "" if reason.phase == OTHER else reason.phase
            here = []
            for row in rows:
                if row["phase"] == phase and row["function"] in names and 2 * row["calls"] >= steps:
                    more_ns = row["slow_ns"] / steps - row["others_ns"] / others_steps
                    here.append((more_ns, row))
            most_ns = max((ns for ns, _ in here), default=0)
            least_ns = IN_FUNCTION * (reason.more_ns if phase == "" else most_ns)
            there = [row for ns, row in here if ns >= max(least_ns, 1)]
            there = [row for row in there if names[row["function"]]["own"]] or there
            if there:
                row = max(there, key=lambda each: (each["depth"], each["slow_ns"]))
                reason.function = label(names[row["function"]])
                usually = row["others_calls"] / others_steps
                reason.calls_more = row["calls"] / steps > 1.2 * usually and usually > 0
            if reason.phase == DATA and reason.how == "waits":
                self._add_worker(reason, slow.rank, steps)
        self._name_backward(slow.reasons)

    def _add_worker(self, reason: Reason, rank: int, steps: int) -> None:
        """Name what the workers of its loader took more, where they do the work."""
        workers = [each for each in self.every if each["rank"] is not None and not each["steps"]]
        if not any(each["rank"] == rank for each in workers):
            return
        keys = [each["process"] for each in workers]
        n = len({each["rank"] for each in workers} - {rank}) or 1
        rows = self.ranks.ask("worker_excess", slow=rank, processes=keys)
        more = [(row["slow_ns"] - row["others_ns"] / n, row) for row in rows]
        least_ns = IN_FUNCTION * reason.more_ns * steps
        there = [row for ns, row in more if ns >= least_ns]
        if there:
            row = max(there, key=lambda each: each["slow_self_ns"])
            of = [each["process"] for each in workers if each["rank"] == rank]
            (name,) = self.ranks.ask("names", processes=of, functions=[row["function"]])
            reason.function, reason.in_worker = label(name), True

    @staticmethod
    def _name_backward(reasons: list[Reason]) -> None:
        """Name for the backward pass what is named for the forward one, whose work it repeats."""
        forward = next((each for each in reasons if each.phase == FORWARD), None)
        for each in reasons:
            if each.phase == BACKWARD and forward and each.how == "computes" == forward.how:
                each.function = forward.function


def _computes(excess: dict[str, Any], more_ns: int, cpu_ns: int) -> bool:
    """Does a rank compute in what it takes more in a phase?"""
    usual_ns, usual_cpu_ns = excess["usual_ns"], excess["usual_cpu_ns"]
    grows = cpu_ns * usual_ns >= GROWS * more_ns * usual_cpu_ns > 0
    return cpu_ns >= (RAN_LEAST if grows else RAN) * more_ns


def _ratio(n: float | None, of: float | None, unit: float = 1) -> float | None:
    return n * unit / of if n is not None and of else None


def label(name: dict[str, Any]) -> str:
    """Return how a function is written for people: with its file and line."""
    if name["kind"] == "python":
        return f"{name['name']} ({name['file']}:{name['line']})"
    return str(name["name"])
