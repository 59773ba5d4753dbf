"""`@pyhybrid.profile`: one profile for all calls, of every kind of callable."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, Run

from pyhybrid.tables.profile import Profile

HEAD = """
import asyncio, atexit, functools, inspect, os, sys, threading, time, types

spawned = []
sys.addaudithook(lambda event, args: event == "os.posix_spawn" and spawned.append(args))
atexit.register(lambda: print("finished by", len(spawned)))  # runs after what is registered later

import pyhybrid
from pyhybrid import Profiler, profile, write_profile
from pyhybrid._native import open_windows
from pyhybrid.errors import UsageError

def burn(seconds=0.002):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def written():
    assert not open_windows()
    return counts(write_profile())
"""


def counts(profile: Profile) -> dict[str, tuple[int, ...]]:
    """(calls, goings on, total time) of each Python function."""
    rows = profile.query(
        "SELECT frame.name, sum(calls), sum(resumes), sum(total_ns) FROM exact "
        "JOIN node ON node.id = exact.node JOIN frame ON frame.id = node.frame "
        "WHERE frame.kind = 'python' GROUP BY frame.name"
    )
    return {name: tuple(figures) for name, *figures in rows}


HEAD += inspect.getsource(counts).replace(": Profile) -> dict[str, tuple[int, ...]]", ")")


def run(text: str, folder: Path, *, code: int = 0, head: str = HEAD) -> str:
    script = head + textwrap.dedent(text)
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def counted(path: Path) -> dict[str, tuple[int, ...]]:
    with Profile.open(str(path)) as profile:
        return counts(profile)


KINDS = {
    "function": (
        """
        @profile
        def f(n): burn(); return n
        use = lambda: [f(n) for n in range(3)] == [0, 1, 2]
        assert inspect.signature(f) == inspect.signature(lambda n: 0)
        """,
        ("f", 3, 0),
    ),
    "recursion": (
        """
        @profile
        def f(n): burn(0.001); return n and f(n - 1)
        use = lambda: f(9) == 0
        """,
        ("f", 10, 0),
    ),
    "exception": (
        """
        @profile
        def f(): burn(); raise LookupError
        def use():
            for _ in range(3):
                try: f()
                except LookupError as error: assert error.__context__ is None
            return True
        """,
        ("f", 3, 0),
    ),
    "methods": (
        """
        class K:
            @profile
            def f(self): burn(); return self
        k = K()
        use = lambda: k.f() is k and K.f(k) is k
        """,
        ("K.f", 2, 0),
    ),
    "class methods": (
        """
        class K:
            @classmethod
            @profile
            def f(cls): burn(); return cls
            @profile
            @classmethod
            def g(cls): return cls.f()
        use = lambda: K.f() is K().f() is K.g() is K().g() is K
        """,
        ("K.f", 4, 0),
    ),
    "static methods": (
        """
        class K:
            @staticmethod
            @profile
            def f(): burn(); return 1
            @profile
            @staticmethod
            def g(): return K.f()
        use = lambda: K.f() + K().f() + K.g() + K().g() == 4
        """,
        ("K.f", 4, 0),
    ),
    "properties": (
        """
        class K:
            @property
            @profile
            def f(self): burn(); return 1
            @profile
            @property
            def g(self):
                "Text."
                return self.f
            @g.setter
            @profile
            def g(self, value): self.f
            @profile
            @functools.cached_property
            def h(self): return self.f
        def use():
            k = K()
            k.g = 3
            return k.f + k.g + k.h + k.h == 4 and K.g.__doc__ == "Text."
        """,
        ("K.f", 4, 0),
    ),
    "generator": (
        """
        @profile
        def f(n):
            for i in range(n): burn(); yield i
            return "end"
        def use():
            def outer(): assert (yield from f(3)) == "end"
            return list(f(4)) + list(outer()) == [0, 1, 2, 3, 0, 1, 2]
        assert inspect.isgeneratorfunction(f)
        """,
        ("f", 2, 7),
    ),
    "generator that is thrown into": (
        """
        @profile
        def f():
            while True:
                try: burn(); value = yield value
                except NameError: value = 0
                except KeyError: value = 1
                except IndexError: return 2
        def use():
            g = f()
            found = [next(g), g.send(5), g.throw(KeyError), g.throw(NameError("value"))]
            try: g.throw(IndexError())
            except StopIteration as end: found.append(end.value)
            h = f()
            next(h)
            h.close()
            unfinished = f()
            next(unfinished)
            del unfinished
            return found == [0, 5, 1, 0, 2] and not open_windows()
        """,
        ("f", 3, 6),
    ),
    "context manager": (
        """
        import contextlib
        @contextlib.contextmanager
        @profile
        def f():
            burn()
            try: yield 1
            except LookupError: pass
        def use():
            with f() as one: pass
            with f() as one: raise LookupError
            return one == 1
        """,
        ("f", 2, 2),
    ),
    "coroutine": (
        """
        @profile
        async def f(n): burn(); await asyncio.sleep(0); burn(); return n
        async def many(): return await asyncio.gather(*[f(n) for n in range(5)])
        use = lambda: asyncio.run(f(3)) == 3 and asyncio.run(many()) == [0, 1, 2, 3, 4]
        assert inspect.iscoroutinefunction(f)
        """,
        ("f", 6, 6),
    ),
    "coroutine that is cancelled": (
        """
        cleaned = []
        @profile
        async def f():
            burn()
            try: await asyncio.sleep(100)
            finally: cleaned.append(await asyncio.sleep(0, "up"))
        async def main():
            task = asyncio.create_task(f())
            await asyncio.sleep(0)
            task.cancel()
            try: await task
            except asyncio.CancelledError: return True
        use = lambda: asyncio.run(main()) and cleaned.pop() == "up" and not cleaned
        """,
        ("f", 1, 2),
    ),
    "coroutine by types.coroutine": (
        """
        @profile
        @types.coroutine
        def f(): burn(); return (yield)
        async def main(): return await f()
        use = lambda: asyncio.run(main()) is None
        """,
        ("f", 1, 1),
    ),
    "asynchronous generator": (
        """
        @profile
        async def f(n):
            for i in range(n): burn(); await asyncio.sleep(0); yield i
        async def main(): return [x async for x in f(3)]
        use = lambda: asyncio.run(main()) == [0, 1, 2]
        assert inspect.isasyncgenfunction(f)
        """,
        ("f", 1, 6),
    ),
    "asynchronous generators that are sent to, thrown into, closed, forgotten": (
        """
        closed, hooks = [], []
        @profile
        async def f(name):
            value = None
            burn()
            try:
                while True:
                    try: value = yield value
                    except KeyError: value = "key"
            finally:
                await asyncio.sleep(0)
                closed.append(name)
        async def main():
            hooks.append(sys.get_asyncgen_hooks())
            asyncio.get_running_loop().set_exception_handler(lambda loop, what: hooks.append(what))
            a = f("a")
            assert await anext(a) is None and await a.asend(5) == 5
            assert await a.athrow(KeyError()) == "key"
            await a.aclose()
            b = f("b")
            await anext(b)
            del b  # the loop closes it
            await asyncio.sleep(0.01)
            c = f("c")
            await anext(c)
            hooks.append(sys.get_asyncgen_hooks())
            return c  # the loop's end closes it
        def use():
            closed.clear(), hooks.clear()
            asyncio.run(main())
            return closed == ["a", "b", "c"] and len(hooks) == 2 and hooks[0] == hooks[1]
        """,
        ("f", 3, 8),
    ),
    "partial": (
        """
        def f(a, b): burn(); return a + b
        p = profile(functools.partial(f, 1))
        class K:
            m = profile(functools.partialmethod(lambda self, a: f(a, 1), 2))
        use = lambda: p(2) == 3 == K().m()
        """,
        ("f", 2, 0),
    ),
    "partial of a generator": (
        """
        def f(n):
            for i in range(n): burn(); yield i
        p = profile(functools.partial(f, 3))
        use = lambda: list(p()) == [0, 1, 2]
        """,
        ("f", 1, 3),
    ),
    "callable objects": (
        """
        class K:
            def __call__(self): burn(); return 4
        class A:
            async def __call__(self): return K()()
        k, a = profile(K()), profile(A())
        use = lambda: k() == 4 == asyncio.run(a())
        """,
        ("K.__call__", 2, 0),
    ),
    "functions in C": (
        """
        def key(n): burn(); return -n
        s = profile(sorted)
        use = lambda: s([1, 2, 3], key=key) == [3, 2, 1]
        """,
        ("key", 3, 0),
    ),
    "cached": (
        """
        @functools.lru_cache
        @profile
        def f(n): burn(); return n
        use = lambda: f.cache_clear() or f(1) + f(1) + f(2) == 4 and f.cache_info().hits == 1
        """,
        ("f", 2, 0),
    ),
    "bound methods": (
        """
        class K:
            def f(self): burn(); return 1
        f = profile(K().f)
        use = lambda: f() == 1
        """,
        ("K.f", 1, 0),
    ),
}


@pytest.mark.first_cases(2)
@pytest.mark.version
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(tmp_path: Path, kind: str) -> None:
    """Every kind is called as without the decorator, and each call and turn is counted once."""
    text, (name, calls, resumes) = KINDS[kind]
    out = run(
        textwrap.dedent(text)
        + textwrap.dedent(
            f"""
            assert use() and use()
            between = lambda: burn(0.001)
            between()
            found = written()
            assert found[{name!r}][:2] == ({2 * calls}, {2 * resumes}), found[{name!r}]
            assert found[{name!r}][2] > 2e6, found
            ours = [name for name in found if name in ("[@profile]", "wrapper", "_turns")]
            assert "between" not in found and not ours, found
            """
        ),
        tmp_path,
    )
    assert "finished by 1\n" in out
    assert len(list(tmp_path.glob("*.pyhybrid"))) == 1


def test_files_are_written_once_at_the_end(tmp_path: Path) -> None:
    """One profile of all calls of all functions, named after the first; one finishing process."""
    out = run(
        """
        @profile(mode="trace")
        def first(n): return n
        @profile(mode="trace")
        def second(): yield from map(first, range(10))
        for _ in range(2000):
            first(1)
        for _ in range(3):
            assert list(second()) == list(range(10))
        assert os.listdir(".") == ["first.pyhybrid.part"]
        """,
        tmp_path,
    )
    assert "finished by 1\n" in out
    assert "2,033 of 2 Python functions" in out and "[@profile]" not in out
    assert "[@profile]" not in (tmp_path / "first.folded").read_text()
    assert out.count("wrote    first.pyhybrid, first.folded\n") == 1
    assert "only while decorated functions ran: first, second\n" in out
    assert sorted(os.listdir(tmp_path)) == ["first.folded", "first.pyhybrid"]
    found = counted(tmp_path / "first.pyhybrid")
    assert found["first"][:2] == (2030, 0)
    assert found["second"][:2] == (3, 30)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", ["", "clock='wall'", "mode='sample'", "engine='timer'"])
def test_what_runs_between_counts_nowhere(tmp_path: Path, options: str) -> None:
    """Neither calls nor samples, nor CPU time; and what comes after that counts again."""
    run(
        f"""
        @profile({options})
        def f(): burn(0.05)
        def between(): pass
        took = 0
        for i in range(4):
            took -= time.monotonic_ns()
            f()
            took += time.monotonic_ns()
            if i % 2:
                for _ in range(2000):
                    between()
                if "sample" not in {options!r}:
                    assert not any(map(sys.monitoring.get_events, (2, 3, 4)))
            burn(0.2)
        profile = write_profile()
        found = counts(profile)
        if "sample" not in {options!r}:
            assert found["f"][:2] == (4, 0) and "between" not in found
        (main,) = (t for t in profile.threads.values() if t.tid == os.getpid())
        spent = main.recorded_weight_ns + main.missed_weight_ns
        if "wall" in {options!r}:
            assert 0.1e9 < spent < 1.1 * took + 0.05e9, (main, took)
        else:
            assert 0.1e9 < spent < 0.45e9 > main.cpu_ns > 0.1e9, main
        """,
        tmp_path,
    )


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("options", ["lines=True, include=['__main__']", "c_calls=True"])
def test_events_in_one_function_end_between_calls(tmp_path: Path, options: str) -> None:
    """Where no function begins, too."""
    run(
        f"""
        @profile({options}, formats=(), summary=False)
        def f(): return both(1)
        def both(n):
            for _ in range(n):
                abs(2)
                abs(3)
        for _ in range(3):
            f()
            both(3000)
            for tool in 2, 3, 4:
                assert not sys.monitoring.get_events(tool)
                if sys.monitoring.get_tool(tool):
                    for code in f.__wrapped__.__code__, both.__code__:
                        assert not sys.monitoring.get_local_events(tool, code)
        profile = write_profile()
        assert counts(profile)["f"][0] == counts(profile)["both"][0] == 3
        if "lines" in {options!r}:
            hits = profile.query("SELECT sum(hits) FROM line")
            assert hits == [(3 + 3 * 4,)], hits
        else:
            called = profile.query(
                "SELECT sum(calls) FROM exact JOIN node ON node.id = exact.node JOIN frame ON "
                "frame.id = node.frame WHERE frame.kind = 'native' AND frame.name LIKE '%abs%'"
            )
            assert called == [(6,)], called
        """,
        tmp_path,
    )


def test_threads(tmp_path: Path) -> None:
    """Calls that overlap; the first ones begin together."""
    run(
        """
        @profile(mode="trace")
        def work(n): return sum(map(small, range(n)))
        @profile(mode="trace")
        def small(n): return n
        together = threading.Barrier(6)
        def calls():
            together.wait()
            for _ in range(200):
                work(10)
        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=calls) for _ in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        found = written()
        assert found["work"][0] == 1200 and found["small"][0] == 12000, found
        """,
        tmp_path,
    )


@pytest.mark.further
def test_written_when_asked(tmp_path: Path) -> None:
    """And the next call begins another profile; in the midst of a call, too."""
    out = run(
        """
        assert write_profile() is None
        @profile(output=None, summary=False, formats=())
        def f(asks=False): return asks and write_profile()
        f(); f()
        assert written()["f"][0] == 2
        assert write_profile() is None
        f()
        assert counts(f(True))["f"][0] == 2
        assert not open_windows()
        f()
        assert written()["f"][0] == 1
        """,
        tmp_path,
    )
    assert "finished by 3\n" in out
    assert os.listdir(tmp_path) == []


@pytest.mark.further
def test_refused_when_applied(tmp_path: Path) -> None:
    run(
        """
        def refused(function, what, **options):
            try:
                profile(**options)(function)
            except UsageError as error:
                assert what in str(error) and "\\n" not in str(error), error
                return
            raise AssertionError(what)
        class K: pass
        refused(K, "K is a class")
        refused(3, "of type int")
        refused(None, "of type NoneType")
        refused(functools.singledispatchmethod(len), "of type singledispatchmethod")
        refused(len, "unknown mode", mode="fast")
        try:
            profile(speed=3)(len)
        except TypeError as error:
            assert "speed" in str(error)
        """,
        tmp_path,
    )


@pytest.mark.further
def test_other_options_and_profilers(tmp_path: Path) -> None:
    """One profiler at a time: an idle one makes way, and what then counts nowhere is said once."""
    out = run(
        """
        @profile(summary=False)
        def a(n=0): return n and b(n - 1)
        @profile(summary=False, mode="trace", output="of_b")
        def b(n=0): return n and a(n - 1)
        @profile(summary=False, hz=99)
        def c(): return 1
        a(1); a(1)  # b's calls are within a's
        b(2); b()  # a's profile ends
        a(); a()
        with Profiler(mode="trace") as own:  # b's ends
            a(); b()
        assert counts(own.profile)["a"][0] == 1 and counts(own.profile)["b"][0] == 1
        b()
        c()
        assert counts(write_profile())["c"][0] == 1
        a(); a()
        """,
        tmp_path,
    )
    lines = [line for line in out.splitlines() if line.startswith("pyhybrid:")]
    assert lines == [
        "pyhybrid: calls of b are not profiled: while a runs, with other options",
        "pyhybrid: calls of a are not profiled: their profile ended when b was called, with other "
        "options; write_profile() lets them begin anew",
        "pyhybrid: calls of b are not profiled: their profile ended when a Profiler was started; "
        "write_profile() lets them begin anew",
    ]
    assert counted(tmp_path / "a.pyhybrid")["a"][0] == 2
    assert counted(tmp_path / "of_b.pyhybrid")["b"][0] == 3
    assert counted(tmp_path / "c.pyhybrid")["c"][0] == 1
    assert "finished by 5\n" in out


@pytest.mark.further
def test_in_a_run_of_the_command_line(pyhybrid: Callable[..., Run]) -> None:
    """That profiles all: the decorator adds nothing, and says nothing."""
    done = pyhybrid(
        "--mode",
        "trace",
        "-c",
        "import pyhybrid\n@pyhybrid.profile\ndef f(): return 1\nfor _ in range(5): f()\n"
        "assert pyhybrid.write_profile() is None\n",
    )
    (calls,) = done.profile().query(
        "SELECT sum(calls) FROM exact JOIN node ON node.id = exact.node "
        "JOIN frame ON frame.id = node.frame WHERE frame.name = 'f'"
    )
    assert calls == (5,)
    assert "not profiled" not in done.result.stderr
    assert not list(done.folder.glob("f.*"))


@pytest.mark.further
def test_forked_children_are_not_profiled(tmp_path: Path) -> None:
    out = run(
        """
        @profile
        def f(n): return n
        @profile(mode="trace")
        def g(): return 1
        f(1)
        child = os.fork()
        if not child:
            f(2); g()
            assert write_profile() is None
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        f(3)
        """,
        tmp_path,
    )
    assert sorted(os.listdir(tmp_path)) == ["f.folded", "f.pyhybrid"]
    assert counted(tmp_path / "f.pyhybrid")["f"][0] == 2
    assert out.count("finished by 0\n") == out.count("finished by 1\n") == 1


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("end", ["sys.exit(5)", "raise LookupError", "os.kill(os.getpid(), 2)"])
def test_ends_of_the_program(tmp_path: Path, end: str) -> None:
    """Within a call; functions that run at exit are profiled, too."""
    out = run(
        f"""
        @profile(output="f")
        def f(): {end}; time.sleep(10)
        @profile(output="f")
        def at_exit(): pass
        atexit.register(at_exit)
        at_exit()
        f()
        """,
        tmp_path,
        code={"sys.exit(5)": 5, "raise LookupError": 1}.get(end, -2),
    )
    found = counted(tmp_path / "f.pyhybrid")
    assert found["f"][0] == 1
    assert found["at_exit"][0] == 2
    assert "finished by 1\n" in out


@pytest.mark.further
def test_a_profile_that_cannot_start(tmp_path: Path) -> None:
    """The calls go on, and a line says why nothing is recorded."""
    out = run(
        """
        @profile(output="no/such/folder/x")
        def f(n): return n
        @profile
        def g(): return 1
        assert f(3) == 3 == f(3)
        assert g() == 1
        """,
        tmp_path,
    )
    assert out.count("pyhybrid: calls of f are not profiled: the output folder") == 1
    assert counted(tmp_path / "g.pyhybrid")["g"][0] == 1
    assert "f" not in counted(tmp_path / "g.pyhybrid")


@pytest.mark.further
def test_signal_handlers_that_call_it(tmp_path: Path) -> None:
    """Wherever they interrupt the decorator: it neither waits for itself nor stays open."""
    run(
        """
        import signal
        n = [0]
        @profile(mode="trace", summary=False, formats=())
        def f():
            n[0] += 1
        def handler(*_):
            f()
            raise LookupError
        f()
        signal.signal(signal.SIGALRM, handler)
        for i in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + i * 1e-6)
                while True:
                    f()
            except LookupError:
                pass
        assert not open_windows()
        assert n[0] <= written()["f"][0] <= n[0] + 400  # `n` misses those that it interrupted
        """,
        tmp_path,
    )


def test_calls_are_kept_where_it_says_so(tmp_path: Path) -> None:
    """Being decorated does not keep them."""
    text = """
        @profile(keep=["f"])
        def f(): burn()
        @profile(keep=["f"])
        def g(): burn()
        f(), f(), g()
        made = write_profile()
        print(made.query(
            "SELECT frame.name, count(*) FROM call JOIN node ON node.id = call.node "
            "JOIN frame ON frame.id = node.frame GROUP BY frame.name"
        ))
        """
    assert "[('f', 2)]" in run(text, tmp_path)
