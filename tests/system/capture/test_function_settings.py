"""Functions with settings of their own: `[[function]]` of configuration files, `--arguments`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import Run

TRACE = ("--mode", "trace", "--format", "folded", "-q")
PROGRAM = """
import asyncio, collections, time

class Evil:
    def __repr__(self):
        raise SystemExit(9)
    __str__ = __len__ = __eq__ = __hash__ = __bool__ = __repr__

class Text(str):
    __repr__ = Evil.__repr__

class Model:
    def forward(self, x, /, *rest, scale=1.5, **more):
        def inner():
            return x
        x = inner()
        return x

def every(a, b, c, d, e, f, g, h, i): pass
def many(%s): pass
def no_arguments(): pass
def counted(n):
    yield n
    n = "changed"
    yield n
async def waits(delay):
    await asyncio.sleep(delay)
def raises(kind, text):
    raise kind(text)
def recursive(n):
    return n and recursive(n - 1)

model = Model()
model.forward(1, 2, 3, key=4)
model.forward(Evil(), scale=Evil())
every(None, True, 12, 2**200, 0.5, "it's", Text("no"), (1, 2), {1: 2})
every([3], {1}, b"bytes", Model, len, ValueError("why"), Evil(), "\\x1b\\u00e9", "y" * 500)
many(*["z" * 300] * 30)
no_arguments()
assert list(counted(5)) == [5, "changed"]
asyncio.run(waits(0))
try:
    raises(ValueError, "text")
except ValueError:
    pass
recursive(3)
""" % ", ".join(f"argument_{i}" for i in range(30))  # noqa: UP031

EVERY = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
FIRST = ["None", "True", "12", "<int>", "0.5", "'it's'", "<Text>", "<tuple of 2>", "<dict of 1>"]
SECOND = ["<list of 1>", "<set>", "<bytes>", "<type>", "<builtin_function_or_method>",
          "ValueError: why", "<Evil>", "'\x1bé'"]  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def calls(run: Run) -> list[tuple[str, Any]]:
    """The kept calls in order of their begins: name, and arguments or None."""
    rows = (
        "SELECT name, attributes FROM call JOIN node ON node.id = node JOIN frame ON"
        " frame.id = frame WHERE kind = 'python' ORDER BY call.id"
    )
    with closing(sqlite3.connect(run.path())) as database:
        return [(name, json.loads(text or "null")) for name, text in database.execute(rows)]


def configured(folder: Path, *tables: dict[str, Any]) -> tuple[str, ...]:
    (folder / "mine.json").write_text(json.dumps({"function": tables}))
    return ("--config", "mine.json")


@pytest.mark.version
def test_arguments(pyhybrid: Callable[..., Run], program: Path) -> None:
    names = ("Model.forward", "every", "many", "no_arguments", "counted", "waits", "raises")
    of_file = configured(program, *({"name": name, "arguments": True} for name in names))
    found = calls(pyhybrid(*TRACE, *of_file, "program.py"))
    forward = {"self": "<Model>", "x": "1", "scale": "1.5", "rest": "<tuple of 2>"}
    assert found[0] == ("Model.forward", {**forward, "more": "<dict of 1>"})
    second = {"self": "<Model>", "x": "<Evil>", "scale": "<Evil>", "rest": "<tuple of 0>"}
    assert found[1] == ("Model.forward", {**second, "more": "<dict of 0>"})
    assert found[2] == ("every", dict(zip(EVERY, FIRST, strict=True)))
    name, second = found[3]
    long = second.pop("i")
    assert second == dict(zip(EVERY[:-1], SECOND, strict=True))
    assert long.startswith("'yyyy") and long.endswith("...'") and len(long) < 200
    name, many = found[4]
    assert name == "many" and many.pop("...") == "..." and len(json.dumps(many)) < 1024
    assert list(many) == [f"argument_{i}" for i in range(len(many))] and 3 < len(many) < 10
    assert found[5:] == [
        ("no_arguments", None),
        ("counted", {"n": "5"}),
        ("waits", {"delay": "0"}),
        ("raises", {"kind": "<type>", "text": "'text'"}),
    ]


@pytest.mark.further
def test_arguments_by_the_command_line(pyhybrid: Callable[..., Run], program: Path) -> None:
    run = pyhybrid(*TRACE, "--arguments", "rais*", "--keep", "recursive", "--max-calls", "3",
                   "--arguments", "every", "program.py")  # fmt: skip
    found = calls(run)
    assert [name for name, _ in found[:2]] == ["every", "every"] and found[0][1]["b"] == "True"
    assert found[2] == ("raises", {"kind": "<type>", "text": "'text'"})
    assert {arguments for name, arguments in found[3:] if name == "recursive"} == {None}


@pytest.mark.further
def test_beyond_the_bound_calls_have_no_arguments(
    pyhybrid: Callable[..., Run], program: Path
) -> None:
    found = calls(pyhybrid(*TRACE, "--arguments", "recursive", "--max-calls", "2", "program.py"))
    # All four begin before the first one ends.
    assert [arguments for _, arguments in found] == [{"n": f"{n}"} for n in (3, 2, 1, 0)]
    (program / "program.py").write_text("def f(n): pass\nfor n in range(100): f(n)\n")
    found = calls(pyhybrid(*TRACE, "--arguments", "f", "--max-calls", "7", "program.py"))
    told = [arguments for _, arguments in found if arguments]
    assert told == [{"n": f"{n}"} for n in range(7)]


def test_lines_of_one_function(pyhybrid: Callable[..., Run], program: Path) -> None:
    """All others are counted as ever."""
    of_file = configured(program, {"name": "raises", "lines": True}, {"name": "recursive"})
    profile = pyhybrid(*TRACE, *of_file, "program.py").profile()
    lined = Counter[str]()
    for row in profile.lines:
        lined[profile.frames[profile.nodes.frame[row.node]].name] += row.hits
    assert lined == {"raises": 1}
    counted = {
        profile.frames[profile.nodes.frame[row.node]].name: row.calls for row in profile.exact
    }
    assert counted["many"] == counted["Model.forward"] // 2 == 1


def test_only_slow_calls(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """The shorter ones count, and what they called has a parent further out."""
    (tmp_path / "program.py").write_text(
        "import time\n"
        "def outer():\n"
        "    for n in (0, 2500, 0): middle(n)\n"
        "def middle(n): inner(n)\n"
        "def inner(n): time.sleep(n / 1000)\n"
        "def waits():\n"
        "    yield 1\n"
        "    yield 2\n"
        "outer(); list(waits())\n"
    )
    of_file = configured(
        tmp_path,
        *({"name": "outer"}, {"name": "inner", "arguments": True}),
        *({"name": "middle", "slower_than": "1500ms"}, {"name": "waits", "slower_than": "600s"}),
    )
    run = pyhybrid(*TRACE[:-1], *of_file, "--usage", "cpu", "program.py")
    assert "note     single calls are kept from 1500 ms on: middle\n" in run.result.stderr
    rows = (
        "SELECT call.id, name, call.parent FROM call JOIN node ON node.id = node"
        " JOIN frame ON frame.id = frame ORDER BY call.id"
    )
    with closing(sqlite3.connect(run.path())) as database:
        found = {id: (name, parent) for id, name, parent in database.execute(rows)}
        assert database.execute("SELECT count(*) FROM turn").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM usage").fetchone() == (len(found),)
        assert not database.execute("PRAGMA foreign_key_check").fetchall()
    names = [(name, found.get(parent, ("",))[0]) for name, parent in found.values()]
    assert names == [
        ("outer", ""),
        ("inner", "outer"),
        ("middle", "outer"),
        ("inner", "middle"),
        ("inner", "outer"),
    ]
    counted = run.profile().exact
    assert sum(row.calls for row in counted if row.calls == 3) >= 6


def usage_by_name(run: Run) -> dict[str, set[str]]:
    """Which columns of their usage the calls of each function have."""
    profile = run.profile()
    found: dict[str, set[str]] = {}
    for call in profile.calls:
        used = profile.usage.get(call.id)
        told = {name for name, value in used._asdict().items() if value is not None} if used else ()
        found.setdefault(profile.frames[profile.nodes.frame[call.node]].name, set()).update(told)
    return found


MEMORY = {"call", "resident_begin", "resident_end"}
CPU = {
    *("call", "cpu_begin_ns", "cpu_end_ns", "cpu_ns", "user_ns", "system_ns"),
    *("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"),
}


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("way", ["tables", "words"])
def test_usage_of_some_functions(pyhybrid: Callable[..., Run], program: Path, way: str) -> None:
    """Of several that name one all hold; `usage` beside them is of all that are kept."""
    if way == "tables":
        tables: list[dict[str, Any]] = [
            {"name": "recursive", "usage": ["cpu"]},
            {"name": "counted", "usage": "cpu,memory"},
            {"name": "*.forward", "usage": ["memory"]},
            {"name": "Model.forward", "usage": ["process"]},
            {"name": "waits"},
        ]
        options = configured(program, *tables)
    else:
        words = ("cpu:recursive", "cpu,memory:program.py:counted", "memory:*.forward")
        words = (*words, "process:Model.forward")
        options = (*(w for word in words for w in ("--usage", word)), "--keep", "waits")
    run = pyhybrid(*TRACE, *options, "program.py")
    expected = {
        "recursive": CPU,
        "counted": CPU | MEMORY,
        "Model.forward": MEMORY | {"process_ns"},
        "waits": set(),
    }
    assert usage_by_name(run) == expected
    lines = pyhybrid("report", "calls", run.path()).result.stdout.splitlines()
    ends = lines.index("")
    width = {line.split("  ")[-1].split()[0]: len(line.split()) for line in lines[1:ends]}
    assert width["recursive"] == width["waits"] + 5  # with units of times
    used = {line.split("  ")[-1].split()[0] for line in lines[ends + 2 :]}
    assert used == {"recursive", "counted", "Model.forward"}
    run = pyhybrid(*TRACE, *options, "--usage", "process", "program.py")
    everything = {name: told | {"call", "process_ns"} for name, told in expected.items()}
    assert usage_by_name(run) == everything


@pytest.mark.further
def test_what_is_no_usage(pyhybrid: Callable[..., Run], program: Path) -> None:
    for word, said in (
        ("gpu:recursive", "unknown usage 'gpu'"),
        ("cpu:", "--usage: there is no function after the colon"),
    ):
        wrong = pyhybrid("--usage", word, "program.py", check=False).result
        assert (wrong.returncode, said in wrong.stderr) == (2, True)
    run = pyhybrid(*TRACE, "--usage", "cpu:nobody", "program.py")
    notes = run.profile().meta["notes"]
    assert "--usage nobody: no function of this name ran" in notes


@pytest.mark.further
def test_names_that_never_ran(pyhybrid: Callable[..., Run], program: Path) -> None:
    of_file = configured(program, {"name": "nowhere", "arguments": True}, {"name": "recursive"})
    profile = pyhybrid(*TRACE, *of_file, "--arguments", "nobody", "program.py").profile()
    said = [note for note in profile.meta["notes"] if note.endswith("no function of this name ran")]
    assert [note.partition(":")[0] for note in said] == [
        "--arguments nobody",
        "[[function]] nowhere",
    ]


@pytest.mark.further
def test_from_within_a_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import pyhybrid\n"
        "def f(n): pass\n"
        "settings = [{'name': 'f', 'arguments': True}]\n"
        "with pyhybrid.Profiler(mode='trace', function_settings=settings) as p:\n"
        "    f(7)\n"
        "print([call.attributes for call in p.profile.calls])\n"
        "try:\n"
        "    pyhybrid.Profiler(function_settings=[{'name': 'f', 'slower-then': '5ms'}])\n"
        "except pyhybrid.errors.PyhybridError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-P", "program.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        """['{"n": "7"}']""",
        "function_settings: there is no option 'slower-then': the nearest one is 'slower_than'",
    ]
