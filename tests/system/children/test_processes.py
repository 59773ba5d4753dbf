"""Children of a run: forked and started ones are in its profile, as exact as it is."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import Run, check_invariants

from pyhybrid.base.system_calls import pidfd_open
from pyhybrid.tables.profile import Profile
from pyhybrid.views.processes import CUT_OFF, ProcessFigures, grouped, processes_of

BURN = """
import time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""
WORK = """
def work(n):
    total = 0
    for i in range(n):
        total += square(i)
    return total

def square(i):
    return i * i
"""
# 8 items in each of the kinds; a square is called 50 times an item.
POOLS = f"""
import multiprocessing, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
{WORK}
def item(i):
    return work(50)

if __name__ == "__main__":
    for kind in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(kind)
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            print(kind, sum(executor.map(item, range(8))))
        pool = context.Pool(2)
        print(kind, sum(pool.map(item, range(8))))
        pool.close()
        pool.join()
        process = context.Process(target=work, args=(400,), name=f"mine-{{kind}}")
        process.start()
        process.join()
        print(kind, process.exitcode)
"""
KINDS = ("fork", "spawn", "forkserver")


@pytest.fixture(scope="module")
def pools_once(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pools")
    (folder / "pools.py").write_text(POOLS)
    result = subprocess.run(
        [sys.executable, "-P", "-m", "pyhybrid", "pools.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Run(folder, result)


@pytest.fixture
def pools(pools_once: Run) -> Iterator[Run]:
    yield pools_once
    pools_once.close()


def calls_by_process(profile: Profile, name: str) -> dict[int, int]:
    frames = {number for number, frame in profile.frames.items() if frame.name == name}
    found: Counter[int] = Counter()
    for row in profile.exact:
        if profile.nodes.frame[row.node] in frames:
            found[profile.threads[row.thread].process] += row.calls
    return dict(found)


def children(profile: Profile) -> list[ProcessFigures]:
    return processes_of(profile)[1:]


def test_all_kinds_of_pools(pools: Run) -> None:
    bare = subprocess.run(
        [sys.executable, "-P", "pools.py"], cwd=pools.folder, capture_output=True, text=True
    )
    assert (bare.returncode, bare.stderr) == (0, "")
    assert (pools.result.returncode, pools.result.stdout) == (0, bare.stdout)
    profile = pools.profile()
    check_invariants(profile)
    assert len(profile.processes) == 1 + 3 * 5
    assert not profile.meta.get("still_running") and not profile.meta.get("not_merged")
    # Each call of each process, whichever way it began.
    assert sum(calls_by_process(profile, "square").values()) == 3 * (2 * 8 * 50 + 400)
    named = {each.name for each in children(profile)}
    assert named > {f"mine-{kind}" for kind in KINDS}
    assert {each.end for each in children(profile)} == {"ended"}
    roles = Counter(each.role for each in children(profile))
    # (A worker may have got no item, and been idle in it all the time.)
    assert roles["executor worker"] <= 6 and roles["pool worker"] <= 6
    assert roles["executor worker"] >= 3 and roles["pool worker"] >= 3
    assert not list(pools.folder.glob("*.parts*"))


def test_what_others_need_is_left_out_and_named(pools: Run) -> None:
    left = {why: n for why, _, n in pools.profile().meta["left_out"]}
    assert left == {"resource tracker": 1, "fork server": 1}
    shown = subprocess.run(
        [sys.executable, "-P", "-m", "pyhybrid", "report", "processes", str(pools.path())],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "not profiled: 1 fork server: " in shown
    assert "\nchildren " not in pools.result.stderr  # they took next to nothing


def test_the_first_screen_has_groups(pools: Run) -> None:
    shown = pools.result.stderr
    assert re.search(r"^ +[\d.]+% +[\d.]+ s  [2-6] (pool|executor) workers \(", shown, re.M), shown
    groups = grouped(processes_of(pools.profile()))
    assert sum(group.n for group in groups) == 16
    assert sum(group.share for group in groups) == pytest.approx(1)


def test_some_processes_alone(pools: Run) -> None:
    report = [sys.executable, "-P", "-m", "pyhybrid", "report", "--json"]
    (process,) = (p for p in children(pools.profile()) if p.name == "mine-spawn")
    for named in ("mine-spawn", str(process.pid)):
        result = subprocess.run(
            [*report, "--process", named, str(pools.path())], capture_output=True, text=True
        )
        assert f'"pid": {process.pid}' in result.stdout, result.stderr
    assert calls_by_process(pools.profile(), "square")[process.id] == 400


def test_two_processes_are_compared(pools: Run) -> None:
    names = [f"out.pyhybrid#mine-{kind}" for kind in ("fork", "spawn")]
    result = subprocess.run(
        [sys.executable, "-P", "-m", "pyhybrid", "diff", "--json", *names],
        cwd=pools.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    changes = json.loads(result.stdout)["functions"]
    (square,) = (each for each in changes if each["function"]["name"] == "square")
    assert square["calls"] == [[400], [400]]


def test_a_frame_for_each_process(pools: Run) -> None:
    export = [sys.executable, "-P", "-m", "pyhybrid", "export", "-f", "folded", "-o", "-"]
    roots = [set[str](), set[str]()]
    for found, options in zip(roots, ([], ["--by-process"]), strict=True):
        result = subprocess.run(
            [*export, *options, str(pools.path())], capture_output=True, text=True, check=True
        )
        found |= {line.partition(";")[0] for line in result.stdout.splitlines()}
    assert all(each.startswith("MainThread of ") or " of " in each for each in roots[0])
    pids = {each.pid for each in processes_of(pools.profile()) if each.samples}
    shown = {int(each.rpartition("pid ")[2].rstrip(")")) for each in roots[1]}
    assert shown <= pids and len(shown) >= 8  # (some may have done nothing but begin)


FORKS = f"""
import os, sys
{WORK}{BURN}
def child():
    work(100)
    os._exit(3)

def grandchild():
    if not os.fork():
        child()
    os.wait()

for of in (child, grandchild):
    pid = os.fork()
    if not pid:
        of()
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
work(10)
"""


def test_forks_within_forks(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", FORKS)
    assert run.result.stdout == "3\n0\n"
    profile = run.profile()
    check_invariants(profile)
    assert sorted(calls_by_process(profile, "square").values()) == [10, 100, 100]
    first, *others = processes_of(profile)
    assert sorted(each.parent == first.pid for each in others) == [False, True, True]


NESTED = f"""
import multiprocessing
{WORK}
def outer():
    process = multiprocessing.get_context("fork").Process(target=work, args=(30,), name="inner")
    process.start()
    process.join()
    work(20)

if __name__ == "__main__":
    process = multiprocessing.get_context("forkserver").Process(target=outer, name="outer")
    process.start()
    process.join()
    print(process.exitcode)
"""


@pytest.mark.further
def test_forks_of_a_fork_servers_child(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "nested.py").write_text(NESTED)
    run = pyhybrid("nested.py")
    assert run.result.stdout == "0\n"
    profile = run.profile()
    check_invariants(profile)
    calls = calls_by_process(profile, "square")
    named = {each.name: calls.get(each.id) for each in children(profile)}
    assert named == {"outer": 20, "inner": 30}


def test_no_children(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--no-children", "-c", FORKS)
    profile = run.profile()
    assert len(profile.processes) == 1
    assert calls_by_process(profile, "square") == {1: 10}
    assert (profile.process.n_forked, profile.process.n_spawned) == (2, 0)
    assert (
        "PYHYBRID_RUN"
        not in pyhybrid("-q", "--no-children", "-c", "import os; print(os.environ)").result.stdout
    )


STARTS = f"""
import os, subprocess, sys
PROGRAM = {WORK!r} + "work(100)"
def start(*options, **how):
    return subprocess.run([sys.executable, *options, "-c", PROGRAM], check=True, **how)
"""


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("start('-I')", True),
        ("start('-E', '-s')", True),
        ("start('-S')", False),
        ("start(env={})", False),
        ("start(env={**os.environ, 'X': '1'}, cwd='/')", True),
        ("start(preexec_fn=lambda: None)", True),
        ("subprocess.run(['sh', '-c', sys.executable + ' -c \"$0\"', PROGRAM], check=True)", True),
        (
            "os.fork() and os.wait() or os.execv(sys.executable, [sys.executable, '-c', PROGRAM])",
            True,
        ),
    ],
)
def test_started_programs(pyhybrid: Callable[..., Run], how: str, found: bool) -> None:
    run = pyhybrid("-c", STARTS + how)
    profile = run.profile()
    check_invariants(profile)
    calls = calls_by_process(profile, "square")
    assert sum(calls.values()) == 100 * found
    if "execv" in how:  # both lives of one process
        assert sorted(Counter(each.pid for each in children(profile)).values()) == [2]
    else:
        assert len(children(profile)) == found
    assert run.result.stdout == "" and "Traceback" not in run.result.stderr


def test_only_forked_ones(pyhybrid: Callable[..., Run]) -> None:
    program = f"{STARTS}\nstart()\nif not os.fork():\n    exec(PROGRAM)\n    os._exit(0)\nos.wait()"
    profile = pyhybrid("--children", "fork", "-c", program).profile()
    assert [each.how for each in children(profile)] == ["fork"]
    assert sum(calls_by_process(profile, "square").values()) == 100


NO_CORES = "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
CHOSEN = f"""
import multiprocessing, subprocess, sys
{WORK}
for name in ("train.py", "other.py"):
    subprocess.run([sys.executable, name], check=True)
for name in ("reader-1", "writer-1"):
    process = multiprocessing.get_context("fork").Process(target=work, args=(7,), name=name)
    process.start()
    process.join()
"""


def test_chosen_ones(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """By the script or the name; the others are named."""
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text(f"{WORK}\nwork(5)")
    run = pyhybrid("--children", "t*n.py,reader*", "-c", CHOSEN)
    profile = run.profile()
    assert [each.name for each in children(profile)] == ["train.py", "reader-1"]
    assert sorted(calls_by_process(profile, "square").values()) == [5, 7]
    shown = pyhybrid("report", "processes").result.stdout
    left_out = [line for line in shown.splitlines() if "not chosen" in line]
    assert len(left_out) == 2
    assert "other.py" in "".join(left_out)


KILLED_CHILD = f"""
import os, signal, sys, time
{BURN}
def outer():
    burn(60)

read, write = os.pipe()
child = os.fork()
if not child:
    os.close(read)
    burn(0.5)
    os.write(write, b"x")
    outer()
os.read(read, 1)
time.sleep(1.2)
os.kill(child, signal.{{signal}})
os.wait()
"""


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM"])
def test_a_killed_child(pyhybrid: Callable[..., Run], number: str) -> None:
    """It leaves what was recorded, with the calls that were running."""
    run = pyhybrid("-c", KILLED_CHILD.format(signal=number))
    profile = run.profile()
    (child,) = children(profile)
    assert child.end == CUT_OFF
    assert child.cpu_ns > 500_000_000
    names = {profile.frames[profile.nodes.frame[row.node]].name: row for row in profile.exact}
    assert names["outer"].total_ns > 100_000_000
    assert "was killed" not in run.result.stderr  # that is so of the run, which was not


ENDS_ITSELF = f"""
import os, signal
{WORK}
for end in (
    lambda: signal.raise_signal(signal.SIGTERM),
    lambda: os.kill(os.getpid(), signal.SIGKILL),
    lambda: os.killpg(0, signal.SIGINT),
    lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1),
    os.abort,
):
    if not os.fork():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setpgid(0, 0)
        work(100)
        end()
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_children_that_send_themselves_a_signal(pyhybrid: Callable[..., Run]) -> None:
    """Every call is in the profile, up to that one."""
    run = pyhybrid("-c", f"import resource, threading\n{NO_CORES}\n{ENDS_ITSELF}")
    assert run.result.stdout.split() == ["-15", "-9", "-2", "-10", "-6"]
    assert list(calls_by_process(run.profile(), "square").values()) == [100] * 5


def test_a_killed_run(pyhybrid: Callable[..., Run]) -> None:
    """The first report makes the files of it and of its children."""
    program = f"{FORKS}\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)"
    run = pyhybrid("--leave-part", "-c", program, check=False)
    assert sorted(each.name for each in run.folder.glob("out*")) == [
        "out.pyhybrid.part",
        "out.pyhybrid.parts",
    ]
    report = [sys.executable, "-P", "-m", "pyhybrid", "report", "processes"]
    subprocess.run(report, cwd=run.folder, capture_output=True, check=True)
    profile = run.profile()
    assert sorted(calls_by_process(profile, "square").values()) == [10, 100, 100]
    assert not list(run.folder.glob("*.part*"))


LEFT = f"""
import os, sys, time
{WORK}{BURN}
if not os.fork():
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    work(70)
    while not os.path.exists("end"):
        time.sleep(0.01)
    os._exit(0)
work(5)
"""


def test_a_child_that_goes_on(pyhybrid: Callable[..., Run]) -> None:
    """It is named; what it has recorded by its end can be added."""
    run = pyhybrid("-c", LEFT)
    profile = run.profile()
    (pid,) = profile.meta["still_running"]
    assert calls_by_process(profile, "square") == {1: 5}
    assert f"{pid}" in run.result.stderr
    process = pidfd_open(pid)
    run.path("end").touch()
    assert select.select([process], [], [], 30)[0]
    os.close(process)
    merge = [sys.executable, "-P", "-m", "pyhybrid", "merge", "-o", "all"]
    result = subprocess.run(
        [*merge, "out.pyhybrid", "out.pyhybrid.parts"],
        cwd=run.folder,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    merged = run.profile("all.pyhybrid")
    assert sum(calls_by_process(merged, "square").values()) == 75
    assert merged.meta["still_running"] == []


CLOSES_ALL = f"""
import os, sys, time
{WORK}
if not os.fork():
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    work(70)
    while not os.path.exists("end"):
        time.sleep(0.01)
    os._exit(0)
time.sleep(0.3)
"""


@pytest.mark.further
def test_a_daemon_that_closes_all_descriptors(pyhybrid: Callable[..., Run]) -> None:
    """It has no lock, but it lives."""
    run = pyhybrid("-c", CLOSES_ALL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (pid,) = run.profile().meta["still_running"]
    run.path("end").touch()
    assert list(run.path("out.pyhybrid.parts").glob(f"{pid}-*.part"))


IN_LOADER = """
import ctypes, os, threading, time
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
inside, leave = threading.Event(), threading.Event()
@CALLBACK
def stays(*_):
    inside.set()
    leave.wait()
    return 1
iterate = ctypes.CDLL(None).dl_iterate_phdr
thread = threading.Thread(target=iterate, args=(stays, None))
thread.start()
inside.wait()
child = os.fork()
if not child:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
leave.set()
thread.join()
"""


def test_a_fork_while_another_thread_has_the_loaders_lock(pyhybrid: Callable[..., Run]) -> None:
    """The lock is held for ever in the child, which goes on without a profile."""
    run = pyhybrid("-q", "-c", IN_LOADER)
    assert run.result.stdout == "3\n"


SIGNALLED = """
import os, signal, time
def handler(number, frame):
    raise SystemExit(7)
signal.signal(signal.SIGTERM, handler)
codes = []
for i in range(40):
    child = os.fork()
    if not child:
        try:
            time.sleep(0.2)  # CPython loses what comes before its own hook
        finally:
            os._exit(7)
    time.sleep(i * 1e-4)
    os.kill(child, signal.SIGTERM)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(set(codes))
"""


def test_signals_to_a_child_that_begins(pyhybrid: Callable[..., Run]) -> None:
    """They wait until the hook of the fork is over: its exceptions are nobody's."""
    run = pyhybrid("-q", "-c", SIGNALLED)
    assert (run.result.stdout, run.result.stderr) == ("{7}\n", "")


@pytest.mark.parametrize("name", ["fcntl", "binascii", "pyhybrid"])
def test_modules_of_the_programs_path(
    pyhybrid: Callable[..., Run], tmp_path: Path, name: str
) -> None:
    """None runs because of us, in a process that is started with them."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{name}.py").write_text("print('mine')")
    environment = f"{{**os.environ, 'PYTHONPATH': {str(tmp_path / 'path')!r}}}"
    run = pyhybrid("-q", "-c", f"{STARTS}\nstart(env={environment})")
    assert (run.result.stdout, run.result.stderr) == ("", "")
    assert sum(calls_by_process(run.profile(), "square").values()) == 100


def test_options_that_are_too_long_for_a_variable(pyhybrid: Callable[..., Run]) -> None:
    options = [word for i in range(2500) for word in ("--keep", f"a_function_of_number_{i}")]
    run = pyhybrid(*options, "-c", f"{STARTS}\nsubprocess.run(['true'], check=True)\nstart()")
    assert "started children are not profiled: the options are too long" in run.result.stderr


def test_room_for_spools(pyhybrid: Callable[..., Run]) -> None:
    """Children beyond it are counted."""
    program = textwrap.dedent(
        """
        import os, sys, time
        for _ in range(4):
            if not os.fork():
                exec("\\n".join(f"def f{i}(): pass\\nf{i}()" for i in range(20000)))
                os._exit(0)
            os.wait()
            time.sleep(1.1)  # so long what the folder takes is believed
        """
    )
    run = pyhybrid("--max-children-disk", "1M", "-c", program)
    profile = run.profile()
    left = {why: n for why, _, n in profile.meta.get("left_out", ())}
    assert left["disk"] >= 1
    assert len(children(profile)) + left["disk"] == 4


def test_forks_of_many_threads(pyhybrid: Callable[..., Run]) -> None:
    """No child is lost."""
    program = f"""
import os, threading
{WORK}
def forks():
    for _ in range(15):
        pid = os.fork()
        if not pid:
            work(10)
            os._exit(0)
        os.waitpid(pid, 0)

threads = [threading.Thread(target=forks) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    profile = pyhybrid("-c", program).profile()
    assert len(children(profile)) == 60
    assert sum(calls_by_process(profile, "square").values()) == 600
