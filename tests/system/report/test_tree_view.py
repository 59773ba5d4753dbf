"""`report tree`: both halves in one tree, as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run, without_busy_notes

pytestmark = pytest.mark.once

PROGRAM = """
import functools, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass

def add(a, b):
    burn(0.01)
    return a + b

def outer():
    functools.reduce(add, range(31))
    burn(0.1)

outer()
"""


def lines_of(
    pyhybrid: Callable[..., Run], *options: str, note: str = ""
) -> dict[str, tuple[int, str]]:
    """name -> (depth, the figures before it); `note` stands above them."""
    text = pyhybrid("report", "tree", *options).result.stdout.splitlines()
    head = [line.split() for line in text].index(["total", "calls", "samples", "function"])
    assert without_busy_notes(text[:head]) == [note] * bool(note)
    found = {}
    for line in text[head + 1 :]:
        figures, rest = line[:33], line[33:]
        name = rest.strip().split(" (")[0]
        found.setdefault(name, ((len(rest) - len(rest.lstrip())) // 2, figures))
    return found


@pytest.mark.first_cases(1)
@pytest.mark.needs("interpreter_symbols")
@pytest.mark.parametrize("mode", ["trace", "hybrid", "sample"])
def test_both_halves(pyhybrid: Callable[..., Run], mode: str) -> None:
    pyhybrid("--mode", mode, "--format", "folded", "-c", PROGRAM)
    tree = lines_of(pyhybrid)
    assert tree["outer"][0] == 1
    (reduce,) = tree.keys() & {"functools_reduce", "_functools_reduce"}  # until 3.13, from 3.14 on
    assert tree[reduce][0] == 2
    assert tree["add"][0] == 3
    if mode != "sample":
        total, unit, calls, *shares = tree["add"][1].split()
        assert float(total) >= 0.3
        assert (unit, calls) == ("s", "30")
        assert len(shares) == (mode == "hybrid")
        above = tree[reduce][1].split()  # no calls: it is not counted
        assert len(above) == len(shares)
        assert [float(each.rstrip("%")) for each in above] >= [
            float(each.rstrip("%")) for each in shares
        ]
    if mode != "trace":
        share = float(tree["add"][1].split()[-1].rstrip("%"))
        assert 50 < share < 85
    assert "burn" in tree
    assert tree["outer"] == lines_of(pyhybrid, "--min-time", "150ms")["outer"]
    assert "add" not in lines_of(pyhybrid, "--min-time", "10s")


def test_slow_calls_only(pyhybrid: Callable[..., Run]) -> None:
    pyhybrid("-t", "add", "-t", "outer", "--format", "folded", "-c", PROGRAM)
    note = "only samples within 30 of 30 calls of add that took 1 ms or longer"
    tree = lines_of(pyhybrid, "--slower-than", "add=1ms", note=note)
    assert tree["add"][1].split() == ["100.0%"]


@pytest.mark.further
def test_imports_are_one_line(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\nwhile time.process_time() < 0.5: pass\n")
    program = "def load():\n import slow_module\nload()"
    environment = {"PYTHONPATH": str(tmp_path)}
    pyhybrid("--format", "folded", "--mode", "trace", "-c", program, env=environment)
    folded, whole = (
        pyhybrid("report", "tree", *options).result.stdout for options in ((), ("--imports",))
    )
    (line,) = (line for line in folded.splitlines() if "[import slow_module]" in line)
    assert line.endswith("(lines with --imports: 1)")
    assert "<module> (slow_module.py" not in folded
    assert "<module> (slow_module.py" in whole
    assert "[import " not in whole


def test_calls_of_imports_are_sums_unless_asked_for(pyhybrid: Callable[..., Run]) -> None:
    """The same calls, of the same functions, and a note where sums are shown."""
    counts, trees, n_nodes = [], [], []
    for options in ((), ("--imports",)):
        environment = {"PYTHONHASHSEED": "0"}
        program = "import wave, http.server"
        run = pyhybrid(*options, "--hz", "1", "-q", "-c", program, env=environment)
        n_nodes.append(len(run.profile().nodes.parent))
        calls = json.loads(pyhybrid("report", "--json").result.stdout)["calls"]
        counts.append([calls["calls"], calls["n_traced"]])
        trees.append(pyhybrid("report", "tree", "--imports").result.stdout)
    assert counts[0] == counts[1] and counts[0][0] > 1000
    assert n_nodes[0] < n_nodes[1] / 2
    summed, whole = trees
    assert "a run with --imports has each" in summed.splitlines()[0]
    assert "[functions of imports]" in summed and "[functions of imports]" not in whole
    assert "with --imports" not in whole
    assert all("<module> (wave.py" in tree for tree in trees)


COROUTINES = """
import asyncio
def burn(seconds):
    import time
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
async def handler():
    await asyncio.sleep(0.001)
    burn(0.01)
    await asyncio.sleep(0.001)
async def serve():
    for _ in range(10): await handler()
async def main(): await asyncio.gather(serve(), serve())
asyncio.run(main())
"""


def test_calls_of_coroutines(pyhybrid: Callable[..., Run]) -> None:
    """Their first step is by another way through native code than all others, and a short one."""
    pyhybrid("-q", "--format", "folded", "-c", COROUTINES)
    shown = json.loads(pyhybrid("report", "tree", "--json").result.stdout)
    calls = {each["function"].split(" ")[0]: each["calls"] for each in shown["nodes"]}
    assert (calls["serve"], calls["handler"], calls["burn"]) == (2, 20, 20)
