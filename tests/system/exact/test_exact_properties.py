"""The exact tree of random programs is the one that they have on paper (random_programs.py)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from exact_support import check_exact
from random_programs import SEED, Model, Program, Truth, batches, smaller, source
from support import PATIENCE_S

from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile

pytestmark = [pytest.mark.version, pytest.mark.once]

CUTTING_S = 20  # for how long a smaller program that fails is sought

# `throw` through a chain of `yield from`: several times in a row, and with an inner one that ends
# by a value, by returning, by an exception.
THROWN_THROUGH = Program(
    [[("throws", 1, "E0"), ("call", "plain", 0)]],
    [
        [("catch", "E0")],
        [("from", 2), ("call", "plain", 0)],
        [("try", [("yield",)], "E0", [("from", 2)]), ("yield",), ("from", 0)],
    ],
)
# The same through regions: of one generator two, one in the other, and of the next one in turn.
THROWN_THROUGH_REGIONS = Program(
    [[("throws", 0, "E0"), ("call", "plain", 0)]],
    [
        [("region", "r0", [("region", "r1", [("from", 1), ("yield",)]), ("yield",)])],
        [("try", [("region", "r0", [("from", 2), ("yield",)])], "E0", [("from", 2)])],
        [("catch", "E0"), ("region", "r1", [("catch", "E0")]), ("call", "plain", 0)],
    ],
)
# A generator yields while it is destroyed, in a region; the next one takes its place in memory.
YIELDS_WHILE_DESTROYED = Program(
    [[("peek", 0)]],
    [[("finally", [("yield",)], [("region", "r0", [("catch", "E0")])])]],
)
# The same while it handles an exception, which has its frame.  What that holds goes with it, ...
YIELDS_IN_EXCEPT = Program(
    [[("peek", 0), ("call", "plain", 0)]],
    [[("try", [("yield",)], "BaseException", [("from", 0)])]],
)
# ... unless the frame holds that exception: by one that was raised meanwhile, ...
KEEPS_ITSELF = Program(
    [[("peek", 0)], []],
    [
        [("try", [("yield",)], "BaseException", [("from", 1)])],
        [("finally", [("try", [("raise", "E0")], "E0", [("yield",)])], [("call", "plain", 1)])],
    ],
)
# ... or another generator holds one that was raised meanwhile, and as long as it does.
KEPT_BY_ANOTHER = Program(
    [[("new", 1), ("peek", 0), ("next", 0), ("next", 0)], []],
    [
        [("try", [("yield",)], "BaseException", [("next", 0), ("from", 2)])],
        [("try", [("raise", "E0")], "E0", [("yield",)]), ("yield",), ("yield",)],
        [("finally", [("yield",)], [("call", "plain", 1)])],
    ],
)
KNOWN = [
    THROWN_THROUGH,
    THROWN_THROUGH_REGIONS,
    YIELDS_WHILE_DESTROYED,
    YIELDS_IN_EXCEPT,
    KEEPS_ITSELF,
    KEPT_BY_ANOTHER,
]


def measured(profile: Profile, file: str) -> dict[tuple[str, ...], Truth]:
    """Counts by path of the program's functions and regions, those of all threads added up."""
    frames, nodes = profile.frames, profile.nodes

    def is_ours(frame: Frame) -> bool:
        in_file = frame.kind == "python" and frame.file == file and frame.name != "<module>"
        return in_file or frame.kind == "region"

    paths: list[tuple[str, ...]] = [()]
    for parent, number in zip(nodes.parent[1:], nodes.frame[1:], strict=True):
        frame = frames[number]
        paths.append((*paths[parent], frame.name) if is_ours(frame) else paths[parent])
    found: dict[tuple[str, ...], Truth] = {}
    for row in profile.exact:
        frame = frames[nodes.frame[row.node]]
        if is_ours(frame):
            of = found.setdefault(paths[row.node], Truth())
            of.calls += row.calls
            of.resumes += row.resumes
            of.raised += row.raised
    return found


def differences(
    true: dict[tuple[str, ...], Truth], found: dict[tuple[str, ...], Truth]
) -> list[str]:
    nothing = Truth()
    return [
        f"{' > '.join(path)}: {true.get(path, nothing)}, found {found.get(path, nothing)}"
        for path in sorted(true.keys() | found.keys())
        if true.get(path, nothing) != found.get(path, nothing)
    ]


def by_program(lines: Iterable[str]) -> dict[int, list[str]]:
    """Those about functions of a program, by its number."""
    found: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        if number := re.search(r"\bp(\d+)", line):
            found[int(number[1])].append(line)
    return found


@dataclass
class Runs:
    """Of programs, many in one, under the profiler."""

    folder: Path
    options: str

    def wrong(self, batch: list[Program]) -> dict[int, str]:
        """What is, by the number of the program."""
        model = Model()
        for number, program in enumerate(batch):
            model.run(number, program)
        file = self.folder / "program.py"
        file.write_text(source(batch))
        command = [sys.executable, "-P", "-m", "pyhybrid", "-q", "--format", "pstats", "--mode"]
        run = subprocess.run(
            [*command, *self.options.split(), file],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert run.returncode == 0, run.stderr
        logged = by_program(json.loads((self.folder / "log.json").read_text()))
        expected = by_program(model.log)
        found = {
            number: f"the model is wrong: {expected[number]}, logged {logged[number]}"
            for number in range(len(batch))
            if logged[number] != expected[number]
        }
        with Profile.open(str(self.folder / "out.pyhybrid")) as profile:
            check_exact(profile)
            differing = differences(model.counts, measured(profile, str(file)))
        for number, lines in by_program(differing).items():
            found.setdefault(number, "\n".join(lines))
        assert found or not differing, differing
        return found

    def check(self, batch: list[Program]) -> None:
        """None of them is wrong; else the first one that is, cut down for a while."""
        end = time.monotonic() + CUTTING_S
        for number, what in self.wrong(batch).items():
            program = batch[number]
            while time.monotonic() < end and (still := self.wrong(less := smaller(program))):
                program, what = less[min(still)], still[min(still)]
            pytest.fail(f"seed {SEED}: {what}\nin {program}, which was {batch[number]}")


ALL = "hybrid --c-calls"
MORE = [
    pytest.param(options, draw, marks=pytest.mark.slow)
    for options in ("trace", "hybrid", "trace --c-calls", ALL)
    for draw in range(1, 5)
]


@pytest.mark.parametrize(("options", "draw"), [(ALL, 0), *MORE])
def test_random_programs(options: str, draw: int, tmp_path: Path) -> None:
    runs = Runs(tmp_path, options)
    runs.check(KNOWN)
    for batch in batches(draw):
        runs.check(batch)
