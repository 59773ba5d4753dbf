"""Traces of calls in Hatchet and DevTools, beside those of PerfFlowAspect and torch.profiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, TARGETS, Run
from viewer_support import VIEWERS

pytestmark = pytest.mark.once

CHOSEN = ("bas", "bar", "Foo.foo", "bad")
READ = """
import json, sys
from hatchet import GraphFrame

def tree(node):
    return [node.frame["name"], sorted(map(tree, node.children))]

read = GraphFrame.from_perfflowaspect(sys.argv[1])
print(json.dumps(sorted(map(tree, read.graph.roots))))
"""


def chosen(option: str) -> list[str]:
    return [word for name in CHOSEN for word in (option, name)]


def hatchet(trace: Path) -> Any:
    """The calls as Hatchet sees them: [name, those within], sorted."""
    command = [sys.executable, "-P", "-c", READ, trace]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def events_of(trace: Path) -> list[dict[str, Any]]:
    """PerfFlowAspect leaves the bracket open."""
    text = trace.read_text()
    return list(json.loads(text if text.endswith("]\n") else text.rstrip(",\n") + "]"))


def only(folder: Path) -> Path:
    (trace,) = folder.glob("*.pfw")
    return trace


@pytest.mark.first_cases(1)
@pytest.mark.needs("hatchet")
@pytest.mark.parametrize(
    ("form", "option", "log"), [("Verbose", "--keep", ()), ("Compact", "-t", ("--events",))]
)
def test_the_calls_are_those_of_perfflowaspect(
    pyhybrid: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    option: str,
    log: tuple[str, ...],
) -> None:
    began = time.time()
    monkeypatch.setenv("PERFFLOW_OPTIONS", f"log-dir=theirs:log-event={form}")
    shutil.copy(TARGETS / "perfflow.py", tmp_path)
    subprocess.run([sys.executable, "-P", "perfflow.py"], cwd=tmp_path, check=True)
    monkeypatch.setenv("PERFFLOW_OPTIONS", f"log-dir=ours:log-event={form}")
    run = pyhybrid(*chosen(option), *log, "--format", "pfw", "perfflow.py", "plain")
    ours, theirs = only(tmp_path / "ours"), only(tmp_path / "theirs")
    assert ours.name == f"perfflow.{os.uname().nodename}.{run.profile().process.pid}.pfw"

    # The original loses the end of the call that raised, and with it the call.
    bas = ["bas", []]
    without = [each for each in hatchet(theirs) if each != bas]
    assert hatchet(ours) == sorted([*without, ["bad", [bas]]])
    kinds = [
        Counter((each["name"], each["cat"], each["ph"]) for each in events_of(trace))
        for trace in (ours, theirs)
    ]
    last = ("bad", "__main__", "X" if form == "Compact" else "E")
    assert kinds[0] == kinds[1] + Counter([last])
    assert json.loads(ours.read_text())
    (raised,) = (each for each in events_of(ours) if each.get("args"))
    assert (raised["name"], raised["args"]) == ("bad", {"ended": "raise"})
    starts = [min(each["ts"] for each in events_of(trace)) for trace in (theirs, ours)]
    # Both are microseconds since the epoch.
    assert began * 1e6 < starts[0] < starts[1] < time.time() * 1e6


@pytest.mark.further
def test_what_calls_used_is_in_the_traces(
    pyhybrid: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFFLOW_OPTIONS", "cpu-mem-usage=True")
    shutil.copy(TARGETS / "perfflow.py", tmp_path)
    formats = ("--format", "pfw", "--format", "chrome")
    usage = ("--usage", "cpu,memory")
    run = pyhybrid(*chosen("--keep"), *usage, *formats, "perfflow.py", "plain")
    used = run.profile().usage.values()
    resident = [each.resident_end for each in used]
    assert len(used) == 11
    assert all(resident)
    events = events_of(only(tmp_path))
    values = [event for event in events if event["ph"] == "C"]
    begins = {(event["name"], event["ts"]) for event in events if event["ph"] == "B"}
    assert {(event["name"], event["ts"]) for event in values[::2]} == begins
    assert sorted(event["args"]["memory_usage"] * 1000 for event in values[::2]) == pytest.approx(
        sorted(map(float, filter(None, resident)))
    )
    assert all(not any(event["args"].values()) for event in values[1::2])
    trace = json.loads((tmp_path / "out.trace.json").read_text())["traceEvents"]
    ends = [event["args"] for event in trace if event["ph"] == "E"]
    assert sorted(end["resident_end"] for end in ends) == sorted(filter(None, resident))
    memory = [event for event in trace if event["name"] == "resident memory"]
    assert len(memory) == 2 * len(used)


def devtools(trace: Path) -> Any:
    """What Chrome's DevTools read."""
    command = ["node", VIEWERS / "trace.mjs", trace]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return json.loads(done.stdout)


@pytest.mark.needs("viewers")
def test_devtools_read_calls_and_samples(nested: Run, pyhybrid: Callable[..., Run]) -> None:
    pyhybrid("export", nested.path(), "-f", "chrome", "--no-inlines")
    profile = nested.profile()
    read = devtools(nested.path("out.trace.json"))
    counted = {str(t.tid): t.recorded for t in profile.threads.values() if t.recorded}
    assert {tid: len(samples) for tid, samples in read["profiles"].items()} == counted
    found = Counter(path[-1] for paths in read["profiles"].values() for path in paths if path)
    spun = sum(
        row.samples
        for row in profile.sampled
        if profile.frames[profile.nodes.frame[profile.stacks.node[row.stack]]].name == "burn"
    )
    assert found["burn"] == spun
    events = json.loads(nested.path("out.trace.json").read_text())["traceEvents"]
    used = Counter[str]()
    for event in events:
        if event["ph"] == "C" and event["name"] == "CPU":
            used.update({name: cores * 0.1 for name, cores in event["args"].items()})
    for thread in profile.threads.values():
        if thread.recorded:
            seconds = used[f"{thread.name} ({thread.tid})"]
            assert seconds == pytest.approx(thread.recorded_weight_ns / 1e9, rel=0.01, abs=0.01)


@pytest.mark.further
@pytest.mark.needs("viewers")
def test_devtools_read_kept_calls(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    shutil.copy(TARGETS / "perfflow.py", tmp_path)
    run = pyhybrid(*chosen("-t"), "--mode", "trace", "--format", "chrome", "perfflow.py", "plain")
    read = devtools(tmp_path / "out.trace.json")["threads"]
    names = {
        thread["name"]: Counter(call[0] for call in thread["calls"]) for thread in read.values()
    }
    assert names["MainThread"] == {"Foo.foo": 1, "bar": 3, "bas": 4, "bad": 1}
    assert names["Thread-1 (bar)"] == {"bar": 1, "bas": 1}
    times = {call.id: call.end_ns - call.begin_ns for call in run.profile().calls}
    shown = [call[2] for thread in read.values() for call in thread["calls"]]
    assert sorted(shown) == pytest.approx([ns / 1e3 for ns in sorted(times.values())], abs=0.01)


TORCH = """
import json, time, torch
from torch.profiler import profile
def step(x):
    return (x @ x).sum()
with profile() as kineto:
    for _ in range(5):
        step(torch.ones(64, 64))
kineto.export_chrome_trace("torch.json")
"""


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_times_are_those_of_torchs_profiler(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    pyhybrid("-t", "step", "--format", "chrome", "-c", TORCH)
    ours, theirs = (
        json.loads((tmp_path / name).read_text()) for name in ("out.trace.json", "torch.json")
    )
    assert ours["baseTimeNanoseconds"] == theirs["baseTimeNanoseconds"]
    steps = [event for event in ours["traceEvents"] if event.get("name") == "step"]
    begins = [event["ts"] for event in steps if event["ph"] == "B"]
    ends = [event["ts"] for event in steps if event["ph"] == "E"]
    products = [event for event in theirs["traceEvents"] if event.get("name") == "aten::mm"]
    assert len(begins) == len(ends) == len(products) == 5
    for begin, end, product in zip(begins, ends, products, strict=True):
        assert product["tid"] == steps[0]["tid"]
        assert begin - 1000 < product["ts"] < product["ts"] + product["dur"] < end + 1000
