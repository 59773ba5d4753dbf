"""BCC's tools for Python, on the probes that have CPython's own names."""

from __future__ import annotations

import collections
import contextlib
import os
import re
from pathlib import Path

import pytest
from usdt_support import LIBRARY, NONE, PROGRAM, TURNS, Tracer, listening, probed, traced

# Alone: a place that BCC listens to is closed to bpftrace, in all processes.
pytestmark = [pytest.mark.needs("root", "bcc"), pytest.mark.once, pytest.mark.alone]

# What probed.py's `run` has: turns of functions, by their plain names.
CALLS = {"run": 1, "fib": 15, "forward": 1, "numbers": 3, "fails": 1, "values": 11, "lines": 1}

FILE = str(PROGRAM)[:80]  # as the tools show it

# Headers of another kernel do: the tools' programs look into nothing of this one's.
WITH_HEADERS = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /lib/modules\nexec "$@"')


def bcc(folder: Path, tool: str, *arguments: object) -> contextlib.AbstractContextManager[Tracer]:
    """One of its tools, which has attached."""
    (folder / "modules").mkdir()
    headers = max(Path("/lib/modules").glob("*/build")).parent
    here = folder / "modules" / os.uname().release
    here.mkdir()
    for name in ("build", "source"):
        if (headers / name).exists():
            (here / name).symlink_to((headers / name).resolve())
    command = [*WITH_HEADERS, folder / "modules", tool, *arguments]
    return listening(folder, command, "Ctrl-C to quit.\n")


def test_calls_and_times(tmp_path: Path) -> None:
    """A row a function; of recursive ones, which the tool leaves out, what it has of them."""
    with probed(tmp_path, *NONE) as program:
        with bcc(tmp_path, "pythoncalls-bpfcc", "-L", program.pid) as tracer:
            program.wait_for_events(TURNS)
            program.tell("run")
            text = tracer.detach()
        program.tell("events 0")
        assert not program.end()
    rows = re.findall(rf"^{re.escape(FILE)}\.(\w+) +(\d+) +[\d.]+$", text, re.M)
    calls = {name: int(n) for name, n in rows}
    assert len(calls) == len(rows)
    assert {name: calls[name] for name in CALLS.keys() - {"fib"}} == {
        name: n for name, n in CALLS.items() if name != "fib"
    }


@pytest.mark.further
def test_flow(tmp_path: Path) -> None:
    """Begins and ends in their order, indented by depth."""
    with probed(tmp_path, *NONE) as program:
        with bcc(tmp_path, "pythonflow-bpfcc", program.pid) as tracer:
            program.wait_for_events(TURNS)
            program.tell("run")
            tracer.wait_for(f"<- {FILE}.run")
            text = tracer.detach()
        assert not program.end()
    turns = re.findall(r"^\d+ .* [\d.]+ ( *)(->|<-) .*\.(\w+) *$", text, re.M)
    begins = collections.Counter(name for _, arrow, name in turns if arrow == "->")
    ends = collections.Counter(name for _, arrow, name in turns if arrow == "<-")
    assert {name: begins[name] for name in CALLS} == CALLS
    assert {name: ends[name] for name in CALLS} == CALLS


@pytest.mark.further
def test_nothing_follows_a_name(tmp_path: Path) -> None:
    """These tools read 80 bytes, and tell functions apart by all of them (bpftrace reads 64)."""
    script = f'usdt:{LIBRARY}:python:function__entry {{ printf("%r|\\n", buf(arg1, 64)); }}'
    with (
        probed(tmp_path, *NONE) as program,
        traced(tmp_path, script, "-p", program.pid) as tracer,
    ):
        program.wait_for_events(TURNS)
        program.tell("run")
        tracer.wait_for("lines\\x00")
        text = tracer.detach()
        program.end()
    lines = re.findall(r"^(.*)\|$", text, re.M)
    names = [re.fullmatch(r"([^\\]+)(?:\\x00)+", line) for line in lines]
    assert all(names)
    assert CALLS.keys() <= {name[1] for name in names if name}
