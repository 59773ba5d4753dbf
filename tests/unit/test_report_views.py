"""What `report VIEW --json` prints is what docs/reference/json.md says; words are told apart."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from json_page import PAGE, check, check_report, objects
from test_old_profiles import NAMES, run, unpack

from pyhybrid.cli.report import Report
from pyhybrid.cli.report_views import VIEWS
from pyhybrid.errors import UsageError
from pyhybrid.report.answers import Answers, More
from pyhybrid.report.line_listing import LineReport
from pyhybrid.report.processes import LeftOut, NotMerged, Processes
from pyhybrid.report.quality import ModuleNames, QualityReport
from pyhybrid.report.run_parts import Calls, Clock, Cost, Run, Samples
from pyhybrid.report.step_listing import InPhase, PhaseFigures, StepSummary
from pyhybrid.report.summary import CallDurations, Counter, Function, StepsPart, Summary
from pyhybrid.report.summary import Path as Path_
from pyhybrid.report.tree import TreeFigures, TreeNode
from pyhybrid.views.findings import Finding, Found
from pyhybrid.views.gpu import GpuShare, GpuSummary
from pyhybrid.views.lines.native_lines import NativeFunctionLines, NativeLine
from pyhybrid.views.lines.program_lines import ProgramLine
from pyhybrid.views.lines.program_tree import TreeRow
from pyhybrid.views.lines.python_lines import FunctionLines, LineFigures
from pyhybrid.views.processes import ProcessFigures, ProcessGroup, Unprofiled
from pyhybrid.views.serving.requests import (
    ModelCalls,
    RequestPart,
    RequestPlace,
    Requests,
    SlowRequest,
)
from pyhybrid.views.training.compiles import Compile, CompiledFunction, Compiles
from pyhybrid.views.training.device_memory import DeviceMemory, FailedRequest
from pyhybrid.views.training.memory import Memory, StepMemory
from pyhybrid.views.training.memory_calls import MemoryCall
from pyhybrid.views.training.model import ModelFigures, ModuleFigures
from pyhybrid.views.training.module_calls import HookFigures
from pyhybrid.views.training.module_flops import Peak
from pyhybrid.views.training.operators import (
    BackwardNode,
    Caller,
    OperatorFigures,
    Operators,
    ShapeCalls,
)
from pyhybrid.views.training.slow_steps import SlowStep
from pyhybrid.views.training.steps import Growth
from pyhybrid.views.wait_pairs import WaitPair, WaitPairs
from pyhybrid.views.waits import FunctionWait, Waits

SMALL = ("summary", "tree", "lines", "calls", "processes", "quality", "findings")


def printed(*words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        code = run("report", *words)
    return shown.getvalue() if not code else ""


@pytest.mark.parametrize("name", NAMES)
def test_json_is_as_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a training has, the tests with PyTorch see that."""
    monkeypatch.chdir(tmp_path)
    path, n = unpack(name), 0
    for view in SMALL:
        words = [view, "--json", *(["--no-inlines"] if view in ("summary", "tree") else []), path]
        if text := printed(*words):
            check_report(words, text)
            n += 1
    assert n >= 4
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert run("ask", "-n", "2", path) == 0
    (line,) = shown.getvalue().splitlines()
    check(json.loads(line), "ask", "")
    assert all(
        len(rows) <= 2
        for key, rows in json.loads(line).items()
        if isinstance(rows, list) and key not in ("tree", "findings", "cautions", "notes", "more")
    )
    for each in json.loads(line)["more"]:
        words = shlex.split(each["command"])
        if words[3] == "report":
            assert printed(*words[4:]), each


def test_the_page_has_all_views() -> None:
    assert objects().keys() >= VIEWS.keys()
    links = re.findall(r"\]\(#([\w-]+)\)", PAGE.read_text())
    assert {each.removeprefix("report-").replace("-", " ") for each in links} <= objects().keys()


# What each object of the page is in Python, where it is a record.
RECORDS = {
    "ask": Answers,
    "more": More,
    "summary": Summary,
    "run": Run,
    "clock": Clock,
    "samples": Samples,
    "counted calls": Calls,
    "cost": Cost,
    "finding": Finding,
    "function": Function,
    "program line": ProgramLine,
    "tree row": TreeRow,
    "path": Path_,
    "durations": CallDurations,
    "counter": Counter,
    "thread waits": Waits,
    "waits": WaitPairs,
    "wait pair": WaitPair,
    "function wait": FunctionWait,
    "gpu": GpuSummary,
    "launched work": GpuShare,
    "function in a phase": InPhase,
    "steps part": StepsPart,
    "step summary": StepSummary,
    "counted function": FunctionLines,
    "line": LineFigures,
    "tree": TreeFigures,
    "node": TreeNode,
    "lines": LineReport,
    "native function": NativeFunctionLines,
    "native line": NativeLine,
    "modules": ModelFigures,
    "module": ModuleFigures,
    "hook": HookFigures,
    "ops": Operators,
    "operator": OperatorFigures,
    "caller": Caller,
    "backward node": BackwardNode,
    "shape": ShapeCalls,
    "phase": PhaseFigures,
    "slow step": SlowStep,
    "compiles": Compiles,
    "compile": Compile,
    "compiled function": CompiledFunction,
    "quality": QualityReport,
    "library": ModuleNames,
    "processes": Processes,
    "process group": ProcessGroup,
    "process": ProcessFigures,
    "unprofiled": Unprofiled,
    "left out": LeftOut,
    "not merged": NotMerged,
    "findings": Found,
    "memory": Memory,
    "memory growth": Growth,
    "memory call": MemoryCall,
    "step memory": StepMemory,
    "device memory": DeviceMemory,
    "failed request": FailedRequest,
    "measured peak": Peak,
    "requests": Requests,
    "request part": RequestPart,
    "request place": RequestPlace,
    "model calls": ModelCalls,
    "slow request": SlowRequest,
}
PLAIN = {str: "text", int: "int", float: "number", bool: "bool", Any: "any", object: "any"}


def kind(hint: Any) -> str:
    """How the page writes a type."""
    of = get_args(hint)
    if of and of[-1] is type(None):
        return f"{kind(of[0])} or null"
    if get_origin(hint) is list:
        return f"list of {kind(of[0])}"
    if get_origin(hint) is dict:
        return f"map to {kind(of[1])}"
    if get_origin(hint) is tuple:
        return f"[{', '.join(map(kind, of))}]"
    names = {record: name for name, record in RECORDS.items()}
    return PLAIN[hint] if hint in PLAIN else names[hint]


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_has_the_fields_of_records(name: str) -> None:
    record: Any = RECORDS[name]
    hints = get_type_hints(record)
    fields = getattr(record, "_fields", None) or record.__match_args__
    assert {field: kind(hints[field]) for field in fields} == objects()[name]


def changed(document: dict[str, Any], *path: Any) -> dict[str, Any]:
    """With a text in the place of what is there."""
    anew: Any = copy.deepcopy(document)
    at = anew
    for each in path[:-1]:
        at = at[each]
    at[path[-1]] = "x" if not isinstance(at[path[-1]], str) else 1
    return dict(anew)


def test_what_differs_from_the_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads(printed("--json", "--no-inlines", unpack("hybrid")))
    check(document, "summary", "")
    wrong = [
        changed(document, "clock", "hz"),
        changed(document, "samples", "stacks", "complete"),
        changed(document, "functions", 0, "name"),
        document | {"run": None},
        document | {"more": 1},
        {key: value for key, value in document.items() if key != "paths"},
    ]
    for each in wrong:
        with pytest.raises(AssertionError):
            check(each, "summary", "")


def test_the_tree_as_json_is_that_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a line for each frame they have the same functions, figures and depths."""
    monkeypatch.chdir(tmp_path)
    words = ("tree", "--all-frames", "--no-inlines", "--min-time", "20ms", unpack("hybrid"))
    _, *lines = printed(*words).splitlines()
    told = json.loads(printed(*words, "--json"))
    nodes = told["nodes"]
    assert len(lines) == len(nodes) > 10
    for line, node in zip(lines, nodes, strict=True):
        found = re.match(r"(.{10})  (.{10})  (.{7})  ((?:  )*)(\S.*)", line)
        assert found
        time, calls, share, indent, name = found.groups()
        assert len(indent) == 2 * node["depth"]
        assert name.startswith(node["function"])
        assert share.strip() == f"{node['weight_ns'] / told['weight_ns']:.1%}"
        assert (calls.strip() or None) == (
            f"{node['calls']:,}" if node["calls"] is not None else None
        )
        if node["exact_total_ns"] is not None:
            assert time == f"{node['exact_total_ns'] / 1e9:8.3f} s"
        above = node["parent"]
        assert node["depth"] == (nodes[above]["depth"] + 1 if above is not None else 0)


@pytest.mark.parametrize(
    ("words", "view", "rest"),
    [
        ("", "report", ""),
        ("--json", "report", "--json"),
        ("a.pyhybrid", "report", "a.pyhybrid"),
        ("steps", "steps", ""),
        ("steps steps", "steps", "steps"),
        ("--json steps a.pyhybrid", "steps", "--json a.pyhybrid"),
        ("--thread tree tree", "tree", "--thread tree"),
        ("--thread=tree a.pyhybrid", "report", "--thread=tree a.pyhybrid"),
        ("./steps", "report", "./steps"),
        ("-- steps", "report", "-- steps"),
        ("nothing.part --json", "report", "nothing.part --json"),
    ],
)
def test_which_view_is_meant(words: str, view: str, rest: str) -> None:
    found, left = Report().view(words.split())
    assert (found.name, left) == (view, rest.split())


def test_a_file_without_an_extension_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no file and no view 'profile'"):
        Report().view(["profile"])
    (tmp_path / "profile").touch()
    assert Report().view(["profile"])[1] == ["profile"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which a run of the project wrote its profile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYHYBRID_CONFIG", raising=False)
    (tmp_path / "runs").mkdir()
    shutil.copy(unpack(NAMES[0]), "runs/mine.pyhybrid")
    (tmp_path / "pyproject.toml").write_text('[tool.pyhybrid]\noutput = "runs/mine"\n')
    return tmp_path


def test_the_usual_file_is_that_of_the_configuration(project: Path) -> None:
    assert json.loads(printed("--json"))["file"] == "runs/mine.pyhybrid"
    assert run("export", "-f", "folded") == 0
    assert run("page", "--no-open", "--no-source") == 0
    assert {each.name for each in (project / "runs").iterdir()} == {
        f"mine.{each}" for each in ("pyhybrid", "folded", "html")
    }
    (project / "pyproject.toml").write_text("[tool.pyhybrid]\nhz = -1\n")
    assert run("report") == 2


def test_an_export_to_stdout(project: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Of what is text; no file has the name."""
    assert run("export", "-f", "folded", "-o", "-") == 0
    assert capfdbinary.readouterr().out.startswith(b"MainThread;")
    assert run("page", "-o", "-", "--no-source") == 0
    assert capfdbinary.readouterr().out.startswith(b"<!")
    for name in ("perf", "pprof", "pstats", "firefox"):
        assert run("export", "-f", name, "-o", "-") == 2
        said = f"pyhybrid: -o -: {name} is binary: name a file"
        assert capfdbinary.readouterr().err.decode().splitlines() == [said]
    assert not (project / "-").exists()
