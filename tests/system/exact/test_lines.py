"""Lines of chosen functions: hits are LINE events, times the program's, and nothing stays."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
from exact_support import MODES, check_exact
from random_programs import batches, source
from support import DELAY, LOOKS, PATIENCE_S, TARGETS, Run, printed

from pyhybrid.tables.profile import Profile

pytestmark = [pytest.mark.version, pytest.mark.once]

LINED = TARGETS / "lined.py"


def hits(profile: Profile) -> dict[tuple[str, int], int]:
    """By function and line, all threads and paths together."""
    names = {number: frame.name for number, frame in profile.frames.items()}
    counts: Counter[tuple[str, int]] = Counter()
    for row in profile.lines:
        counts[names[profile.nodes.frame[row.node]], row.line] += row.hits
    return {key: n for key, n in counts.items() if n}


def seconds(profile: Profile, name: str) -> dict[int, float]:
    """By line, of the function with this name."""
    total: Counter[int] = Counter()
    for row in profile.lines:
        if profile.frames[profile.nodes.frame[row.node]].name == name:
            total[row.line] += row.total_ns
    return {line: ns / 1e9 for line, ns in total.items()}


def check_lines(profile: Profile) -> None:
    """A function's lines never take longer than the function, path by path."""
    check_exact(profile)
    totals = {(row.thread, row.node): row.total_ns for row in profile.exact}
    sums: Counter[tuple[int, int]] = Counter()
    for row in profile.lines:
        assert row.hits >= 0 <= row.total_ns
        sums[row.thread, row.node] += row.total_ns
    for key, total_ns in sums.items():
        assert total_ns <= totals[key] + 1, key


@pytest.fixture(params=MODES)
def lined(
    pyhybrid: Callable[..., Run], request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[..., Run]:
    """lined(program, *options): a run with --lines of a file, or of a program's text."""

    def run(program: str | Path, *options: str) -> Run:
        if isinstance(program, str):
            (tmp_path / "program.py").write_text(textwrap.dedent(program))
            program = tmp_path / "program.py"
        options = ("--lines", "--mode", request.param, "--format", "folded", *options)
        return pyhybrid(*options, program)

    return run


Lined = Callable[..., Run]


def in_python(text: str, folder: Path) -> str:
    """What the program prints, profiling itself."""
    head = "import json, os, sys\nfrom pyhybrid import Profiler\n" + PRELUDE
    file = folder / "program.py"
    file.write_text(head + textwrap.dedent(text))
    command = [sys.executable, "-P", file]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


PRELUDE = """
def work(n):
    total = 0
    for i in range(n):
        total += i
    return total

TOOLS = range(6)

def local_events(function):
    \"\"\"Of all tools that are in use, and of those that were.\"\"\"
    found = {}
    for tool in TOOLS:
        mine = not sys.monitoring.get_tool(tool)
        if mine:
            sys.monitoring.use_tool_id(tool, "look")
        found[tool] = sys.monitoring.get_local_events(tool, function.__code__)
        if mine:
            sys.monitoring.free_tool_id(tool)
    return [tool for tool, events in found.items() if events]

def hits(p, name):
    frames, nodes = p.profile.frames, p.profile.nodes
    first = next(frame.line for frame in frames.values() if frame.name == name)
    found = {}
    for row in p.profile.lines:
        if frames[nodes.frame[row.node]].name == name:
            found[row.line - first] = found.get(row.line - first, 0) + row.hits
    return found
"""
WORK_10 = "{1: 1, 2: 11, 3: 10, 4: 1}"  # of work(10)
WORK_20 = "{1: 2, 2: 22, 3: 20, 4: 2}"


# --- hits ----------------------------------------------------------------------------------------


def test_hits_counted_by_hand(lined: Lined) -> None:
    profile = lined(LINED, "--include", r"lined\.py$", "--exclude", "^run$").profile()
    check_lines(profile)
    found: Counter[int] = Counter()
    for (name, line), n in hits(profile).items():
        found[line] += n if name != "<module>" else 0
    counted = LINED.read_text().partition("def run()")[0].splitlines()
    for number, text in enumerate(counted, 1):
        true = re.search(r"#: (\d+|\?)$", text)
        if true is None or true[1] != "?":
            assert found[number] == int(true[1] if true else 0), f"line {number}: {text}"


def test_a_chosen_function_alone(lined: Lined) -> None:
    profile = lined(LINED, "-t", "handles", "-t", "lined.never").profile()
    assert {name for name, _ in hits(profile)} == {"handles"}
    assert sum(hits(profile).values()) == 9 * 4
    assert profile.meta["notes"] == ["-t lined.never: no function of this name ran"]
    assert not profile.calls  # nobody asked for single ones
    assert not profile.call_times
    asked = lined(LINED, "-t", "handles", "--keep", "handles").profile()
    assert len(asked.calls) == 4


SETTRACE = """
import sys, threading
sys.path.insert(0, {folder!r})
import lined
seen = {{}}
def trace(frame, event, value):
    if frame.f_code.co_filename != lined.__file__:
        return None
    if event == "line":
        key = f"{{frame.f_code.co_qualname}} {{frame.f_lineno}}"
        seen[key] = seen.get(key, 0) + 1
    return trace
threading.settrace(trace)
sys.settrace(trace)
lined.run()
sys.settrace(None)
threading.settrace(None)
p = Profiler(mode="trace", include=[r"lined\\.py$"], lines=True)
with p:
    lined.run()
for row in p.profile.lines:
    key = f"{{p.profile.frames[p.profile.nodes.frame[row.node]].name}} {{row.line}}"
    seen[key] = seen.get(key, 0) - row.hits
print(json.dumps({{key: n for key, n in seen.items() if n}}))
"""


def test_hits_are_those_of_settrace(tmp_path: Path) -> None:
    """But for loops that are all on one line: settrace has an event for each jump back."""
    more = json.loads(in_python(SETTRACE.format(folder=str(TARGETS)), tmp_path))
    lines = dict(enumerate(LINED.read_text().splitlines(), 1))
    by_text = {lines[int(key.split()[1])].partition("#")[0].strip(): n for key, n in more.items()}
    assert by_text == {
        "for i in range(100): total += i": 100,
        "pairs = {k: k for k in range(2)}": 2,
        "threads = [threading.Thread(target=in_threads, args=(100,)) for _ in range(4)]": 4,
    }


COUNTING = """\
import atexit, json, sys
_counts = {}
def _count(code, line):
    if code.co_filename.endswith("/made.py"):
        key = f"{code.co_qualname} {line}"
        _counts[key] = _counts.get(key, 0) + 1
def _write():
    sys.monitoring.set_events(5, 0)
    with open("counts.json", "w") as file:
        json.dump(_counts, file)
sys.monitoring.use_tool_id(5, "count")
sys.monitoring.register_callback(5, sys.monitoring.events.LINE, _count)
sys.monitoring.set_events(5, sys.monitoring.events.LINE)
atexit.register(_write)
"""


SLOW = [
    pytest.param(mode, draw, marks=pytest.mark.slow)
    for mode in ("trace", "hybrid")
    for draw in range(1, 4)
]


@pytest.mark.further
@pytest.mark.parametrize(("mode", "draw"), [*SLOW, ("hybrid", 0)])
def test_random_programs(mode: str, draw: int, tmp_path: Path) -> None:
    """As another tool of sys.monitoring counts them, at the same time."""
    file = tmp_path / "made.py"
    command = [sys.executable, "-P", "-m", "pyhybrid", "-q", "--format", "folded", "--mode", mode]
    command += ["--lines", "--include", r"/made\.py$", "--exclude", "^(_write|_count|<module>)$"]
    for batch in batches(draw):
        file.write_text(COUNTING + source(batch))
        run = subprocess.run(
            [*command, file], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert run.returncode == 0, run.stderr
        true = json.loads((tmp_path / "counts.json").read_text())
        ours = ("_write", "_count", "<module>")
        with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
            check_lines(profile)
            found = {f"{name} {line}": n for (name, line), n in hits(profile).items()}
        assert found == {key: n for key, n in true.items() if key.split()[0] not in ours}


# --- times ---------------------------------------------------------------------------------------

SPINS = """
import asyncio, threading, time

def spin(s):
    end = time.thread_time() + s
    while time.thread_time() < end:
        pass

def plain():
    x = 1
    spin(0.05)
    for _ in range(2):
        spin(0.03)
    try:
        raise KeyError(spin(0.02))
    except KeyError:
        spin(0.04)

def generator():
    yield spin(0.02)
    got = [
        spin(0.01),
        (yield 1), spin(0.03),
    ]
    yield got

def recursive(n):
    spin(0.02)
    if n:
        recursive(n - 1)

def leaves(depth):
    if depth:
        spin(0.02); leaves(depth - 1)
    raise KeyError

async def sleeper():
    spin(0.02)
    await asyncio.sleep(0.3)
    spin(0.01)

def threaded():
    spin(0.05)

async def main():
    await asyncio.gather(sleeper(), sleeper())

plain()
for _ in generator():
    spin(0.1)
recursive(2)
try:
    leaves(2)
except KeyError:
    pass
asyncio.run(main())
threads = [threading.Thread(target=threaded) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
"""


def test_times(lined: Lined) -> None:
    names = ["plain", "generator", "recursive", "leaves", "sleeper", "threaded"]
    run = lined(SPINS, *(option for name in names for option in ("-t", name)))
    profile = run.profile()
    check_lines(profile)
    text = SPINS.splitlines()
    by_text = {
        name: {text[line - 1].strip(): s for line, s in seconds(profile, name).items()}
        for name in names
    }
    plain = by_text["plain"]
    assert plain["spin(0.05)"] >= 0.05
    assert plain["spin(0.03)"] >= 0.06
    assert plain["raise KeyError(spin(0.02))"] >= 0.02
    assert plain["spin(0.04)"] >= 0.04
    # It goes on in the middle of a line; check_lines: it is not charged while it is suspended.
    generator = by_text["generator"]
    assert generator["yield spin(0.02)"] >= 0.02
    assert generator["spin(0.01),"] >= 0.01
    assert generator["(yield 1), spin(0.03),"] >= 0.03
    # The inner activations are part of the outer one's line.
    assert by_text["recursive"]["spin(0.02)"] >= 0.06
    assert by_text["recursive"]["recursive(n - 1)"] >= 0.04 + 0.02
    assert by_text["leaves"]["spin(0.02); leaves(depth - 1)"] >= 0.04 + 0.02
    assert by_text["sleeper"]["spin(0.02)"] >= 0.04
    assert by_text["sleeper"]["spin(0.01)"] >= 0.02
    assert by_text["threaded"]["spin(0.05)"] >= 0.15
    assert len({row.thread for row in profile.lines}) == 4


# Its threads run one after another, where none waits for the GIL, and say what all waited.
IN_TURN = f"""{DELAY}
import threading
waited = -delay_ns()
{SPINS.partition("threads = [")[0]}
def in_thread():
    global waited
    began = delay_ns()
    threaded()
    waited += delay_ns() - began
for _ in range(3):
    t = threading.Thread(target=in_thread)
    t.start()
    t.join()
print(waited + delay_ns())
"""


@pytest.mark.further
def test_the_lines_are_all_of_a_functions_time(lined: Lined) -> None:
    run = lined(IN_TURN, "-t", "plain", "-t", "generator", "-t", "threaded")
    profile, waited_s = run.profile(), int(run.result.stdout) / 1e9
    for name in ("plain", "generator", "threaded"):
        total_ns = sum(
            row.total_ns
            for row in profile.exact
            if profile.frames[profile.nodes.frame[row.node]].name == name
        )
        # The rest is what the callbacks cost: 3 calls, some 30 lines.
        of_lines = sum(seconds(profile, name).values())
        assert 0.99 * total_ns / 1e9 - waited_s <= of_lines <= total_ns / 1e9


# --- beginning, pausing, ending ------------------------------------------------------------------


@pytest.mark.further
@pytest.mark.parametrize("mode", ["trace", "hybrid"])
def test_nothing_is_left(tmp_path: Path, mode: str) -> None:
    in_python(
        f"""
        work(5)
        for _ in range(2):
            p = Profiler(mode={mode!r}, functions=["work"], lines=True)
            with p:
                work(10)
                assert local_events(work) == [4]
            assert local_events(work) == []
            assert hits(p, "work") == {WORK_10}, hits(p, "work")
            with Profiler(mode={mode!r}, functions=["work"]) as q:
                work(10)
            assert not q.profile.lines
        """,
        tmp_path,
    )


@pytest.mark.further
def test_code_objects_die_meanwhile(tmp_path: Path) -> None:
    in_python(
        """
        import gc, weakref
        text = "def made():\\n  x = 1\\n  return x\\n"
        p = Profiler(mode="trace", functions=["made"], lines=True)
        dead = []
        with p:
            for _ in range(3000):
                scope = {}
                exec(text, scope)
                scope["made"]()
                dead.append(weakref.ref(scope["made"].__code__))
            del scope
            gc.collect()
            assert not any(each() for each in dead)
            exec(text)
            made = locals()["made"]
            made()
            assert local_events(made) == [4]
        assert local_events(made) == []
        assert hits(p, "made") == {1: 3001, 2: 3001}, hits(p, "made")
        """,
        tmp_path,
    )


@pytest.mark.further
def test_begun_before_and_after(tmp_path: Path) -> None:
    """What runs already is recorded once something chosen is called below it, from its next line
    on; a generator from its next turn on."""
    in_python(
        """
        def turns():
            yield 1
            yield 2
            yield 3

        def outer(p):
            p.start()
            a = work(10)
            b = a
            work(10)
            p.stop()

        it = turns()
        next(it)
        p = Profiler(mode="trace", functions=["work", "outer", "turns"], lines=True)
        outer(p)
        assert hits(p, "work") == """
        + WORK_20
        + """
        # From the first call on, whose line was there before the events were.
        assert hits(p, "outer") == {2: 0, 3: 1, 4: 1, 5: 1}, hits(p, "outer")
        with p:
            next(it)
            next(it)
            next(it, None)
        assert hits(p, "turns") == {1: 0, 2: 1, 3: 1}, hits(p, "turns")
        assert local_events(outer) == local_events(turns) == []
        """,
        tmp_path,
    )


@pytest.mark.further
def test_another_thread_is_in_the_function_already(tmp_path: Path) -> None:
    in_python(
        """
        import threading
        began, seen, stop = [threading.Event() for _ in range(3)]
        def rounds(limit):
            n = 0
            while n < limit and not stop.is_set():
                n += 1
                began.set()
                if n > enough[0]:
                    seen.set()
            return n
        enough = [1 << 60]
        thread = threading.Thread(target=rounds, args=(1 << 50,))
        thread.start()
        began.wait()
        p = Profiler(mode="hybrid", functions=["rounds"], lines=True)
        with p:
            rounds(0)  # from here on its lines are recorded, also in the thread
            enough[0] = 0
            seen.wait()
            stop.set()
            thread.join()
        profile = p.profile
        by_thread = {}
        for row in profile.lines:
            first = profile.frames[profile.nodes.frame[row.node]].line
            by_thread.setdefault(row.thread, {})[row.line - first] = row.hits
        (called,) = [row.thread for row in profile.exact if row.calls]
        (seeded,) = [row.thread for row in profile.exact if row.seeded]
        assert by_thread[called] == {1: 1, 2: 1, 7: 1}, by_thread
        found = by_thread[seeded]
        assert found[2] >= 2 and abs(found[2] - found[3]) <= 1, found
        assert found[7] == 1 and 1 not in found, found
        """,
        tmp_path,
    )


@pytest.mark.further
def test_pause_and_resume(tmp_path: Path) -> None:
    in_python(
        """
        def outer(p):
            work(10)
            p.pause()
            work(1000)
            assert local_events(work) == local_events(outer) == []
            p.resume()
            work(10)
            work(0)
        p = Profiler(mode="hybrid", functions=["work", "outer"], lines=True)
        p.start()
        outer(p)
        p.pause()
        assert local_events(work) == []
        p.stop()
        assert local_events(work) == local_events(outer) == []
        assert hits(p, "work") == {1: 3, 2: 23, 3: 20, 4: 3}, hits(p, "work")
        assert hits(p, "outer") == {1: 1, 2: 1, 6: 1, 7: 1}, hits(p, "outer")
        """,
        tmp_path,
    )


@pytest.mark.further
def test_a_run_that_waits_to_be_enabled(lined: Lined) -> None:
    profile = lined(
        """
        import pyhybrid
        def work(n):
            return n
        work(1)
        pyhybrid.enable()
        work(2)
        pyhybrid.disable()
        work(3)
        pyhybrid.enable()
        work(4)
        """,
        "-p",
        *("-t", "work"),
    ).profile()
    assert hits(profile) == {("work", 4): 2}


@pytest.mark.further
def test_fork(tmp_path: Path) -> None:
    out = in_python(
        """
        p = Profiler(mode="hybrid", functions=["work", "in_child"], lines=True)
        def in_child():
            work(1000)
            assert local_events(work) == local_events(in_child) == []
            with Profiler(mode="trace", functions=["work"], lines=True) as q:
                work(10)
            assert hits(q, "work") == """
        + WORK_10
        + """
            assert local_events(work) == []
            print("child", flush=True)
        def forks():
            child = os.fork()
            if not child:
                in_child()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        with p:
            work(10)
            forks()
            work(10)
        assert hits(p, "work") == """
        + WORK_20
        + """
        assert not any(frame.name == "in_child" for frame in p.profile.frames.values())
        """,
        tmp_path,
    )
    assert out == "child\n"


# --- with others ---------------------------------------------------------------------------------


@pytest.mark.further
@pytest.mark.parametrize("core", ["ctrace", "sysmon", "pytrace"])
@pytest.mark.parametrize("first", ["coverage", "pyhybrid"])
def test_coverage(tmp_path: Path, core: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVERAGE_CORE", core)
    (tmp_path / "measured.py").write_text(LINED.read_text())
    in_python(
        f"""
        sys.path.insert(0, os.getcwd())
        import coverage, measured

        class Coverage:
            def __enter__(self):
                self.of = coverage.Coverage(data_file=None, include=[measured.__file__])
                self.of.start()
            def __exit__(self, *unused):
                self.of.stop()
                self.lines = sorted(self.of.get_data().lines(measured.__file__))

        def counts(p):
            totals = {{}}
            for row in p.profile.lines:
                totals[row.line] = totals.get(row.line, 0) + row.hits
            return totals

        options = dict(mode="trace", include=[r"measured\\.py$"], lines=True)
        alone, p = Coverage(), Profiler(**options)
        with alone:
            measured.run()
        with p:
            measured.run()
        together, q = Coverage(), Profiler(**options)
        outer, inner = (together, q) if {first!r} == "coverage" else (q, together)
        with outer, inner:
            measured.run()
        assert together.lines == alone.lines
        assert counts(p) == counts(q)
        assert 4 not in local_events(measured.loops)  # (coverage leaves its own)
        """,
        tmp_path,
    )


@pytest.mark.further
def test_settrace_at_the_same_time(tmp_path: Path) -> None:
    in_python(
        """
        seen = []
        def trace(frame, event, value):
            if frame.f_code is work.__code__:
                if event == "line":
                    seen.append(frame.f_lineno - work.__code__.co_firstlineno)
                return trace
        p = Profiler(mode="hybrid", functions=["work"], lines=True)
        with p:
            work(10)
            sys.settrace(trace)
            work(10)
            sys.settrace(None)
            work(10)
        assert hits(p, "work") == {1: 3, 2: 33, 3: 30, 4: 3}, hits(p, "work")
        assert sorted(seen) == [1] + [2] * 11 + [3] * 10 + [4], seen
        """,
        tmp_path,
    )


@pytest.mark.further
def test_regions_within_lines(tmp_path: Path) -> None:
    in_python(
        """
        from pyhybrid import region
        def within():
            with region("a"):
                x = 1
                work(10)
                for i in range(3):
                    with region("b"):
                        x = 2
            return x
        p = Profiler(mode="trace", functions=["within", "work"], lines=True)
        with p:
            within()
        assert hits(p, "within") == {1: 2, 2: 1, 3: 1, 4: 4, 5: 6, 6: 3, 7: 1}, hits(p, "within")
        assert hits(p, "work") == """
        + WORK_10,
        tmp_path,
    )


@pytest.mark.further
def test_a_full_tree_loses_lines_and_says_so(lined: Lined) -> None:
    profile = lined(LINED, "--include", r"lined\.py$", "--max-nodes", "40").profile()
    check_lines(profile)
    assert any("--max-nodes" in note for note in profile.meta["notes"])


# --- what is asked, and what is said --------------------------------------------------------------


@pytest.mark.further
@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--lines",), "-t, --include"),
        (("--lines", "--exclude", "x"), "-t, --include"),
        (("--lines", "--mode", "sample", "-t", "f"), "mode hybrid"),
        (("--lines", "--mode", "sample"), "mode hybrid"),
    ],
)
def test_used_wrongly(pyhybrid: Callable[..., Run], options: tuple[str, ...], what: str) -> None:
    result = pyhybrid(*options, LINED, check=False).result
    assert result.returncode == 2
    assert what in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_report(lined: Lined, pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    run = lined(
        """
        def work(n):
            total = 0
            for i in range(n):
                total += i

            return total

        def other():
            return 1
        work(100)
        other()
        """,
        *("-t", "work"),
    )
    last = run.result.stderr.splitlines()[-1]
    assert last == "lines    4 of 1 functions: `pyhybrid report lines` shows them"
    out = pyhybrid("report", "lines").result.stdout.splitlines()
    assert out[0].startswith("work (program.py:2)  1 call, ")
    rows = takewhile(bool, out[2:])  # a listing of native code may come after it
    assert [(row[:18].split(), row[53:]) for row in rows] == [
        (["2"], "def work(n):"),
        (["3", "1"], "    total = 0"),
        (["4", "101"], "    for i in range(n):"),
        (["5", "100"], "        total += i"),
        (["6"], ""),
        (["7", "1"], "    return total"),
    ]
    (told,) = json.loads(pyhybrid("report", "--json").result.stdout)["lines"]
    assert [told[key] for key in ("name", "line", "calls")] == ["work", 2, 1]
    assert [(each["line"], each["hits"]) for each in told["lines"]] == [
        (3, 1),
        (4, 101),
        (5, 100),
        (7, 1),
    ]
    (tmp_path / "program.py").unlink()
    out = pyhybrid("report", "lines").result.stdout.splitlines()
    assert out[0].endswith("; source not found")
    assert [row[:18].split() for row in takewhile(bool, out[2:])] == [
        ["3", "1"],
        ["4", "101"],
        ["5", "100"],
        ["7", "1"],
    ]


@pytest.mark.further
def test_the_report_of_a_run_without(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--mode", "trace", "-t", "handles", LINED)
    assert not any(line.startswith("lines") for line in run.result.stderr.splitlines())
    result = pyhybrid("report", "lines", check=False).result
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert "no lines were recorded" in result.stderr
    assert json.loads(pyhybrid("report", "--json").result.stdout)["lines"] is None


@pytest.mark.further
def test_killed(pyhybrid: Callable[..., Run]) -> None:
    program = """
import os, time
def work(n):
    for i in range(n):
        pass
work(1000)
part = "out.pyhybrid.part"
size = os.path.getsize(part)
while os.path.getsize(part) == size:
    time.sleep(0.05)
"""
    program += f"{LOOKS}looked()\nos.kill(os.getpid(), 9)\n"  # with all that it was to write then
    pyhybrid("--leave-part", "--mode", "trace", "--lines", "-t", "work", "-c", program, check=False)
    out = pyhybrid("report", "lines", "out.pyhybrid.part").result.stdout
    assert re.search(r"^ +4 +1,001 ", out, re.MULTILINE), out


REPLACED = """
import importlib, os, sys, time

sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = True

def write(lines_before):
    with open("plugin.py", "w") as file:
        file.write("#pad\\n" * lines_before)
        file.write("import time\\ndef run(until):\\n    while time.thread_time() < until: pass\\n")

write(1)
import plugin
plugin.run(time.thread_time() + 0.2)
write(40)
importlib.reload(plugin)
plugin.run(time.thread_time() + 0.2)
"""


@pytest.mark.further
def test_text_of_a_module_that_was_reloaded(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", REPLACED)
    summary = json.loads(printed(run.folder, "report", "--json"))
    lines = [each for each in summary["program_lines"] if "plugin" in each["file"]]
    texts = {each["line"]: each["text"] for each in lines}
    assert texts == {4: "", 43: "while time.thread_time() < until: pass"}
    _, _, shown = printed(run.folder, "report").partition("\n")  # whose head is the program
    assert "#pad" not in shown
    source = run.path("plugin.py")
    source.write_text("# another\n" + source.read_text())
    os.utime(source, ns=(1, 1))
    summary = json.loads(printed(run.folder, "report", "--json"))
    assert {each["text"] for each in summary["program_lines"]} == {""}
    assert "plugin.py: source has changed since: lines may have moved" in summary["notes"]
