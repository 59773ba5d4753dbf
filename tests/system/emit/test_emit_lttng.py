"""LTTng: `--emit lttng`, recorded by a real session daemon and read by Babeltrace."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import python_calls
from lttng_support import BEGINS, ENDS, Event, Lttng
from support import TARGETS, Run

pytestmark = pytest.mark.needs("lttng")

PROGRAM = TARGETS / "emitted.py"
NONE = ("--mode", "none", "--emit", "lttng")
ROOMY = ("--subbuf-size=1M", "--num-subbuf=8")


def command(lttng: Lttng, *words: object) -> list[str]:
    return [*lttng.command, sys.executable, "-P", "-m", "pyhybrid", *map(str, words)]


def names(events: list[Event], kind: str) -> collections.Counter[str]:
    """By name, of the program's own functions."""
    chosen = (e.fields for e in events if e.name == kind)
    return collections.Counter(
        f["qualname"] for f in chosen if f["filename"].endswith((PROGRAM.name, "program.py"))
    )


def check_whole(events: list[Event]) -> None:
    """On each thread as many ends as begins, and never more."""
    depth: collections.Counter[int] = collections.Counter()
    for event in events:
        depth[event.tid] += (event.name in BEGINS) - (event.name in ENDS)
        assert depth[event.tid] >= 0
    assert set(depth.values()) == {0}


@pytest.mark.engine
@pytest.mark.version
def test_each_turn_is_an_event(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """With its names, by threads, regions as well; nothing else comes of the run."""
    lttng.record("pyhybrid:*")
    run = pyhybrid(*NONE, "--exclude", "stdlib", PROGRAM, within=lttng.command, env=lttng.env)
    assert not lttng.stop()
    events = lttng.events()
    assert names(events, "py_start") == {
        "<module>": 1,
        "main": 1,
        "numbers": 1,
        "fails": 1,
        "odd": 1,
        "fib": 15 + 1 + 3,
    }
    assert names(events, "py_resume") == {"numbers": 2}
    assert names(events, "py_yield") == {"numbers": 2}
    assert names(events, "py_unwind") == {"fails": 1}
    regions = [e.name for e in events if e.fields.get("name") == r"\e[31mepoch"]
    assert regions == ["region_begin", "region_end"]
    check_whole(events)
    threads = collections.Counter(e.tid for e in events)
    assert len(threads) == 2
    fib = next(e.fields for e in events if e.fields.get("qualname") == "fib")
    assert fib == {"qualname": "fib", "filename": str(PROGRAM), "lineno": "9"}
    assert not run.result.stderr
    assert not list(run.folder.iterdir())


def test_as_many_as_the_profile_has(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """Beside a profile, of all code; what measured the cost of counting is in neither."""
    lttng.record("pyhybrid:*")
    run = pyhybrid("--emit", "lttng", PROGRAM, within=lttng.command, env=lttng.env)
    assert not lttng.stop()
    events = lttng.events()
    check_whole(events)
    calls = python_calls(run.profile())
    assert sum(e.name == "py_start" for e in events) == calls > 100


@pytest.mark.further
def test_what_is_thrown_into_a_generator(
    lttng: Lttng, pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """Has a begin and an end of its own.  Names are in UTF-8."""
    program = tmp_path / "program.py"
    program.write_text(
        "def größe():\n"
        "    try:\n"
        "        yield\n"
        "    except ValueError:\n"
        "        yield\n"
        "g = größe()\n"
        "next(g)\n"
        "g.throw(ValueError)\n"
        "g.close()\n"
    )
    lttng.record("pyhybrid:*")
    pyhybrid(*NONE, program, within=lttng.command, env=lttng.env)
    events = lttng.events()
    check_whole(events)
    turns = [e.name for e in events if e.fields["qualname"] == "größe"]
    assert turns == ["py_start", "py_yield", "py_throw", "py_yield", "py_throw", "py_unwind"]


# Answers lines on its standard input: `on` and `off` wait until events are that, others are called.
ASKED = """
import sys, time
[tool] = [i for i in range(6) if sys.monitoring.get_tool(i) == "pyhybrid"]
def called(): pass
def answer():
    for line in sys.stdin:
        deadline = time.monotonic() + 300
        while line != "call\\n" and bool(sys.monitoring.get_events(tool)) != (line == "on\\n"):
            assert time.monotonic() < deadline, line
            time.sleep(0.001)
        if line == "call\\n":
            called()
        print(line, end="", flush=True)
answer()
"""


class Asked:
    """The program above, which runs under the profiler."""

    def __init__(self, lttng: Lttng, folder: Path) -> None:
        program = folder / "program.py"
        program.write_text(ASKED)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command(lttng, *NONE, "--exclude", "stdlib", program),
            env={**os.environ, **lttng.env},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def __call__(self, *words: str) -> None:
        for word in words:
            assert self.process.stdin and self.process.stdout
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == word + "\n", self.process.communicate()

    def end(self) -> str:
        """What it said on standard error."""
        _, stderr = self.process.communicate()
        assert self.process.returncode == 0, stderr
        return stderr


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.version
def test_events_are_on_while_a_session_wants_them(no_daemon: Lttng, tmp_path: Path) -> None:
    """Started without a daemon, which comes later; then a session begins, stops, goes on, ends."""
    lttng = no_daemon
    asked = Asked(lttng, tmp_path)
    asked("off", "call")
    lttng.start_daemon()
    asked("off", "call")
    lttng.record("pyhybrid:*")
    asked("on", "call", "call")
    lttng("stop")
    asked("off", "call", "call", "call")
    lttng("start")
    asked("on", "call")
    events = lttng.events()
    asked("off", "call")
    said = asked.end()
    assert said.startswith("pyhybrid: the live output lttng: no lttng-sessiond is running")
    assert said.count("\n") == 1
    assert names(events, "py_start") == {"called": 3}
    running = [e.fields["qualname"] for e in events if e.name == "py_running"]
    assert running == ["<module>", "answer"] * 2  # as they were when recording began


@pytest.mark.further
def test_a_daemon_that_is_killed_harms_nothing(lttng: Lttng, tmp_path: Path) -> None:
    lttng.record("pyhybrid:*")
    asked = Asked(lttng, tmp_path)
    asked("on", "call")
    lttng.kill_daemon(signal.SIGKILL)
    asked("call", "call")
    assert not asked.end()


@pytest.mark.further
def test_a_program_that_is_killed_has_left_its_events(lttng: Lttng, tmp_path: Path) -> None:
    lttng.record("pyhybrid:*")
    asked = Asked(lttng, tmp_path)
    asked("on", *["call"] * 100)
    asked.process.kill()
    asked.process.communicate()
    assert names(lttng.events(), "py_start")["called"] == 100


@pytest.mark.further
def test_what_does_not_fit_is_counted(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    lttng.record("pyhybrid:*", channel=("--subbuf-size=4k", "--num-subbuf=2"))
    code = "def f(): pass\nfor _ in range(100_000): f()"
    pyhybrid(*NONE, "-c", code, within=lttng.command, env=lttng.env)
    discarded = lttng.stop()
    assert discarded > 0
    assert discarded + len(lttng.events()) >= 2 * 100_000


def test_a_forked_child_emits_nothing(
    lttng: Lttng, pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """And ends as usual, whatever way it is made."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, subprocess, sys\n"
        "def child(): pass\n"
        "def parent(): pass\n"
        "for ends in (os._exit, sys.exit) * 5:\n"
        "    if not os.fork():\n"
        "        child()\n"
        "        ends(0)\n"
        "    assert os.wait()[1] == 0\n"
        "for _ in range(10):\n"
        "    subprocess.run(['true'], check=True, preexec_fn=child)\n"
        "parent()\n"
    )
    lttng.record("pyhybrid:*", channel=ROOMY)
    pyhybrid(*NONE, program, within=lttng.command, env=lttng.env)
    events = lttng.events()
    assert names(events, "py_start") == {"<module>": 1, "parent": 1}
    check_whole(events)


@pytest.mark.further
@pytest.mark.version
def test_a_child_does_not_wait_for_locks(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """Those that one of LTTng's threads held when it was forked: it ends, by its own code."""
    lttng.record("pyhybrid:*")
    program = TARGETS / "forks_with_lttng_locked.py"
    run = pyhybrid(*NONE, program, within=lttng.command, env=lttng.env)
    assert run.result.stdout == "the child ended with 7\n"


@pytest.mark.further
def test_nobody_is_warned_of_its_threads(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """As long as the program has none of its own."""
    code = (
        "import os, threading, warnings\n"
        "warnings.simplefilter('always')\n"
        "def fork():\n"
        "    if not os.fork(): os._exit(0)\n"
        "    os.wait()\n"
        "fork()\n"
        "print('alone', flush=True)\n"
        "end = threading.Event()\n"
        "threading.Thread(target=end.wait).start()\n"
        "fork()\n"
        "end.set()\n"
    )
    beside = {"within": lttng.command, "env": lttng.env, "stderr": subprocess.STDOUT}
    said = pyhybrid(*NONE, "-c", code, **beside).result.stdout
    alone, _, others = said.partition("alone\n")
    assert not alone
    assert others.count("DeprecationWarning") == 1


@pytest.mark.further
def test_chosen_events_alone(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """Of one kind, and by the session's own filter."""
    lttng.record("pyhybrid:py_start")
    lttng("enable-event", "-u", "-c", "c", "pyhybrid:py_return", "--filter", 'qualname == "fi*"')
    pyhybrid(*NONE, PROGRAM, within=lttng.command, env=lttng.env)
    events = lttng.events()
    assert {e.name for e in events} == {"py_start", "py_return"}
    assert names(events, "py_start")["main"] == 1
    assert names(events, "py_return") == {"fib": 15 + 1 + 3}


@pytest.mark.further
def test_nothing_of_it_is_there_without_the_option(pyhybrid: Callable[..., Run]) -> None:
    code = (
        "import os\n"
        "print('lttng-ust' in open('/proc/self/maps').read(),"
        " [open(f'/proc/self/task/{t}/comm').read() for t in os.listdir('/proc/self/task')])"
    )
    shown = pyhybrid("--mode", "trace", "-c", code).result.stdout
    assert shown.startswith("False")
    assert "-ust" not in shown


def test_bad_input(pyhybrid: Callable[..., Run]) -> None:
    result = pyhybrid(
        "--mode", "none", "--emit", "lttng:x", "-c", "print('ran')", check=False
    ).result
    assert result.returncode == 2
    assert "it takes no argument" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "ran" not in result.stdout
