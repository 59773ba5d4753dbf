"""Any number of threads, however short they live, by every engine."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import LINUX, PATIENCE_S, Run, native_threads

from pyhybrid.views.findings import findings

pytestmark = pytest.mark.engine


def run(folder: Path, program: str, *arguments: object) -> Any:
    """What it prints, which is JSON."""
    command = [sys.executable, "-P", "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SLOW = [
    pytest.param(options, marks=pytest.mark.slow)
    for options in ({"engine": "timer"}, {"clock": "wall"})
]


@pytest.mark.further
@pytest.mark.parametrize("options", [*SLOW, {"engine": "auto"}])
def test_threads_that_end_while_it_starts(tmp_path: Path, options: dict[str, str]) -> None:
    """A thread that has ended since it was seen can have no clock, which is no failure."""
    program = """
        import _thread, json, sys, threading
        from pyhybrid import Profiler
        done, starts = False, threading.Event()
        def spawn():
            while starts.wait() and not done:
                try: _thread.start_new_thread(int, ())
                except RuntimeError: pass
        for _ in range(2): threading.Thread(target=spawn).start()
        try:
            for _ in range(5):
                p = Profiler(mode="sample", **json.loads(sys.argv[1]))
                starts.set()
                p.start()
                starts.clear()
                p.stop()
        finally:
            done = True
            starts.set()
        print("null")
    """
    run(tmp_path, program, json.dumps(options))


MANY = """
    import json, resource, sys, threading, time
    from pyhybrid import Profiler
    engine, before, later = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    go = threading.Event()
    def work():
        go.wait()
        end = time.thread_time() + 0.04
        while time.thread_time() < end: pass
    def begin(n):
        new = [threading.Thread(target=work, daemon=True) for _ in range(n)]
        for thread in new: thread.start()
        return new
    pool = begin(before)
    with Profiler(engine=engine, mode="sample") as p:
        pool += begin(later)
        go.set()
        for thread in pool: thread.join()
    profile = p.profile
    known = {t.tid: t.recorded_weight_ns for t in profile.threads.values()}
    for loss in profile.losses: known[profile.threads[loss.thread].tid] += loss.weight_ns
    print(json.dumps({
        "engine": profile.meta["engine"], "reason": profile.meta["engine_reason"],
        "sampled": sum(known[thread.native_id] > 0 for thread in pool) / len(pool),
    }))
"""


@pytest.mark.further
@pytest.mark.parametrize(
    ("before", "later"), [(80, 0), pytest.param(10, 80, marks=pytest.mark.slow)]
)
def test_more_threads_than_descriptors_for_events(tmp_path: Path, before: int, later: int) -> None:
    """Of 256 descriptors a quarter may be events: the other threads have timers."""
    told = run(tmp_path, MANY, "auto", before, later)
    assert told["sampled"] > 0.9  # timers tick with the kernel, 100 times a second or more
    if before == 80:
        assert told["engine"] == "timer"
        assert "not permitted" in told["reason"] or "more threads than file" in told["reason"]


@pytest.mark.further
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("before", "later"), [pytest.param(80, 0, marks=pytest.mark.slow), (10, 80)]
)
def test_events_for_some_threads_timers_for_others(tmp_path: Path, before: int, later: int) -> None:
    told = run(tmp_path, MANY, "perf_event", before, later)
    assert told["engine"] == "perf_event"
    assert told["sampled"] > 0.9  # timers tick with the kernel, 100 times a second or more


@pytest.mark.further
@pytest.mark.needs("root")
@pytest.mark.skipif(LINUX < (6, 15), reason="sigtrap needs Linux 6.15")
def test_some_events_for_each_processor_are_no_reason_for_too_few(tmp_path: Path) -> None:
    told = run(tmp_path, MANY, "auto", 50, 10)
    assert told["engine"] == "sigtrap"
    assert told["sampled"] > 0.9  # timers tick with the kernel, 100 times a second or more


@pytest.mark.further
def test_a_moment_without_timers(tmp_path: Path) -> None:
    """A thread that could have no clock when it began gets one when it has run for a while."""
    program = """
        import json, resource, threading, time
        from pyhybrid import Profiler
        before = resource.getrlimit(resource.RLIMIT_SIGPENDING)
        began, went_on = threading.Event(), threading.Event()
        def burn(seconds):
            end = time.thread_time() + seconds
            while time.thread_time() < end: pass
        def work():
            burn(0.1)
            began.set()
            went_on.wait()
            burn(2)
        with Profiler(engine="timer", mode="sample") as p:
            resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, before[1]))
            thread = threading.Thread(target=work)
            thread.start()
            began.wait()
            resource.setrlimit(resource.RLIMIT_SIGPENDING, before)
            went_on.set()
            thread.join()
        (found,) = (t for t in p.profile.threads.values() if t.tid == thread.native_id)
        lost_ns = sum(each.weight_ns for each in p.profile.losses if each.thread == found.id)
        print(json.dumps([found.recorded_weight_ns + lost_ns, found.missed_weight_ns]))
    """
    recorded_ns, missed_ns = run(tmp_path, program)
    assert recorded_ns > 1e9
    assert missed_ns > 0.05e9
    assert abs(recorded_ns + missed_ns - 2.1e9) < 0.05e9


@pytest.mark.further
@pytest.mark.needs("root")
def test_a_moment_without_descriptors(tmp_path: Path) -> None:
    """A timer needs none."""
    program = """
        import json, os, resource, threading, time
        from pyhybrid import Profiler
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        def burn():
            end = time.thread_time() + 1  # the collector may see it late
            while time.thread_time() < end: pass
        with Profiler(engine="perf_event", mode="sample") as p:
            taken = []
            try:
                while True: taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
            thread = threading.Thread(target=burn)
            thread.start()
            thread.join()
            for each in taken: os.close(each)
        (found,) = (t for t in p.profile.threads.values() if t.tid == thread.native_id)
        print(json.dumps(found.recorded_weight_ns))
    """
    assert run(tmp_path, program) > 0.5e9


def test_the_main_thread_may_end_before_others(tmp_path: Path) -> None:
    """Then its number is still the process's, and has no memory."""
    program = """
        import ctypes, json, os, threading, time
        from pyhybrid import Profiler
        main = threading.get_native_id()
        def gone():
            with open(f"/proc/self/task/{main}/stat") as file: return file.read().split()[2] == "Z"
        def inner():
            end = time.thread_time() + 0.5
            while time.thread_time() < end: pass
        def late():
            with Profiler(mode="sample") as p:
                started.set()
                while not gone(): time.sleep(0.001)
                inner()
            profile, whole, all_ns = p.profile, 0, 0
            for row in profile.sampled:
                names, node = set(), profile.stacks.node[row.stack]
                while node:
                    names.add(profile.frames[profile.nodes.frame[node]].name)
                    node = profile.nodes.parent[node]
                all_ns += row.weight_ns
                whole += row.weight_ns * ({"late", "inner"} <= names and "[truncated]" not in names)
            print(json.dumps([whole, all_ns]), flush=True)
            os._exit(0)
        started = threading.Event()
        threading.Thread(target=late).start()
        started.wait()
        ctypes.CDLL(None).pthread_exit(None)
    """
    whole_ns, all_ns = run(tmp_path, program)
    assert whole_ns > 0.9 * all_ns > 0.3e9


@pytest.mark.further
@pytest.mark.parametrize("mode", ["sample", "trace", "hybrid"])
def test_a_thread_is_one_however_late_the_collector_sees_it(tmp_path: Path, mode: str) -> None:
    """It waits for the loader's lock, as for a processor: threads come, and some go, meanwhile."""
    program = """
        import collections, ctypes, json, sys, threading, time
        from pyhybrid import Profiler
        CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        here, go = threading.Semaphore(0), threading.Event()
        def live():
            here.release()
            go.wait()
        def pass_by(): pass
        pool = []
        @CALLBACK
        def with_lock(info, size, data):
            time.sleep(0.2)  # it wakes up, and waits
            for n in range(40):
                pool.append(threading.Thread(target=live if n % 2 else pass_by))
                pool[-1].start()
            for n in range(20): here.acquire()
            for thread in pool[::2]: thread.join()
            time.sleep(1.2)
            return 1
        with Profiler(mode=sys.argv[1]) as p:
            ctypes.CDLL(None).dl_iterate_phdr(with_lock, None)
            while len(pool) < 80:  # more that have ended would be one row
                pool.append(threading.Thread(target=pass_by))
                pool[-1].start()
            go.set()
            for thread in pool: thread.join()
        threads = p.profile.threads.values()
        traced = {p.profile.threads[row.thread].tid for row in p.profile.exact}
        print(json.dumps([
            sorted(t.tid for t in threads), sorted(t.native_id for t in pool), sorted(traced),
            threading.get_native_id(),
        ]))
    """
    found, made, traced, main = run(tmp_path, program, mode)
    if mode != "sample":
        assert found == sorted([*made, main])
        assert set(traced) == set(found)
    assert set(found) <= {*made, main}  # a sampler need not see a thread that came and went
    assert len(set(found)) == len(found)


ALIVE = """
    import json, sys, threading, time
    from pyhybrid import Profiler
    mode, engine, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    threading.stack_size(128 * 1024)
    here, go = threading.Semaphore(0), threading.Event()
    def add(x): return x + 1
    def work():
        end, x = time.thread_time() + 0.003, 0
        while time.thread_time() < end: x = add(x)
        here.release()
        go.wait()
    def resident():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    def run():
        before = resident()
        pool = [threading.Thread(target=work) for _ in range(n)]
        for thread in pool: thread.start()
        for thread in pool: here.acquire()
        time.sleep(0.2)  # the collector's part
        took = (resident() - before) / n
        go.set()
        for thread in pool: thread.join()
        return took
    if mode == "bare":
        took, threads = run(), n + 1
    else:
        with Profiler(mode=mode, engine=engine) as p: took = run()
        threads = len(p.profile.threads)
    print(json.dumps([took, threads]))
"""


N_ALIVE = 250  # what is for all of them is little beside that


@functools.cache
def bare_kb(folder: Path) -> float:
    kb, _ = run(folder, ALIVE, "bare", "none", N_ALIVE)
    return float(kb)


@pytest.mark.further
@pytest.mark.parametrize(
    "engine",
    [pytest.param("auto", marks=pytest.mark.once), "timer"],  # `timer`, for the ordinary user
)
def test_memory_of_a_thread(tmp_path: Path, engine: str) -> None:
    """Resident, with some samples each, beyond what it has without a profiler."""
    hybrid_kb, threads = run(tmp_path, ALIVE, "hybrid", engine, N_ALIVE)
    assert hybrid_kb - bare_kb(tmp_path.parent) < 64, (hybrid_kb, bare_kb(tmp_path.parent))
    assert threads == N_ALIVE + 1


@pytest.mark.slow
def test_there_is_no_bound_of_threads(tmp_path: Path) -> None:
    _, threads = run(tmp_path, ALIVE, "hybrid", "timer", 4200)
    assert threads == 4201


SHORT = """
    import json, random, sys, threading, time
    import pyhybrid
    from pyhybrid import Profiler
    engine, mode = sys.argv[1:3]
    about = random.Random(1).uniform  # turns of one length may run in step with the kernel's ticks
    lengths, each = map(json.loads, sys.argv[3:])
    spent = {}
    def burn(name, seconds):
        begun = now = time.thread_time()
        while now < begun + seconds: now = time.thread_time()
        spent[name] = spent.get(name, 0) + now - begun
    def function_of(name):
        space = {"burn": burn}
        exec(f"def {name}(seconds): burn({name!r}, seconds)", space)
        return space[name]
    functions = {ms: function_of(f"of_{n}") for n, ms in enumerate(lengths)}
    background, between = map(function_of, ("background", "between"))
    with Profiler(engine=engine, mode=mode) as p:
        background(each)
        for n, (ms, function) in enumerate(functions.items(), 1):
            for _ in range(int(each / ms * 1000)):
                thread = threading.Thread(target=function, args=(about(0.5, 1.5) * ms / 1000,))
                thread.start()
                thread.join()
                if spent.get("between", 0) < each * n / len(functions):
                    between(about(0.5, 1.5) * ms / 1000)
    profile, found = p.profile, dict.fromkeys(spent, 0)
    for row in profile.sampled:
        node = profile.stacks.node[row.stack]
        while node:
            name = profile.frames[profile.nodes.frame[node]].name
            if name in found:
                found[name] += row.weight_ns / 1e9
                break
            node = profile.nodes.parent[node]
    threads = profile.threads.values()
    known = sum(t.recorded_weight_ns + t.missed_weight_ns for t in threads)
    known += sum(loss.weight_ns for loss in profile.losses)
    totals = known, profile.meta["unaccounted_ns"], profile.process.cpu_ns
    print(json.dumps([spent, found, *(ns / 1e9 for ns in totals)]))
"""


MANY_THREADS = pytest.mark.long("starts 76,000 threads, for errors as small as its bounds")
ALL_LENGTHS = (0.1, 0.2, 0.4, 1, 2, 10)


# Where processors are short a tick meets those that wait for one less often than by chance.
@pytest.mark.alone
@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("engine", "mode", "lengths", "seconds", "points"),
    [
        ("auto", "hybrid", (0.4,), 1.2, 8),
        pytest.param("timer", "sample", (0.4,), 1.2, 8, marks=pytest.mark.once),
        *(
            pytest.param(
                engine, mode, lengths, 4, 5, marks=[pytest.mark.slow, MANY_THREADS, *marks]
            )
            for engine, lengths, marks in (
                ("auto", ALL_LENGTHS, ()),
                ("timer", ALL_LENGTHS, ()),
                # A change of threads takes 30 us more, in which ticks wait for the next thread.
                ("perf_event", ALL_LENGTHS[2:], (pytest.mark.needs("root"),)),
            )
            for mode in ("hybrid", "sample")
        ),
    ],
)
def test_threads_have_their_share_however_short_they_are(
    tmp_path: Path, engine: str, mode: str, lengths: tuple[float, ...], seconds: float, points: int
) -> None:
    """Beside a function of a thread that lives on, and what runs in the main one between them.

    `points`: five standard errors of a share.
    """
    spent, found, known, unaccounted, process = run(
        tmp_path, SHORT, engine, mode, json.dumps(lengths), seconds
    )
    assert abs(found["background"] / spent["background"] - 1) < 0.1
    for name in spent.keys() - {"background"}:
        true, sampled = (
            100 * each[name] / (each[name] + each["background"]) for each in (spent, found)
        )
        assert abs(sampled - true) < points, (name, true, sampled, spent, found)
    # What no sample stands for is known, but for what the collector took.
    assert 0.7 * process < known + unaccounted < 1.02 * process


@pytest.mark.further
def test_short_threads_that_no_tick_can_meet_are_said(
    tmp_path: Path, pyhybrid: Callable[..., Run]
) -> None:
    """Of native code, too short for a clock: the summary has their CPU time, and a finding."""
    library = native_threads(tmp_path)
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).in_threads(1200, 300))"
    run = pyhybrid("--mode", "sample", "--format", "folded", "-c", code)
    profile = run.profile()
    missing_ns = profile.meta["unaccounted_ns"]
    assert 0.25e9 < missing_ns < (profile.process.cpu_ns or 0)
    assert re.search(r"found .* s, is in no thread's\s+samples: shares are of", run.result.stderr)
    assert "[signals blocked]" not in run.result.stderr  # pthread_create does so for a moment
    assert any(found.rule == "unaccounted" for found in findings(profile))


PAUSES = """
    import json, sys, threading, time
    from pyhybrid import Profiler
    def work(ms, number):
        name, space = f"a_function_with_a_name_of_its_own_{number}", {"time": time}
        exec(f"def {name}(end):\\n    while time.thread_time() < end: sum(range(50))\\n", space)
        space[name](ms / 1000)
    engine, mode = sys.argv[1:]
    p = Profiler(engine=engine, mode=mode, hz=9999, formats=())
    p.start()
    for first in range(0, 600, 6):
        threads = [threading.Thread(target=work, args=(ms, first + ms)) for ms in range(1, 7)]
        for thread in threads: thread.start()
        p.pause()
        p.resume()
        for thread in threads: thread.join()
    p.stop()
    threads = p.profile.threads.values()
    lost = sum(loss.samples for loss in p.profile.losses)
    found = {frame.name for frame in p.profile.frames.values()}
    known = sum(f"a_function_with_a_name_of_its_own_{n}" in found for n in range(1, 601))
    unknown = sum(t.signals for t in threads) - sum(t.recorded for t in threads) - lost
    print(json.dumps([unknown, known]))
"""


@pytest.mark.further
@pytest.mark.parametrize("mode", ["hybrid", "sample"])
@pytest.mark.parametrize("engine", ["auto", "timer"])
def test_pauses_while_threads_are_young(tmp_path: Path, engine: str, mode: str) -> None:
    """A tick's sample that is held back lies where the thread's next record comes."""
    unknown, known = run(tmp_path, PAUSES, engine, mode)
    assert unknown == 0
    assert known > 150  # of 600 functions that ran for 1 to 6 ms, where ticks alone are 4 ms apart
