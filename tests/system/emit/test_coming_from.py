"""docs/howto/coming-from.md: its commands, as they stand there, do what the other tools' do."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import perfstubs_support
import pytest
import usdt_support
from lttng_support import Lttng
from support import NO_PLUGINS, PATIENCE_S, environment
from tracy_support import client, unpack

from pyhybrid.assemble import open_profile
from pyhybrid.tables.profile import Profile

PAGE = (Path(__file__).parents[3] / "docs/howto/coming-from.md").read_text()
ROW = re.compile(r"^\| (.+?) \| (.+?) \|$", re.MULTILINE)


def rows(heading: str) -> dict[str, str]:
    """A section's table: what is typed elsewhere, and here."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {
        theirs.strip("`"): ours.strip("`")
        for theirs, ours in ROW.findall(section)[1:]
        if theirs != "---"
    }


def block(language: str) -> str:
    """The page's one of this kind."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


TRACER = rows("A tracer around `sys.settrace`")
LISTENERS = rows("A script that prints each call, pyusdt, PerfStubs, pylttng")
TRACY = rows("Tracy's Python module")


def run(command: str, folder: Path, **variables: str) -> str:
    """As a shell there runs it; what it wrote on stdout."""
    own = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTEST_ADDOPTS": f"-p no:cacheprovider {NO_PLUGINS}",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**environment(), **own, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def counted(profile: Profile, *names: str) -> dict[str, int]:
    """Exact calls of these functions, as far as there are any."""
    calls = Counter[str]()
    for row in profile.exact:
        calls[profile.frames[profile.nodes.frame[row.node]].name] += row.calls
    return {name: calls[name] for name in names if calls[name]}


# --- a tracer of one function ---------------------------------------------------------------------

TRACED = """
import json
def bas(msg): print("<bas>")
def bar(msg):
    print("<bar>")
    bas(msg)
def foo(msg):
    print("<foo>")
    bar(msg)
def test_do_not_trace():
    print("Inside do not trace")
    json.loads("[1]")
    for i in range(4): foo("hello")
def test_trace():
    print("Inside trace")
    for i in range(4): foo("hello")
"""
OF_A_CALL = {
    *("name", "cpu_start", "time_start", "time_end", "time_elapsed", "cpu_end", "cpu_usage"),
    *("mem_usage", "pid", "process_name"),
}


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    (tmp_path / "test.py").write_text(TRACED)
    (tmp_path / "trace.yaml").write_text(block("yaml"))
    return tmp_path


def line_of(function: str) -> int:
    return 1 + TRACED[: TRACED.index(f"def {function}(")].count("\n")


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("typed", "name", "known"),
    [
        (
            *("test_trace", "test_trace"),
            {"args": [], "locals": ["i"], "module": "test", "path": "test.test_trace"},
        ),
        ("foo", "foo", {"args": ["msg"], "locals": [], "module": "test", "path": "test.foo"}),
        (
            *("raw_decode", "JSONDecoder.raw_decode"),
            {
                "args": ["self", "s", "idx"],
                "locals": ["obj", "end", "err"],
                "module": "json.decoder",
                "path": "json.decoder.JSONDecoder.raw_decode",
            },
        ),
    ],
)
def test_calls_of_one_function(traced: Path, typed: str, name: str, known: dict[str, Any]) -> None:
    """The whole program runs; each call is announced, and is in the JSON."""
    said = run(TRACER[f"python example.py {typed}"], traced)
    assert [said.count(each) for each in ("<foo>", "<bar>", "<bas>")] == [8, 8, 8]
    tests, brace, text = said.partition('{\n"functions"')
    told = json.loads(brace + text)
    calls = told["results"][name]
    assert told["functions"] == [name]
    assert len(calls) == {"test_trace": 1, "foo": 8}.get(name, len(calls)) > 0
    events = Counter(re.findall(r"Function (\S+) is being traced for event (\w+)!", tests))
    assert events == {(name, "call"): len(calls), (name, "return"): len(calls)}
    for call in calls:
        assert call.keys() >= OF_A_CALL
        assert None not in {call[key] for key in OF_A_CALL}
        assert call["time_start"] <= call["time_end"]
        assert 0 < call["cpu_start"] <= call["cpu_end"]
        assert call["mem_usage"] > 5_000  # kB
    assert all(a["time_end"] <= b["time_start"] for a, b in itertools.pairwise(calls))
    metadata = told["metadata"][name]
    assert known.items() <= metadata.items()
    assert metadata["function"] == typed
    assert metadata["stacksize"] > 0
    if known["module"] == "test":
        assert metadata["filename"] == str(traced / "test.py")
        assert metadata["lineno"] == line_of(name)


@pytest.mark.further
@pytest.mark.parametrize("row", ["perfflow -t test_trace -t bar", "the same from a YAML file"])
def test_calls_of_several_functions(traced: Path, row: str) -> None:
    run(TRACER[row], traced)
    with open_profile(str(traced / "out.pyhybrid")) as profile:
        names = ("test_trace", "bar", "foo", "bas", "test_do_not_trace")
        assert counted(profile, *names) == {"test_trace": 1, "bar": 8}
        assert len(profile.calls) == 9
        assert len(profile.usage) == (9 if "YAML" in row else 0)
    run(TRACER["PerfFlowAspect's format"], traced)
    (trace,) = traced.glob("perfflow.*.pfw")
    begins = [each["name"] for each in json.loads(trace.read_text()) if each["ph"] == "B"]
    assert Counter(begins) == {"test_trace": 1, "bar": 8}


# --- those that print, and those that other tools listen to --------------------------------------

STEPS = """
def step(): pass
for i in range(4): step()
"""


@pytest.mark.further
def test_a_script_that_prints_each_call(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(STEPS)
    lines = run(LISTENERS["python tracer.py"], tmp_path).splitlines()
    assert lines.count("PY_START : script.py:2 -> step") == 4


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_pyusdt(tmp_path: Path) -> None:
    """Its script, on a program that is started as its command says."""
    options = LISTENERS["python -m pyusdt sleep.py"].split()[3:-1]
    sample = "usdt:./libpyusdt.so:pyusdt:PY_START { @[str(arg0)] = count(); }\n"
    (tmp_path / "sample.bt").write_text(sample)
    run(LISTENERS["the script `sample.bt"], tmp_path)
    script = (tmp_path / "ours.bt").read_text()
    with (
        usdt_support.probed(tmp_path, *options) as program,
        usdt_support.traced(tmp_path, script, "-p", program.pid) as tracer,
    ):
        program.wait_for_events(usdt_support.TURNS)
        program.tell("run")
        assert usdt_support.counts(tracer.detach())["fib"] == 15


def test_pstubs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (tmp_path / "script.py").write_text(STEPS)
    (command,) = (ours for theirs, ours in LISTENERS.items() if "-m pstubs" in theirs)
    tool = perfstubs_support.build_tool(tmp_path_factory)
    run(command.replace("libTAU.so", str(tool)), tmp_path, PS_COUNTS=str(tmp_path / "counts"))
    _, timers = perfstubs_support.counted(tmp_path / "counts")
    assert timers[f"step [{{{tmp_path / 'script.py'}}} {{2,0}}]"] == 4


@pytest.mark.further
@pytest.mark.needs("lttng")
def test_a_profiler_with_pylttng(lttng: Lttng, tmp_path: Path) -> None:
    (tmp_path / "workload.py").write_text(STEPS)
    command = LISTENERS["python sysmon_profiler.py`, with pylttng"]
    lttng.record("sysmon:*")
    within = f"cd {tmp_path} && export PATH={Path(sys.executable).parent}:$PATH && {command}"
    lttng.run("bash", "-c", within)
    stats = [event.fields for event in lttng.events() if event.fields["funcname"] == "step"]
    assert [each["calls"] for each in stats] == ["4"]


# --- Tracy's module -------------------------------------------------------------------------------

MODEL = """
def setup(): pass
def child(): return sum(range(100))
def function_under_test():
    child()
    child()
def other(): pass
"""
CONFTEST = """
import pytest, model
@pytest.fixture
def device():
    model.setup()
    yield "cpu"
    model.setup()
"""
TESTS = """
from model import function_under_test, other
def test_heads(device, tracy_profile):
    for _ in range(3): function_under_test()
def test_other(device): other()
"""
SCRIPT = """
from model import function_under_test, other
other()
{marked}
other()
"""
FUNCTIONS = ("setup", "child", "function_under_test", "other", "test_heads", "pytest_pyfunc_call")
OF_THE_TEST = {"child": 6, "function_under_test": 3, "test_heads": 1}
OF_THE_SCRIPT = {"child": 2, "function_under_test": 1}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    script = SCRIPT.format(marked=block("python"))
    files = {"model": MODEL, "script": script, "tests/conftest": CONFTEST, "tests/test_bert": TESTS}
    for name, text in files.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


RUN = {  # what each is to count
    "python -m tracy script.py": {**OF_THE_SCRIPT, "other": 2},
    "python -m tracy -p script.py": OF_THE_SCRIPT,
    "python -m tracy -m pytest tests/test_bert.py::test_heads": {
        **OF_THE_TEST,
        "setup": 2,
    },
    "python -m tracy -p -m pytest tests/test_bert.py::test_heads": OF_THE_TEST,
    "python -m tracy -p -l -m pytest tests/test_bert.py::test_heads": OF_THE_TEST,
}


def test_every_command_is_run_here() -> None:
    commands = {theirs for theirs in TRACY if theirs.startswith("python ")}
    assert commands == RUN.keys()
    assert TRACY["from tracy import Profiler"] in block("python")
    assert TRACY["def test_heads(device, tracy_profile):"] == "the same"


@pytest.mark.further
@pytest.mark.parametrize("typed", RUN)
def test_what_is_profiled(project: Path, typed: str) -> None:
    run(TRACY[typed], project)
    with open_profile(str(project / "out.pyhybrid")) as profile:
        found = counted(profile, *FUNCTIONS)
        whole = found.pop("pytest_pyfunc_call", 0) > 0
        assert found == RUN[typed]
        assert whole == ("pytest" in typed and "-p" not in typed)
        name = {
            node: profile.frames[frame].name
            for node, frame in enumerate(profile.nodes.frame)
            if node
        }
        hits = {(name[line.node], line.line - 1, line.hits) for line in profile.lines}
    under_test = {("function_under_test", line, 3) for line in (4, 5)}
    in_test = {("test_heads", 3, 1), ("child", 2, 6)}
    assert hits == (under_test | in_test if " -l " in typed else set())


@pytest.mark.further
@pytest.mark.needs("tracy")
def test_zones_are_in_tracy(project: Path) -> None:
    """Of what is profiled, by the client that the project names."""
    named, theirs = block("toml"), "/opt/tracy/libTracyClient.so"
    assert theirs in named
    (project / "pyproject.toml").write_text(named.replace(theirs, str(client())))
    run(block("sh"), project)
    names = unpack(project / "trace.tracy")
    for name in (b"test_heads", b"function_under_test", b"child"):
        assert name in names
    assert b"pytest_pyfunc_call" not in names
