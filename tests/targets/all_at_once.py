"""Threads that do at random what a profiler may be in the way of: all_at_once.py SECONDS SEED.

They profile, pause, enter regions and call what is decorated, while others fork, exec, load
libraries, let code objects die, and trace.  PyhybridError is an answer, where it says that another
profiler runs or that this one does not; anything else ends the run with exit code 1.  So does a
child that hangs, whose stack is shown.  Not here: sub-interpreters, and SQLite of the program's
own, which CPython itself does not fork with safely.
"""

import _ctypes
import asyncio
import contextlib
import ctypes
import faulthandler
import gc
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from random import Random

import pyhybrid
from pyhybrid.errors import PyhybridError

N_THREADS = 6
CHILD_S = 30
MODES = ("sample", "hybrid", "trace")
ENGINES = ("auto", "timer")
ANSWER = re.compile(r"already running|does not run|not paused|(en|dis)abled already")

faulthandler.register(signal.SIGALRM, chain=True)
sys.setswitchinterval(1e-5)
current = pyhybrid.Profiler()
failed: list[str] = []
deeds: dict[Callable[[Random], None], bool] = {}  # may PyhybridError come of it?


def deed(function: Callable[[Random], None]) -> Callable[[Random], None]:
    deeds[function] = False
    return function


def refusable(function: Callable[[Random], None]) -> Callable[[Random], None]:
    deeds[function] = True
    return function


def works(n: int = 2000) -> None:
    sorted(range(n), key=lambda number: -number)


def in_child(do: Callable[[], object]) -> None:
    """Fork, and wait for the child to do it."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(CHILD_S)
            do()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"{getattr(do, '__name__', do)} in a child: status {status}"


def profiles_once() -> None:
    with pyhybrid.Profiler(hz=10_000) as own:
        works()
    assert own.profile.threads


@refusable
def profiles(chance: Random) -> None:
    global current
    mode = chance.choice(MODES)
    exact = mode != "sample"
    own = pyhybrid.Profiler(
        hz=10_000,
        mode=mode,
        engine=chance.choice(ENGINES),
        c_calls=exact and chance.random() < 0.3,
        events=exact and chance.random() < 0.3,
    )
    own.start()
    current = own
    for _ in range(chance.randrange(5)):
        works()
    own.stop()
    assert own.profile.threads


@refusable
def pauses(chance: Random) -> None:
    own = current
    own.pause()
    works()
    own.resume()


@refusable
def stops(chance: Random) -> None:
    current.stop()


@refusable
def disables(chance: Random) -> None:
    pyhybrid.disable()
    works(50)
    pyhybrid.enable()


@deed
def reads(chance: Random) -> None:
    try:
        profile = current.profile
    except PyhybridError:
        return
    recorded = sum(thread.recorded for thread in profile.threads.values())
    assert profile.nodes and recorded == sum(len(chunk.place) for chunk in profile.timeline())


@pyhybrid.profile(output=None, formats=(), summary=False)
def decorated() -> None:
    works(100)


@pyhybrid.profile(output=None, formats=(), summary=False, mode="sample")
async def decorated_coroutine() -> None:
    await asyncio.sleep(0.001)
    works(100)


@deed
def calls_decorated(chance: Random) -> None:
    decorated()


@deed
def runs_decorated(chance: Random) -> None:
    asyncio.run(decorated_coroutine())


@deed
def writes_decorated(chance: Random) -> None:
    pyhybrid.write_profile()


@deed
def enters_regions(chance: Random) -> None:
    with pyhybrid.region(f"region {chance.randrange(5)}"):
        works(100)


@deed
def makes_code_that_dies(chance: Random) -> None:
    exec(compile("def f(): return [i for i in range(9)]\nf()", "made up", "exec"), {})


@deed
def starts_threads(chance: Random) -> None:
    threads = [threading.Thread(target=works) for _ in range(chance.randrange(9))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.name += " named"
    for thread in threads:
        thread.join()


@deed
def forks(chance: Random) -> None:
    in_child(
        chance.choice(
            [
                profiles_once,
                pyhybrid.enable,
                lambda: in_child(profiles_once),
                lambda: ctypes.CDLL("libm.so.6"),
                lambda: os.execv("/bin/true", ["true"]),
            ]
        )
    )


@deed
def spawns(chance: Random) -> None:
    if chance.random() < 0.3:
        child = os.posix_spawn("/bin/true", ["true"], {})
        assert os.waitpid(child, 0)[1] == 0
    else:
        before = chance.choice([None, lambda: None])
        subprocess.run(["true"], check=True, preexec_fn=before)


@deed
def fails_to_exec(chance: Random) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.execv("/nonexistent", ["x"])


@deed
def collects(chance: Random) -> None:
    gc.collect()


@deed
def loads_libraries(chance: Random) -> None:
    library = ctypes.CDLL(chance.choice(["libz.so.1", "libm.so.6", "libstdc++.so.6"]))
    _ctypes.dlclose(library._handle)


@deed
def traces(chance: Random) -> None:
    for set_hook in (sys.settrace, sys.setprofile):
        set_hook(lambda *_: None)
        works(50)
        set_hook(None)


@deed
def recurses(chance: Random) -> None:
    def down(n: int) -> int:
        return n and down(n - 1)

    down(800)


@deed
def leaves_generators(chance: Random) -> None:
    def numbers(n: int) -> object:
        if n:
            yield from numbers(n - 1)
        yield n

    for each in [numbers(20) for _ in range(20)]:
        next(each)


def runs(number: int) -> None:
    chance = random.Random(f"{seed} {number}")
    while time.monotonic() < end and not failed:
        what = chance.choice(list(deeds))
        try:
            what(chance)
        except BaseException as error:
            if isinstance(error, PyhybridError) and deeds[what] and ANSWER.search(str(error)):
                continue
            traceback.print_exc()
            failed.append(what.__name__)


seconds, seed = float(sys.argv[1]), sys.argv[2]
signal.alarm(int(2 * seconds) + 2 * CHILD_S)
with contextlib.suppress(PyhybridError):  # it runs already
    profiles_once()  # imports: a child may wait for one that another thread was about to do
end = time.monotonic() + seconds
threads = [threading.Thread(target=runs, args=(number,)) for number in range(N_THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("failed:", ", ".join(failed) if failed else "none")
sys.exit(bool(failed))
