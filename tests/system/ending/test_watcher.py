"""Programs that a signal ends: what waits beside them makes their files, and leaves no trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, Run, check_invariants, printed

BURN = """
import os, signal, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""
FILES = ["out.folded", "out.pyhybrid", "perf.data"]
KILL = "os.kill(os.getpid(), signal.SIGTERM)"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "core")


def watchers(folder: Path) -> list[int]:
    """The processes that wait for the end of a program here, or make its files."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"--killed" in words and os.fsencode(folder) in words:
            found.append(int(path.parent.name))
    return found


def wait_until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGABRT])
def test_a_signal_ends_it(pyhybrid: Callable[..., Run], tmp_path: Path, number: int) -> None:
    """Who reads its standard error reads on until the files are there."""
    code = f"{BURN}burn(0.5); os.kill(os.getpid(), {int(number)})"
    run = pyhybrid("-c", code, check=False)
    assert run.result.returncode == -number
    assert run.result.stderr == (
        f"pyhybrid: the program was killed: {tmp_path}/out.pyhybrid is made of what was "
        "recorded until then\n"
    )
    assert files(tmp_path) == FILES
    profile = run.profile()
    check_invariants(profile)
    assert any(frame.name == "burn" for frame in profile.frames.values())
    assert "the process was killed" in printed(tmp_path, "report")
    wait_until(lambda: not watchers(tmp_path))


@pytest.mark.further
def test_quietly(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    run = pyhybrid("-q", "-c", f"{BURN}burn(0.1); {KILL}", check=False)
    assert run.result.stderr == ""
    assert files(tmp_path) == FILES


@pytest.mark.further
def test_the_part_is_left_where_that_is_asked_for(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    run = pyhybrid("--leave-part", "-c", f"{BURN}burn(0.1); {KILL}", check=False)
    assert run.result.stderr == ""
    assert files(tmp_path) == ["out.pyhybrid.part"]


ENDS = {
    "in order": "pass",
    "os._exit": "os._exit(0)",
    "exec": "os.execv('/bin/true', ['true'])",
    "a forked child that lives on": "os.fork() or time.sleep(3)",
    "a forked child that is killed": "pid = os.fork() or os.kill(os.getpid(), 9); os.wait()",
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("how", ENDS)
def test_nobody_waits_for_a_program_that_has_ended(tmp_path: Path, how: str) -> None:
    """And what ends in order is finished once: one summary, no line of the watcher's."""
    code = f"{BURN}burn(0.1)\nprint(os.getpid(), flush=True)\n{ENDS[how]}"
    with open(tmp_path / "stdout", "w+b") as out, open(tmp_path / "stderr", "w+b") as err:
        words = [sys.executable, "-P", "-m", "pyhybrid", "-c", code]
        done = subprocess.run(words, cwd=tmp_path, stdout=out, stderr=err, timeout=PATIENCE_S)
    assert done.returncode == 0
    wait_until(lambda: not watchers(tmp_path))
    wait_until(lambda: not (tmp_path / "out.pyhybrid.part").exists())
    assert "was killed" not in (tmp_path / "stderr").read_text()


@pytest.mark.further
def test_who_closes_all_descriptors_is_waited_for(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    code = f"{BURN}os.closerange(3, 4096); burn(1); open('done', 'w').close(); {KILL}"
    run = pyhybrid("-c", code, check=False)
    assert run.result.returncode == -signal.SIGTERM
    assert files(tmp_path) == ["done", *FILES]
    assert run.profile().process.cpu_ns is None


@pytest.mark.further
def test_the_program_does_not_see_it(pyhybrid: Callable[..., Run]) -> None:
    """It is no child, of another session, and has neither input nor output of the program."""
    code = """
import os
try:
    print("child", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    pass
def words(number):
    try: return open(f"/proc/{number}/cmdline", "rb").read()
    except OSError: return b""  # another one, which has ended
(watcher,) = [
    number for number in os.listdir("/proc") if number.isdigit()
    and b"--killed\\0%d:" % os.getpid() in words(number)
]
assert os.getsid(int(watcher)) == int(watcher)
assert os.readlink(f"/proc/{watcher}/fd/1") != os.readlink("/proc/self/fd/1")
while os.readlink(f"/proc/{watcher}/cwd") != "/": pass  # it goes there as it begins
"""
    assert pyhybrid("-q", "-c", code).result.stdout == ""


@pytest.mark.further
def test_sigterm_to_all_of_a_service(tmp_path: Path) -> None:
    """As systemd sends it: to the watcher, too."""
    code = f"{BURN}print(1, flush=True)\nburn(60)"
    words = [sys.executable, "-P", "-m", "pyhybrid", "-q", "-c", code]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        for number in (*watchers(tmp_path), process.pid):
            os.kill(number, signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
    wait_until(lambda: files(tmp_path) == FILES)
