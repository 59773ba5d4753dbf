"""Frames of the kernel: below the system call or the page fault that led there, or `[kernel]`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import LINUX, PATIENCE_S, Run, check_invariants, covered_ns, paths, printed

from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.engine

# A second of each, in threads that say by their names what they do: system calls that copy, page
# faults, and neither.
WORK = """
import mmap, os, threading, time

def reads():
    with open("/dev/zero", "rb", buffering=0) as file:
        buffer = bytearray(1 << 20)
        while time.thread_time() < SECONDS:
            for _ in range(20): file.readinto(buffer)

def faults():
    zeros = bytes(1 << 22)
    while time.thread_time() < SECONDS:
        with mmap.mmap(-1, 1 << 22) as fresh:
            fresh.write(zeros)

def computes():
    while time.thread_time() < SECONDS:
        for _ in range(20): sum(range(10_000))

for work in reads, faults, computes:
    thread = threading.Thread(target=work, name=work.__name__)
    thread.start()
    thread.join()
"""

INTERRUPTS = ("asm_sysvec", "asm_common_interrupt")  # of clocks and other CPUs; of devices

ENGINES = [
    pytest.param(
        "sigtrap",
        marks=pytest.mark.skipif(LINUX < (6, 15), reason="sigtrap needs Linux 6.15"),
    ),
    "perf_event",
]


# "plain_build": ASan looks at the whole buffer before each read of it.


def leaves(profile: Profile) -> Iterator[tuple[str, int, Frame, list[Frame]]]:
    """Of every kind of sample: thread, weight, the program's innermost frame, and the kernel's
    frames, outermost first; a place in it that is not known is one frame, `[kernel]`."""
    for row in profile.sampled:
        inner: list[Frame] = []
        stack = row.stack
        while stack:
            frame = profile.frames[profile.nodes.frame[profile.stacks.node[stack]]]
            if frame.kind != "kernel":
                yield profile.threads[row.thread].name, row.weight_ns, frame, inner[::-1]
                break
            inner.append(frame)
            stack = profile.stacks.parent[stack]


def in_kernel(profile: Profile, named: bool = True) -> dict[str, float]:
    """By thread: the share of its samples that came in the kernel, at a place that has a name."""
    whole: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for thread, weight, _, kernel in leaves(profile):
        whole[thread] += weight
        inside[thread] += weight * bool(kernel and named == (kernel[-1].name != "[kernel]"))
    return {thread: inside[thread] / whole[thread] for thread in whole}


@pytest.mark.first_cases(1)
@pytest.mark.needs("root", "plain_build")
@pytest.mark.parametrize(
    ("hz", "seconds"), [pytest.param(999, 1, marks=pytest.mark.slow), (9999, 0.4)]
)
@pytest.mark.parametrize("engine", ENGINES)
def test_where_in_the_kernel(
    pyhybrid: Callable[..., Run], engine: str, hz: int, seconds: float
) -> None:
    options = ("--kernel", "--engine", engine, "--hz", hz, "--format", "folded")
    run = pyhybrid(*options, "-c", f"SECONDS = {seconds}\n{WORK}")
    profile = run.profile()
    check_invariants(profile)
    assert profile.meta["kernel_frames"]
    calls: Counter[str] = Counter()
    misplaced = 0
    for _, weight, above, kernel in leaves(profile):
        names = [frame.name for frame in kernel]
        copies = "ksys_read" in names
        if copies:
            calls[above.name] += weight
        # A page fault interrupts any instruction but that of a system call, whose own way in is
        # another; so does a clock's interrupt that is taken on the way back.
        misplaced += weight * (copies and names[0] == "asm_exc_page_fault")
    total = sum(row.weight_ns for row in profile.sampled)
    assert misplaced == 0
    # What reads is called `read`, whatever libc calls it otherwise; from glibc 2.41 another
    # function does that for it, which has a name where the debug file is there.
    assert calls.total() > 0.2 * total
    reads = "read", "__syscall_cancel_arch", "+0x"
    known = sum(weight for name, weight in calls.items() if any(part in name for part in reads))
    assert known > 0.99 * calls.total(), calls
    shares = in_kernel(profile)
    assert shares["reads"] > 0.85, shares
    called = [
        weight
        for thread, weight, _, kernel in leaves(profile)
        # (What others make a thread wait for ends in the kernel, too.)
        if thread == "computes" and kernel and not kernel[0].name.startswith(INTERRUPTS)
    ]
    assert sum(called) < 0.05 * total / 3
    faults = [
        weight
        for thread, weight, _, kernel in leaves(profile)
        if thread == "faults" and any(frame.name.endswith("handle_mm_fault") for frame in kernel)
    ]
    assert sum(faults) > 0.15 * total / 3
    for thread in profile.threads.values():
        cpu_ns = thread.cpu_ns or 0
        assert abs(covered_ns(profile, thread) - cpu_ns) <= 0.01 * cpu_ns + 2 * profile.period_ns


# The kernel counts by ticks, at which it also takes the processor from a thread: not from this one.
FIRST_OF_ALL = """
import contextlib, os
with contextlib.suppress(PermissionError):
    os.setpriority(os.PRIO_PROCESS, 0, -20)
"""


@pytest.mark.alone
@pytest.mark.needs("root")
@pytest.mark.parametrize("engine", [ENGINES[0], pytest.param(ENGINES[1], marks=pytest.mark.slow)])
def test_as_much_time_as_the_kernel_says(pyhybrid: Callable[..., Run], engine: str) -> None:
    """getrusage tells a process's time in the kernel from its own."""
    program = f"{FIRST_OF_ALL}SECONDS = 1.5\n{WORK}\n" + (
        "import resource\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(usage.ru_stime / (usage.ru_stime + usage.ru_utime))"
    )
    options = ("--kernel", "--engine", engine, "--hz", 1999, "--format", "folded")
    run = pyhybrid(*options, "-c", program)
    share = sum(w for _, w, _, kernel in leaves(run.profile()) if kernel) / sum(
        row.weight_ns for row in run.profile().sampled
    )
    # Both are samples on a kernel that counts by ticks; there are 4,500 ms of them.
    assert abs(share - float(run.result.stdout)) < 0.08, (share, run.result.stdout)


@pytest.mark.further
@pytest.mark.needs("root", "perf")
def test_perf_names_them(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--kernel", "--hz", 2999, "--format", "perf", "-c", f"SECONDS = 0.4\n{WORK}")
    script = ["perf", "script", "-i", "perf.data", "-F", "comm,ip,sym,dso"]
    done = subprocess.run(script, cwd=run.folder, capture_output=True, text=True, check=True)
    stacks = [stack.splitlines() for stack in done.stdout.split("\n\n")]
    reading = [stack for stack in stacks if any(" ksys_read" in line for line in stack)]
    assert len(reading) > 100
    for stack in reading:
        inside = [line for line in stack[1:] if "[kernel.kallsyms]" in line or "([" in line]
        assert stack[1] == inside[0]
    report = ["perf", "report", "-i", "perf.data", "--stdio", "--no-children", "--sort", "dso"]
    done = subprocess.run(report, cwd=run.folder, capture_output=True, text=True, check=True)
    assert "[kernel.kallsyms]" in done.stdout or "[kernel]" in done.stdout


@pytest.mark.further
@pytest.mark.needs("plain_build")
@pytest.mark.parametrize(
    "engine",
    ["timer", pytest.param("auto", marks=pytest.mark.once)],  # `timer`, for the ordinary user
)
def test_without_rings_it_is_known_that_it_was_there(
    pyhybrid: Callable[..., Run], engine: str
) -> None:
    """Of system calls; page faults cannot be told."""
    options = ("--no-kernel", "--engine", engine, "--format", "folded")
    run = pyhybrid(*options, "-c", f"SECONDS = 1\n{WORK}")
    profile = run.profile()
    check_invariants(profile)
    assert {f.name for f in profile.frames.values() if f.kind == "kernel"} == {"[kernel]"}
    assert all(len(kernel) <= 1 for _, _, _, kernel in leaves(profile))
    shares = in_kernel(profile, named=False)
    assert shares["reads"] > 0.8, shares
    assert shares["computes"] < 0.05, shares
    report = printed(run.folder, "report")
    assert re.search(r"^ +\d+\.\d% .* \[kernel\]$", report, re.M), report
    python = pyhybrid("report", "--python-only", cwd=run.folder)
    assert "reads" in python.result.stdout
    assert "[kernel]" not in python.result.stdout


@pytest.mark.further
def test_what_waits_is_not_in_the_kernel(pyhybrid: Callable[..., Run]) -> None:
    options = ("--clock", "wall", "--hz", 500, "--format", "folded")
    profile = pyhybrid(*options, "-c", "import time; time.sleep(1)").profile()
    sleeping = [row for row in profile.sampled if row.waits]
    assert sum(row.weight_ns for row in sleeping) > 0.9e9
    assert sum(w for _, w, _, kernel in leaves(profile) if kernel) < 0.05e9


# It computes on one processor and reads on the other, in turns of milliseconds.
TURNS = """
import os, time
file, buffer = open("/dev/zero", "rb", buffering=0), bytearray(1 << 20)
def reads(until):
    while time.thread_time() < until: file.readinto(buffer)
def computes(until):
    while time.thread_time() < until: sum(range(2000))
first, second = sorted(os.sched_getaffinity(0))[:2]
while time.thread_time() < 2:
    os.sched_setaffinity(0, {first}); computes(time.thread_time() + 0.006)
    os.sched_setaffinity(0, {second}); reads(time.thread_time() + 0.006)
"""


@pytest.mark.further
@pytest.mark.needs("root", "plain_build")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_thread_that_moves(pyhybrid: Callable[..., Run], engine: str) -> None:
    options = ("--kernel", "--engine", engine, "--mode", "sample", "--format", "folded")
    profile = pyhybrid(*options, "-c", TURNS).profile()
    check_invariants(profile)
    reads: Counter[tuple[str, bool]] = Counter()
    for samples, _, names in paths(profile):
        for name in {"reads", "computes"} & set(names):
            reads[name, "ksys_read" in names] += samples
    assert reads["computes", True] == 0, reads
    assert reads["reads", True] > 0.6 * (reads["reads", True] + reads["reads", False]), reads


@pytest.mark.further
@pytest.mark.needs("root")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_that_closes_all_and_executes_another(
    pyhybrid: Callable[..., Run], engine: str
) -> None:
    """A ring would keep the event, whose signal would kill the new program."""
    options = ("--kernel", "--engine", engine, "--hz", 3000, "--mode", "sample")
    options += ("--format", "folded")
    program = (
        "import os, sys, time\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: sum(range(1000))\n"
        "os.closerange(3, 70000)\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'print(sum(range(10**7)))'])"
    )
    for _ in range(2):
        run = pyhybrid(*options, "-c", program, check=False)
        assert run.result.returncode == 0
        assert run.result.stdout == f"{sum(range(10**7))}\n"


@pytest.mark.first_cases(1)
@pytest.mark.needs("root")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("files", "threads"), [(64, 9), (128, 20), (4096, 20)])
def test_few_descriptors(tmp_path: Path, engine: str, files: int, threads: int) -> None:
    """An event for each processor of each thread may be too many: then a thread has one."""
    program = """
        import resource, sys, threading, time
        from pyhybrid import Profiler
        engine, files, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        go = threading.Event()
        def work():
            go.wait()
            end = time.thread_time() + 0.03
            with open("/dev/zero", "rb", buffering=0) as file:
                while time.thread_time() < end: file.read(1 << 16)
        pool = [threading.Thread(target=work) for _ in range(threads)]
        for thread in pool: thread.start()
        with Profiler(engine=engine, kernel=True, mode="sample") as p:
            go.set()
            for thread in pool: thread.join()
        ticked = {t.tid: t.recorded_weight_ns for t in p.profile.threads.values()}
        for loss in p.profile.losses:
            ticked[p.profile.threads[loss.thread].tid] += loss.weight_ns
        assert all(ticked[thread.native_id] > 0.02e9 for thread in pool), ticked
        print(p.profile.meta["kernel_mute"])
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(program)]
    done = subprocess.run(
        [*command, engine, str(files), str(threads)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    n_cpus = os.sysconf("SC_NPROCESSORS_CONF")
    enough = engine == "perf_event" or (threads + 1) * n_cpus <= files // 8
    assert (int(done.stdout) == 0) == enough


@pytest.mark.further
@pytest.mark.parametrize("mode", ["trace", "sample"])
def test_wanted_and_not_to_be_had(pyhybrid: Callable[..., Run], mode: str) -> None:
    run = pyhybrid("--kernel", "--engine", "timer", "--mode", mode, "-c", "sum(range(10**6))")
    assert "no frames of the kernel: this clock does not know them" in run.result.stderr
    quality = pyhybrid("report", "quality", cwd=run.folder)
    assert "no frames of it: this clock does not know them" in quality.result.stdout


# Some milliseconds of each in turns; prints the CPU time of each.
IN_AND_OUT = """
import json, mmap, os, sys, time
def computes():
    sum(i * i for i in range(200_000))
def writes():
    for _ in range(3):
        os.lseek(file, 0, 0)
        os.write(file, data)
def stats():
    for _ in range(4_000): os.stat("/")
def faults():
    with mmap.mmap(-1, 6 << 20) as fresh:
        for at in range(0, 6 << 20, 4096): fresh[at] = 1
file, data = os.memfd_create("turns"), bytes(8 << 20)
spent = {}
while time.thread_time() < 3:
    for work in computes, writes, stats, faults:
        began = time.thread_time()
        work()
        spent[work.__name__] = spent.get(work.__name__, 0) + time.thread_time() - began
json.dump(spent, sys.stdout)
"""


@pytest.mark.alone
@pytest.mark.further
@pytest.mark.needs("root")
@pytest.mark.skipif(
    Path("/proc/sys/kernel/perf_event_paranoid").read_text() != "2\n",
    reason="kernel.perf_event_paranoid is not 2, the kernel's default",
)
def test_an_ordinary_users_events_do_not_see_the_kernel_but_its_ticks_do() -> None:
    """Time in the kernel is the call's that made it; and samples are more than ticks."""
    as_user = Path(__file__).parents[2] / "as_user.py"
    ours = [sys.executable, "-P", "-m", "pyhybrid", "--mode", "sample", "-q", "-c", IN_AND_OUT]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        done = subprocess.run(
            [sys.executable, "-P", as_user, "--with-perf-event", *ours],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        with Profile.open(f"{folder}/out.pyhybrid") as profile:
            assert profile.meta["engine"] == "perf_event"
            assert "kernel.perf_event_paranoid" in profile.meta["engine_reason"]
            signals = sum(thread.signals for thread in profile.threads.values())
            found = Counter[str]()
            for row in profile.sampled:
                node = profile.stacks.node[row.stack]
                while node:
                    found[profile.frames[profile.nodes.frame[node]].name] += row.weight_ns
                    node = profile.nodes.parent[node]
    spent = json.loads(done.stdout)
    assert signals > 1.3 * 250 * sum(spent.values())
    for name, seconds in spent.items():
        true = seconds / sum(spent.values())
        sampled = found[name] / sum(found[each] for each in spent)
        assert abs(sampled - true) < 0.1, (name, true, sampled, spent, found)
