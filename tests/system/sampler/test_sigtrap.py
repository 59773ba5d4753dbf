"""The engine that sends SIGTRAP: every thread from its first instruction on, and no harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import support
from support import LINUX, LOOKS, PATIENCE_S, Run, check_invariants, signalled_ns

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.skipif(LINUX < (6, 15), reason="sigtrap needs Linux 6.15"),
]

BURN = """
import ctypes, os, signal, sys, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
"""
OPTIONS = ("--mode", "sample", "--format", "folded", "--engine", "sigtrap")


@pytest.fixture
def script(pyhybrid: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """script(text, *options, check=True): the run of BURN and `text`, sampled by sigtrap."""

    def run(text: str, *options: object, check: bool = True) -> Run:
        file = tmp_path / "program.py"
        file.write_text(BURN + LOOKS + textwrap.dedent(text))
        done = pyhybrid(*OPTIONS, *options, file, check=check)
        check_invariants(done.profile())
        return done

    return run


Script = Callable[..., Run]


def test_it_is_the_one_that_auto_takes(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", "sum(range(10**7))")
    assert run.profile().meta["engine"] == "sigtrap"


def test_threads_of_milliseconds(script: Script) -> None:
    # The collector has records in stock for 64 threads: on a busy machine it may come late to more.
    run = script(
        """
        burn(0.3)
        for name in "abcdefghij":  # many of a name would be one row
            threads = [threading.Thread(target=burn, args=(0.008,), name=name) for _ in range(20)]
            for t in threads: t.start()
            for t in threads: t.join()
            looked()
    """,
        "--mode",
        "hybrid",
    )  # which knows the names
    profile = run.profile()
    threads = profile.threads.values()
    assert len(threads) == 201
    assert all(t.recorded for t in threads)
    (main,) = (t for t in threads if t.tid == profile.process.pid)
    # Periods between two signals, of which a busy machine leaves some out.
    late = (main.cpu_ns or 0) / (main.signals * profile.period_ns)
    assert sum(t.missed_weight_ns for t in threads) < 0.1 * late * 200 * 8_000_000
    assert "unknown thread" not in run.result.stderr


@pytest.mark.further
def test_threads_of_threads_that_have_ended(script: Script) -> None:
    run = script("""
        def two():
            burn(0.3)
        def one():
            burn(0.05)
            threading.Thread(target=two).start()
        for _ in range(3):
            t = threading.Thread(target=one)
            t.start()
            t.join()
    """)
    long = [t for t in run.profile().threads.values() if (t.cpu_ns or 0) > 290_000_000]
    assert len(long) == 3
    for t in long:
        assert signalled_ns(run.profile(), t) > 0.95 * t.cpu_ns


@pytest.mark.further
def test_no_system_call_is_interrupted(script: Script) -> None:
    # poll(2) is one that SA_RESTART does not restart.
    run = script(
        """
        poll = ctypes.CDLL(None, use_errno=True).poll
        cut = 0
        for _ in range(1000):
            burn(0.0002)
            cut += poll(None, 0, 1) != 0
        print(cut)
        """,
        *("--hz", 20000),
    )
    assert run.result.stdout == "0\n"


@pytest.mark.further
@pytest.mark.parametrize("n_stops", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_threads_that_sleep_when_it_stops(tmp_path: Path, n_stops: int) -> None:
    """The signal for what they did before they slept comes when they wake, after the end."""
    code = BURN + textwrap.dedent("""
        from pyhybrid import Profiler
        n, woken = 100, threading.Semaphore(0)
        locks = [threading.Lock() for _ in range(n)]
        def sleeper(lock):
            while True:
                lock.acquire()
                woken.release()
        def wake():
            for lock in locks: lock.release()
            for _ in locks: woken.acquire()
        for lock in locks:
            lock.acquire()
            threading.Thread(target=sleeper, args=(lock,), daemon=True).start()
        for number in range(int(sys.argv[1])):
            p = Profiler(hz=20000, mode="sample", engine="sigtrap", formats=(), output=f"p{number}")
            with p:
                for _ in range(20): wake()
            wake()
        assert p.profile.meta["engine"] == "sigtrap"
        print("alive", flush=True)
        if sys.argv[2:]:
            os.kill(os.getpid(), signal.SIGTRAP)
    """)
    for arguments, status in ([str(n_stops)], 0), (["1", "trap"], -signal.SIGTRAP):
        command = [sys.executable, "-P", "-c", code, *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert (done.returncode, done.stdout) == (status, "alive\n"), done.stderr


@pytest.mark.further
def test_a_trap_of_the_programs_own_kills_it_as_ever(script: Script) -> None:
    run = script("burn(0.1); os.kill(os.getpid(), signal.SIGTRAP); print('on')", check=False)
    assert run.result.returncode == -signal.SIGTRAP
    assert not run.result.stdout


def test_the_program_takes_the_signal(script: Script) -> None:
    run = script("""
        burn(0.1)
        got = []
        signal.signal(signal.SIGTRAP, lambda *_: got.append(1))
        burn(0.5)
        before = len(got)
        os.kill(os.getpid(), signal.SIGTRAP)
        burn(0.1)
        print(len(got) - before)
    """)
    assert run.result.stdout == "1\n"
    assert "the program handles SIGTRAP: sampled by perf_event from there on" in run.result.stderr
    (thread,) = run.profile().threads.values()
    assert signalled_ns(run.profile(), thread) > 0.9 * (thread.cpu_ns or 0)


@pytest.mark.further
def test_a_program_that_has_the_signal_keeps_it(tmp_path: Path) -> None:
    code = BURN + textwrap.dedent("""
        from pyhybrid import Profiler
        got = []
        signal.signal(signal.SIGTRAP, lambda *_: got.append(1))
        with Profiler(mode="sample", formats=()) as p:
            burn(0.1)
        assert p.profile.meta["engine"] == "perf_event", p.profile.meta
        assert p.profile.meta["engine_reason"] == "the program handles SIGTRAP"
        assert not got
        os.kill(os.getpid(), signal.SIGTRAP)
        print(len(got))
        try:
            Profiler(mode="sample", formats=(), engine="sigtrap").start()
        except Exception as error:
            print(error)
    """)
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "1\ncannot start: engine: the program handles SIGTRAP\n", done.stderr


@pytest.mark.further
def test_children_never_get_it(script: Script) -> None:
    run = script("""
        import subprocess
        for _ in range(10):
            burn(0.01)
            if not os.fork():
                signal.signal(signal.SIGTRAP, signal.SIG_DFL)
                burn(0.05)
                os._exit(0)
            assert os.wait()[1] == 0
            subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
            pid = os.posix_spawn("/bin/true", ["true"], {})
            assert os.waitpid(pid, 0)[1] == 0
        t = threading.Thread(target=lambda: subprocess.run("true", check=True))
        t.start(); t.join()
        print("well")
    """)
    assert run.result.stdout == "well\n"


TRACER = """
import ctypes, os, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
SEIZE, CONT = 0x4206, 7
pid = int(sys.argv[1])
if ptrace(SEIZE, pid, 0, 0):
    raise OSError(ctypes.get_errno(), "ptrace")
print("watching", flush=True)
while True:
    _, status = os.waitpid(pid, 0x40000000)
    if not os.WIFSTOPPED(status):
        break
    number = os.WSTOPSIG(status)
    ptrace(CONT, pid, 0, number if number != 19 else 0)
"""
WATCHED = """
import subprocess
def watch():
    tracer = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())],
                              stdout=subprocess.PIPE, text=True)
    assert tracer.stdout.readline() == "watching\\n"
    return tracer
"""


@pytest.mark.further
def test_a_debugger_that_comes_later(script: Script, tmp_path: Path) -> None:
    (tmp_path / "tracer.py").write_text(TRACER)
    run = script(
        WATCHED.replace("sys.argv[1]", "open('tracer.py').read()")
        + "burn(0.1)\ntracer = watch()\nburn(1)\n"
    )
    expected = "a debugger watches: sampled by perf_event from there on"
    assert expected in run.result.stderr


@pytest.mark.further
def test_a_debugger_that_was_there(tmp_path: Path) -> None:
    code = (
        BURN
        + WATCHED
        + textwrap.dedent("""
        from pyhybrid import Profiler
        tracer = watch()
        with Profiler(mode="sample", formats=()) as p:
            burn(0.2)
        print(p.profile.meta["engine"], p.profile.meta["engine_reason"])
        """)
    )
    command = [sys.executable, "-P", "-c", code, TRACER]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "perf_event a debugger would stop at every SIGTRAP\n", done.stderr


@pytest.mark.further
def test_threads_of_a_pause(tmp_path: Path) -> None:
    """What runs in a pause counts nowhere, also where threads begin or end in it."""
    code = BURN + textwrap.dedent("""
        from pyhybrid import Profiler
        from support import covered_ns
        def through():
            burn(0.2)
            paused.set()
            release.wait()
            burn(0.2)
        def begun():
            global noticed
            while not p.paused_for_test: burn(0.001)
            noticed = time.thread_time()
            burn(0.3)
        for resumed in True, False:
            release, paused = threading.Event(), threading.Event()
            before = threading.Thread(target=burn, args=(0.004,))
            across, ends = threading.Thread(target=through), threading.Thread(target=begun)
            within = threading.Thread(target=burn, args=(0.2,))
            p = Profiler(mode="sample", engine=sys.argv[1], formats=(), output=f"p{resumed}")
            p.paused_for_test = False
            p.start()
            before.start()  # perhaps not seen yet when the pause begins
            ends.start()
            burn(0.05)
            p.pause()
            p.paused_for_test = True
            within.start()
            across.start()
            paused.wait()
            within.join()
            ends.join()
            if resumed:
                p.resume()
            release.set()
            across.join()
            p.stop()
            def weight(thread):
                found = [t for t in p.profile.threads.values() if t.tid == thread.native_id]
                return sum(covered_ns(p.profile, t) for t in found) / 1e9
            assert weight(within) < 0.01, weight(within)
            assert weight(ends) < noticed + 0.05, (weight(ends), noticed)
            low, high = (0.18, 0.24) if resumed else (0, 0.01)
            assert low <= weight(across) <= high, weight(across)
            for t in p.profile.threads.values():  # a tick may stand for more than it ran
                assert abs(covered_ns(p.profile, t) - (t.cpu_ns or 0)) < 4e6 + 4e6, t
    """)
    env = {**os.environ, "PYTHONPATH": str(Path(support.__file__).parent)}
    for engine in "sigtrap", "perf_event":
        command = [sys.executable, "-P", "-c", code, engine]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, (engine, done.stderr)


@pytest.mark.further
def test_time_with_the_signal_blocked_has_its_row(script: Script) -> None:
    """And is not the sample's that comes when it ends."""
    run = script("""
        def unblock():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTRAP})
        burn(0.3)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTRAP})
        burn(0.5)
        unblock()
        burn(0.3)
    """)
    profile = run.profile()
    (thread,) = profile.threads.values()
    assert thread.missed_weight_ns < 0.15e9  # since the collector's last look
    in_unblock = blocked = 0
    for row in profile.sampled:
        node = profile.stacks.node[row.stack]
        while node:
            frame = profile.frames[profile.nodes.frame[node]]
            in_unblock += row.weight_ns * (frame.name == "unblock")
            blocked += row.weight_ns * frame.name.startswith("[signals blocked]")
            node = profile.nodes.parent[node]
    assert in_unblock < 0.02e9
    assert 0.45e9 < blocked + thread.missed_weight_ns < 0.6e9
