"""examples/bpftrace: each script says of a program what it is meant to say."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import TARGETS
from usdt_support import NONE, TURNS, probed, traced

pytestmark = [pytest.mark.needs("root", "bpftrace"), pytest.mark.once]

EXAMPLES = TARGETS.parent.parent / "examples" / "bpftrace"
READ, CLOSE = 0, 3  # arch/x86/entry/syscalls/syscall_64.tbl


def printed(
    folder: Path, example: str, *commands: str, given: Sequence[object] = (), until: str = ""
) -> str:
    """What it prints when the program has done these; the last thing that it prints meanwhile."""
    script = (EXAMPLES / example).read_text()
    with (
        probed(folder, *NONE) as program,
        traced(folder, script, "-p", program.pid, given=given) as tracer,
    ):
        program.wait_for_events(TURNS)
        program.tell(*commands)
        tracer.wait_for(until)
        text = tracer.detach()
        program.end()
    assert "WARNING" not in text
    return text


def test_calls(tmp_path: Path) -> None:
    text = printed(tmp_path, "calls.bt", "run")
    found = re.findall(r"^@calls\[([^,]+), (\d+)\]: (\d+)$", text, re.M)
    assert {name: int(n) for name, _, n in found}["fib"] == 15


@pytest.mark.further
def test_times(tmp_path: Path) -> None:
    """As many calls in the histograms as there are, the slow one in a high bucket, nothing else."""
    text = printed(tmp_path, "times.bt", "run", "wait")
    calls = {}
    for name, histogram in re.findall(r"^@us\[(\S+)\]: \n((?:[\[(].*\n)+)", text, re.M):
        buckets = re.findall(r"^[\[(](\w+).*?([\d]+) \|", histogram, re.M)
        calls[name] = collections.Counter({low: int(n) for low, n in buckets})
    assert calls["fib"].total() == 15
    assert calls["numbers"].total() == 3
    (slow,) = [low for low in calls["sleeps"] if calls["sleeps"][low]]
    assert re.fullmatch(r"(32|64|128|256|512)K|\d+M", slow)
    assert re.findall(r"^@(\w+)", text, re.M) == ["attached", *["us"] * len(calls)]


@pytest.mark.further
def test_system_calls_by_function(tmp_path: Path) -> None:
    """Those of C code are the Python function's that called it; sleeping is time in them."""
    text = printed(tmp_path, "syscalls.bt", "wait", "wait")
    calls = {
        (name, int(number)): int(n)
        for name, number, n in re.findall(r"^@calls\[(\S+), (\d+)\]: (\d+)$", text, re.M)
    }
    assert calls["reads", READ] == 4
    assert calls["reads", CLOSE] == 2
    assert not [key for key in calls if key[0] == "sleeps" and key[1] in (READ, CLOSE)]
    us = {name: int(n) for name, n in re.findall(r"^@us\[(\S+)\]: (\d+)$", text, re.M)}
    assert us["sleeps"] >= 100_000


@pytest.mark.further
def test_slow_functions_with_their_stacks(tmp_path: Path) -> None:
    text = printed(tmp_path, "slow.bt", "run", "wait", given=(60,), until=" ms  wait\n")
    slow = re.findall(r"^(\d+)\.\d{3} ms  (\w+)\n((?: {12}\w+\n)*)", text, re.M)
    stacks = {(name, *stack.split()) for _, name, stack in slow}
    assert {("sleeps", "wait"), ("wait",)} <= stacks
    assert all(int(ms) >= 60 for ms, _, _ in slow)
