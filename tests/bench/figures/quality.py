"""What the stacks of examples/train.py are worth, from its import of torch to its end.

A stack is impossible if its Python functions are a path that no call has taken: by the exact tree
of another run (what the program does is the same each time).  The innermost one may be on the way
to be called: CPython enters its frame before it makes a generator of it, or its cells, and that is
no call yet.  Our own functions at the end of a run are in no such tree: what is below OWN_END is
left out.
"""

from __future__ import annotations

import dis
import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from method import Figure, profiled, row, run

from figures.training import TRAIN
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile

HZ = 1999
OWN_END = "Profiling.finish"

PythonPath = tuple[tuple[str, str | None, int | None], ...]  # (name, file, line), from the root on


def is_shim(frame: Frame) -> bool:
    """The interpreter's own code before an `__init__` is no function; sampled, it has its name."""
    return frame.name == "__init__" and frame.line == 0


def python_paths(profile: Profile) -> list[PythonPath | None]:
    """By node; None where functions are missing.  Parents have smaller numbers."""
    nodes = profile.nodes
    paths: list[PythonPath | None] = [()]
    for node in range(1, len(nodes.parent)):
        path, frame = paths[nodes.parent[node]], profile.frames[nodes.frame[node]]
        if frame.name == "[unknown python]":
            path = None
        elif frame.kind == "python" and path is not None and not is_shim(frame):
            path = (*path, (frame.name, frame.file, frame.line))
        paths.append(path)
    return paths


def possible_paths(folder: Path) -> set[PythonPath | None]:
    run(profiled(TRAIN, options=["--hz", "9", "--format", "folded"]), folder)
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        paths = python_paths(profile)
        return {paths[row.node] for row in profile.exact} | {()}


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


@cache
def begins_at(name: str, file: str, line: int) -> int:
    """The code unit at which a call of the function begins: its first RESUME; 0: unknown."""
    source = Path(file)
    code = compile(source.read_bytes(), file, "exec") if source.exists() else None
    for each in codes_in(code) if code else ():
        if (each.co_qualname, each.co_firstlineno) == (name, line):
            resumes = (i.offset for i in dis.get_instructions(each) if i.opname == "RESUME")
            return next(resumes, 0) // 2
    return 0


def is_being_called(profile: Profile, stack: int) -> bool:
    """Whether the innermost Python function of a stack had not begun."""
    stacks, nodes = profile.stacks, profile.nodes
    while stack and profile.frames[nodes.frame[stacks.node[stack]]].kind != "python":
        stack = stacks.parent[stack]
    frame, offset = profile.frames[nodes.frame[stacks.node[stack]]], stacks.offset[stack]
    return offset is not None and offset < begins_at(frame.name, frame.file or "", frame.line or 0)


def python_shares(folder: Path, possible: set[PythonPath | None]) -> dict[str, Any]:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        paths = python_paths(profile)
        found = [(row.samples, paths[profile.stacks.node[row.stack]]) for row in profile.sampled]
        impossible = [
            (n, path)
            for (n, path), row in zip(found, profile.sampled, strict=True)
            if path is not None
            and path not in possible
            and not any(name == OWN_END for name, *_ in path)
            and not (path[:-1] in possible and is_being_called(profile, row.stack))
        ]
    return {
        "impossible": sum(n for n, _ in impossible),
        "impossible paths": impossible,
        "unknown": 100 * sum(n for n, path in found if path is None) / sum(n for n, _ in found),
    }


def one_round(folder: Path, possible: set[PythonPath | None]) -> dict[str, Any]:
    options = ["--mode", "sample", "--hz", str(HZ), "--format", "folded"]
    run(profiled(TRAIN, options=options), folder)

    def report(*of: str) -> dict[str, Any]:
        found = json.loads(run(profiled("report", "out.pyhybrid", "--json", *of), folder).stdout)
        return {**found["samples"], "wall_ns": found["run"]["wall_ns"]}

    whole = report()
    training = report("--from", f"{whole['wall_ns'] / 2e9:.1f}s")
    return {"whole": whole, "training": training, "python": python_shares(folder, possible)}


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        possible = possible_paths(Path(name))
        rounds = [one_round(Path(name), possible) for _ in range(min(pairs, 5))]

    def shares(when: str, what: str) -> list[float]:
        return [100 * each[when]["stacks"][what] for each in rounds]

    rows = [
        row("do not reach the thread's root", "%", shares("whole", "truncated"), "<= 0.5"),
        row("have a gap", "%", shares("whole", "gapped")),
        row(
            "are re-anchored behind code that cannot be unwound",
            "%",
            shares("whole", "re_anchored"),
        ),
        row("have a gap, in the second half", "%", shares("training", "gapped"), "<= 1"),
        row("are impossible", "stacks", [each["python"]["impossible"] for each in rounds], "<= 0"),
        row(
            "have [unknown python] for some functions",
            "%",
            [each["python"]["unknown"] for each in rounds],
        ),
        row("samples", "", [each["whole"]["recorded"] for each in rounds]),
    ]
    return [Figure("quality", f"Stacks of examples/train.py at {HZ} Hz", rows, rounds)]
