"""`--emit perfstubs`: Python functions as timers of a PerfStubs tool."""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from perfstubs_support import build_tool, counted
from support import TARGETS, Run, preloaded

from pyhybrid.tables.profile import Profile

PROGRAM = TARGETS / "emitted.py"
NONE = ("--mode", "none")
TIMER = re.compile(r"(.*) \[\{(.*)\} \{(\d+),0\}\]")


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tool(tmp_path_factory)


def begins(profile: Profile) -> collections.Counter[str]:
    """Turns of functions and regions as a tool calls them."""
    found: collections.Counter[str] = collections.Counter()
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        place = f" [{{{frame.file}}} {{{frame.line},0}}]" if frame.kind == "python" else ""
        if frame.kind in ("python", "region"):
            found[f"{frame.name}{place}"] += row.calls + row.resumes + row.seeded
    return found


@pytest.mark.version
def test_as_many_as_the_profile_has(pyhybrid: Callable[..., Run], tool: Path) -> None:
    """Started and stopped innermost first, on every thread; dumped and finalized at the end."""
    run = pyhybrid(
        *("--mode", "trace", "--emit", f"perfstubs:{tool}", PROGRAM), env={"PS_COUNTS": "counts"}
    )
    figures, timers = counted(run.folder / "counts")
    assert figures == {"threads": 1, "wrong": 0, "open": 0, "dumps": 1, "finals": 1}
    expected = begins(run.profile())
    assert timers == expected
    assert sum(expected.values()) > 100
    assert any(name.startswith("main [{") for name in timers)


@pytest.mark.further
def test_a_tool_that_is_preloaded(pyhybrid: Callable[..., Run], tool: Path) -> None:
    run = pyhybrid(
        *(*NONE, "--exclude", "stdlib", "--emit", "perfstubs", PROGRAM),
        env={"PS_COUNTS": "counts", **preloaded(tool)},
    )
    figures, timers = counted(run.folder / "counts")
    assert figures["wrong"] == figures["open"] == 0
    by_name = {match[1]: n for name, n in timers.items() if (match := TIMER.fullmatch(name))}
    assert by_name["fib"] == 15 + 1 + 3
    assert by_name["numbers"] == 1 + 2  # one timer, whatever line it goes on from
    assert not [file for file in run.folder.iterdir() if file.name != "counts"]


@pytest.mark.further
@pytest.mark.needs("adios2")
def test_timers_of_libraries_stand_in_ours(
    pyhybrid: Callable[..., Run], tool: Path, tmp_path: Path
) -> None:
    run = pyhybrid(
        *(*NONE, "--include", "adios", "--emit", "perfstubs", TARGETS / "adios.py", tmp_path),
        env={"PS_COUNTS": "counts", **preloaded(tool)},
    )
    figures, timers = counted(run.folder / "counts")
    assert figures["wrong"] == figures["open"] == 0
    assert timers["BP5Writer::EndStep"] == 20
    assert any(name.startswith("save [{") for name in timers)


FILTERED = """
def wanted_a(): inner()
def wanted_b(): inner()
def inner(): pass
class C:
    def method(self): inner()
def unwanted(): pass
for f in (wanted_a, wanted_b, C().method, unwanted): f()
"""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "keys, expected",
    [
        ({"include_timers": ["^wanted", "method"]}, {"wanted_a", "wanted_b", "C.method"}),
        ({"include_timers": ["wanted"], "exclude_timers": ["_b$", "^un"]}, {"wanted_a"}),
        ({"exclude_timers": ['"inner"', "<module>"], "#": [1], "exclude_timers_disabled": ["w"],
          "include_files": ["filtered"]}, {"wanted_a", "wanted_b", "C.method", "unwanted", "C"}),
        ({"exclude_files": ["filtered.py$"], "include_timers": ["wanted"]}, set()),
        ({"include_files": [], "include_timers": ["wanted"]}, set()),
        (None, {"<module>", "wanted_a", "wanted_b", "C.method", "unwanted", "inner", "C"}),
    ],
)  # fmt: skip
def test_the_filter_of_perfstubs(
    pyhybrid: Callable[..., Run],
    tool: Path,
    tmp_path: Path,
    keys: dict[str, object] | None,
    expected: set[str],
) -> None:
    """It goes by the bare name; a file that is not there is no filter."""
    (tmp_path / "filtered.py").write_text(FILTERED)
    if keys is not None:
        (tmp_path / "filter.json").write_text(json.dumps(keys))
    env = {"PS_COUNTS": "counts", "PERFSTUBS_PYTHON_FILTER_FILENAME": "filter.json"}
    run = pyhybrid(*NONE, "--emit", f"perfstubs:{tool}", "filtered.py", env=env)
    found = [TIMER.fullmatch(name) for name in counted(run.folder / "counts")[1]]
    assert {m[1] for m in found if m and m[2].endswith("filtered.py")} == expected


@pytest.mark.further
@pytest.mark.parametrize("text", ["[", "[]", '{"include_files": 3}', '{"exclude_timers": ["("]}'])
def test_a_filter_that_is_none(
    pyhybrid: Callable[..., Run], tool: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "filter.json").write_text(text)
    env = {"PERFSTUBS_PYTHON_FILTER_FILENAME": "filter.json"}
    run = pyhybrid(*NONE, "--emit", f"perfstubs:{tool}", "-c", "1", env=env, check=False)
    assert run.result.returncode == 2
    assert run.result.stderr.count("\n") == 1


AGAIN = """
import os, sys
from pyhybrid import Profiler
def before(): pass
def during(): pass
def child(): pass
for i in range(3):
    before()
    with Profiler(mode="none", emit=[f"perfstubs:{sys.argv[1]}"]):
        during()
        pid = os.fork()
        if not pid:
            child()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.further
@pytest.mark.version
def test_again_and_forked(tool: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", AGAIN, tool],
        capture_output=True,
        text=True,
        env={**os.environ, "PS_COUNTS": str(tmp_path / "counts")},
    )
    assert done.returncode == 0, done.stderr
    figures, timers = counted(tmp_path / "counts")
    assert figures == {"threads": 0, "wrong": 0, "open": 0, "dumps": 3, "finals": 1}
    by_name = {match[1]: n for name, n in timers.items() if (match := TIMER.fullmatch(name))}
    assert by_name["during"] == 3
    assert not {"before", "child"} & {*by_name}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "argument, said",
    [
        ("", "there is no PerfStubs tool: preload one, or name it (perfstubs:LIBRARY)"),
        (":libc.so.6", "libc.so.6: it is no PerfStubs tool"),
        (":/no/such.so", "/no/such.so"),
    ],
)
def test_no_tool(pyhybrid: Callable[..., Run], argument: str, said: str) -> None:
    """One line; nothing runs where nothing else was asked for."""
    run = pyhybrid(*NONE, "--emit", f"perfstubs{argument}", "-c", "print(1)", check=False)
    assert (run.result.returncode, run.result.stdout) == (2, "")
    assert said in run.result.stderr
    assert run.result.stderr.count("\n") == 1
    beside = pyhybrid("-q", "--mode", "trace", "--emit", f"perfstubs{argument}", "-c", "print(1)")
    assert beside.result.stdout == "1\n"
    assert beside.result.stderr.count("\n") == 1
