"""Profiling from within a program: Profiler, the decorator, enable and disable."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from support import LOOKS, PATIENCE_S, Run

from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.views.waits import waits_of

HEAD = """
import os, sys
import pyhybrid
from pyhybrid import Profiler, disable, enable, profile
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.errors import PyhybridError

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def calls(profiler, name):
    functions = function_calls(profiler.profile)
    frames = profiler.profile.frames
    return sum(f.calls for number, f in functions.items() if frames[number].name == name)

def refused(function, *arguments):
    try:
        function(*arguments)
    except PyhybridError as error:
        assert "\\n" not in str(error)
        return str(error)
    raise AssertionError("not refused")
"""
FIB_15 = 1973


def run(text: str, folder: Path) -> str:
    script = HEAD + textwrap.dedent(text)
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.further
@pytest.mark.engine
def test_what_a_sample_costs(tmp_path: Path) -> None:
    """Where it is not known, because the thread that starts blocks the signals, rates stay low."""
    run(
        """
        import signal
        def costs(hz):
            with Profiler(mode="sample", hz=hz) as p:
                end = time.thread_time() + 0.1
                while time.thread_time() < end:
                    pass
            meta = p.profile.meta
            return meta["cost_ns"], meta["hz"], " ".join(meta["notes"]), p.profile
        import time
        for hz in (100, 999, 20_000):
            for _ in range(5):  # a timer of a thread that hardly runs may not tick in time
                cost_ns, reached, notes, profile = costs(hz)
                if cost_ns:
                    break
            assert 1000 < cost_ns < 10_000_000, cost_ns
            assert reached == min(hz, max(reached, 1000)), reached
            (main,) = (t for t in profile.threads.values() if t.tid == os.getpid())
            spent = main.recorded_weight_ns + main.missed_weight_ns
            spent += sum(each.weight_ns for each in profile.losses)
            assert 0.07e9 < spent < 0.15e9, spent  # the time of measuring is not in it
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTRAP, signal.SIGPROF])
        cost_ns, reached, notes, _ = costs(20_000)
        assert (cost_ns, reached) == (0, 1000), (cost_ns, reached)
        assert "20000 Hz may cost too much" in notes, notes
        """,
        tmp_path,
    )


@pytest.mark.first_cases(1)
@pytest.mark.engine
@pytest.mark.parametrize("mode", ["trace", "hybrid", "sample"])
def test_with_profiler(tmp_path: Path, mode: str) -> None:
    run(
        f"""
        before = os.listdir("/proc/self/fd")
        with Profiler(mode={mode!r}) as p:
            fib(15)
            sum(range(4 * 10**7))
        assert p.profile.process.pid == os.getpid()
        assert p.profile.meta["mode"] == {mode!r}
        if {mode!r} != "sample":
            assert calls(p, "fib") == {FIB_15}, calls(p, "fib")
            assert not calls(p, "Profiler.stop")
        if {mode!r} != "trace":
            assert sum(row.samples for row in p.profile.sampled) > 5
        p.profile.close()
        assert os.listdir("/proc/self/fd") == before
        assert os.listdir(".") == []
        """,
        tmp_path,
    )


def test_pause_and_resume(tmp_path: Path) -> None:
    run(
        f"""
        p = Profiler(mode="hybrid")
        p.start()
        fib(15)
        p.pause()
        fib(20)
        sum(range(3 * 10**7))
        p.resume()
        fib(15)
        p.pause()
        sum(range(10**7))
        p.stop()
        assert calls(p, "fib") == 2 * {FIB_15}
        thread = next(iter(p.profile.threads.values()))
        # What was paused is neither sampled nor missed.
        weight = thread.recorded_weight_ns + thread.missed_weight_ns
        assert weight < 0.15e9, thread
        """,
        tmp_path,
    )


@pytest.mark.further
def test_how_it_starts_is_not_sampled(tmp_path: Path) -> None:
    """Sampling is paused from its beginning on, with what is measured then (costs, events)."""
    run(
        """
        for _ in range(10):
            p = Profiler(mode="hybrid", clock="wall", hz=5000)
            p.start()
            p.stop()
            names = {f.name for f in p.profile.frames.values() if f.kind == "python"}
            assert not any(name.startswith("Profiling._start") for name in names), names
        """,
        tmp_path,
    )


def test_used_wrongly(tmp_path: Path) -> None:
    out = run(
        """
        p = Profiler()
        print(refused(p.stop))
        print(refused(p.pause))
        print(refused(lambda: p.profile))
        p.start()
        print(refused(p.start))
        print(refused(Profiler(mode="trace").start))
        print(refused(p.resume))
        fib(3)
        p.stop()
        print(refused(p.stop))
        print(refused(lambda: Profiler(mode="fast")))
        for wrong in ({"hz": 0}, {"max_depth": 0}, {"max_depth": 1 << 17}, {"max_nodes": 0.5}):
            print(refused(lambda: Profiler(**wrong)))
        print(refused(Profiler(output="no/such/folder/x").start))
        with Profiler(mode="trace") as q:
            fib(15)
        assert calls(q, "fib") == 1973
        enable()
        disable()
        """,
        tmp_path,
    )
    assert out.count("already running") == 2
    assert out.count("must be a whole number") == 4
    assert "does not exist" in out


@pytest.mark.further
def test_a_file_that_cannot_be_made_is_not_the_one_of_before(tmp_path: Path) -> None:
    out = run(
        """
        p = Profiler(mode="trace", output="x")
        with p:
            fib(15)
        assert calls(p, "fib") == 1973
        with p:
            os.unlink("x.pyhybrid.part")
        print(refused(lambda: p.profile))
        """,
        tmp_path,
    )
    assert "could not be made" in out
    assert "cannot read" in out


@pytest.mark.further
def test_names_of_threads_that_are_none(tmp_path: Path) -> None:
    """What `threading` says is the program's."""
    run(
        """
        import threading
        class Nameless(threading.Thread):
            name = None
        class Raising(threading.Thread):
            @property
            def name(self):
                raise LookupError
            @name.setter
            def name(self, value):
                pass
        end = threading.Event()
        threads = [cls(target=end.wait) for cls in (Nameless, Raising)]
        for enumerate in (threading.enumerate, None):
            threading.enumerate = enumerate
            with Profiler(mode="trace") as p:
                if enumerate:
                    for thread in threads:
                        thread.start()
                fib(15)
            assert calls(p, "fib") == 1973
        end.set()
        os._exit(0)  # `threading` itself has lost a function
        """,
        tmp_path,
    )


@pytest.mark.further
def test_results_replace_each_other(tmp_path: Path) -> None:
    run(
        """
        p = Profiler(mode="trace")
        for n in (5, 10, 15):
            p.start()
            fib(n)
            p.stop()
        assert calls(p, "fib") == 1973
        """,
        tmp_path,
    )


def test_output_files(tmp_path: Path) -> None:
    run('with Profiler(output="mine", formats=["folded"]): fib(20)', tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.folded", "mine.pyhybrid"]


@pytest.mark.further
def test_to_pandas(tmp_path: Path) -> None:
    run(
        f"""
        with Profiler(mode="hybrid") as p:
            fib(15)
            sum(range(5 * 10**7))
        table = p.profile.to_pandas()
        assert len(table) == len(p.profile.nodes.parent) - 1
        assert table[table.name == "fib"].calls.sum() == {FIB_15}
        assert table.samples.sum() == sum(row.samples for row in p.profile.sampled) > 10
        assert table[table.kind == "native"].calls.isna().all()
        exact_ns = sum(row.self_ns for row in p.profile.exact)
        assert table.exact_self_ns.sum() == exact_ns <= table.exact_total_ns.sum()
        sys.modules["pandas"] = None
        assert "pandas" in refused(p.profile.to_pandas)
        """,
        tmp_path,
    )


def test_decorator(tmp_path: Path) -> None:
    out = run(
        """
        import asyncio

        @profile
        def work(n):
            '''Text.'''
            return fib(n)

        @profile(mode="trace", summary=False, output="a")
        async def later(n):
            await asyncio.sleep(0)
            return work(n)

        assert work(15) == 610 and work.__doc__ == "Text."
        assert asyncio.run(later(15)) == 610
        """,
        tmp_path,
    )
    assert out.count("1,974 of 2 Python functions") == 1
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"work.pyhybrid", "work.folded", "a.pyhybrid", "a.folded"}


def test_threads_and_asyncio(tmp_path: Path) -> None:
    run(
        f"""
        import asyncio, threading
        p = Profiler(mode="trace")
        starter = threading.Thread(target=p.start)
        starter.start(); starter.join()
        threads = [threading.Thread(target=fib, args=(15,)) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        p.stop()
        assert calls(p, "fib") == 4 * {FIB_15}

        async def main():
            with Profiler(mode="trace") as q:
                await asyncio.gather(*[asyncio.to_thread(fib, 15) for _ in range(3)])
            return q
        assert calls(asyncio.run(main()), "fib") == 3 * {FIB_15}
        """,
        tmp_path,
    )


def test_a_forked_child_has_no_profiler(tmp_path: Path) -> None:
    run(
        """
        p = Profiler(mode="hybrid")
        p.start()
        child = os.fork()
        if not child:
            fib(18)
            assert not p.running
            for deed in (p.stop, p.pause, p.resume):  # the parent's files stay
                refused(deed)
            with Profiler(mode="trace") as own:
                fib(15)
            assert calls(own, "fib") == 1973
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        fib(15)
        p.stop()
        assert calls(p, "fib") == 1973
        """,
        tmp_path,
    )


@pytest.mark.further
def test_a_fork_while_another_thread_stops(tmp_path: Path) -> None:
    """The child has none of the locks that are held then."""
    run(
        """
        import signal, threading
        def forks():
            p = Profiler(mode="trace")
            p.start()
            stopper = threading.Thread(target=p.stop)
            stopper.start()
            while p.running:
                pass
            child = os.fork()  # the files are being made
            if not child:
                signal.alarm(100)
                enable()
                with Profiler(mode="trace") as own:
                    fib(15)
                assert calls(own, "fib") == 1973
                os._exit(0)
            in_time = stopper.is_alive()
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            stopper.join()
            return in_time
        assert any(forks() for _ in range(20))  # not where the thread had the processor first
        """,
        tmp_path,
    )


@pytest.mark.further
def test_forks_while_another_thread_reads_a_profile(tmp_path: Path) -> None:
    """SQLite's locks are of the whole process, and forks leave them as they are."""
    run(
        """
        import signal, threading
        from pyhybrid.tables.profile import Profile
        with Profiler(mode="trace", output="out") as p:
            fib(15)
        stopped = threading.Event()
        def reads():
            while not stopped.is_set():
                with Profile.open("out.pyhybrid") as profile:
                    profile.frames, profile.nodes
        readers = [threading.Thread(target=reads) for _ in range(2)]
        for reader in readers: reader.start()
        sys.setswitchinterval(1e-5)
        codes = []
        for _ in range(150):
            child = os.fork()
            if not child:
                signal.alarm(100)
                assert calls(p, "fib") == 1973
                with Profile.open("out.pyhybrid") as profile:
                    assert profile.threads
                os._exit(0)
            codes.append(os.waitpid(child, 0)[1])
            if codes[-1]:
                break
        stopped.set()
        for reader in readers: reader.join()
        assert codes == [0] * 150, codes
        """,
        tmp_path,
    )


@pytest.mark.further
def test_another_thread_reads_the_profile(tmp_path: Path) -> None:
    run(
        """
        import threading
        p = Profiler(mode="trace")
        p.start()
        fib(15)
        stopper = threading.Thread(target=p.stop)
        stopper.start()
        stopper.join()
        assert calls(p, "fib") == 1973
        """,
        tmp_path,
    )


@pytest.mark.further
def test_decorated_functions_called_by_several_threads(tmp_path: Path) -> None:
    """One call is profiled, the others go on as if they were not decorated."""
    run(
        """
        import threading
        @profile(mode="trace", summary=False, formats=())
        def work(n):
            return fib(n)
        together, results = threading.Barrier(4), []
        def calls_it():
            together.wait()
            for _ in range(3):
                results.append(work(10))
        threads = [threading.Thread(target=calls_it) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert results == [55] * 12, results
        """,
        tmp_path,
    )


def test_at_exit(tmp_path: Path) -> None:
    run('Profiler(output="late", formats=["folded"]).start(); fib(20)', tmp_path)
    assert (tmp_path / "late.pyhybrid").exists()


@pytest.mark.further
def test_paused_until_enabled(pyhybrid: Callable[..., Run]) -> None:
    script = HEAD + textwrap.dedent(
        """
        fib(18)
        disable()
        enable()
        fib(15)
        enable()
        fib(3)
        disable()
        fib(15)
        disable()
        fib(18)
        """
    )
    done = pyhybrid("-p", "--mode", "hybrid", "--format", "folded", "-c", script)
    assert fib_calls(done.profile()) == 2 * FIB_15 + 5


def fib_calls(profile: Profile, below: str = "%") -> int:
    """Within a region of this name, or anywhere."""
    sql = """
        WITH RECURSIVE inside(id) AS (
            SELECT node.id FROM node JOIN frame ON frame.id = node.frame WHERE frame.name LIKE ?
            UNION SELECT node.id FROM node JOIN inside ON node.parent = inside.id)
        SELECT sum(calls) FROM exact JOIN node ON node.id = exact.node
        JOIN frame ON frame.id = node.frame WHERE frame.name = 'fib'
        AND node.id IN (SELECT id FROM inside)"""
    ((calls,),) = profile.query(sql, below)
    return int(calls)


@pytest.mark.further
def test_enabled_in_a_run_that_profiles_anyway(pyhybrid: Callable[..., Run]) -> None:
    """`enable` changes nothing then, nor does the `disable` of it; one without it ends it."""
    script = HEAD + textwrap.dedent(
        """
        fib(15)
        enable()
        try:
            fib(15)
        finally:
            disable()
        fib(15)
        disable()
        fib(18)
        disable()
        enable()
        fib(15)
        @profile
        def decorated():
            fib(15)
        decorated()
        """
    )
    done = pyhybrid("-q", "--mode", "trace", "--format", "folded", "-c", script)
    assert (done.result.stdout, done.result.stderr) == ("", "")
    assert fib_calls(done.profile()) == 5 * FIB_15


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("options", [(), ("-p",), ("--max-timeline", "128K")])
def test_profilers_in_a_run_of_the_command_line(
    pyhybrid: Callable[..., Run], options: tuple[str, ...]
) -> None:
    """Each has a result of its own, of all threads; in the run's profile they are regions."""
    script = HEAD + textwrap.dedent(
        """
        import threading
        fib(18)
        def other():
            fib(10)
            for turn in go, on:
                turn.wait()
                fib(11)
                done.set()
        go, on, done = (threading.Event() for _ in range(3))
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        def outer():
            with Profiler(mode="sample", hz=10) as p:  # which are the run's
                fib(15)
                go.set()
                done.wait()
                done.clear()
                with Profiler() as q:
                    sum(range(4 * 10**7))
                    fib(12)
                    q.pause()
                    fib(13)
                    q.resume()
                    fib(2)
                assert q.running == False
            return p, q
        p, q = outer()
        on.set()
        thread.join()
        assert calls(p, "fib") == 1973 + 287 + 465 + 753 + 3, calls(p, "fib")
        assert calls(q, "fib") == 465 + 3, calls(q, "fib")
        assert calls(q, "outer") == 2, calls(q, "outer")  # it ran when it began, and went on
        assert 0.2 < q.profile.process.cpu_ns / sum(s.weight_ns for s in q.profile.sampled) < 1.5
        assert q.profile.process.end_ns - q.profile.process.start_ns < 60e9
        for each in p, q:
            each.profile.close()
        try:
            with Profiler(output="own", formats=["folded"]) as r:
                fib(15)
                1 / 0
        except ZeroDivisionError:
            assert calls(r, "fib") == 1973, calls(r, "fib")
        never_stopped = Profiler()
        never_stopped.start()
        assert refused(never_stopped.start)
        fib(3)
        """
    )
    done = pyhybrid("-q", "--format", "folded", *options, "-c", script)
    assert (done.result.stdout, done.result.stderr) == ("", "")
    profile = done.profile()
    inside = 1973 + 465 + 753 + 3
    assert fib_calls(profile, "Profiler") == inside + FIB_15
    rest = 287 + FIB_15 + 5 if options == ("-p",) else 2 * 287 + 177 + 8361 + FIB_15 + 5
    assert fib_calls(profile) == inside + rest
    files = ["out.folded", "out.pyhybrid", "own.folded", "own.pyhybrid"]
    assert sorted(path.name for path in done.folder.iterdir()) == files


@pytest.mark.version
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", [(), ("-p",)])
def test_what_a_profiler_in_a_run_does_is_ours(
    pyhybrid: Callable[..., Run], options: tuple[str, ...]
) -> None:
    """Neither profile has its functions, and the program is not held to wait for it."""
    script = """
import time
from pyhybrid import Profiler
import pyhybrid.loading
def burn():
    sum(range(10**7))
def wait():
    time.sleep(0.2)
p = Profiler()
begin = time.monotonic_ns()
p.start()
started = time.monotonic_ns()
burn()
p.pause()
p.resume()
wait()
stopping = time.monotonic_ns()
p.stop()
print(started - begin, time.monotonic_ns() - stopping)
print(*sorted(each.name for each in p.profile.functions() if each.calls))
"""
    done = pyhybrid("-q", "--format", "folded", *options, "-c", script)
    took, names = done.result.stdout.splitlines()
    assert names.removeprefix("<module> ") == "burn wait"
    profile = done.profile()
    counted = {profile.frames[number]: each for number, each in function_calls(profile).items()}
    ours = {"TemporaryFile", "mkdtemp", "gettempdir", "copyfileobj", "rmtree"}
    assert not ours & {each.name for each in counted}
    program = [each for each in counted if each.file == "<string>"]
    total_ns = {each.name: counted[each].total_ns for each in program}
    ours_ns = sum(map(int, took.split()))
    wall_ns = profile.process.end_ns - profile.process.start_ns
    assert total_ns["<module>"] >= total_ns["burn"] + total_ns["wait"]
    if not options:
        assert total_ns["<module>"] < wall_ns - 0.9 * ours_ns
    waits = [each for each in waits_of(profile) if each.is_main]
    assert all(each.waited_ns < total_ns["wait"] * 1.2 for each in waits)
    assert 0 < profile.meta["parts_cpu_ns"] <= ours_ns


@pytest.mark.version
def test_in_a_subinterpreter_it_is_refused(tmp_path: Path) -> None:
    out = run(
        """
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        number = interpreters.create()
        code = '''
        try:
            from pyhybrid.capture.api import Profiler
            Profiler(mode="trace").start()
        except Exception as error:
            print("refused:", type(error).__name__, error)
        '''
        import textwrap
        interpreters.run_string(number, textwrap.dedent(code))
        """,
        tmp_path,
    )
    assert "refused:" in out


@pytest.mark.first_cases(1)
@pytest.mark.engine
@pytest.mark.parametrize(
    "engine",
    ["auto", pytest.param("timer", marks=pytest.mark.once)],  # `auto`, for the ordinary user
)
def test_a_program_that_takes_the_signal_keeps_it(tmp_path: Path, engine: str) -> None:
    """No clock is opened again for it: not for new threads, not by pause and resume."""
    run(
        f"""
        import signal, threading, time
        got = []
        def burn(seconds):
            end = time.thread_time() + seconds
            while time.thread_time() < end: pass
        exec({LOOKS!r})
        with Profiler(mode="sample", engine={engine!r}) as p:
            for number in signal.SIGTRAP, signal.SIGPROF:
                signal.signal(number, lambda *_: got.append(1))
                burn(0.1)
                looked()  # it is noticed then
            threads = [threading.Thread(target=burn, args=(0.5,)) for _ in range(2)]
            for t in threads: t.start()
            before = len(got)
            p.pause()
            p.resume()
            for t in threads: t.join()
            assert len(got) == before, (before, len(got))
        """,
        tmp_path,
    )


@pytest.mark.further
def test_a_signal_handler_within_a_start_or_stop(tmp_path: Path) -> None:
    """It gets an error where it would wait for what it interrupts, and what it wants is done."""
    run(
        """
        import signal
        def handler(*_):
            for what in (lambda: Profiler().start(), p.stop, p.pause, p.resume):
                try:
                    what()
                except PyhybridError as error:
                    said.append(str(error))
            pyhybrid.enable()
            pyhybrid.disable()
        def at_each_call(frame, event, _):
            if event == "call" and frame.f_code.co_filename.endswith("/profiling_run.py"):
                sys.setprofile(None)
                handler()
                sys.setprofile(at_each_call)
        from pyhybrid.errors import PyhybridError
        said = []
        p = Profiler(hz=99)
        for step in (p.start, p.pause, p.resume, p.stop):
            sys.setprofile(at_each_call)
            step()
            sys.setprofile(None)
        assert len(said) >= 4 * 4 and all("signal handler" in text for text in said), said
        p.profile
        """,
        tmp_path,
    )


def test_enabled_by_signal_handlers(pyhybrid: Callable[..., Run]) -> None:
    """Whenever they come, and whatever they interrupt."""
    run = pyhybrid(
        "-p",
        "-c",
        """
import pyhybrid, signal, time
pyhybrid.enable  # what it needs is imported now
n = 0
def handler(*_):
    global n
    pyhybrid.enable(); pyhybrid.disable(); n += 1
    signal.setitimer(signal.ITIMER_REAL, 0.0007)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0007)
end = time.monotonic() + 1
while time.monotonic() < end:
    pyhybrid.enable(); pyhybrid.disable()
signal.setitimer(signal.ITIMER_REAL, 0)
def outside(): pass
def inside(): pass
outside()
pyhybrid.enable(); inside(); pyhybrid.disable()
outside()
print(n > 10)
""",
    )
    assert run.result.stdout == "True\n"
    names = {run.profile().frames[f].name for f in run.profile().nodes.frame[1:]}
    assert "inside" in names
    assert "outside" not in names


@pytest.mark.further
def test_a_start_that_an_exception_ends_leaves_nothing(tmp_path: Path) -> None:
    """As that of a signal handler, which runs where a function begins, or where C returns."""
    run(
        """
        import gc, signal, tempfile, time
        from pyhybrid import _native

        class Interrupted(BaseException):
            pass

        def left():
            return (
                _native.session(), os.listdir("."), os.listdir(folder),
                len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")),
                [vars(stream.buffer) for stream in (sys.stdout, sys.stderr)],
                signal.getsignal(signal.SIGPROF),
            )

        def trace(frame, event, _):
            global places
            if frame.f_code.co_filename.endswith(OURS) and event in ("call", "c_return"):
                places -= 1
                if not places:
                    raise Interrupted

        OURS = (
            *("/api.py", "/profiling_run.py", "/live_outputs.py"),
            "/std_streams.py",
        )
        folder = tempfile.tempdir = os.path.abspath("temporary")
        os.mkdir(folder)
        with Profiler(output="out"):  # what comes once, with the first
            pass
        gc.collect()  # its profile, which is open
        for name in os.listdir("."):
            if name != "temporary":
                os.unlink(name)
        for output in ("out", None):
            clean, n = left(), 0
            while True:
                n += 1
                places = n
                profiler = Profiler(output=output, hz=99)
                sys.setprofile(trace)
                try:
                    profiler.start()
                except Interrupted:
                    sys.setprofile(None)
                else:
                    break
                end = time.monotonic() + 20  # a thread's entry in /proc goes a moment later
                while left() != clean and time.monotonic() < end:
                    time.sleep(0.001)
                assert left() == clean, (output, n, left(), clean)
                assert not profiler.running
            sys.setprofile(None)
            assert n > 30, n
            fib(15)
            profiler.stop()
            assert calls(profiler, "fib") == 1973
            for name in os.listdir("."):
                if name != "temporary":
                    os.unlink(name)
        """,
        tmp_path,
    )
