"""Ranks that nobody ran: rows of their tables, and whole folders of them made of a real one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pyhybrid.ranks.store import Ranks, connect, quoted, write
from pyhybrid.ranks.tables import TABLES, Rows, content_id

STEP_NS, N_STEPS = 100_000_000, 20
USUAL = {"data": 2, "forward": 30, "backward": 50, "optimizer": 3, "other": 5}  # % of a step
HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
LOG, STEP, REDUCE = map(content_id, ("log", "step", "reduce"))


def row(table: str, **values: object) -> tuple[object, ...]:
    """A row of a table, whose other columns are null or 0."""
    columns = {k: v for k, v in TABLES[table].columns.items() if k != "schema"}
    assert values.keys() <= columns.keys()
    usual = {"BIGINT": 0, "INTEGER": 0, "SMALLINT": 0}
    return tuple(values.get(name, usual.get(kind)) for name, kind in columns.items())


def noise(*of: object) -> float:
    """A number of 0 to 1, the same each time."""
    return (content_id(*of) & 0xFFFF) / 0xFFFF


def rank_rows(
    rank: int,
    size: int,
    more_ns: int = 0,
    phase: str = "other",
    cpu: float = 0.0,
    every: int = 1,
    gc_steps: Iterable[int] = (),
    began_ns: int = HOUR_NS,
    host: str = "node0",
    tokens: int | None = None,
    ran: float = 0.9,
    clock_ns: int = 0,
) -> Rows:
    """The tables of one rank, of whose steps each `every`-th takes `more_ns` in a phase, a part of
    it CPU time; in `gc_steps` a collection takes 20 ms more.  Others wait: all steps last as long.
    `ran`: so much of its usual time is CPU time; `clock_ns`: by how much its host's is ahead.
    """
    rows: Rows = {name: [] for name in TABLES}
    process = content_id(host, rank, began_ns)
    gc_steps = set(gc_steps)
    facts = {"process": process, "rank": rank, "world_size": size, "host": host, "pid": 100 + rank}
    rows["process"].append(
        row(
            "process",
            **facts,
            began_ns=began_ns,
            wall_ns=60_000_000_000,
            command="python train.py",
            complete=True,
            steps=N_STEPS,
            file=f"rank-{rank}.pyhybrid",
            name="train.py",
        )
    )
    for step in range(N_STEPS):
        times = {}
        busy = 0
        for name, percent in USUAL.items():
            ns = round(STEP_NS * percent / 100 * (1 + 0.3 * noise(rank, step, name)))
            cpu_ns = ran * ns
            if name == phase and step % every == 0:
                ns, cpu_ns = ns + more_ns, cpu_ns + cpu * more_ns
            if name == "forward" and step in gc_steps:
                ns, cpu_ns = ns + 20_000_000, cpu_ns + 20_000_000
            times |= {f"{name}_ns": ns, f"{name}_cpu_ns": round(cpu_ns)}
            busy += ns
        wait_ns = 2 * STEP_NS - busy
        rows["step"].append(
            row(
                "step",
                process=process,
                step=step,
                begin_ns=began_ns + 2 * step * STEP_NS + clock_ns,
                wall_ns=2 * STEP_NS,
                wait_ns=wait_ns,
                gc_ns=20_000_000 * (step in gc_steps),
                communication_ns=wait_ns,
                tokens=tokens,
                **times,
            )
        )
        end_ns = began_ns + 2 * (step + 1) * STEP_NS + clock_ns
        end_ns += round(200_000 * noise(rank, step, "end"))
        waited = {"function": REDUCE, "phase": "communication", "wall_ns": wait_ns}
        rows["wait"].append(row("wait", process=process, step=step, end_ns=end_ns, **waited))
    own = {"kind": "python", "file": "train.py", "own": True}
    for function, name, line in ((STEP, "step", 10), (LOG, "log_metrics", 20)):
        named = {"process": process, "function": function, "name": name, "line": line}
        rows["function"].append(row("function", **named, **own))
    outer = {"process": process, "phase": "", "outermost": True, "calls": N_STEPS}
    of_step = N_STEPS * (STEP_NS * 6 // 10 + more_ns)
    of_log = N_STEPS * (1_000_000 + more_ns * (phase == "other"))
    for function, depth, ns in ((STEP, 3, of_step), (LOG, 4, of_log)):
        path = {"path": content_id(depth, function), "function": function, "depth": depth}
        rows["path"].append(row("path", **outer, **path, exact_total_ns=ns))
    return rows


def save(folder: Path | str, ranks: Iterable[Rows], name: str = "node") -> None:
    """Write a folder of them, as a node's one file a table."""
    every: Rows = {name: [] for name in TABLES}
    for rows in ranks:
        for table, of in rows.items():
            every[table] += of
    with connect(threads=1) as connection:
        write(connection, str(folder), name, every)


def copies(
    source: str, into: str, n: int, slow: int, runs: int = 1, of_file: int = 8, threads: int = 0
) -> None:
    """Write the ranks of a folder again and again until there are `n`, in files of so many, and as
    many again for each of `runs`, a day apart: all times are a bit other in each, and the same
    whenever they are made.  Call paths, most of all rows, are of the last run alone."""
    ranks = Ranks(source)
    ranks.execute(f"SET threads = {threads or len(os.sched_getaffinity(0))}")
    for run in range(runs):
        _copy_run(ranks, into, n, slow, run, of_file, {"path"} if run < runs - 1 else set())


def _copy_run(
    ranks: Ranks, into: str, n: int, slow: int, run: int, of_file: int, without: set[str]
) -> None:
    for table, declared in TABLES.items():
        if not ranks.files[table] or table in without:
            continue
        os.makedirs(os.path.join(into, table), exist_ok=True)
        there = [rank for (rank,) in ranks.execute("SELECT rank FROM process WHERE steps > 0")]
        others = sorted(set(there) - {slow})
        real = f"[{', '.join(map(str, others))}][1 + made.rank % {len(others)}]"
        real = f"CASE WHEN made.rank = {slow} THEN {slow} ELSE {real} END"
        columns = []
        for name in declared.columns:
            if name == "process":
                other = f"made.rank::BIGINT * 7919 + {run * 15_485_863}"
                columns.append(f"xor(t.process, {other}) AS process")
            elif table == "process" and name in ("rank", "local_rank"):
                columns.append(f"made.rank::INTEGER AS {name}")
            elif table == "process" and name == "world_size":
                columns.append(f"{n}::INTEGER AS world_size")
            elif table == "process" and name == "host":
                columns.append(f"'node' || (made.rank // {of_file}) AS host")
            elif name.endswith("_ns") and name not in ("began_ns", "begin_ns"):
                factor = f"(1 + (hash(made.rank, {run + 1}) % 1000)::DOUBLE / 100000)"
                columns.append(f"(t.{name} * {factor})::BIGINT AS {name}")
            elif name in ("began_ns", "begin_ns"):
                columns.append(f"t.{name} + {run * DAY_NS} AS {name}")
            else:
                columns.append(f't."{name}"')
        for first in range(0, n, of_file):
            last = min(n, first + of_file)
            path = os.path.join(into, table, f"node{first // of_file}-{run + 1}-1.parquet")
            ranks.execute(
                f"COPY (SELECT {', '.join(columns)} FROM range({first}, {last}) AS made(rank) "
                f"JOIN (SELECT process AS key, rank AS number FROM process WHERE steps > 0) "
                f"AS real ON real.number = {real} "
                f'JOIN "{table}" AS t ON t.process = real.key) TO {quoted(path)} '
                "(FORMAT parquet, COMPRESSION zstd)"
            )
