"""Single calls of chosen functions and regions, and the samples within the slow ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from exact_support import MODES
from support import Run

from pyhybrid.tables import Call
from pyhybrid.tables.call_durations import function_durations
from pyhybrid.tables.profile import Profile

BURN = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
"""

STEPS = f"""{BURN}
def cheap(): burn(0.002)
def dear(): burn(0.06)
def step(i):
    cheap()
    if i % 10 == 0: dear()
for i in range(100): step(i)
"""


def calls_of(profile: Profile, name: str) -> list[Call]:
    frames, nodes = profile.frames, profile.nodes.frame
    return [call for call in profile.calls if frames[nodes[call.node]].name == name]


@pytest.fixture
def steps(pyhybrid: Callable[..., Run]) -> Run:
    return pyhybrid("-t", "step", "--format", "folded", "-c", STEPS)


def test_each_call_is_kept(steps: Run) -> None:
    profile = steps.profile()
    calls = calls_of(profile, "step")
    assert len(calls) == 100
    assert not profile.turns
    assert all(call.state == "returned" and call.attributes is None for call in calls)
    assert all(call.end_ns - call.begin_ns == call.busy_ns for call in calls)
    slow = [i for i, call in enumerate(calls) if call.busy_ns >= 60e6]
    assert slow[0] == 0
    assert set(range(0, 100, 10)) <= set(slow)
    ((frame, durations),) = function_durations(profile).items()
    assert profile.frames[frame].name == "step"
    assert durations.calls == 100
    assert abs(durations.max_ns - max(call.busy_ns for call in calls)) <= 1
    assert abs(durations.total_ns - sum(call.busy_ns for call in calls)) <= 200
    ordered = sorted(call.busy_ns for call in calls)
    assert ordered[45] * 0.85 <= durations.quantile_ns(0.5) <= ordered[55] * 1.15
    assert ordered[97] * 0.85 <= durations.quantile_ns(0.99) <= durations.max_ns
    (exact,) = [row for row in profile.exact if row.node == calls[0].node]
    assert exact.calls == 100
    assert abs(exact.total_ns - durations.total_ns) < 1000
    assert "100 calls, p50 " in steps.result.stderr
    assert calls_of(profile, "burn") == []


def by_function(run: Run, pyhybrid: Callable[..., Run], *options: str) -> Counter[str]:
    """Sampled weight, in periods, by function; "all": of all samples but those of our own work."""
    folded = run.folder / "slow.folded"
    pyhybrid("export", run.path(), "-f", "folded", "-o", folded, *options)
    weights = Counter[str]()
    for line in folded.read_text().splitlines():
        path, _, n = line.rpartition(" ")
        if path.endswith("[pyhybrid]"):
            continue
        for name in ("step", "cheap", "dear"):
            weights[name] += int(n) * (f";{name} (" in path)
        weights["all"] += int(n)
    return weights


def test_only_samples_within_slow_calls(steps: Run, pyhybrid: Callable[..., Run]) -> None:
    everything = by_function(steps, pyhybrid)
    slow = by_function(steps, pyhybrid, "--slower-than", "step=50ms")
    assert slow["dear"] == everything["dear"] > 400
    assert slow["cheap"] < everything["cheap"]
    assert slow["all"] == slow["step"] < everything["step"]

    told = pyhybrid("report", steps.path(), "--slower-than", "step=50ms").result.stdout
    assert "of 100 calls of step that took 50 ms or longer" in " ".join(told.split())
    report = pyhybrid("report", steps.path(), "--json", "--slower-than", "step=50ms").result.stdout
    summary = json.loads(report)
    samples, period_ns = summary["samples"], summary["clock"]["period_ns"]
    of_program_ns = samples["recorded_weight_ns"] - samples["own_weight_ns"]
    assert of_program_ns == slow["all"] * period_ns
    assert summary["durations"][0]["calls"] == 100
    none = pyhybrid("report", steps.path(), "--json", "--slower-than", "step=1000s").result.stdout
    assert json.loads(none)["samples"]["recorded"] == 0


REGIONS = f"""{BURN}
import asyncio, threading, pyhybrid

async def request(n):
    with pyhybrid.region("request", number=n, path="/a\\"b\\n", ratio=0.5, none=None, odd=[],
                         nan=float("nan"), big=-10**30, yes=True, no=False, lone="\\ud800"):
        burn(0.002)
        await asyncio.sleep(0.02 * n)
        burn(0.002)

async def main(): await asyncio.gather(*(request(n) for n in range(5)))
asyncio.run(main())

def work():
    with pyhybrid.region("in thread", who=threading.current_thread().name): burn(0.01)
threads = [threading.Thread(target=work, name=f"t{{i}}") for i in range(3)]
for each in threads: each.start()
for each in threads: each.join()
"""


@pytest.mark.further
@pytest.mark.parametrize("mode", MODES)
def test_regions_are_kept_with_their_attributes(pyhybrid: Callable[..., Run], mode: str) -> None:
    profile = pyhybrid("--mode", mode, "--format", "folded", "-c", REGIONS).profile()
    requests = calls_of(profile, "request")
    attributes = [json.loads(call.attributes or "null") for call in requests]
    assert [each["number"] for each in attributes] == [0, 1, 2, 3, 4]
    assert attributes[0] == {
        "number": 0, "path": '/a"b\n', "ratio": 0.5, "none": None, "odd": "<list>",
        "nan": "nan", "big": -10**30, "yes": True, "no": False, "lone": "?",
    }  # fmt: skip
    for n, call in enumerate(requests):
        turns = [turn for turn in profile.turns if turn.call == call.id]
        assert len(turns) == 2
        assert turns[0].begin_ns == call.begin_ns
        assert turns[1].end_ns == call.end_ns
        assert call.busy_ns >= 0.004e9
        goes_on_ns = turns[1].end_ns - turns[1].begin_ns  # before that it burned, and slept
        assert call.end_ns - call.begin_ns >= 0.002e9 + 0.02e9 * n + goes_on_ns - 1e6
    threads = calls_of(profile, "in thread")
    assert sorted(json.loads(c.attributes or "")["who"] for c in threads) == ["t0", "t1", "t2"]
    assert len({call.thread for call in threads}) == 3


COROUTINES = f"""{BURN}
import asyncio

async def request(n):
    burn(0.001)
    await asyncio.sleep(0.01 * n)
    burn(0.001)
    if n == 2: raise ValueError

def numbers():
    yield 1
    burn(0.001)
    yield 2

async def main(): await asyncio.gather(*(request(n) for n in range(4)), return_exceptions=True)
asyncio.run(main())
list(numbers())
closed = numbers(); next(closed); closed.close()
for _ in range(100): dropped = numbers(); next(dropped); del dropped
"""


@pytest.mark.version
def test_a_coroutines_call_has_turns(pyhybrid: Callable[..., Run]) -> None:
    options = ("--mode", "trace", "-t", "request", "-t", "numbers", "--format", "folded")
    profile = pyhybrid(*options, "-c", COROUTINES).profile()
    requests = calls_of(profile, "request")
    assert len(requests) == 4
    n_turns = Counter(turn.call for turn in profile.turns)
    assert [n_turns[call.id] for call in requests] == [2, 2, 2, 2]
    assert sorted(call.state for call in requests) == ["raised", *["returned"] * 3]
    slowest = max(requests, key=lambda call: call.end_ns - call.begin_ns)
    assert slowest.end_ns - slowest.begin_ns >= 0.029e9  # it slept
    first, last = (turn for turn in profile.turns if turn.call == slowest.id)
    assert (slowest.begin_ns, slowest.end_ns) == (first.begin_ns, last.end_ns)
    assert slowest.busy_ns == sum(turn.end_ns - turn.begin_ns for turn in (first, last))
    assert first.end_ns < last.begin_ns
    numbers = calls_of(profile, "numbers")
    assert len(numbers) == 102
    assert n_turns[numbers[0].id] == 3
    assert numbers[0].state == "returned"


MANY = """
def work(n): return n + 1
for i in range(200_000): work(i)
def rec(n): return 0 if not n else rec(n - 1)
rec(50)
"""


@pytest.mark.further
def test_all_calls_are_kept(pyhybrid: Callable[..., Run]) -> None:
    options = ("--mode", "trace", "-t", "work", "-t", "rec", "--format", "folded")
    profile = pyhybrid(*options, "-c", MANY).profile()
    kept = calls_of(profile, "work")
    assert len(kept) == 200_000
    assert all(before.end_ns <= after.begin_ns for before, after in pairwise(kept))
    assert {call.weight for call in profile.calls} == {1}
    assert len(calls_of(profile, "rec")) == 51


@pytest.mark.further
def test_many_calls_leave_the_slowest_and_a_sample(pyhybrid: Callable[..., Run]) -> None:
    options = ("--mode", "trace", "-t", "work", "-t", "rec", "--format", "folded")
    profile = pyhybrid(*options, "--max-calls", 1000, "-c", MANY).profile()
    durations = {
        profile.frames[frame].name: each for frame, each in function_durations(profile).items()
    }
    assert durations["work"].calls == 200_000
    assert sum(durations["work"].histogram.values()) == 200_000
    assert durations["rec"].calls == 51
    kept = calls_of(profile, "work")
    assert 1000 + 4096 <= len(kept) < 40_000
    assert abs(max(call.busy_ns for call in kept) - durations["work"].max_ns) <= 1
    assert 160_000 < sum(call.weight for call in kept) < 240_000  # an estimate: its error is 3 %
    assert len(calls_of(profile, "rec")) == 51


PARTIAL = f"""{BURN}
import sys, pyhybrid
def outer():
    pyhybrid.enable()
    inner()
    inner()
    sys.exit(3)
def inner(): burn(0.01)
outer()
"""


@pytest.mark.further
def test_calls_that_are_not_whole(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid(
        "-p", "-t", "outer", "-t", "inner", "--format", "folded", "-c", PARTIAL, check=False
    )
    assert run.result.returncode == 3
    profile = run.profile()
    (outer,) = calls_of(profile, "outer")
    assert outer.state == "partial"
    assert outer.busy_ns >= 0.02e9
    assert [call.state for call in calls_of(profile, "inner")] == ["returned", "returned"]
    assert {profile.frames[f].name for f in function_durations(profile)} == {"inner"}


@pytest.mark.further
def test_bad_selections(steps: Run, pyhybrid: Callable[..., Run]) -> None:
    for words, code, reason in (
        (("step",), 2, "is not NAME=DURATION"),
        (("step=fast",), 2, "is not a time"),
        (("=5ms",), 2, "is not NAME=DURATION"),
        (("burn=5ms",), 1, "no single calls of 'burn', but of step: choose it with `-t burn`"),
    ):
        result = pyhybrid("report", steps.path(), "--slower-than", *words, check=False).result
        assert result.returncode == code, result.stderr
        assert reason in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.further
def test_slow_calls_of_which_only_the_slowest_were_kept(pyhybrid: Callable[..., Run]) -> None:
    program = "def step(): sum(range(200))\nfor _ in range(20_000): step()"
    run = pyhybrid("-t", "step", "--max-calls", 4096, "-c", program)
    told = pyhybrid("report", run.path(), "--slower-than", "step=100ns").result.stdout
    note = re.search(
        r"within (\S+) of 20,000 calls of step that took 100 ns or longer "
        r"\((\S+) or more did, of which the slowest were kept\)",
        " ".join(told.split()),
    )
    assert note
    kept, slow = (int(each.replace(",", "")) for each in note.groups())
    assert 4096 <= kept < slow == 20_000


TWINS = """
import importlib, sys
sys.path.insert(0, ".")
for name in ("alpha", "beta"):
    open(f"{name}.py", "w").write("def step(): sum(range(20_000))")
modules = [importlib.import_module(name) for name in ("alpha", "beta")]
for _ in range(30): modules[0].step()
for _ in range(10): modules[1].step()
"""


@pytest.mark.further
def test_functions_of_one_name_in_several_modules(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-t", "alpha.step", "-t", "beta.step", "-c", TWINS)
    for name, n in (
        ("alpha.step", 30),
        ("beta.step", 10),
        ("beta.py:step", 10),
        ("*.step", 40),
        ("step", 40),
    ):
        told = pyhybrid("report", run.path(), "--slower-than", f"{name}=1ns").result.stdout
        assert f"only samples within {n} of {n} calls of {name} that" in " ".join(told.split())


@pytest.mark.further
@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("hybrid", "there: `--clock wall` records where they wait, too"),
        ("trace", "a trace has no samples"),
    ],
)
def test_slow_calls_that_wait_say_so(pyhybrid: Callable[..., Run], mode: str, says: str) -> None:
    """Instead of tables that have no rows."""
    waits = (
        "import time\ndef nap(seconds): time.sleep(seconds)\nfor i in range(5): nap(0.1 * (i > 3))"
    )
    run = pyhybrid("-q", "--mode", mode, "--format", "folded", "-t", "nap", "-c", waits)
    shown = pyhybrid("report", run.path(), "--slower-than", "nap=50ms").result.stdout
    (note,) = [line for line in shown.splitlines() if says in line]
    if mode == "hybrid":
        assert re.search(r"threads ran for only 0\.0\d of 0\.1\d s there", note)
        assert "self   total" not in shown
        assert "below   total" not in shown
