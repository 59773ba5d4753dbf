"""A signal 10,000 times a second, in the midst of what takes locks or changes what a walk reads.

Each runs for PYHYBRID_STRESS_S seconds (15) in all its variants together; `make stress` lets them
run for minutes, and `make test` runs a few of them for a moment.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, Run

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.once

SECONDS = float(os.environ.get("PYHYBRID_STRESS_S", "15"))
HZ = 10_000
# Of CPU time, at least: timers give 250, and of threads that live for 0.1 ms few are known in time.
SAMPLES_OF_A_SECOND = 30
HALF = SECONDS / 2  # of two variants
BRIEF = min(HALF, 2)
VARIANTS = [("--mode", "sample", "--engine", "perf_event"), ("--mode", "hybrid")]
IDS = ["sample-sigprof", "hybrid"]
SLOW = pytest.mark.slow
IN_FULL = pytest.param(HALF, marks=SLOW)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stress")
    flags = ["-O2", "-g", "-fPIC", "-shared", "-pthread"]
    for compiler, source in (
        ("gcc", "stress.c"),
        ("gcc", "stress_library.c"),
        ("g++", "stress_throw.cpp"),
    ):
        target = (folder / source).with_suffix(".so")
        subprocess.run([compiler, *flags, "-o", target, TARGETS / source], check=True)
    return folder


@pytest.fixture
def storm(pyhybrid: Callable[..., Run]) -> Callable[..., Profile]:
    """Runs a program that must print `done` and nothing else; checks the profile's sums."""

    def run(program: str, *options: object, seconds: float = HALF, **keywords: object) -> Profile:
        text = f"SECONDS = {seconds}\n{textwrap.dedent(program)}\nprint('done')"
        arguments = ("--hz", HZ, "--format", "folded", *options, "-c", text)
        result = pyhybrid(*arguments, timeout=3 * seconds + PATIENCE_S, **keywords)
        assert result.result.stdout == "done\n", result.result.stderr
        profile = result.profile()
        assert check_sums(profile) > SAMPLES_OF_A_SECOND * cpu_s(profile)
        return profile

    return run


def cpu_s(profile: Profile) -> float:
    """What the program had of the processors, which a busy machine gives it less of."""
    assert profile.process.cpu_ns
    return profile.process.cpu_ns / 1e9


def check_sums(profile: Profile) -> int:
    """The number of samples, all accounted for."""
    lost: dict[int, int] = {}
    for loss in profile.losses:
        lost[loss.thread] = lost.get(loss.thread, 0) + loss.samples
    counted: dict[int, int] = {}
    for row in profile.recorded:
        counted[row.thread] = counted.get(row.thread, 0) + row.samples
    for thread in profile.threads.values():
        assert thread.signals == thread.recorded + lost.get(thread.id, 0)
        assert thread.recorded == counted.get(thread.id, 0)
    return sum(counted.values())


def in_c(libraries: Path, library: str, call: str) -> str:
    return f"""
        import ctypes
        library = ctypes.CDLL({str(libraries / library)!r})
        steps = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_double, ctypes.c_char_p)
        loaded = {str(libraries / "stress_library.so")!r}.encode()
        assert steps(("{call}", library))(SECONDS, loaded) > 0
    """


# ASan has a mind of its own about alternate stacks and about what throws.
PLAIN = pytest.mark.needs("plain_build")


@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
@pytest.mark.parametrize(
    ("library", "call"),
    [
        pytest.param("stress.so", "malloc_storm", marks=SLOW),
        pytest.param("stress.so", "dlopen_storm", marks=SLOW),
        pytest.param("stress.so", "phdr_storm", marks=SLOW),
        pytest.param("stress.so", "thread_storm", marks=SLOW),
        pytest.param("stress.so", "signal_storm", marks=[SLOW, PLAIN]),
        pytest.param("stress_throw.so", "throw_storm", marks=[SLOW, PLAIN]),
    ],
)
def test_in_c(
    storm: Callable[..., Profile],
    libraries: Path,
    library: str,
    call: str,
    options: tuple[str, ...],
) -> None:
    environment = {"MALLOC_ARENA_MAX": "1"} if call == "phdr_storm" else {}
    storm(in_c(libraries, library, call), *options, env=environment)


@pytest.mark.further
@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
def test_libraries_come_and_go(
    storm: Callable[..., Profile], libraries: Path, options: tuple[str, ...]
) -> None:
    storm(in_c(libraries, "stress.so", "dlopen_storm"), *options, seconds=BRIEF)


@SLOW
def test_libraries_of_our_own_table(storm: Callable[..., Profile], libraries: Path) -> None:
    """As where the C library cannot tell a handler which ones are loaded (before glibc 2.35)."""
    program = in_c(libraries, "stress.so", "dlopen_storm")
    storm(program, "--unwinder", "table", seconds=SECONDS)


@SLOW
@pytest.mark.parametrize("clock", ["cpu", "wall"])
def test_the_garbage_collector(storm: Callable[..., Profile], clock: str) -> None:
    storm(
        """
        import gc, threading, time, weakref
        gc.set_threshold(50)
        end = time.monotonic() + SECONDS
        died = 0
        class Node:
            def __init__(self, other):
                self.other = other
            def __del__(self):
                global died
                died += 1
        def cycles():
            while time.monotonic() < end or died <= 100:
                first = Node(None)
                first.other = Node(first)
                weakref.finalize(first, len, ())
                exec(compile("def f(): return [i for i in range(9)]\\nf()", "made up", "exec"), {})
        threads = [threading.Thread(target=cycles) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        gc.collect()
        """,
        "--clock",
        clock,
    )


@SLOW
def test_threads_of_python_begin_and_end(storm: Callable[..., Profile]) -> None:
    storm(
        """
        import concurrent.futures, threading, time
        end = time.monotonic() + SECONDS
        def short(n):
            return sum(range(n))
        n = 0
        while time.monotonic() < end or n <= 40:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                n += len(list(pool.map(short, range(0, 40_000, 1000))))
            threads = [threading.Thread(target=short, args=(20_000,)) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """,
        seconds=SECONDS,
    )


@SLOW
def test_generators_and_coroutines(storm: Callable[..., Profile]) -> None:
    storm(
        """
        import asyncio, time
        end = time.monotonic() + SECONDS
        def numbers(depth):
            if depth:
                yield from numbers(depth - 1)
            yield depth
        async def task():
            while time.monotonic() < end:
                try:
                    async with asyncio.timeout(0.001):
                        await asyncio.sleep(0)
                        sum(numbers(20))
                        raise KeyError
                except (KeyError, TimeoutError):
                    pass
        async def main():
            await asyncio.gather(*(task() for _ in range(20)))
        asyncio.run(main())
        """,
        seconds=SECONDS,
    )


# CPython's own tests of the language: nearly all instructions, in functions and in generators.
LANGUAGE = """
    asyncgen augassign baseexception call class collections contextlib coroutines dataclasses
    decorators dict dictcomps enum except_star extcall fstring functools generators genexps grammar
    iter json keywordonlyarg listcomps named_expressions opcodes patma re richcmp scope set setcomps
    slice sort string_literals super type_params typing unpack unpack_ex with yield_from
"""


@pytest.mark.skipif(
    not (importlib.util.find_spec("test") and importlib.util.find_spec("test.test_grammar")),
    reason="this interpreter came without the package `test`",
)
@SLOW
@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
def test_all_of_the_language(storm: Callable[..., Profile], options: tuple[str, ...]) -> None:
    storm(
        f"""
        import contextlib, io, random, time, unittest
        def single(suite):
            for each in suite:
                yield from single(each) if isinstance(each, unittest.TestSuite) else [each]
        names = ["test.test_" + name for name in {LANGUAGE.split()}]
        end = time.monotonic() + SECONDS
        outcome, ran = unittest.TestResult(), 0
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            while time.monotonic() < end or ran <= 50:
                for name in random.sample(names, 10):
                    tests = list(single(unittest.defaultTestLoader.loadTestsFromName(name)))
                    for test in random.sample(tests, min(50, len(tests))):
                        if time.monotonic() < end or ran <= 50:
                            unittest.TestSuite([test]).run(outcome)
                            ran += 1
        assert len(outcome.errors) + len(outcome.failures) < ran / 2
        """,
        *options,
    )


@pytest.mark.further
@pytest.mark.parametrize("seconds", [BRIEF, IN_FULL])
@pytest.mark.parametrize("mode", [pytest.param("sample", marks=SLOW), "hybrid"])
def test_start_and_stop(tmp_path: Path, mode: str, seconds: float) -> None:
    """Profilers come and go in one process, whose threads go on."""
    program = f"""
    import subprocess, sys, threading, time
    import pyhybrid
    end = time.monotonic() + {seconds}
    def works():
        while time.monotonic() < end:
            sorted(range(300), key=lambda n: -n)
    def sleeps():
        while time.monotonic() < end:
            time.sleep(0.001)
    def spawns():
        while time.monotonic() < end:
            subprocess.run(["true"], check=True)
    threads = [threading.Thread(target=f) for f in (works, sleeps, spawns)]
    for thread in threads: thread.start()
    n = 0
    while time.monotonic() < end:
        with pyhybrid.Profiler(hz={HZ}, mode={mode!r}) as p:
            sum(range(100_000))
            if n % 3 == 0:
                p.pause()
                p.resume()
        n += 1
    for thread in threads: thread.join()
    print("done")
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=3 * seconds + PATIENCE_S
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.further
@pytest.mark.parametrize("seconds", [BRIEF, IN_FULL])
@pytest.mark.parametrize("mode", [pytest.param("sample", marks=SLOW), "hybrid"])
def test_interpreters_begin_and_end(tmp_path: Path, mode: str, seconds: float) -> None:
    """Signals from before the program's first line to the interpreter's end, threads and all."""
    program = (
        "import threading, time, json, decimal\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "def works():\n"
        "    while True: sum(range(1000))\n"
        "threading.Thread(target=works, daemon=True).start()\n"
        "print('done')"
    )
    options = ["--hz", str(HZ), "--mode", mode, "--format", "folded", "-q", "-c", program]
    command = [sys.executable, "-P", "-m", "pyhybrid", *options]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@SLOW
@pytest.mark.parametrize("command", [(), ("-m", "pyhybrid", "--hz", str(HZ), "-q")])
def test_all_at_once(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Profilers within the program, or one of all of it, whose threads do what they like."""
    program = (str(TARGETS / "all_at_once.py"), str(HALF), str(HALF))
    quiet = ("-W", "ignore::DeprecationWarning")  # of forks
    done = subprocess.run(
        [sys.executable, *quiet, "-P", *command, *program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=3 * HALF + PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, "failed: none\n"), done.stderr
