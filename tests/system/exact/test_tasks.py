"""Tasks of asyncio below the calls that made them (--tasks): counts, samples, times."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import check_exact, path_of
from support import Run

from pyhybrid.base.pseudo_frames import pseudo_frame
from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.version
TASK = pseudo_frame(11).name

PROGRAM = """
import asyncio, sys, threading

def parse(): return sum(range(1000))

async def fetch():
    parse()
    await asyncio.sleep(0)
    parse()

async def inner(): await fetch()

async def gathers(): await asyncio.gather(fetch(), fetch(), inner())

async def groups():
    async with asyncio.TaskGroup() as group:
        group.create_task(fetch())
        group.create_task(inner())

async def fails():
    await asyncio.sleep(0)
    parse()
    raise KeyError

async def raises(): await asyncio.gather(fails(), fails(), return_exceptions=True)

async def waits():
    try: await asyncio.sleep(100)
    finally: parse()

async def waits_within(): await waits()

async def cancels():
    task = asyncio.create_task(waits_within())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

async def outlives():
    for _ in range(3): await asyncio.sleep(0)
    parse()

async def makes(): kept.append(asyncio.create_task(outlives()))

async def goes_on(n):
    parse()
    await asyncio.sleep(0)
    if n: kept.append(asyncio.create_task(goes_on(n - 1)))

async def ping(n):
    await asyncio.sleep(0)
    if n: kept.append(asyncio.create_task(pong(n - 1)))

async def pong(n):
    await asyncio.sleep(0)
    if n: kept.append(asyncio.create_task(ping(n - 1)))

class Custom(asyncio.Task):
    def __init__(self, coro): super().__init__(coro=coro)

async def customs(): await Custom(fetch())

async def of_callback(): parse()

def callback(): kept.append(asyncio.get_running_loop().create_task(of_callback()))

async def from_elsewhere(): parse()

def elsewhere(loop):
    asyncio.run_coroutine_threadsafe(from_elsewhere(), loop).result()
    asyncio.run(in_thread())

async def in_thread(): await asyncio.create_task(fetch())

async def main():
    for each in (gathers, groups, raises, cancels, makes, customs): await each()
    loop = asyncio.get_running_loop()
    loop.call_soon(callback)
    await asyncio.gather(goes_on(500), ping(50), asyncio.to_thread(elsewhere, loop))
    while kept: await kept.pop(0)

kept = []
with asyncio.Runner() as runner:
    if "eager" in sys.argv:
        runner.get_loop().set_task_factory(asyncio.eager_task_factory)
    runner.run(main())
"""
OWN = {
    *("parse", "fetch", "inner", "gathers", "groups", "fails", "raises", "waits", "waits_within"),
    *("cancels", "outlives", "makes", "goes_on", "ping", "pong", "callback", "of_callback"),
    *("customs", "elsewhere", "from_elsewhere", "in_thread", "main", "<module>", TASK),
}
EXPECTED = {
    "gathers > [task] > fetch": 2,
    "gathers > [task] > fetch > parse": 4,
    "gathers > [task] > inner > fetch > parse": 2,
    "groups > [task] > fetch > parse": 2,
    "groups > [task] > inner > fetch": 1,
    "raises > [task] > fails": 2,
    "raises > [task] > fails > parse": 2,
    "cancels > [task] > waits_within > waits > parse": 1,
    "makes > [task] > outlives > parse": 1,
    "customs > [task] > fetch > parse": 2,
    "[task] > goes_on": 501,  # each made by the one before
    "[task] > ping": 26,
    "[task] > ping > [task] > pong": 25,
}


def own_path(profile: Profile, node: int) -> str:
    """The program's own functions, and tasks."""
    return " > ".join(name for name in path_of(profile, node) if name in OWN)


def calls(profile: Profile) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in profile.exact:
        if path_of(profile, row.node)[-1] in OWN:
            counts[own_path(profile, row.node)] += row.calls
    return counts


def below_the_loop(profile: Profile) -> set[str]:
    """What an event loop called of the program's."""
    return {
        own_path(profile, row.node).rpartition(f"{TASK} > ")[2]
        for row in profile.exact
        if "Handle._run" in (path := path_of(profile, row.node)) and path[-1] in OWN
    }


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", [(), ("--mode", "trace"), ("--c-calls",), ("--events",)])
@pytest.mark.parametrize("factory", ["", "eager"])
def test_tasks_stand_below_the_calls_that_made_them(
    pyhybrid: Callable[..., Run], factory: str, options: tuple[str, ...]
) -> None:
    run = pyhybrid("--tasks", "--format", "folded", *options, "-c", PROGRAM, factory)
    with run.profile() as profile:
        check_exact(profile)
        counts = calls(profile)
        main = f"<module> > {TASK} > main"
        assert {path: counts[f"{main} > {path}"] for path in EXPECTED} == EXPECTED
        assert counts[f"elsewhere > {TASK} > in_thread > {TASK} > fetch > parse"] == 2
        assert counts[f"<module> > {TASK} > from_elsewhere"] == 1
        assert counts[f"<module> > callback > {TASK} > of_callback"] == 1
        assert below_the_loop(profile) == {
            "<module> > callback",
            "of_callback",
            "of_callback > parse",
        }


BUSY = """
import asyncio, time

def spin():
    until = time.thread_time() + 0.01
    while time.thread_time() < until: pass

async def fetch():
    spin()
    await asyncio.sleep(0)
    spin()

async def request(): await asyncio.gather(*[fetch() for _ in range(10)])

async def main(): await asyncio.create_task(request())

asyncio.run(main())
"""


def test_samples_and_times_are_where_the_calls_are(pyhybrid: Callable[..., Run]) -> None:
    """The calls that made them have their time, and the event loop has not."""
    run = pyhybrid("--tasks", "--format", "folded", "-c", BUSY)
    with run.profile() as profile:
        check_exact(profile)
        nodes = {path_of(profile, row.node)[-1]: row for row in profile.exact}
        request, loop = nodes["request"], nodes["BaseEventLoop.run_forever"]
        spun = 20 * 10_000_000
        assert spun <= nodes["spin"].total_ns <= request.total_ns <= nodes["main"].total_ns
        assert nodes["fetch"].total_ns >= spun > 2 * loop.total_ns
        sampled = {
            tuple(path[: path.index("spin")])
            for row in profile.sampled
            if "spin" in (path := path_of(profile, profile.stacks.node[row.stack]))
        }
        assert sampled == {("<module>", TASK, "main", TASK, "request", TASK, "fetch")}


@pytest.mark.further
@pytest.mark.parametrize(
    ("options", "path", "n"),
    [
        (("-t", "main", "-t", "parse"), f"main > {TASK} > goes_on > parse", 501),
        (("-t", "fetch"), f"gathers > {TASK} > fetch", 2),
        (("--exclude", "fetch"), f"gathers > {TASK} > fetch > parse", 4),
        (("--exclude", "gathers"), f"main > gathers > {TASK} > fetch", 2),
    ],
)
def test_functions_that_are_left_out(
    pyhybrid: Callable[..., Run], options: tuple[str, ...], path: str, n: int
) -> None:
    run = pyhybrid("--tasks", "--format", "folded", *options, "-c", PROGRAM)
    with run.profile() as profile:
        check_exact(profile)
        found = calls(profile)
        assert sum(found[each] for each in found if each.endswith(path)) == n


@pytest.mark.further
def test_what_was_made_before_is_below_the_loop(pyhybrid: Callable[..., Run]) -> None:
    program = """
import asyncio, pyhybrid

async def fetch():
    await asyncio.sleep(0)
    await asyncio.sleep(0)

async def main():
    task = asyncio.create_task(fetch())
    await asyncio.sleep(0)
    pyhybrid.enable()
    await asyncio.create_task(fetch())
    await task

asyncio.run(main())
"""
    with pyhybrid("-p", "--tasks", "--format", "folded", "-c", program).profile() as profile:
        check_exact(profile)
        turns = {
            TASK in path: (row.calls, row.resumes)
            for row in profile.exact
            if (path := path_of(profile, row.node))[-1] == "fetch"
        }
        assert turns == {True: (1, 2), False: (0, 2)}


HARMLESS = """
import asyncio, gc, weakref
import pyhybrid

async def one(): await asyncio.sleep(0)

class Custom(asyncio.Task):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mine = 1

async def main(factory):
    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    tasks = [asyncio.create_task(one(), name="n") for _ in range(3000)]
    refs[:] = map(weakref.ref, tasks)
    assert tasks[0].get_name() == "n"
    await asyncio.gather(*tasks)
    for wrong in (1, one, None):
        try:
            asyncio.Task(wrong)
        except TypeError as error:
            assert "a coroutine was expected" in str(error)
        else:
            raise AssertionError
    try:
        asyncio.Task()
    except TypeError as error:
        said.add(str(error))

def run(factory):
    asyncio.run(main(factory))
    gc.collect()
    assert not any(ref() for ref in refs)

def customs(loop, coro, **kwargs): return Custom(coro, loop=loop, **kwargs)

said, refs = set(), []
before = asyncio.Task.__init__
for factory in (None, asyncio.eager_task_factory, customs):
    run(factory)
    with pyhybrid.Profiler(tasks=True):
        run(factory)
    run(factory)
never = one()
loop = asyncio.new_event_loop()
with pyhybrid.Profiler(tasks=True):
    loop.create_task(never).cancel()
    loop.close()
assert asyncio.Task.__init__ is before and len(said) == 1, said
"""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", [(), ("-m", "pyhybrid", "--tasks", "-q")])
def test_tasks_are_as_without_us(tmp_path: Path, options: tuple[str, ...]) -> None:
    """They die, say what is wrong, and are of the program's own classes."""
    (tmp_path / "harmless.py").write_text(HARMLESS)
    command = [sys.executable, "-P", *options, "harmless.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
