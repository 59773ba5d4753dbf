"""What runs only because of the profiler is in no output; what other tools do is in all of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator

import pytest
from support import Run, command, printed

SMALL_CALLS = """
import sys, time

def numbers():
    while True:
        yield 1

def called(n):
    return n

def work(seconds):
    each, until = numbers(), time.process_time() + seconds
    while time.process_time() < until:
        for _ in range(1000):
            called(next(each))
"""

FORMATS = ("folded", "pprof", "speedscope", "firefox", "chrome", "cpuprofile", "perf")
OURS = ("[pyhybrid]", "shadow_on_", "_on_line", "c_calls_on_", "call_instrumentation")


def texts_of(run: Run) -> Iterator[tuple[str, str]]:
    """Everything that is made of the profile, as text."""
    for options in ((), ("tree",), ("tree", "--all-frames"), ("quality",)):
        yield " ".join(options), printed(run.folder, "report", *options)
    for name in FORMATS:
        command(run.folder, "export", "-f", name, "-o", f"exported.{name}")
        data = run.path(f"exported.{name}").read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        yield name, data.decode("latin-1")


EVENTS = {"turns": (), "C calls": ("--c-calls",), "lines": ("--lines", "-t", "work")}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", EVENTS.values(), ids=EVENTS)
def test_no_output_has_it(pyhybrid: Callable[..., Run], options: tuple[str, ...]) -> None:
    run = pyhybrid(*options, "-c", SMALL_CALLS + "work(0.4)")
    profile = run.profile()
    own_ns = profile.own_weight_ns
    assert own_ns > 0
    recorded_ns = sum(thread.recorded_weight_ns for thread in profile.threads.values())
    shown_ns = sum(row.weight_ns for row in profile.sampled)
    assert own_ns + shown_ns == recorded_ns
    texts = dict(texts_of(run))
    for name, text in texts.items():
        without_cost = "".join(
            line for line in text.splitlines(keepends=True) if "outside all shares" not in line
        )
        assert not [each for each in OURS if each in without_cost], name
    own = f"[pyhybrid], what samples met of it: {own_ns / recorded_ns:.1%}, outside all shares"
    assert own in texts["quality"]
    assert json.loads(printed(run.folder, "report", "--json"))["samples"]["own_weight_ns"] == own_ns
    speedscope = json.loads(texts["speedscope"])
    assert sum(each["endValue"] for each in speedscope["profiles"]) == shown_ns
    firefox = json.loads(texts["firefox"])
    weights = [ms for thread in firefox["threads"] for ms in thread["samples"]["weight"]]
    assert sum(weights) == pytest.approx(shown_ns / 1e6, abs=0.001 * len(weights))
    folded = sum(int(line.rpartition(" ")[2]) for line in texts["folded"].splitlines())
    assert folded == pytest.approx(shown_ns / profile.period_ns, abs=1)


TOOLS = {
    "monitoring": """
def tool(code, offset, value):
    for _ in range(20): pass
sys.monitoring.use_tool_id(1, "theirs")
sys.monitoring.register_callback(1, sys.monitoring.events.PY_YIELD, tool)
sys.monitoring.set_events(1, sys.monitoring.events.PY_YIELD)
""",
    "setprofile": """
def tool(frame, event, argument):
    for _ in range(20): pass
sys.setprofile(tool)
""",
}


@pytest.mark.further
@pytest.mark.parametrize("tool", TOOLS)
def test_what_another_tool_does_stays(pyhybrid: Callable[..., Run], tool: str) -> None:
    run = pyhybrid("-c", SMALL_CALLS + TOOLS[tool] + "work(0.4)")
    profile = run.profile()
    assert profile.meta["other_tools"] is True
    names = {frame.id for frame in profile.frames.values() if frame.name == "tool"}
    frame_of, node_of = profile.nodes.frame, profile.stacks.node
    in_tool = sum(row.weight_ns for row in profile.sampled if frame_of[node_of[row.stack]] in names)
    assert in_tool > 0 and profile.own_weight_ns > 0


@pytest.mark.further
def test_a_program_alone_has_no_other_tool(pyhybrid: Callable[..., Run]) -> None:
    assert pyhybrid("-c", SMALL_CALLS + "work(0.01)").profile().meta["other_tools"] is False
