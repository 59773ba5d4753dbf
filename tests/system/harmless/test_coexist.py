"""Other tools that watch the program, and what the program does with threads, signals and forks:
it behaves as without us, and our counts stay right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import MODES, check_exact, of_function
from support import PATIENCE_S, Run

from pyhybrid.tables.profile import Profile

pytestmark = [pytest.mark.version, pytest.mark.once]

# What is counted while the other tool is at work: 100 times `leaf` in 10 times `middle`, and a
# generator's 12 turns (one call, ten resumes, and the last one, which ends it).
WORK = """\
def leaf(n):
    return n + 1
def middle(n):
    return sum(leaf(i) for i in range(n))
def turns():
    for i in range(11):
        yield i
def raises():
    raise KeyError
def work():
    total = sum(turns())
    for i in range(10):
        total += middle(10)
    try:
        raises()
    except KeyError:
        total += 1
    return total
"""


def check_work(profile: Profile, times: int = 1) -> None:
    check_exact(profile)
    expected = {
        "leaf": (100, 0, 0),
        "middle": (10, 0, 0),
        "turns": (1, 11, 0),
        "raises": (1, 0, 1),
        "work": (1, 0, 0),
    }
    for name, counts in expected.items():
        rows = of_function(profile, name)
        found = [sum(getattr(r, key) for r in rows) for key in ("calls", "resumes", "raised")]
        assert found == [times * n for n in counts], name


def without_launcher(text: str) -> str:
    """Without the lines on what calls the program: in stacks that go down to the thread's root our
    frames are seen."""
    launcher = re.compile(r"runpy|pyhybrid/(__main__|cli/__init__|capture/run_program)\.py")
    return "\n".join(line for line in text.splitlines() if not launcher.search(line))


@pytest.fixture(params=MODES)
def same(
    pyhybrid: Callable[..., Run], request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[..., Profile]:
    """same(program, input=None, env=None): the profile of a program that prints and ends as it does
    without us."""

    def run(program: str, input: str | None = None, env: dict[str, str] | None = None) -> Profile:
        file = tmp_path / "program.py"
        file.write_text(WORK + textwrap.dedent(program))
        options = ("-q", "--format", "pstats", "--mode", request.param)
        profiled = pyhybrid(*options, file, check=False, input=input, env=env)
        ours = profiled.result
        alone = subprocess.run(
            [sys.executable, "-P", file],
            input=input or "",
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ours.returncode == alone.returncode, ours.stderr
        assert without_launcher(ours.stdout) == without_launcher(alone.stdout)
        assert ours.stderr == alone.stderr
        return profiled.profile()

    return run


Same = Callable[..., Profile]


# --- other tools --------------------------------------------------------------------------------


def test_faulthandler(same: Same) -> None:
    profile = same("""
        import faulthandler, sys, threading
        faulthandler.enable()
        def deep(n):
            if n:
                return deep(n - 1)
            faulthandler.dump_traceback(sys.stdout.fileno(), all_threads=False)
            return work()
        print(deep(5), flush=True)
        faulthandler.dump_traceback_later(60)
        faulthandler.cancel_dump_traceback_later()
    """)
    check_work(profile)


@pytest.mark.further
def test_faulthandler_reports_a_crash(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    code = "import faulthandler; faulthandler._sigsegv()"
    options = ["-X", "faulthandler"]
    alone = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True)
    ours = subprocess.run(
        [sys.executable, "-P", *options, "-m", "pyhybrid", "--mode", "trace", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ours.returncode == alone.returncode
    for line in alone.stderr.splitlines()[:4]:
        if "most recent" not in line:
            assert line in ours.stderr


@pytest.mark.further
def test_pdb(same: Same) -> None:
    # Not `set_trace`: on 3.13 its first stop is a line later as soon as any tool of sys.monitoring
    # has global events, ours or another.
    profile = same(
        """
        import pdb
        def watched(n):
            a = n * 2
            b = leaf_of_mine(a)
            return a + b
        def leaf_of_mine(n):
            return n + 1
        debugger = pdb.Pdb(nosigint=True, readrc=False)
        print(debugger.runcall(watched, 3))
        print(watched(4))
        """,
        input="break leaf_of_mine\nnext\ncontinue\np n\nup\np a\nstep\nnext\nnext\n"
        "clear 1\ncontinue\n",
    )
    check_exact(profile)
    for name in ("watched", "leaf_of_mine"):
        assert sum(row.calls for row in of_function(profile, name)) == 2


@pytest.mark.further
def test_a_trace_function(same: Same) -> None:
    profile = same("""
        import sys
        from collections import Counter
        seen = Counter()
        def trace(frame, event, arg):
            seen[frame.f_code.co_name, event, frame.f_lineno] += 1
            return trace
        sys.settrace(trace)
        total = work()
        sys.settrace(None)
        print(total, sorted(seen.items()))
    """)
    check_work(profile)


@pytest.mark.further
def test_a_profile_function(same: Same) -> None:
    profile = same("""
        import sys, threading
        from collections import Counter
        seen = Counter()
        def observe(frame, event, arg):
            seen[frame.f_code.co_name, event] += 1
        sys.setprofile(observe)
        total = work()
        sys.setprofile(None)
        print(total, sorted(seen.items()))
    """)
    check_work(profile)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("core", ["ctrace", "sysmon", "pytrace"])
def test_coverage(same: Same, core: str) -> None:
    profile = same(
        """
        import coverage
        measure = coverage.Coverage(data_file=None, branch=False, include=[__file__])
        measure.start()
        def here():
            if work() < 0:
                return 1
            return 2
        here()
        measure.stop()
        data = measure.get_data()
        print({len(data.lines(name)): sorted(data.lines(name)) for name in data.measured_files()})
        print(measure.analysis2(__file__)[3])
        """,
        env={"COVERAGE_CORE": core},
    )
    check_work(profile)


@pytest.mark.further
def test_cprofile(same: Same) -> None:
    profile = same(
        """
        import cProfile
        profile = cProfile.Profile()
        profile.enable()
        work()
        profile.disable()
        profile.create_stats()
        names = ("leaf", "middle", "turns", "raises", "work", "<genexpr>")
        print(sorted((k[2], v[:2]) for k, v in profile.stats.items() if k[2] in names))
        profile.runcall(work)
    """
    )
    check_work(profile, 2)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("tool_id", range(6))
def test_another_tool_of_sys_monitoring(same: Same, tool_id: int) -> None:
    """With our events and others, switched off at places and on again; on an id of its own.

    The program asks who has an id, as any tool should.
    """
    profile = same(f"""
        import sys
        from collections import Counter
        m = sys.monitoring
        seen = Counter()
        wanted = {tool_id}
        if m.get_tool(wanted) == "pyhybrid":
            wanted = next(i for i in range(6) if m.get_tool(i) is None)
        m.use_tool_id(wanted, "another")
        def on(name, result=None):
            def callback(code, *rest):
                if code.co_filename == __file__ and not code.co_name.startswith(("on", "call")):
                    seen[name, code.co_name] += 1
                return result
            return callback
        E = m.events
        names = "PY_START PY_RESUME PY_THROW PY_RETURN PY_YIELD PY_UNWIND RAISE CALL".split()
        for name in names:
            m.register_callback(wanted, getattr(E, name), on(name))
        m.register_callback(wanted, E.LINE, on("LINE", m.DISABLE))
        m.set_events(wanted, sum(getattr(E, name) for name in names) | E.LINE)
        work()
        m.restart_events()
        work()
        m.register_callback(wanted, E.PY_START, on("PY_START", m.DISABLE))
        m.register_callback(wanted, E.PY_RETURN, on("PY_RETURN", m.DISABLE))
        work()
        m.set_events(wanted, 0)
        m.set_local_events(wanted, leaf.__code__, E.PY_START)
        m.restart_events()
        work()
        m.set_local_events(wanted, leaf.__code__, 0)
        work()
        m.free_tool_id(wanted)
        print(sorted(seen.items()))
    """)
    check_work(profile, 5)


@pytest.mark.further
def test_an_exception_from_another_tools_callback(same: Same) -> None:
    """It goes to the program, whose function then ends without having begun for us, or begins."""
    profile = same("""
        import sys
        m = sys.monitoring
        def callback(code, *rest):
            if code is leaf.__code__:
                raise ValueError("from the callback")
        for tool_id in (0, 5):
            m.use_tool_id(tool_id, "another")
            for event in (m.events.PY_START, m.events.PY_RETURN):
                m.register_callback(tool_id, event, callback)
                m.set_events(tool_id, event)
                for i in range(3):
                    try:
                        print(middle(3))
                    except ValueError as error:
                        print(error)
                m.set_events(tool_id, 0)
            m.free_tool_id(tool_id)
        print(work())
    """)
    check_exact(profile)
    assert sum(row.calls for row in of_function(profile, "middle")) == 4 * 3 + 10
    nodes, frames = profile.nodes, profile.frames
    for row in of_function(profile, "middle"):
        above = nodes.parent[row.node]
        while frames[nodes.frame[above]].kind != "python":
            above = nodes.parent[above]
        assert frames[nodes.frame[above]].name in ("work", "<module>")


def test_no_tool_id_is_free(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Then what is left is done: samples; or nothing, and the program runs; unless --strict."""
    customize = "import sys\nfor i in range(6): sys.monitoring.use_tool_id(i, 'another')\n"
    (tmp_path / "sitecustomize.py").write_text(customize)
    path = {"PYTHONPATH": str(tmp_path)}
    options = "--format", "folded", "-c", "print(1)"
    reason = "pyhybrid: cannot start: no tool id of sys.monitoring is free"

    done = pyhybrid("--strict", *options, check=False, env=path).result
    assert (done.returncode, done.stdout) == (1, "")
    assert [line.startswith(reason) for line in done.stderr.splitlines()] == [True]
    assert not list(tmp_path.glob("out*"))

    done = pyhybrid("--mode", "trace", *options, env=path).result
    assert done.stdout == "1\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith(reason) and line.endswith(": the program runs without a profile")
    assert not list(tmp_path.glob("out*"))

    run = pyhybrid("-q", *options, env=path)
    assert run.result.stdout == "1\n"
    (line,) = run.result.stderr.splitlines()
    assert line.startswith(reason) and line.endswith("sampled, calls are not counted")
    assert run.profile().meta["mode"] == "sample"


@pytest.mark.further
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("taken", [(4,), (3, 4), (2, 4), (2, 3)])
def test_some_tool_ids_are_taken(
    pyhybrid: Callable[..., Run], taken: tuple[int, ...], mode: str, tmp_path: Path
) -> None:
    customize = f"import sys\nfor i in {taken}: sys.monitoring.use_tool_id(i, 'another')\n"
    (tmp_path / "sitecustomize.py").write_text(customize)
    (tmp_path / "program.py").write_text(WORK + "work()\n")
    options = ("-q", "--format", "pstats", "--mode", mode)
    profile = pyhybrid(*options, "program.py", env={"PYTHONPATH": str(tmp_path)}).profile()
    assert profile.meta["tool_id"] in {2, 3, 4} - set(taken)
    check_work(profile)


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_torch_compile(same: Same) -> None:
    profile = same("""
        import logging, warnings
        warnings.simplefilter("ignore")
        import torch
        torch._logging.set_logs(dynamo=logging.ERROR)
        def helper(x):
            return x.sin() + 1
        def f(x):
            for i in range(3):
                x = helper(x) * i
            return x
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        x = torch.arange(4.0)
        print(torch.equal(compiled(x), f(x)), torch.equal(compiled(x + 1), f(x + 1)))
        explained = torch._dynamo.explain(f)(x)
        print(explained.graph_count, explained.graph_break_count)
        work()
    """)
    check_work(profile)


# --- what programs do ---------------------------------------------------------------------------


@pytest.mark.further
def test_recursion_as_deep_as_without_us(same: Same) -> None:
    profile = same("""
        import sys
        def direct(n):
            try:
                return direct(n + 1)
            except RecursionError:
                return n
        def generator(n):
            try:
                return (yield from generator(n + 1))
            except RecursionError:
                return n
        def depth_of_generators():
            try:
                next(generator(0))
            except StopIteration as end:
                return end.value
        for limit in (200, 1000, 3000):
            sys.setrecursionlimit(limit)
            print(direct(0), depth_of_generators())
        print(work())
    """)
    check_work(profile)


@pytest.mark.further
def test_recursion_through_c_as_deep_as_without_us(same: Same) -> None:
    profile = same("""
        import sys, threading
        sys.setrecursionlimit(100_000)
        def through_map(n):
            try:
                return list(map(through_map, [n + 1]))[0]
            except RecursionError:
                return n
        if sys.version_info < (3, 14):
            print(through_map(0))
        else:  # as deep as the C stack goes: that of a thread has always the same size
            threading.stack_size(32 << 20)
            depths = []
            thread = threading.Thread(target=lambda: depths.append(through_map(0)))
            thread.start()
            thread.join()
            with open("depths", "a+") as file:
                print(*depths, file=file, flush=True)
                file.seek(0)
                depths = [int(line) for line in file]
            print("about as deep" if max(depths) - min(depths) <= 10 else depths)
        print(work())
    """)
    check_work(profile)


def test_greenlets(same: Same) -> None:
    profile = same("""
        import greenlet
        def ping(n):
            total = 0
            for i in range(n):
                total += leaf(i)
                total += other.switch(i) or 0
                total += sum(map(back_and_forth, range(3)))
            return total
        def back_and_forth(i):
            return other.switch(i) or 0
        def pong(first):
            got = first
            while True:
                work()
                got = main.switch(leaf(got))
        main = greenlet.getcurrent()
        other = greenlet.greenlet(pong)
        print(ping(50))
        many = [greenlet.greenlet(lambda i=i: sum(turns()) + i) for i in range(20)]
        print([g.switch() for g in many])
    """)
    check_exact(profile)
    # 200 switches to the other greenlet, each of which works once.
    calls = {name: sum(r.calls for r in of_function(profile, name)) for name in ("work", "ping")}
    assert calls == {"work": 200, "ping": 1}


@pytest.mark.further
def test_threads_and_signals(same: Same) -> None:
    profile = same("""
        import signal, threading
        fired = 0
        def handler(number, frame):
            global fired
            fired += 1
            middle(3)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        def in_thread():
            for i in range(20):
                work()
        threads = [threading.Thread(target=in_thread) for _ in range(4)]
        for thread in threads:
            thread.start()
        work_of_main = work()
        while fired < 50:
            work_of_main = work()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for thread in threads:
            thread.join()
        print(fired >= 50, work_of_main)
    """)
    check_exact(profile)
    counts = {
        name: sum(row.calls for row in of_function(profile, name))
        for name in ("work", "turns", "raises", "handler", "in_thread", "middle")
    }
    assert counts["work"] == counts["turns"] == counts["raises"] >= 80
    assert counts["in_thread"] == 4
    assert counts["handler"] >= 50
    assert counts["middle"] == counts["handler"] + 10 * counts["work"]
    below: dict[str, int] = {}
    nodes, frames = profile.nodes, profile.frames
    for row in of_function(profile, "middle"):
        above = nodes.parent[row.node]
        while frames[nodes.frame[above]].kind != "python":
            above = nodes.parent[above]
        name = frames[nodes.frame[above]].name
        below[name] = below.get(name, 0) + row.calls
    assert below == {"work": 10 * counts["work"], "handler": counts["handler"]}


@pytest.mark.further
def test_callbacks_of_the_garbage_collector(same: Same) -> None:
    profile = same("""
        import gc
        phases = []
        def callback(phase, info):
            phases.append(phase)
            leaf(1)
        class Cycle:
            def __init__(self):
                self.me = self
            def __del__(self):
                finalized.append(sum(turns()))
        finalized = []
        gc.collect()
        gc.callbacks.append(callback)
        for i in range(50):
            Cycle()
            gc.collect()
        gc.callbacks.remove(callback)
        print(len(finalized), set(finalized), phases.count("start") == phases.count("stop") >= 50)
    """)
    check_exact(profile)
    assert sum(row.calls for row in of_function(profile, "turns")) == 50
    called = sum(row.calls for row in of_function(profile, "callback"))
    assert called == sum(row.calls for row in of_function(profile, "leaf")) >= 100


def test_fork(same: Same) -> None:
    """The child goes on, with threads of its own; its calls are in the profile, too."""
    profile = same("""
        import os, sys, threading
        def child():
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return work()
        for way in ("exit", "_exit", "raise"):
            sys.stdout.flush()
            pid = os.fork()
            if not pid:
                total = child()
                if way == "exit":
                    sys.exit(total % 100)
                if way == "raise":
                    sys.stderr = None
                    raise KeyError(total)
                os._exit(total % 100)
            print(way, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(work())
    """)
    check_work(profile, times=1 + 3 * 4)


# Another process traces the thread, and does not ask for its end: so the kernel keeps it.
A_THREAD_THAT_ENDS = """
import ctypes, os, subprocess, sys, threading, time
TRACER = '''
import ctypes, sys
print(ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None), flush=True)  # PTRACE_SEIZE
sys.stdin.read()
'''
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # PR_SET_PTRACER, anyone
may_end = threading.Event()
thread = threading.Thread(target=may_end.wait)
thread.start()
kept = thread.native_id
command = [sys.executable, "-c", TRACER, str(kept)]
tracer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert int(tracer.stdout.readline()) == 0
may_end.set()
thread.join()
while open(f"/proc/self/task/{kept}/stat").read().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.01)
child = os.fork()
if not child:
    os._exit(0)
print(os.waitpid(child, 0)[1])
tracer.communicate()
"""


@pytest.mark.further
def test_fork_while_the_kernel_takes_a_thread_down(pyhybrid: Callable[..., Run]) -> None:
    """It keeps one for longer than without us: nobody is warned of a thread that was joined."""
    run = pyhybrid("-q", "--format", "pstats", "--mode", "trace", "-c", A_THREAD_THAT_ENDS)
    assert (run.result.stdout, run.result.stderr) == ("0\n", "")


# A signal that is pending when the program forks is the program's to hear, after the fork.
A_TIMEOUT_AT_A_FORK = """
import ctypes, functools, os, signal, threading
class Timeout(Exception): pass
def handler(*_): raise Timeout
signal.signal(signal.SIGALRM, handler)
# The callbacks before a fork are called in reverse order: this one, which runs no bytecode, first.
os.register_at_fork(before=functools.partial(ctypes.CDLL(None)["raise"], signal.SIGALRM))
told = threading.Event()
threads = [threading.Thread(target=told.wait) for _ in range(THREADS)]
for thread in threads: thread.start()
heard = 0
for _ in range(3):
    try:
        child = os.fork()
        if not child: os._exit(0)
        os.waitpid(child, 0)
    except Timeout:
        heard += 1
        os.wait()
told.set()
print(heard)
"""


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("threads", [0, 3])
def test_a_handler_raises_in_the_program_though_it_forks(
    pyhybrid: Callable[..., Run], threads: int
) -> None:
    program = A_TIMEOUT_AT_A_FORK.replace("THREADS", str(threads))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    run = pyhybrid("-q", "--format", "pstats", "-c", program, env={"PYTHONWARNINGS": "ignore"})
    assert (run.result.stdout, run.result.stderr) == (done.stdout, done.stderr) == ("3\n", "")


# A library whose thread ends before a fork, as OpenBLAS's do; another one's begins again after it.
ITS_THREADS = """
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>
static pthread_t thread;
static int pipes[2];
static void *wait_for_end(void *unused) { char c; return read(pipes[0], &c, 1) < 0 ? unused : 0; }
static void start(void) { pthread_create(&thread, 0, wait_for_end, 0); }
static void end(void) { if (write(pipes[1], "", 1) == 1) pthread_join(thread, 0); }
void begin(bool again) { if (!pipe(pipes)) start(); pthread_atfork(end, again ? start : 0, 0); }
"""


@pytest.fixture(scope="module")
def its_threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("its_threads") / "lib.so"
    command = ["gcc", "-shared", "-fPIC", "-pthread", "-xc", "-", "-o", library]
    subprocess.run(command, input=ITS_THREADS, text=True, check=True)
    return library


# Where warnings are shown: how often, with what is under way at the fork.
FORKS_WITH = {
    "no thread": ("", 0),
    "a thread": ("threading.Thread(target=told.wait).start()", 1),
    "a copy of the filters": ("fork(); warnings.catch_warnings().__enter__(); start()", 1),
    "a main thread that has ended": ("last(); ctypes.CDLL(None).pthread_exit(None)", 1),
    "a library's that ends before": ("library.begin(False)", 0),
    "a library's that begins again": ("library.begin(True)", 1),
    "a library's, and another thread": ("library.begin(False); start()", 1),
}


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("what", FORKS_WITH)
def test_who_has_threads_is_warned_at_a_fork(
    pyhybrid: Callable[..., Run], its_threads: Path, what: str
) -> None:
    doing, n = FORKS_WITH[what]
    program = f"""
import ctypes, os, sys, threading, time, warnings
warnings.simplefilter("always")
library = ctypes.CDLL({str(its_threads)!r})
told = threading.Event()
def start(): threading.Thread(target=told.wait).start()
def fork():
    child = os.fork()
    if not child: os._exit(0)
    os.waitpid(child, 0)
def last():
    def work():
        leader = f"/proc/self/task/{{os.getpid()}}/stat"
        while open(leader).read().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        fork()
        sys.stderr.flush()
        os._exit(0)
    threading.Thread(target=work).start()
{doing}
fork()
told.set()
"""
    said = "is multi-threaded, use of fork()"
    command = [sys.executable, "-c", program]
    bare = subprocess.run(command, capture_output=True, text=True, check=True)
    assert bare.stderr.count(said) == n
    run = pyhybrid("-q", "--format", "pstats", "-c", program)
    assert run.result.stderr.count(said) == n, run.result.stderr


@pytest.mark.further
@pytest.mark.needs("torch")  # with which NumPy comes
def test_numpy_forks_without_a_warning(pyhybrid: Callable[..., Run]) -> None:
    """Its OpenBLAS has a thread for each further processor."""
    program = "import numpy, os, warnings\nwarnings.simplefilter('always')\n"
    program += "child = os.fork()\nif not child: os._exit(0)\nos.waitpid(child, 0)\n"
    env = {"OPENBLAS_NUM_THREADS": "2"}
    run = pyhybrid("-q", "--format", "pstats", "-c", program, env=env)
    assert run.result.stderr == ""


@pytest.mark.further
def test_who_is_profiled_no_more_is_warned(tmp_path: Path) -> None:
    """After the last fork of the run, which got threads since.  A child's own run is quiet, too."""
    program = """
        import os, threading, warnings
        from pyhybrid import Profiler
        warnings.simplefilter("always")
        def fork(then=lambda: None):
            child = os.fork()
            if not child:
                then()
                os._exit(0)
            os.waitpid(child, 0)
        def in_child():
            with Profiler(): fork()
        with Profiler(): fork(in_child)
        told = threading.Event()
        threading.Thread(target=told.wait).start()
        fork()
        told.set()
        print(os.getpid())
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.findall(r"\(pid=(\d+)\) is multi-threaded", done.stderr) == done.stdout.split()


@pytest.mark.further
def test_fork_in_a_thread(same: Same) -> None:
    profile = same("""
        import os, threading, warnings
        warnings.simplefilter("ignore")
        def forks():
            pid = os.fork()
            if not pid:
                work()
                return  # the child's only thread ends here
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        codes = []
        main = os.getpid()
        thread = threading.Thread(target=forks)
        thread.start()
        thread.join()
        if os.getpid() == main:
            print(codes, work())
    """)
    check_work(profile, times=2)


def test_daemon_threads_at_exit(same: Same) -> None:
    """They run Python, in C, or wait, when the interpreter ends; none may meet what is gone."""
    profile = same("""
        import threading, time
        def runs():
            running.release()
            while True:
                leaf(1)
        def sorts():
            running.release()
            while True:
                sorted(range(1000), key=leaf)
        def sleeps():
            running.release()
            while True:
                time.sleep(0.0001)
                leaf(1)
        def ends():
            running.release()
        running = threading.Semaphore(0)
        targets = [runs, sorts, sleeps] * 2 + [ends] * 20
        for target in targets:
            threading.Thread(target=target, daemon=True).start()
        for target in targets:
            running.acquire()
        print(work())
    """)
    assert sum(row.calls for row in of_function(profile, "work")) == 1
    assert sum(row.calls for row in of_function(profile, "middle")) == 10


@pytest.mark.further
def test_threads_that_outlive_the_main_thread(same: Same) -> None:
    profile = same("""
        import threading
        def late():
            threading.main_thread().join()
            print(work())
        threading.Thread(target=late).start()
    """)
    check_work(profile)
