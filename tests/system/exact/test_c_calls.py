"""--c-calls: the C functions that Python functions call, counted and timed."""

from __future__ import annotations

import json
import pstats
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exact_support import MODES, check_exact, key, path_of
from support import TARGETS, Run, check_invariants, is_stripped

from pyhybrid.tables import Exact
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import function_calls

pytestmark = [pytest.mark.version, pytest.mark.once]

WITHOUT_C = {"recursion", "closures"}
PROGRAMS = sorted(p for p in (TARGETS / "counted").glob("*.py") if p.stem not in WITHOUT_C)

# Bound methods of C functions that are called with `*args` have no event.
INEXACT = sys.version_info < (3, 12, 5)

ABS, MAX, SORTED = ("builtin_abs", "builtin_max", "builtin_sorted")
if is_stripped():
    ABS, MAX, SORTED = ("builtins.abs", "builtins.max", "builtins.sorted")

# What cProfile takes for no C function: classes, slot wrappers.
NOT_CPROFILES = re.compile("<class|<slot wrapper")


def c_rows(profile: Profile, name: str) -> list[Exact]:
    """Of the C functions that Python calls by this name, among others: imports call some, too."""
    rows = profile.query("SELECT frame FROM c_function WHERE name = ?", name)
    frames = {frame for (frame,) in rows}
    return [row for row in profile.exact if profile.nodes.frame[row.node] in frames]


def below(profile: Profile, root: str) -> dict[str, Counter[str]]:
    """Calls of what ran below the function with this key, by callee and caller.

    Both by cProfile's names; what it does not count is nobody's caller.  Functions that share their
    code go by the first of their names.
    """
    nodes, names = profile.nodes, {}
    for frame, first in profile.query("SELECT frame, min(name) FROM c_function GROUP BY frame"):
        names[frame] = first
    counted = {row.node for row in profile.exact}

    def name(node: int) -> str:
        return names.get(nodes.frame[node]) or key(profile, node)

    def caller(node: int) -> int:
        node = nodes.parent[node]
        while node and (node not in counted or NOT_CPROFILES.match(name(node))):
            node = nodes.parent[node]
        return node

    def is_inside(node: int) -> bool:
        while node and name(node) != root:
            node = caller(node)
        return node != 0

    calls: dict[str, Counter[str]] = {}
    for row in profile.exact:
        above = caller(row.node)
        if is_inside(above) and not NOT_CPROFILES.match(name(row.node)):
            calls.setdefault(name(row.node), Counter())[name(above)] += row.calls + row.resumes
    return calls


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_calls_and_callers_are_cprofiles(
    pyhybrid: Callable[..., Run], program: Path, mode: str, tmp_path: Path
) -> None:
    options = ("-q", "--c-calls", "--mode", mode, "--format", "folded")
    profile = pyhybrid(*options, TARGETS / "counted.py", program).profile()
    check_exact(profile)
    file, module = tmp_path / "cprofile.json", f"{program}:1:<module>"
    subprocess.run([sys.executable, "-P", TARGETS / "counted.py", program, file, "c"], check=True)
    sql = "SELECT b.name, min(a.name) FROM c_function a JOIN c_function b USING (frame) GROUP BY 1"
    shared = dict(profile.query(sql))
    theirs: dict[str, Counter[str]] = {}
    for callee, _, callers in json.loads(file.read_text()):
        for caller, calls in callers.items() if callee != module else ():
            of = theirs.setdefault(shared.get(callee, callee), Counter())
            of[shared.get(caller, caller)] += calls
    ours = below(profile, module)
    assert any(name.startswith("<") for name in ours)
    assert ours == theirs


@pytest.fixture(params=MODES)
def truth(
    pyhybrid: Callable[..., Run], request: pytest.FixtureRequest, chain: Path
) -> Callable[..., tuple[Profile, Any]]:
    """truth(name, *options): a program of tests/targets/c_calls.py, and what is true of it."""

    def run(name: str, *options: str) -> tuple[Profile, Any]:
        command = ("-q", "--c-calls", "--mode", request.param, "--format", "folded", *options)
        done = pyhybrid(*command, TARGETS / "c_calls.py", name, chain)
        profile = done.profile()
        check_exact(profile)
        check_invariants(profile)
        return profile, json.loads(done.result.stdout.splitlines()[-1])

    return run


Truth = Callable[..., tuple[Profile, Any]]


def counted(profile: Profile, name: str, inside: str) -> list[int]:
    """Calls of a C function below a Python function, and how many of them raised."""
    rows = [row for row in c_rows(profile, name) if inside in path_of(profile, row.node)]
    return [sum(row.calls for row in rows), sum(row.raised for row in rows)]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["callbacks", "raising", "generators", "iterators", "kinds"])
def test_what_is_true(truth: Truth, name: str) -> None:
    profile, true = truth(name)
    found = {c_name: counted(profile, c_name, name) for c_name in true["calls"]}
    if name == "kinds" and INEXACT:
        length = "<built-in method builtins.len>"
        assert 12 <= found.pop(length)[0] <= true["calls"].pop(length)[0] == 18
    assert found == true["calls"]


@pytest.mark.further
def test_threads(truth: Truth) -> None:
    profile, true = truth("threads")
    for name, counts in true["calls"].items():
        rows = [
            row
            for row in c_rows(profile, name)
            if "threads.<locals>.work" in path_of(profile, row.node)
        ]
        assert len(rows) == 4 == len({row.thread for row in rows})
        assert [row.calls for row in rows] == [counts[0] // 4] * 4


def test_times(truth: Truth) -> None:
    profile, true = truth("times")
    tallies = {profile.c_names.get(frame): t for frame, t in function_calls(profile).items()}
    for name, seconds in true["seconds"].items():
        assert counted(profile, name, "times") == true["calls"][name]
        assert seconds <= tallies[name].total_ns / 1e9 <= true["wall"]
    # What Python code below a C function takes is not the C function's own time.
    spin, call_a = (tallies[f"<built-in method chain.{name}>"] for name in ("spin", "call_a"))
    assert spin.self_ns == spin.total_ns
    assert call_a.self_ns < 0.05e9
    # Nor is a C function's time that of the Python function that calls it.
    work = sum(
        row.self_ns for row in profile.exact if path_of(profile, row.node)[-1].endswith("work")
    )
    assert work < 0.05e9


@pytest.mark.further
def test_python_below_c(truth: Truth) -> None:
    profile, _ = truth("callbacks")
    paths = [path_of(profile, row.node) for row in profile.exact]
    keys = [path[path.index("callbacks") :] for path in paths if path[-1] == "key"]
    assert sorted(path[1] for path in keys) == [MAX, SORTED]
    # Of the interpreter's way into the C function nothing is left.
    assert all(not re.search("(?i)vectorcall", name) for path in keys for name in path[1:2])
    below_key = [path for path in paths if path[-2:] == ["key", ABS]]
    assert len(below_key) == 2


@pytest.mark.further
@pytest.mark.needs("interpreter_symbols")  # else its way to a C function is not known as such
@pytest.mark.parametrize("mode", ["hybrid"])
def test_samples_are_on_the_node_that_counts(
    pyhybrid: Callable[..., Run], chain: Path, mode: str
) -> None:
    options = ("-q", "--c-calls", "--mode", mode, "--format", "folded")
    profile = pyhybrid(*options, TARGETS / "c_calls.py", "times", chain).profile()
    nodes, frames = profile.nodes, profile.frames
    inclusive: Counter[int] = Counter()
    for row in profile.sampled:
        node = profile.stacks.node[row.stack]
        while node:
            inclusive[node] += row.weight_ns
            node = nodes.parent[node]
    for name, n in (("spin", 2), ("call_a", 1)):
        of_function = [i for i, f in enumerate(nodes.frame) if i and frames[f].name == name]
        counting = {row.node for row in profile.exact}
        assert len(of_function) == n
        assert counting.issuperset(of_function)
        assert all(inclusive[node] > 30 * profile.period_ns for node in of_function)


@pytest.mark.further
def test_only_the_chosen_functions_calls(truth: Truth) -> None:
    profile, _ = truth("callbacks", "-t", "key")
    assert counted(profile, "<built-in method builtins.abs>", "key") == [80, 0]
    functions = function_calls(profile)
    assert sum(f.calls for f in functions.values()) == 80 + 80
    names = {path_of(profile, row.node)[-1] for row in profile.exact}
    assert names == {"key", ABS}


def test_exports_name_them_as_cprofile_does(pyhybrid: Callable[..., Run]) -> None:
    options = ("-q", "--c-calls", "--mode", "trace", "--format", "pstats", "--format", "callgrind")
    run = pyhybrid(*options, TARGETS / "c_calls.py", "callbacks")
    stats = pstats.Stats(str(run.path("out.pstats"))).stats  # type: ignore[attr-defined]
    _, calls, own_s, total_s, callers = stats["~", 0, "<built-in method builtins.sorted>"]
    assert own_s < total_s
    by_caller = {key[2]: row[:2] for key, row in callers.items()}
    assert by_caller.pop("callbacks") == (10, 10)
    assert calls == 10 + sum(calls for calls, _ in by_caller.values())  # of what is imported
    (of_key,) = (row for key, row in stats.items() if key[2] == "key")
    assert {key[2]: row[0] for key, row in of_key[4].items()} == {
        "<built-in method builtins.sorted>": 50,
        "<built-in method builtins.max>": 30,
    }
    callgrind = run.path("callgrind.out").read_text()
    (number,) = re.findall(r"cfn=\((\d+)\) <built-in method builtins.sorted>\n", callgrind)
    assert re.search(rf"cfn=\({number}\).*\ncalls=10 ", callgrind)


@pytest.mark.further
def test_summary(pyhybrid: Callable[..., Run]) -> None:
    program = "for _ in range(10): sorted(range(100_000), key=abs)"
    run = pyhybrid("--c-calls", "--mode", "trace", "-c", program)
    text = run.result.stderr
    assert re.search(
        r"calls    [\d,]+ of \d+ Python functions, [\d,]+ of \d+ C functions, all", text
    )
    assert re.search(rf" 10  {SORTED}", text)
    assert ("with *args are missing" in text) == INEXACT
    meta = run.profile().meta
    assert (meta["c_calls"], meta["c_calls_inexact"]) == (True, INEXACT)
    calls = json.loads(pyhybrid("report", "--json").result.stdout)["calls"]
    assert (calls["c_calls"], calls["n_c_traced"], calls["n_traced"]) == (10 + 11, 2, 1)


@pytest.mark.further
@pytest.mark.parametrize(
    ("options", "what"),
    [(("--mode", "sample"), "--c-calls"), (("--mode=sample", "-p"), "--c-calls")],
)
def test_samples_count_no_calls(
    pyhybrid: Callable[..., Run], options: tuple[str, ...], what: str
) -> None:
    result = pyhybrid("--c-calls", *options, "-c", "pass", check=False).result
    assert result.returncode == 2
    assert what in result.stderr
    assert len(result.stderr.splitlines()) == 1


def within(text: str, folder: Path) -> None:
    """Run a program that uses pyhybrid itself."""
    head = """
    import sys
    from pyhybrid import Profiler
    from pyhybrid.views.calls.function_calls import function_calls
    from pyhybrid.errors import UsageError
    M, E = sys.monitoring, sys.monitoring.events
    def work(n):
        for _ in range(n):
            len("a"), sorted("ab", key=ord)
    def calls(p):
        names = p.profile.c_names
        return {names[f]: c.calls for f, c in function_calls(p.profile).items() if f in names}
    """
    script = textwrap.dedent(head) + textwrap.dedent(text)
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.further
def test_api(tmp_path: Path) -> None:
    within(
        """
        for n in (10, 20):
            with Profiler(mode="trace", c_calls=True) as p:
                work(n)
                p.pause()
                work(5)
                p.resume()
                work(1)
            found = calls(p)
            assert found["<built-in method builtins.len>"] == n + 1, found
            assert found["<built-in method builtins.sorted>"] == n + 1
            with Profiler(mode="trace") as p:
                work(10)
            assert calls(p) == {}
            assert not any(p.profile.frames[p.profile.nodes.frame[row.node]].kind == "native"
                           for row in p.profile.exact)
        try:
            Profiler(mode="sample", c_calls=True)
        except UsageError as error:
            assert "c_calls" in str(error)
        else:
            raise AssertionError
        """,
        tmp_path,
    )


@pytest.mark.further
@pytest.mark.needs("plain_build")  # ASan keeps freed memory for a while, in mappings of its own
def test_nothing_is_left(tmp_path: Path) -> None:
    within(
        """
        def mappings():
            with open("/proc/self/maps") as file:
                fields = map(str.split, file)
                return sum(len(each) == 5 and not (jit and "x" in each[1]) for each in fields)
        jit = hasattr(sys, "_jit") and sys._jit.is_enabled()  # code that it makes is mapped, too
        counts = []
        for _ in range(24):
            with Profiler(mode="trace", c_calls=True) as p:
                work(1000)
            p.profile.close()
            counts.append(mappings())
        # The interpreter's own heap and tables may grow, by a mapping, in one round or another.
        assert counts[-1] - counts[5] < 6, counts
        for tool in range(6):
            assert M.get_tool(tool) is None
            M.use_tool_id(tool, "test")
            assert M.get_events(tool) == 0
            for event in (E.CALL, E.C_RETURN, E.C_RAISE, E.PY_START):
                assert M.register_callback(tool, event, None) is None
        """,
        tmp_path,
    )


@pytest.mark.further
def test_beside_other_tools(tmp_path: Path) -> None:
    within(
        """
        import cProfile
        lines = []
        def trace(frame, event, arg):
            if frame.f_code is work.__code__:
                lines.append(event)
            return trace
        with Profiler(mode="trace", c_calls=True) as p:
            with cProfile.Profile() as theirs:
                work(10)
            sys.settrace(trace)
            work(10)
            sys.settrace(None)
            told = []
            sys.setprofile(lambda frame, event, arg: told.append((event, arg)))
            work(10)
            sys.setprofile(None)
        found = calls(p)
        assert found["<built-in method builtins.len>"] == 30, found
        assert found["<built-in method builtins.sorted>"] == 30
        assert told.count(("c_call", len)) == told.count(("c_return", len)) == 10
        counts = {str(e.code): e.callcount for e in theirs.getstats()}
        assert counts["<built-in method builtins.sorted>"] == 10
        assert lines.count("call") == 1 and lines.count("line") > 10
        """,
        tmp_path,
    )


@pytest.mark.further
def test_a_call_whose_end_has_no_event(tmp_path: Path) -> None:
    """A bound method of a C function called with `*args`, and then all that can end it."""
    within(
        """
        import types
        class Property:
            @property
            def value(self):
                work(1)
                return 1
            def __getitem__(self, i):
                return work(1)
        def gap():
            types.MethodType(sorted, "ab")(*())
        def inlined():
            gap()
            types.MethodType(sorted, "ab")(*())
            work(1)
        def from_c():
            for _ in range(5):
                types.MethodType(sorted, "ab")(*())
                Property().value
                Property()[1]
        def yields():
            types.MethodType(sorted, "ab")(*())
            yield
            types.MethodType(sorted, "ab")(*())
        def raises():
            types.MethodType(sorted, "ab")(*())
            1 / 0
        with Profiler(mode="trace", c_calls=True) as p:
            for _ in range(20):
                inlined(), from_c(), list(yields())
                try:
                    raises()
                except ZeroDivisionError:
                    pass
        for row in p.profile.exact:
            assert 0 <= row.self_ns <= row.total_ns, row
        root = sum(row.self_ns for row in p.profile.exact)
        most = max(row.total_ns for row in p.profile.exact)
        assert root >= most
        found = calls(p)["<built-in method builtins.sorted>"]
        real = 20 * (2 + 5 + 2 + 1 + 1 + 10)
        # sorted(..., key=ord) of `work` is in it: 11 each.
        assert found <= real and (sys.version_info < (3, 12, 5) or found == real), found
        """,
        tmp_path,
    )
