"""The printed trace: `--emit print`, a line for each begin while the program runs."""

from __future__ import annotations

import collections
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import TARGETS, Run

from pyhybrid.errors import PyhybridError

PROGRAM = TARGETS / "emitted.py"
NONE = ("--mode", "none", "--exclude", "stdlib")
BEGIN = re.compile(r"PY_(START|RESUME) : ([^:]+):(\d+) -> (.+)")


def begins(text: str, kind: str = "START") -> collections.Counter[str]:
    """By name, in the program's own file."""
    found = (BEGIN.fullmatch(line) for line in text.splitlines())
    return collections.Counter(
        match[4] for match in found if match and match[1] == kind and match[2] == PROGRAM.name
    )


EXPECTED = {"<module>": 1, "main": 1, "numbers": 1, "fails": 1, "odd": 1, "fib": 15 + 1 + 3}


@pytest.mark.version
def test_a_line_for_each_begin(pyhybrid: Callable[..., Run]) -> None:
    """And nothing besides: no file, no summary."""
    run = pyhybrid(*NONE, "--emit", "print", PROGRAM)
    assert begins(run.result.stdout) == EXPECTED
    assert begins(run.result.stdout, "RESUME") == {"numbers": 2}
    assert "PY_START : emitted.py:9 -> fib\n" in run.result.stdout
    assert "REGION : \\x1b[31mepoch\n" in run.result.stdout
    assert not run.result.stderr
    assert not list(run.folder.iterdir())


@pytest.mark.further
def test_as_many_as_the_profile_has(pyhybrid: Callable[..., Run]) -> None:
    """Beside a profile, of all code; what measured the cost of counting is in neither."""
    run = pyhybrid("--mode", "trace", "--emit", "print:calls.txt", PROGRAM)
    lines = (run.folder / "calls.txt").read_text().splitlines()
    profile = run.profile()
    kinds = {
        n: profile.frames[profile.nodes.frame[n]].kind for n in {r.node for r in profile.exact}
    }
    calls = sum(row.calls for row in profile.exact if kinds[row.node] == "python")
    assert sum(line.startswith("PY_START") for line in lines) == calls > 100


@pytest.mark.version
def test_the_tree(pyhybrid: Callable[..., Run]) -> None:
    """Begins and ends, indented, with the thread and times; no colours in a file."""
    run = pyhybrid(*NONE, "--emit", "print:tree:tree.txt", PROGRAM)
    text = (run.folder / "tree.txt").read_text()
    assert "\x1b" not in text
    assert text.count("{\n") == len(re.findall(r"^ *[\d.]+ [mu]?n?s .*} ", text, re.MULTILINE))
    inside = re.search(
        r"^[^\n]{29}( *)odd \(emitted.py:22\) {\n(.*?)^[^\n]{29}\1} odd\n", text, re.M | re.S
    )
    assert inside, text
    assert [line[29 + len(inside[1]) :] for line in inside[2].splitlines()] == [
        "  [\\x1b[31mepoch] {",
        "    fib (emitted.py:9) {",
        "    } fib",
        "  } [\\x1b[31mepoch]",
    ]
    assert "} numbers (yielded)\n" in text
    assert "numbers (emitted.py:13) (resumed) {\n" in text
    assert "} fails (raised)\n" in text
    assert re.search(r"wor\\nker +fib", text)


@pytest.mark.further
def test_colours_on_a_terminal() -> None:
    command = [sys.executable, "-P", "-m", "pyhybrid", *NONE, "--emit", "print:tree", str(PROGRAM)]
    colours = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    shown = subprocess.run(
        ["script", "-qec", subprocess.list2cmdline(command), "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**colours, "TERM": "xterm"},
    ).stdout
    assert "\x1b[1mmain\x1b[0m" in shown


def test_a_reader_that_goes_harms_nothing(tmp_path: Path) -> None:
    """Also where the program has given SIGPIPE its deadly meaning back."""
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "def f(): pass\n"
        "for _ in range(200_000): f()\n"
        "open('ended', 'w').close()\n"
        "sys.exit(7)\n"
    )
    command = [sys.executable, "-P", "-m", "pyhybrid", "--mode", "none", "--emit", "print", program]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline().startswith("PY_START : ")
        process.stdout.close()
        assert not process.stderr.read()
    assert process.returncode == 7
    assert (tmp_path / "ended").exists()


@pytest.mark.further
def test_a_full_disk_is_told(pyhybrid: Callable[..., Run]) -> None:
    """At the end, and the program has run."""
    code = "def f(): pass\nfor _ in range(10): f()\nprint('ran')"
    result = pyhybrid("--mode", "none", "--emit", "print:/dev/full", "-c", code).result
    assert result.stdout == "ran\n"
    assert result.stderr == (
        "pyhybrid: the live output print ended early: No space left on device\n"
    )


@pytest.mark.further
def test_a_slow_reader_loses_nothing(tmp_path: Path) -> None:
    """The program waits for it, with its other threads running, and with its signals."""
    program = tmp_path / "program.py"
    program.write_text("def f(): pass\nfor _ in range(100_000): f()\n")
    command = [sys.executable, "-P", "-m", "pyhybrid", "--mode", "none", "--emit", "print", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = 0
        while text := process.stdout.read(1 << 14):
            lines += text.count(" -> f\n")
            lines += text.endswith(" -> f") and process.stdout.read(1) == "\n"
    assert process.returncode == 0
    assert lines > 99_000  # (a name may be cut by our reading)


@pytest.mark.further
def test_a_forked_child_emits_nothing(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os\n"
        "def before(): pass\n"
        "def child(): pass\n"
        "def parent(): pass\n"
        "before()\n"
        "if not os.fork():\n"
        "    for _ in range(10_000): child()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "parent()\n"
    )
    text = pyhybrid("--mode", "none", "--emit", "print", program).result.stdout
    assert [line.rpartition(" ")[2] for line in text.splitlines() if "program.py" in line] == [
        "<module>",
        "before",
        "parent",
    ]


def test_from_within_a_program(tmp_path: Path) -> None:
    """Chosen functions, paused, stopped, begun again, with and without a profile."""
    import pyhybrid

    def chosen() -> None: ...

    def other() -> None: ...

    file = tmp_path / "calls.txt"
    name = chosen.__qualname__
    for mode in ("none", "trace", "none"):
        p = pyhybrid.Profiler(mode=mode, emit=[f"print:{file}"], functions=[name])
        with p:
            chosen()
            other()
            p.pause()
            chosen()
            p.resume()
            chosen()
        chosen()
        assert file.read_text().count("\n") == 2
        assert file.read_text().count(" -> chosen\n") == 2
        if mode == "none":
            with pytest.raises(PyhybridError):
                _ = p.profile
        else:
            p.profile.close()


@pytest.mark.further
def test_one_at_a_time(tmp_path: Path) -> None:
    """A second profiler is refused, and takes nothing away from the first one."""
    import pyhybrid

    def chosen() -> None: ...

    file, name = tmp_path / "calls.txt", chosen.__qualname__
    with pyhybrid.Profiler(mode="none", emit=[f"print:{file}"], functions=[name]):
        with pytest.raises(PyhybridError, match="already running"):
            pyhybrid.Profiler(mode="none", emit=[f"print:{tmp_path}/other"]).start()
        chosen()
    assert file.read_text().count(" -> chosen\n") == 1
    assert not (tmp_path / "other").exists()


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--emit", "nothing"), "unknown live output 'nothing'"),
        (("--mode", "none"), "the mode none is for live outputs alone"),
        (("--mode", "sample", "--emit", "print"), "--emit needs --mode hybrid, trace or none"),
        (("--mode", "none", "--emit", "print:/nowhere/x"), "/nowhere/x: No such file"),
        (("--emit", "print", "--emit", "print:x"), "asked for twice"),
    ],
)
def test_bad_input(pyhybrid: Callable[..., Run], options: tuple[str, ...], said: str) -> None:
    result = pyhybrid(*options, "-c", "print('ran')", check=False).result
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert "ran" not in result.stdout


@pytest.mark.further
def test_without_it_the_program_runs(pyhybrid: Callable[..., Run]) -> None:
    """Where something else was asked for."""
    result = pyhybrid("--mode", "trace", "--emit", "print:/nowhere/x", "-c", "print('ran')").result
    assert "the live output print is not to be had" in result.stderr
    assert result.stdout == "ran\n"


@pytest.mark.further
def test_what_is_not_asked_for_is_not_loaded(pyhybrid: Callable[..., Run]) -> None:
    code = "print('libpyhybrid' in open('/proc/self/maps').read())"
    assert pyhybrid("--mode", "trace", "-c", code).result.stdout == "False\n"
    emitting = ("--mode", "none", "--emit", "print:calls.txt")
    assert pyhybrid(*emitting, "-c", code).result.stdout == "True\n"


@pytest.mark.further
def test_signals_come_while_it_waits_for_a_reader(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "def f(): pass\n"
        "try:\n"
        "    sys.stderr.write('begins\\n')\n"
        "    while True: f()\n"
        "except KeyboardInterrupt:\n"
        "    sys.stderr.write('interrupted\\n')\n"
    )
    command = [sys.executable, "-P", "-m", "pyhybrid", "--mode", "none", "--emit", "print", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout and process.stderr
        assert process.stderr.readline() == "begins\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "interrupted\n"
        process.stdout.read()
    assert process.returncode == 0
