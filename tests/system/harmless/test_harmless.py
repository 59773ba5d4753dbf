"""What a program may be in the middle of while we do something: it goes on as without us."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import LINUX, PATIENCE_S, TARGETS, Run

pytestmark = pytest.mark.engine

ROOT = pytest.mark.needs("root")
NEW = pytest.mark.skipif(LINUX < (6, 15), reason="sigtrap needs Linux 6.15")
ENGINES = (
    pytest.param("sigtrap", marks=[ROOT, NEW]),
    pytest.param("perf_event", marks=ROOT),
    "timer",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("harmless") / "libharmless.so"
    command = ["gcc", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-o", path]
    subprocess.run([*command, TARGETS / "harmless.c", "-ldl"], check=True)
    return path


REFUSES = """
import ctypes, platform, struct, sys, time
NUMBERS = {
    "ioctl": (16, 29), "close": (3, 57), "wait4": (61, 260), "waitid": (247, 95),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
}
numbers = [NUMBERS[name][platform.machine() == "aarch64"] for name in sys.argv[1:]]
refuses = [each for number in numbers for each in ((0x15, 0, 1, number), (0x06, 0, 0, 0x00050001))]
rules = (0x20, 0, 0, 0), *refuses, (0x06, 0, 0, 0x7FFF0000)
# linux/filter.h: the system call's number; if it is one of those, EPERM; else it is allowed
code = b"".join(struct.pack("HBBI", *each) for each in rules)
text = ctypes.create_string_buffer(code)
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, struct.pack("HxxxxxxP", len(rules), ctypes.addressof(text)), 0, 0)
end = time.thread_time() + 0.3
while time.thread_time() < end:
    pass
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_filter_that_refuses_ioctl(pyhybrid: Callable[..., Run], engine: str) -> None:
    """The program's own, of system calls: no event goes on after the handler has gone."""
    run = pyhybrid("--format", "folded", "--engine", engine, "-c", REFUSES, "ioctl")
    assert run.result.returncode == 0
    assert sum(t.recorded_weight_ns for t in run.profile().threads.values()) > 100_000_000


@pytest.mark.further
@pytest.mark.parametrize(
    "calls", [("wait4", "waitid"), ("close",), ("rt_sigaction", "rt_sigprocmask")]
)
def test_a_filter_that_refuses_what_the_end_needs(
    pyhybrid: Callable[..., Run], calls: tuple[str, ...]
) -> None:
    """There is a profile, or a line that says which file is still read."""
    run = pyhybrid("--format", "folded", "-c", REFUSES, *calls)
    assert run.result.returncode == 0
    assert "Traceback" not in run.result.stderr
    whole = run.path().exists()
    assert whole or "out.pyhybrid.part" in run.result.stderr
    profile = run.profile("out.pyhybrid" if whole else "out.pyhybrid.part")
    assert sum(t.recorded_weight_ns for t in profile.threads.values()) > 100_000_000


@pytest.mark.further
@pytest.mark.needs("plain_build")
def test_a_fork_while_we_look_at_the_libraries(
    pyhybrid: Callable[..., Run], library: Path, tmp_path: Path
) -> None:
    """glibc's fork leaves the lock of dl_iterate_phdr as it is: the child could load nothing."""
    not_loaded = shutil.copy(library, tmp_path / "another.so")
    program = f"""
        import ctypes, os, signal, time
        codes = []
        for i in range(20):
            end = time.monotonic() + 0.007
            while time.monotonic() < end:
                pass
            child = os.fork()
            if not child:
                signal.alarm(100)
                ctypes.CDLL({str(not_loaded)!r})
                os._exit(0)
            codes.append(os.waitpid(child, 0)[1])
        print(codes)
    """
    environment = {"LD_PRELOAD": str(library)}
    run = pyhybrid("--format", "folded", "-c", textwrap.dedent(program), env=environment)
    assert run.result.stdout == f"{[0] * 20}\n"


# What libraries that are preloaded do with time, as libfaketime, which test suites use.
FAKES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static void fake(struct timespec *t)
{
    const char *how = getenv("FAKES");
    if (!how)
        return;
    t->tv_sec = *how == 'x' ? t->tv_sec * 10 : *how == '-' ? t->tv_sec - 86400 : t->tv_sec + 86400;
    if (*how == '-' && t->tv_sec < 0)
        t->tv_sec = 0, t->tv_nsec = 999999999 - t->tv_nsec;
}
int clock_gettime(clockid_t clock, struct timespec *t)
{
    long error = syscall(SYS_clock_gettime, clock, t);
    if (!error)
        fake(t);
    return (int)error;
}
int gettimeofday(struct timeval *t, void *zone)
{
    struct timespec s;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &s);
    t->tv_sec = s.tv_sec;
    t->tv_usec = s.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *t)
{
    struct timespec s;
    clock_gettime(CLOCK_REALTIME, &s);
    return t ? (*t = s.tv_sec) : s.tv_sec;
}
int nanosleep(const struct timespec *t, struct timespec *left) { (void)t; (void)left; return 0; }
int clock_nanosleep(clockid_t c, int f, const struct timespec *t, struct timespec *left)
{
    (void)c; (void)f; (void)t; (void)left;
    return 0;
}
int timer_create(clockid_t c, struct sigevent *e, timer_t *t)
{
    (void)c; (void)e; (void)t;
    errno = EAGAIN;
    return -1;
}
int timer_settime(timer_t t, int f, const struct itimerspec *n, struct itimerspec *o)
{
    (void)t; (void)f; (void)n; (void)o;
    errno = EINVAL;
    return -1;
}
int pthread_getcpuclockid(pthread_t t, clockid_t *c) { (void)t; (void)c; return ENOENT; }
"""


@pytest.mark.first_cases(1)
@pytest.mark.needs("plain_build")
@pytest.mark.engine
@pytest.mark.parametrize("engine", [*ENGINES, "trace"])
def test_a_library_that_fakes_times(
    pyhybrid: Callable[..., Run], tmp_path: Path, engine: str
) -> None:
    """The profile is of true times, whatever the program sees."""
    source, library = tmp_path / "fakes.c", tmp_path / "fakes.so"
    source.write_text(FAKES)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = "def work():\n    return sum(i for i in range(10**6))\nfor _ in range(3): work()\n"
    mode = ["--mode", "trace"] if engine == "trace" else ["--engine", engine]
    for how in "x", "-", "+":
        started = time.time_ns()
        run = pyhybrid(
            "-q",
            *("--format", "folded", "-o", tmp_path / "out"),
            *(*mode, "-c", program),
            env={"LD_PRELOAD": str(library), "FAKES": how},
        )
        ended = time.time_ns()
        assert run.result.stderr == ""
        profile = run.profile()
        process, meta = profile.process, profile.meta
        assert meta["notes"] == []
        assert started < meta["start_unix_ns"] < ended
        assert 0 < process.end_ns - process.start_ns < ended - started
        assert 0 < process.cpu_ns < 2 * (ended - started)
        assert sum(row.calls for row in profile.exact) >= 4
        main = max(profile.threads.values(), key=lambda thread: thread.cpu_ns or 0)
        assert main.missed_weight_ns + main.recorded_weight_ns < 2 * process.cpu_ns
        assert max(row.total_ns for row in profile.exact) < ended - started
        if engine not in ("trace", "timer"):
            assert main.recorded_weight_ns > 0.5 * process.cpu_ns


# A thread is in dl_iterate_phdr, by a function of Python's, and needs the GIL to leave it.  Soon
# the thread of ours that drains waits for the same lock.
IN_THE_LOADER = """
import ctypes, os, sys, threading, time
import pyhybrid
inside = threading.Event()
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def look(info, size, data):
    inside.set()
    time.sleep(0.6)
    return 1
profiler = pyhybrid.Profiler(hz=999, mode=sys.argv[1])
profiler.start()
if sys.argv[2] == "profiler.start()":  # again: imports would wait in any program
    profiler.stop()
thread = threading.Thread(target=ctypes.CDLL(None).dl_iterate_phdr, args=(look, None))
thread.start()
inside.wait()
end = time.monotonic() + 0.2
while time.monotonic() < end:
    pass
eval(sys.argv[2], globals())
print("went on", not thread.is_alive())
thread.join()
if profiler.running:
    profiler.stop()
"""
DEEDS = (
    "profiler.start()",
    "profiler.stop()",
    "profiler.pause()",
    "profiler.pause() or profiler.resume()",
    "pyhybrid.region('new').__enter__()",
    "os.execv('/bin/echo', ['echo', 'went on'])",
)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("mode", [pytest.param("sample", marks=pytest.mark.once), "hybrid"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_thread_in_the_loader_that_waits_for_the_gil(
    tmp_path: Path, mode: str, deed: str
) -> None:
    command = [sys.executable, "-P", "-c", IN_THE_LOADER, mode, deed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.startswith("went on"), done.stderr
    assert done.returncode == 0


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_are_cancelled(pyhybrid: Callable[..., Run], library: Path, engine: str) -> None:
    """Also in our handler, if glibc's signal for it came through: it would unwind it."""
    program = f"import ctypes; print(ctypes.CDLL({str(library)!r}).cancel_readers(300))"
    options = ("--mode", "sample", "--format", "folded", "--engine", engine, "--hz", 20000)
    run = pyhybrid(*options, "-c", program, timeout=PATIENCE_S)
    assert run.result.stdout == "300\n"


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_exec_with_all_signals_blocked(pyhybrid: Callable[..., Run], engine: str) -> None:
    """What is pending there the new program would get, by which it would die."""
    program = """
        import os, signal, sys, time
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        then = "import signal; signal.pthread_sigmask(signal.SIG_SETMASK, []); print('alive')"
        os.execv(sys.executable, [sys.executable, "-c", then])
    """
    run = pyhybrid("--engine", engine, "-c", textwrap.dedent(program))
    assert run.result.stdout == "alive\n"


@pytest.mark.further
@pytest.mark.needs("root")
def test_a_descriptor_that_is_the_programs_now(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """Ours is closed, and its number is that of a file of the program, which is left alone."""
    target = TARGETS / "own_descriptor.py"
    run = pyhybrid("-q", "--format", "folded", target, tmp_path / "file")
    lines = [f"line {i}" for i in range(20)]
    assert (tmp_path / "file").read_text().split("\n") == [*lines, "end", ""]
    profile = run.profile()
    (later,) = (thread for thread in profile.threads.values() if thread.name == "later")
    assert later.recorded > 100  # threads are still found


@pytest.mark.further
def test_a_pause_on_a_small_stack(pyhybrid: Callable[..., Run]) -> None:
    """What is written out there takes no large part of it."""
    run = pyhybrid("-q", "--format", "folded", TARGETS / "small_stack.py")
    assert (run.result.stdout, run.result.stderr) == ("done\n", "")


@pytest.mark.further
def test_after_a_suspended_time(tmp_path: Path) -> None:
    """CLOCK_BOOTTIME, by which threads begin, is ahead then: a day, in a namespace of time."""
    program = """
        import threading, time
        from pyhybrid import Profiler
        done, go_on = threading.Event(), threading.Event()
        def burn():
            end = time.thread_time() + 0.5
            while time.thread_time() < end:
                pass
            done.set()
            go_on.wait()
        thread = threading.Thread(target=burn)
        thread.start()
        done.wait()
        with Profiler(engine="perf_event", mode="sample") as p:
            sum(range(10**6))
        go_on.set()
        (it,) = (t for t in p.profile.threads.values() if t.tid == thread.native_id)
        print(it.missed_weight_ns + (it.cpu_ns or 0) < 100_000_000)
    """
    moved = ["unshare", "--time", "--boottime", "86400", "--fork"]
    if subprocess.run([*moved, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces of time here")
    command = [*moved, sys.executable, "-P", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.further
@ROOT
def test_our_wake_ups_wait_for_an_interrupt(pyhybrid: Callable[..., Run]) -> None:
    """What is asked of the kernel for the collector holds for no thread of the program."""
    program = """
        import ctypes, os, threading, time
        from pathlib import Path
        def slack_of_this_thread():
            return ctypes.CDLL(None).prctl(30)  # PR_GET_TIMERSLACK
        slacks = [slack_of_this_thread()]
        thread = threading.Thread(target=lambda: slacks.append(slack_of_this_thread()))
        thread.start()
        thread.join()
        def slacks_of_the_collector():
            for task in Path("/proc/self/task").iterdir():
                if (task / "comm").read_text() == "pyhybrid\\n":
                    yield int(Path("/proc", task.name, "timerslack_ns").read_text())
        end = time.monotonic() + 100  # it sets both itself, when it gets a processor
        while list(slacks_of_the_collector()) != [2_000_000] and time.monotonic() < end:
            pass
        print([*slacks, *slacks_of_the_collector()])
    """
    inherited = ctypes.CDLL(None).prctl(30)
    run = pyhybrid("--format", "folded", "-c", textwrap.dedent(program))
    assert run.result.stdout == f"{[inherited, inherited, 2_000_000]}\n"
