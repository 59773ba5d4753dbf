"""--keep: every single call of functions by name, while all others are counted as ever."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run

from pyhybrid.profile_file.profile import Profile
from pyhybrid.profile_file.tables import Call

PROGRAM = """
import asyncio, json, threading

def fact(n): return 1 if n < 2 else n * fact(n - 1)

def numbers(n):
    for i in range(n): yield i

def bad(): raise ValueError

async def nap(n):
    await asyncio.sleep(0)
    fact(n)

class Model:
    def forward(self, x, *rest, scale=1, **more):
        y = x
        return y
    def backward(self): pass

def other(): pass

def main():
    fact(3)
    sum(numbers(3))
    try: bad()
    except ValueError: pass
    async def both(): await asyncio.gather(nap(1), nap(2))
    asyncio.run(both())
    threads = [threading.Thread(target=fact, args=(2,)) for _ in range(2)]
    for each in threads: each.start()
    for each in threads: each.join()
    model = Model()
    for _ in range(5):
        model.forward(1)
        model.backward()
    for _ in range(1000): other()
    json.loads("[1]")

main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def by_name(profile: Profile) -> dict[str, list[Call]]:
    calls: dict[str, list[Call]] = {}
    for call in profile.calls:
        name = profile.frames[profile.nodes.frame[call.node]].name
        calls.setdefault(name, []).append(call)
    return calls


def counted(profile: Profile) -> Counter[str]:
    calls = Counter[str]()
    for row in profile.exact:
        calls[profile.frames[profile.nodes.frame[row.node]].name] += row.calls
    return calls


@pytest.mark.version
def test_every_call_of_named_functions(pyhybrid: Callable[..., Run], program: Path) -> None:
    names = ("main", "fact", "numbers", "program.py:bad", "__main__.nap", "*.forward")
    options = [word for name in names for word in ("--keep", name)]
    run = pyhybrid("--mode", "trace", "--format", "folded", *options, program)
    profile = run.profile()
    calls = by_name(profile)
    assert {name: len(of_name) for name, of_name in calls.items()} == {
        "main": 1, "fact": 3 + 1 + 2 + 2 * 2, "numbers": 1, "bad": 1, "nap": 2, "Model.forward": 5,
    }  # fmt: skip
    everything = counted(profile)
    assert everything["other"] == 1000
    assert everything["Model.backward"] == 5
    assert everything["fact"] == 10
    assert [call.state for call in calls["bad"]] == ["raised"]
    (numbers,) = calls["numbers"]
    turns = [turn for turn in profile.turns if turn.call == numbers.id]
    assert len(turns) == 4
    assert numbers.busy_ns == sum(turn.end_ns - turn.begin_ns for turn in turns)

    by_id = {call.id: call for call in profile.calls}
    (main,) = calls["main"]
    for name in ("bad", "numbers", "nap", "Model.forward"):
        assert {call.parent for call in calls[name]} == {main.id}
    depths = Counter[int]()
    for call in calls["fact"]:
        depth = 0
        while call.parent:
            around = by_id[call.parent]
            assert around.begin_ns <= call.begin_ns
            assert around.end_ns >= call.end_ns
            assert around.thread == call.thread
            call, depth = around, depth + 1
        depths[depth] += 1
    # on threads of their own; in main, 3 deep; in nap, in main
    assert depths == {0: 2, 1: 2 + 1, 2: 1 + 2, 3: 1 + 1}
    assert len({call.thread for call in calls["fact"]}) == 3


def test_what_is_known_of_them(pyhybrid: Callable[..., Run], program: Path) -> None:
    options = ("--keep", "Model.*", "--keep", "json.loads", "--keep", "nobody", "--keep", "os:*")
    run = pyhybrid("--mode", "trace", "--format", "folded", *options, program)
    profile = run.profile()
    codes = {code.path: code for code in profile.codes.values()}
    assert set(codes) == {"__main__.Model.forward", "__main__.Model.backward", "json.loads"}
    forward = codes["__main__.Model.forward"]
    assert (forward.function, forward.module) == ("forward", "__main__")
    assert forward.file == str(program)
    assert forward.line == 1 + PROGRAM[: PROGRAM.index("def forward")].count("\n")
    assert forward.arguments == ["self", "x", "scale", "rest", "more"]
    assert forward.other_locals == ["y"]
    assert forward.stack_size > 0
    assert profile.frames[forward.frame].name == "Model.forward"
    notes = [note for note in profile.meta["notes"] if "no function" in note]
    assert notes == [f"--keep {name}: no function of this name ran" for name in ("nobody", "os:*")]


def test_t_traces_nothing_else(pyhybrid: Callable[..., Run], program: Path) -> None:
    options = ("-t", "*.forward", "-t", "bad", "--keep", "fact")
    profile = pyhybrid("--mode", "trace", "--format", "folded", *options, program).profile()
    assert {name: len(calls) for name, calls in by_name(profile).items()} == {
        "bad": 1, "Model.forward": 5,
    }  # fmt: skip
    assert set(counted(profile)) == {"bad", "Model.forward"}


def test_in_a_program(tmp_path: Path) -> None:
    script = """if True:
        import pyhybrid
        def step(n): return n
        with pyhybrid.Profiler(mode="trace", keep=["step"]) as p:
            for i in range(10): step(i)
            with pyhybrid.region("part"): step(11)
        calls = p.profile.calls
        print([call.state for call in calls] == ["returned"] * 12)
        print(calls[11].parent == calls[10].id, calls[9].parent)
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "True", "None"], done.stderr
