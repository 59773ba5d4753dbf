"""Code that programs make while they run: the same functions again and again, as new objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from exact_support import MODES, check_exact, of_function
from support import Run, check_invariants

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.version

AGAIN = """
import collections, dataclasses

def call(functions, rounds):
    for _ in range(rounds):
        for function in functions:
            function(11)

def make(rounds):
    for _ in range(rounds):
        space = {}
        called = [(i * 7 + 1) % 30 for i in range(30)]
        lines = [f"def g{i}(d): return g{called[i]}(d - 1) if d else 0" for i in range(30)]
        exec("\\n".join(lines), space)
        call([space[f"g{i}"] for i in range(30)], 2)

def records(rounds):
    for n in range(rounds):
        point = collections.namedtuple("Point", "x y")
        assert point(n, 2)._replace(x=1).x == 1
        item = dataclasses.make_dataclass("Item", ["x", "y"])
        assert item(n, 2) == item(n, 2)

make(ROUNDS)
records(ROUNDS // 10)
both = [lambda: 1, lambda: 2]
for _ in range(1000):
    for function in both:
        function()
"""

# One function by its name, file and first line; what stands on which of its lines differs.
TEMPLATES = """
import time

def template(blank):
    space = {"time": time}
    exec("def f(spin):\\n" + "\\n" * blank + " for _ in range(3):\\n"
         "  n = 0\\n  while spin and n < 3000: n += 1\\n yield n\\n yield n\\n", space)
    return space["f"]

def all_of_them(rounds, spin):
    for _ in range(rounds):
        for blank in range(4):
            for n in template(blank)(spin): pass

all_of_them(ROUNDS, SPIN)
"""


def calls(profile: Profile, name: str) -> int:
    return sum(row.calls for row in of_function(profile, name))


@pytest.mark.parametrize("mode", MODES)
def test_equal_functions_have_one_path(pyhybrid: Callable[..., Run], mode: str) -> None:
    """12,000 paths are enough for 18,000 code objects that are called on 12 paths each, and all
    calls are counted."""
    program = AGAIN.replace("ROUNDS", "600")
    profile = pyhybrid("--mode", mode, "--max-nodes", 12_000, "-c", program).profile()
    check_exact(profile)
    assert not any(frame.name == "[tree full]" for frame in profile.frames.values())
    for i in range(30):
        assert calls(profile, f"g{i}") == 600 * 2 * 12
    assert calls(profile, "__create_fn__.<locals>.__eq__") + calls(profile, "Item.__eq__") == 60
    (both,) = (row for row in of_function(profile, "<lambda>") if row.calls >= 2000)
    assert both.calls == 2000


@pytest.mark.further
def test_lines_of_templates(pyhybrid: Callable[..., Run]) -> None:
    """By LINE events: where a generator goes on, too."""
    program = TEMPLATES.replace("ROUNDS", "50").replace("SPIN", "0")
    profile = pyhybrid("--mode", "trace", "--lines", "-t", "f", "-c", program).profile()
    hits: Counter[int] = Counter()
    for row in profile.lines:
        assert profile.frames[profile.nodes.frame[row.node]].name == "f"
        hits[row.line] += row.hits
    expected: Counter[int] = Counter()
    for blank in range(4):
        first = 2 + blank
        expected.update({first: 4 * 50, first + 1: 3 * 50, first + 2: 3 * 50})
        expected.update({first + 3: 50, first + 4: 50})
    assert hits == expected
    assert calls(profile, "f") == 4 * 50


@pytest.mark.further
@pytest.mark.parametrize("mode", ["sample", "hybrid"])
def test_sampled_lines_of_templates(pyhybrid: Callable[..., Run], mode: str) -> None:
    """All samples are on the line of the loop, which is another one in each of the four."""
    program = TEMPLATES.replace("ROUNDS", "300").replace("SPIN", "1")
    profile = pyhybrid("--mode", mode, "-c", program).profile()
    check_invariants(profile)
    lines: Counter[int | None] = Counter()
    nodes, frames, stacks = profile.nodes, profile.frames, profile.stacks
    for row in profile.sampled:
        if frames[nodes.frame[stacks.node[row.stack]]].name == "f":
            lines[stacks.line[row.stack]] += row.samples
    loops = {4 + blank for blank in range(4)}
    assert loops <= lines.keys()
    assert sum(lines[line] for line in loops) > 0.9 * sum(lines.values())
