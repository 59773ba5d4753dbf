"""Programs that end without exit(): by os._exit, or by becoming another one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run, check_invariants

from pyhybrid.views.processes import processes_of

OUTPUTS = ["out.folded", "out.pyhybrid", "perf.data"]

WORK = """
import os, signal, sys, threading
def work(n):
    return sum(range(n))
def outer(end):
    for i in range(7):
        work(10**5)
    end()
"""

EXITS = {
    "in a function": "outer(lambda: os._exit(7))",
    "by a name of before": "from os import _exit\nouter(lambda: _exit(status=7))",
    "in a thread": (
        "t = threading.Thread(target=outer, args=(lambda: os._exit(7),))\nt.start()\nt.join()"
    ),
    "in a handler": (
        "signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))\n"
        "outer(lambda: signal.raise_signal(signal.SIGUSR1))"
    ),
    "with children ignored": (
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nouter(lambda: os._exit(7))"
    ),
    "after one that was refused": (
        "for wrong in ((), ('x',), (1, 2), (2**40,)):\n"
        "    try: os._exit(*wrong)\n"
        "    except (TypeError, OverflowError): pass\n"
        "    else: os.abort()\n"
        "outer(lambda: os._exit(7))"
    ),
    "after a child's": (
        "child = os.fork()\n"
        "if not child: os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "outer(lambda: os._exit(7))"
    ),
}


def calls(run: Run, name: str) -> int:
    profile = run.profile()
    frames, nodes = profile.frames, profile.nodes
    return sum(r.calls for r in profile.exact if frames[nodes.frame[r.node]].name == name)


@pytest.mark.first_cases(1)
@pytest.mark.version
@pytest.mark.parametrize("how", EXITS)
def test_exit_at_once(pyhybrid: Callable[..., Run], tmp_path: Path, how: str) -> None:
    """As by exit(): all files are there when the command returns; what is buffered is lost."""
    program = f"{WORK}\nprint('buffered')\n{EXITS[how]}"
    run = pyhybrid("-c", program, check=False, env={"PYTHONUNBUFFERED": ""})
    assert (run.result.returncode, run.result.stdout) == (7, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS
    assert "999 Hz asked" in run.result.stderr
    assert "note " not in run.result.stderr
    check_invariants(run.profile())
    assert run.profile().process.end_ns is not None
    assert (calls(run, "work"), calls(run, "outer")) == (7, 1)


@pytest.mark.further
def test_exit_at_once_within_the_api(tmp_path: Path) -> None:
    """With an output its files are made; without one nothing stays."""
    program = """
        import os, sys, tempfile
        import pyhybrid
        tempfile.tempdir = os.getcwd()
        pyhybrid.Profiler(output=sys.argv[1] or None).start()
        sum(range(10**6))
        os._exit(5)
    """
    for output, left in (("", []), ("api", ["api.pyhybrid"])):
        command = [sys.executable, "-P", "-c", textwrap.dedent(program), output]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (5, "")
        assert [path.name for path in tmp_path.iterdir()] == left


# What the program that takes its place sees of its process.
SEES = """
import os, signal
print(sorted(os.listdir("/proc/self/fd")), *sorted(os.environ), sep="\\n")
status = open("/proc/self/status").read()
kinds = "SigPnd", "SigBlk", "SigIgn", "SigCgt", "Threads"
print([line for line in status.splitlines() if line.startswith(kinds)])
try:
    print(os.wait())
except ChildProcessError:
    print("no child")
raise SystemExit(6)
"""
BECOMES = {
    "execv": "os.execv(sys.executable, [sys.executable, '-c', sees])",
    "execve": "os.execve(sys.executable, [sys.executable, '-c', sees], dict(os.environ))",
    "a search": (
        "os.environ['PATH'] = os.getcwd() + ':/nowhere:' + os.path.dirname(sys.executable)\n"
        "    os.execlp('python3', sys.executable, '-c', sees)"
    ),
    "a descriptor": (
        "os.execve(os.open(sys.executable, os.O_RDONLY | os.O_CLOEXEC),"
        " [sys.executable, '-c', sees], dict(os.environ))"
    ),
    "in a thread": (
        "t = threading.Thread(target=os.execv,"
        " args=(sys.executable, [sys.executable, '-c', sees]))\n"
        "    t.start()\n    t.join()"
    ),
    "with as long an argument as may be": (
        "os.execv(sys.executable, [sys.executable, '-c', sees, 'x' * (2**17 - 1)])"
    ),
    "in a shell's script": "os.execv('./script', ['script', sees])",
}


def wait_for_the_files(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while list(folder.glob("*.part")) and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.first_cases(1)
@pytest.mark.version
@pytest.mark.parametrize("how", BECOMES)
def test_it_becomes_another(pyhybrid: Callable[..., Run], tmp_path: Path, how: str) -> None:
    """That one sees nothing of us; the files come by a process that is none of its children."""
    (tmp_path / "script").write_text(f'#!/bin/sh\nexec {sys.executable} -c "$1"\n')
    (tmp_path / "script").chmod(0o755)
    program = f"{WORK}\nsees = {SEES!r}\ndef end():\n    {BECOMES[how]}\nouter(end)"
    command = [sys.executable, "-c", program]
    environment = dict(os.environ)  # without what readline has set in C
    bare = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "no child" in bare.stdout, bare.stderr
    run = pyhybrid("--no-children", "-c", program, check=False)
    assert run.result.stdout.splitlines() == bare.stdout.splitlines()
    assert run.result.returncode == 6
    (line,) = run.result.stderr.splitlines()
    assert line.startswith("pyhybrid: the program becomes another one, which is not profiled: ")
    wait_for_the_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*OUTPUTS, "script"]
    check_invariants(run.profile())
    assert run.profile().process.end_ns is not None
    assert (calls(run, "work"), calls(run, "outer")) == (7, 1)


FAILS = {
    "no such file": "os.execv('/no/such/file', ['x'])",
    "a folder": "os.execv('/', ['x'])",
    "not executable": "os.execv('/etc/passwd', ['x'])",
    "not a program": "os.chmod(sys.argv[1], 0o755); os.execv(sys.argv[1], ['x'])",
    "a search": "os.execvp('no-such-program', ['x'])",
    "no path at all": "os.execv(b'', ['x'])",
    "too long an argument": "os.execv(sys.executable, ['x', 'x' * 2**17])",
    "too many arguments": "os.execv(sys.executable, ['x'] * 10**6)",
    "too long a variable": "os.execve(sys.executable, ['x'], {'x': 'x' * 2**17})",
    "too large an environment": (
        "os.execve(sys.executable, ['x'], {f'x{i}': 'x' * 10**5 for i in range(70)})"
    ),
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("how", FAILS)
def test_it_fails_to_become_another(pyhybrid: Callable[..., Run], tmp_path: Path, how: str) -> None:
    """The profile goes on."""
    (tmp_path / "text").write_text("nothing that runs\n")
    program = (
        f"{WORK}\ndef end():\n"
        f"    try: {FAILS[how]}\n"
        "    except OSError: pass\n"
        "outer(end)\nouter(end)"
    )
    run = pyhybrid("--format", "folded", "-c", program, "text")
    assert (calls(run, "work"), calls(run, "outer")) == (14, 2)
    assert run.result.stderr.count("pyhybrid: ") == 0


@pytest.mark.further
def test_whoever_would_find_an_orphan_finds_none(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """A subreaper, like process 1 of a container, is given orphans: then the spools stay, whole."""
    program = (
        "import ctypes\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER\n"
        f"{WORK}\nouter(lambda: os.execv(sys.executable, [sys.executable, '-c', {SEES!r}]))"
    )
    run = pyhybrid("-c", program, check=False)
    assert run.result.returncode == 6
    assert "no child" in run.result.stdout
    left = ["out.pyhybrid.part", "out.pyhybrid.parts"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    report = pyhybrid("report")
    assert "999 Hz asked" in report.result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS
    assert (calls(run, "work"), calls(run, "outer")) == (7, 1)
    assert [each.how for each in processes_of(run.profile())] == ["root", "exec"]
    assert all(each.end_ns for each in run.profile().processes.values())


LIVES = """
import os, sys
def work(): pass
def life(n):
    work()
    if n == 1:
        os.execv("/bin/sh", ["sh", "-c", f'exec {sys.executable} {sys.argv[0]} 2'])
    if n < 4:
        os.execv(sys.executable, [sys.executable, sys.argv[0], str(n + 1)])
    os.execv("/bin/sh", ["sh", "-c", "echo written; read line; exit 6"])
life(int(sys.argv[1]))
"""


def test_what_it_becomes_is_profiled(tmp_path: Path) -> None:
    """Its last life is none of Python's: the files are made while it goes on."""
    (tmp_path / "lives.py").write_text(LIVES)
    command = [sys.executable, "-m", "pyhybrid", "lives.py", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path, text=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdin and program.stderr
        line = program.stderr.readline()
        assert line.startswith("pyhybrid: the program becomes another one: ")
        wait_for_the_files(tmp_path)
        program.stdin.write("\n")
    assert program.returncode == 6
    run = Run.recorded(tmp_path)
    check_invariants(run.profile())
    assert [each.how for each in processes_of(run.profile())] == ["root", "exec", "exec", "exec"]
    assert (calls(run, "work"), calls(run, "life")) == (4, 4)
    run.close()


@pytest.mark.further
def test_a_child_that_becomes_another_ends_nothing(pyhybrid: Callable[..., Run]) -> None:
    program = (
        f"{WORK}\n"
        "if not os.fork():\n"
        "    os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])\n"
        "os.wait()\nouter(lambda: None)"
    )
    run = pyhybrid("--format", "folded", "-c", program)
    assert run.result.stdout == "1\n"
    assert (calls(run, "work"), calls(run, "outer")) == (7, 1)
    assert os.path.exists(run.path("out.folded"))
