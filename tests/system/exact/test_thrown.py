"""Generators and coroutines through which an exception is thrown: by a timeout, or by `throw`.

It goes through all that wait to the innermost one.  Each stays one call, and what it waits in the
midst of it is no time of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from exact_support import check_exact
from support import Run

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.version

PROGRAM = """
import asyncio, time
from pyhybrid import region

def inner_raises():
    yield 1

def inner_catches():
    try: yield 1
    except KeyError: yield 2

def inner_returns():
    try: yield 1
    except KeyError: return

def outer_catches(inner):
    try: yield from inner()
    except KeyError: pass
    yield 3

def outer_raises(inner):
    yield from inner()
    yield 3

def outer_in_region(inner):
    with region("outer's"):
        try: yield from inner()
        except KeyError: pass
        yield 3

for outer in (outer_catches, outer_raises, outer_in_region):
    for inner in (inner_raises, inner_catches, inner_returns):
        try:
            generator = outer(inner)
            next(generator)
            generator.throw(KeyError)
            time.sleep(0.02)
            for _ in generator: pass
        except KeyError: pass

async def awaits():
    await asyncio.sleep(5)

async def cleans_up():
    try: await asyncio.sleep(5)
    finally: await asyncio.sleep(0.02)

async def times_out(inner):
    try:
        async with asyncio.timeout(0.01): await inner()
    except TimeoutError: pass
    await asyncio.sleep(0.02)

async def times_out_in_region(inner):
    with region("timed"):
        await times_out(inner)

for outer in (times_out, times_out_in_region):
    for inner in (awaits, cleans_up):
        asyncio.run(outer(inner))
"""
# Prints for how long its thread waited for a processor: that is the time of who had it.
SAY_DELAY = """
with open("/proc/thread-self/schedstat") as file:
    print(file.read().split()[1])
"""
NAMES = [
    "inner_raises", "inner_catches", "inner_returns", "outer_catches", "outer_raises",
    "outer_in_region", "awaits", "cleans_up", "times_out", "times_out_in_region",
]  # fmt: skip
ENDINGS = {
    "inner_raises": {"raised": 3},
    "inner_catches": {"returned": 3},
    "inner_returns": {"returned": 3},
    "outer_catches": {"returned": 3},
    "outer_raises": {"raised": 1, "returned": 2},
    "outer_in_region": {"returned": 3},
    "outer's": {"returned": 3},
    "awaits": {"raised": 2},
    "cleans_up": {"raised": 2},
    "times_out": {"returned": 4},
    "times_out_in_region": {"returned": 2},
    "timed": {"returned": 2},
}


def name_of(profile: Profile, node: int) -> str:
    return profile.frames[profile.nodes.frame[node]].name


@pytest.fixture
def run(pyhybrid: Callable[..., Run], request: pytest.FixtureRequest) -> Run:
    options = ("--mode", "trace", "--format", "folded", *request.param)
    return pyhybrid(*options, "-c", PROGRAM + SAY_DELAY)


def most_ns(run: Run) -> int:
    """Of the time of one that does nothing but sleep, for 20 ms or more."""
    return 10_000_000 + int(run.result.stdout)


CHOSEN = [word for name in NAMES for word in ("-t", name)]


@pytest.mark.parametrize("run", [CHOSEN], indirect=True, ids=["chosen"])
def test_each_is_one_call(run: Run) -> None:
    profile = run.profile()
    endings: dict[str, Counter[str]] = {}
    for call in profile.calls:
        name = name_of(profile, call.node)
        endings.setdefault(name, Counter())[call.state] += 1
        assert call.busy_ns < most_ns(run), (name, call)
    assert endings == ENDINGS


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "run", [[], ["--events"], CHOSEN], indirect=True, ids=["", "log", "chosen"]
)
def test_waiting_is_no_time_of_theirs(run: Run) -> None:
    profile = run.profile()
    check_exact(profile)
    named = {*NAMES, "outer's", "timed"}
    totals: Counter[str] = Counter()
    for row in profile.exact:
        totals[name_of(profile, row.node)] += row.total_ns
        assert not row.seeded or name_of(profile, row.node) not in named
    assert all(totals[name] < most_ns(run) for name in named), totals


LEFT_OUT = """
import asyncio

def chosen(): pass

async def left_out():
    try: await asyncio.sleep(5)
    finally:
        chosen()
        await asyncio.sleep(0.05)

async def outer():
    try:
        async with asyncio.timeout(0.01): await left_out()
    except TimeoutError: pass
    await asyncio.sleep(0.02)

for _ in range(3): asyncio.run(outer())
"""


@pytest.mark.further
def test_one_in_between_is_left_out(pyhybrid: Callable[..., Run]) -> None:
    """Whose turn ends without an event."""
    run = pyhybrid("-t", "outer", "-t", "chosen", "--format", "folded", "-c", LEFT_OUT + SAY_DELAY)
    profile = run.profile()
    check_exact(profile)
    calls = [call for call in profile.calls if name_of(profile, call.node) == "outer"]
    assert [call.state for call in calls] == ["returned"] * 3
    assert all(call.busy_ns < most_ns(run) for call in calls), calls
    assert sum(row.calls for row in profile.exact if name_of(profile, row.node) == "chosen") == 3


@pytest.mark.further
@pytest.mark.parametrize("run", [["--events"]], indirect=True, ids=["log"])
def test_the_log_has_one_end_each(run: Run) -> None:
    profile = run.profile()
    kinds: dict[str, Counter[str]] = {}
    for event in profile.events():
        kinds.setdefault(name_of(profile, event.node), Counter())[event.kind] += 1
    for name, endings in ENDINGS.items():
        n = sum(endings.values())
        assert kinds[name]["call"] == n, name
        assert kinds[name]["return"] == endings.get("returned", 0), name
        assert kinds[name]["raise"] == endings.get("raised", 0), name
        assert kinds[name]["resume"] == kinds[name]["yield"], name
