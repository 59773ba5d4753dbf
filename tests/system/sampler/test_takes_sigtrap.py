"""Programs whose C code takes SIGTRAP, at any time: none of ours ever comes to their handlers."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from support import LINUX, PATIENCE_S, TARGETS, Run, check_invariants, made_once, signalled_ns

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.skipif(LINUX < (6, 15), reason="sigtrap needs Linux 6.15"),
]
LEFT = "pyhybrid: the program handles SIGTRAP: sampled by perf_event from there on"


def build(folder: Path, name: str, *options: str) -> None:
    libraries = subprocess.run(
        ["pkg-config", "--libs", "absl_failure_signal_handler"], capture_output=True, text=True
    )
    assert libraries.returncode == 0, libraries.stderr
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", *options, "-o", folder / name]
    subprocess.run(
        [*command, TARGETS / "takes_trap.cpp", *libraries.stdout.split(), "-ldl"], check=True
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = "libtakes.so"
    return made_once(tmp_path_factory, "takes", lambda folder: build(folder, name)) / name


@pytest.fixture(scope="module")
def at_load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that takes it when it is opened, before its opener goes on."""
    name, how = "libatload.so", "-DAT_LOAD"
    return made_once(tmp_path_factory, "at_load", lambda folder: build(folder, name, how)) / name


# Threads that work and threads that wait, so that signals are on their way to all of them.
BUSY = """
import ctypes, os, signal, sys, threading, time
library, at_load = ctypes.CDLL(sys.argv[1]), sys.argv[2]
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(100))
def in_turns():
    for _ in range(200):
        burn(0.001)
        time.sleep(0.001)
threads = [threading.Thread(target=in_turns) for _ in range(6)]
for each in threads: each.start()
burn(0.1)
DEED
burn(0.2)
for each in threads: each.join()
print("alive")
"""
DEEDS = {
    "in its main thread": "library.install_abseil()",
    "in another thread": (
        "t = threading.Thread(target=library.install_abseil); t.start(); t.join()"
    ),
    "when C code opens it": "assert library.open_by_c(os.fsencode(at_load))",
}


FAST = ("--engine", "sigtrap", "--hz", "10000")


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("deed", "options"),
    [
        *((deed, ()) for deed in DEEDS),
        ("in another thread", FAST),
        pytest.param("in its main thread", FAST, marks=pytest.mark.slow),
        pytest.param("when C code opens it", FAST, marks=pytest.mark.slow),
    ],
)
def test_abseils_handler(
    pyhybrid: Callable[..., Run],
    library: Path,
    at_load: Path,
    deed: str,
    options: tuple[str, ...],
) -> None:
    code = BUSY.replace("DEED", DEEDS[deed])
    run = pyhybrid(*options, "--format", "folded", "-c", code, library, at_load)
    assert run.result.stdout == "alive\n"
    assert LEFT in run.result.stderr
    profile = run.profile()
    assert profile.meta["engine"] == "sigtrap"
    check_invariants(profile)
    cpu_ns = sum(thread.cpu_ns or 0 for thread in profile.threads.values())
    signalled = sum(signalled_ns(profile, thread) for thread in profile.threads.values())
    assert signalled > 0.8 * cpu_ns  # also after it was left


@pytest.mark.further
def test_a_trap_of_the_programs_own_is_abseils(
    pyhybrid: Callable[..., Run], library: Path, at_load: Path
) -> None:
    code = BUSY.replace("DEED", "library.install_abseil(); os.kill(os.getpid(), signal.SIGTRAP)")
    arguments = ["-c", code, library, at_load]
    alone = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    run = pyhybrid(*arguments, check=False)
    assert run.result.returncode == alone.returncode == -signal.SIGTRAP
    for stderr in (alone.stderr, run.result.stderr):
        assert "*** SIGTRAP received" in stderr


@pytest.mark.further
def test_it_sees_what_it_has_asked_for(pyhybrid: Callable[..., Run], library: Path) -> None:
    """While sigtrap is left, and afterwards."""
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).take_and_give_back(5000))"
    run = pyhybrid("--format", "folded", "-c", code, library)
    assert LEFT in run.result.stderr
    assert run.result.stdout == "0\n"


@pytest.mark.further
def test_to_ignore_it_and_the_default_leave_the_engine(pyhybrid: Callable[..., Run]) -> None:
    code = """
        import os, signal, time
        end = time.process_time() + 0.5
        while time.process_time() < end:
            signal.signal(signal.SIGTRAP, signal.SIG_DFL)
            signal.signal(signal.SIGTRAP, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGTRAP)
        print("alive")
    """
    run = pyhybrid("--format", "folded", "--hz", "10000", "-c", textwrap.dedent(code))
    assert run.result.stdout == "alive\n"
    assert LEFT not in run.result.stderr


API = """
import ctypes, json, sys, threading, time
from pyhybrid import Profiler
library = ctypes.CDLL(sys.argv[1])
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(100))
def told(options):
    p = Profiler(mode="sample", formats=(), **options)
    with p:
        burn(0.1)
        DEED
        burn(0.1)
    return p.profile.meta["engine"], p.profile.meta["engine_reason"]
"""


def api(folder: Path, library: Path, code: str, deed: str = "pass") -> str:
    command = [sys.executable, "-P", "-c", API.replace("DEED", deed) + textwrap.dedent(code)]
    done = subprocess.run(
        [*command, str(library)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.further
def test_abseils_handler_was_there(tmp_path: Path, library: Path) -> None:
    out = api(tmp_path, library, "library.install_abseil(); print(*told({}))")
    assert out == "perf_event the program handles SIGTRAP\n"


@pytest.mark.further
def test_threads_that_were_there(tmp_path: Path, library: Path) -> None:
    """Each has a guard of its own; and a profiler that comes later finds the handler."""
    code = """
        wanted, done = threading.Event(), threading.Event()
        def other():
            wanted.wait()
            library.install_abseil()
            done.set()
        for function in other, wanted.wait, wanted.wait: threading.Thread(target=function).start()
        print(*told({}))
        burn(0.1)
        print(*told({}))
    """
    out = api(tmp_path, library, code, "wanted.set(); done.wait()")
    assert out == "sigtrap \nperf_event the program handles SIGTRAP\n"


# linux/perf_event.h: of the calling thread, one for each debug register.
TAKES_BREAKPOINTS = """
        import struct
        attribute = bytearray(128)
        struct.pack_into("IIQQ", attribute, 0, 5, 128, 0, 1)
        struct.pack_into("QIIQQ", attribute, 40, 1 << 5 | 1 << 6, 0, 4, 4096, 8)
        attribute = (ctypes.c_char * 128).from_buffer(attribute)
        while ctypes.CDLL(None).syscall(298, attribute, 0, -1, -1, 0) >= 0: pass
"""


@pytest.mark.further
def test_no_breakpoint_is_free(tmp_path: Path, library: Path) -> None:
    code = (
        TAKES_BREAKPOINTS + "        print(*told({}))\n        print(*told({'engine': 'sigtrap'}))"
    )
    why = "nothing would tell that the program takes SIGTRAP: no breakpoint is to be had"
    assert api(tmp_path, library, code) == f"perf_event {why}\nsigtrap {why}\n"


@pytest.mark.further
def test_signals_of_breakpoints_do_not_come_to_children(
    pyhybrid: Callable[..., Run], library: Path
) -> None:
    code = """
        import ctypes, os, signal, subprocess, sys
        library = ctypes.CDLL(sys.argv[1])
        if not os.fork():
            signal.signal(signal.SIGTRAP, signal.SIG_DFL)
            library.install_abseil()
            os._exit(0)
        assert os.wait()[1] == 0
        asks = "import signal; print(signal.SIGTRAP in signal.sigpending())"
        done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True)
        print(done.stdout, flush=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTRAP])
        signal.signal(signal.SIGUSR1, print)  # one is pending from here on
        os.execv(sys.executable, [sys.executable, "-c", asks])
    """
    run = pyhybrid("--no-children", "--format", "folded", "-c", textwrap.dedent(code), library)
    assert run.result.stdout == "False\n\nFalse\n"


@pytest.mark.slow
@pytest.mark.needs("ray")
def test_ray(pyhybrid: Callable[..., Run]) -> None:
    """Its C++ takes SIGTRAP when it begins."""
    code = """
        import ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
                 object_store_memory=100 * 2**20)
        @ray.remote
        def job(x):
            return x + sum(range(200_000)) * 0
        print(sum(ray.get([job.remote(i) for i in range(6)])))
        ray.shutdown()
    """
    run = pyhybrid("--format", "folded", "-c", textwrap.dedent(code))
    assert run.result.stdout == "15\n"
    assert LEFT in run.result.stderr
