"""What `pyhybrid live` shows of a program that runs, and that the program does not notice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S

import pyhybrid

PYHYBRID = [sys.executable, "-P", "-m", "pyhybrid"]
PROGRAM = """
import os, sys

def hot(n): return sum(range(n))

def cold(n): return sum(range(n))

def work():
    for _ in range(60): hot(2_000)
    cold(40_000)

def main():
    n = 0
    print("begins", flush=True)
    while not os.path.exists("end"):
        work()
        n += 1
    print(n)

main()
"""


def until(found: Callable[[], Any]) -> Any:
    """What it returns once that is true."""
    end = time.monotonic() + PATIENCE_S
    while not (it := found()) and time.monotonic() < end:
        time.sleep(0.02)
    assert it
    return it


class Program:
    """The program, bare or below pyhybrid with the words `before`."""

    def __init__(self, folder: Path, *before: str) -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        words = [*PYHYBRID, *before] if before else [sys.executable, "-P"]
        self.process = subprocess.Popen(
            [*words, "program.py"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout and self.process.stdout.readline() == "begins\n"

    def end(self) -> int:
        """How often it worked."""
        (self.folder / "end").touch()
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        return int(out)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(*before: str) -> Program:
        started.append(Program(tmp_path, *before))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


def live(folder: Path, *words: object) -> subprocess.Popen[str]:
    """Prints lines of JSON."""
    command = [*PYHYBRID, "live", "--json", "--interval", "100ms", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def lines_until(shown: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """The first line in whose window a function of that name was called."""
    assert shown.stdout
    for line in shown.stdout:
        now: dict[str, Any] = json.loads(line)
        if any(each["calls_per_s"] for each in named(now, name)):
            return now
    pytest.fail("it ended before")


def named(now: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [each for each in now["functions"] if each["function"]["name"] == name]


def last(shown: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = shown.communicate(timeout=PATIENCE_S)
    assert shown.returncode == 0
    now: dict[str, Any] = json.loads(out.splitlines()[-1])
    return now


def figures(profile: pyhybrid.Profile) -> tuple[Counter[str], Counter[str], int]:
    """Calls and sampled time of the program's functions, with what they called; and of all."""
    calls, total_ns = Counter[str](), Counter[str]()
    frames, nodes = profile.frames, profile.nodes
    for row in profile.exact:
        frame = frames[nodes.frame[row.node]]
        if (frame.file or "").endswith("program.py"):
            calls[frame.name] += row.calls
    all_ns = 0
    for sample in profile.sampled:
        node, names = profile.stacks.node[sample.stack], set()
        all_ns += sample.weight_ns
        while node:
            names.add(frames[nodes.frame[node]].name)
            node = nodes.parent[node]
        total_ns.update(dict.fromkeys(names, sample.weight_ns))
    return calls, total_ns, all_ns


@pytest.mark.version
def test_it_agrees_with_the_profile(program: Callable[..., Program], tmp_path: Path) -> None:
    of = program("-q", "-o", "run", "--format", "folded")
    shown = live(tmp_path, "--most", 0, "run")
    lines_until(shown, "hot")
    n = of.end()
    now = last(shown)
    assert now["ended"] and not now["processes"][0]["runs"]
    with pyhybrid.load(tmp_path / "run.pyhybrid") as profile:
        calls, total_ns, all_ns = figures(profile)
    assert calls["hot"] == 60 * n
    for name, expected in calls.items():
        (one,) = (f for f in named(now, name) if f["function"]["file"].endswith("program.py"))
        assert one["calls"] == expected, name
        share, of_profile = one["total_s"] * 1e9 / all_ns, total_ns[name] / all_ns
        assert share == pytest.approx(of_profile, abs=0.02), name


@pytest.mark.version
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_runs(
    program: Callable[..., Program], tmp_path: Path, number: signal.Signals
) -> None:
    of = program()
    files = Path(f"/proc/{of.process.pid}/fd")
    before = sorted(os.listdir(files))
    shown = live(tmp_path, of.process.pid)
    now = lines_until(shown, "hot")
    assert now["processes"][0]["pid"] == of.process.pid
    shown.send_signal(number)
    shown.communicate(timeout=PATIENCE_S)
    assert shown.returncode == 0
    assert not list(Path("/tmp").glob(f"pyhybrid-attach-{of.process.pid}-*"))
    until(lambda: sorted(os.listdir(files)) == before)
    assert of.end() > 0
    assert sorted(os.listdir(tmp_path)) == ["end", "program.py"]


def test_one_that_is_profiled_already(program: Callable[..., Program], tmp_path: Path) -> None:
    of = program("-q", "-o", "run", "--format", "folded")
    shown = live(tmp_path, of.process.pid)
    lines_until(shown, "hot")
    of.end()
    assert last(shown)["ended"]


def test_a_program_that_is_started(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print('said'); sys.exit(int(sys.argv[1]))")
    words = "--log", "log", "-q", "-o", "run", "--format", "folded", "program.py", "3"
    shown = live(tmp_path, *words)
    shown.communicate(timeout=PATIENCE_S)
    assert shown.returncode == 3
    assert (tmp_path / "log").read_text() == "said\n"
    assert (tmp_path / "run.pyhybrid").exists()


CHILDREN = """
import multiprocessing, os

def child_work(): return sum(range(2_000))

def run():
    while not os.path.exists("end"): child_work()

processes = [multiprocessing.get_context("fork").Process(target=run) for _ in range(2)]
for each in processes: each.start()
for each in processes: each.join()
"""


def test_children(tmp_path: Path) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    shown = live(tmp_path, "--most", 0, "-q", "-o", "run", "--format", "folded", "children.py")
    assert shown.stdout
    for line in shown.stdout:
        now = json.loads(line)
        if len(now["processes"]) == 3 and named(now, "child_work"):
            break
    (tmp_path / "end").touch()
    now = last(shown)
    with pyhybrid.load(tmp_path / "run.pyhybrid") as profile:
        frames = {n for n, frame in profile.frames.items() if frame.name == "child_work"}
        calls = sum(r.calls for r in profile.exact if profile.nodes.frame[r.node] in frames)
    assert named(now, "child_work")[0]["calls"] == calls


# --- the screen -----------------------------------------------------------------------------------


class Terminal:
    """A terminal of tmux's that runs a command."""

    def __init__(self, folder: Path, *words: str, size: tuple[int, int] = (110, 30)) -> None:
        self._socket = tempfile.mkdtemp(dir="/tmp")  # its path may have 107 bytes (unix(7))
        self._tmux = ["tmux", "-f", "/dev/null", "-S", f"{self._socket}/tmux"]
        after = "; echo ended with $?; stty -a; exec cat"
        self._do(
            *("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(folder)),
            " ".join(words) + after,
        )

    def _do(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def type(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def text(self) -> str:
        return self._do("capture-pane", "-p")

    def shows(self, *texts: str) -> str:
        """All of them, at last."""

        def found() -> str:
            text = self.text()
            return text if all(each in text for each in texts) else ""

        try:
            return str(until(found))
        except AssertionError:
            raise AssertionError(f"{texts} are not there:\n{self.text()}") from None

    def shows_not(self, text: str) -> None:
        until(lambda: text not in self.text())

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
        shutil.rmtree(self._socket)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(*words: str, size: tuple[int, int] = (110, 30)) -> Terminal:
        if not shutil.which("tmux"):
            pytest.skip("tmux is not installed")
        opened.append(Terminal(tmp_path, *PYHYBRID, "live", *words, size=size))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_the_screen(
    program: Callable[..., Program], terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    of = program("-q", "-o", "run", "--format", "folded")
    screen = terminal("run")
    shown = screen.shows("hot (program.py:4)", "calls/s", "GIL held")
    assert shown.index("hot (program.py:4)") < shown.index("cold (program.py:6)")
    screen.type("Down", "Up", "Enter")
    screen.shows("called by", "work (program.py:8)", "what it calls", "hot (program.py:4)")
    screen.type("Escape")
    screen.shows("calls/s", "cold (program.py:6)")
    screen.type("/", "cold", "Enter")
    screen.shows_not("hot (program.py:4)")
    screen.type("/")
    screen.shows("Esc: all")
    screen.type("Escape")  # (what follows at once would be one key with it)
    screen.shows("hot (program.py:4)")
    screen.type("t")
    screen.shows("MainThread", "all threads")
    screen.type("h")
    screen.shows("freeze: a profile")
    screen.type("Escape")
    screen.shows("%own")  # (the help has other words of the titles)
    screen.shows_not("freeze: a profile")
    screen.type("p")
    screen.shows("paused")
    screen.type("f")
    screen.shows(".pyhybrid is being made")
    screen.type("p")
    made = screen.shows(".pyhybrid is made").splitlines()[-1]
    with pyhybrid.load(tmp_path / made.split()[0]) as profile:
        assert figures(profile)[0]["hot"] > 0
    screen.type("q")
    after = screen.shows("ended with 0", " echo ", " icanon ")
    assert "pyhybrid live" not in after
    n = of.end()
    with pyhybrid.load(tmp_path / "run.pyhybrid") as profile:
        assert figures(profile)[0]["hot"] == 60 * n


def test_the_process_ends(
    program: Callable[..., Program], terminal: Callable[..., Terminal]
) -> None:
    of = program("-q", "-o", "run", "--format", "folded")
    screen = terminal("run")
    screen.shows("hot (program.py:4)")
    of.end()
    screen.shows("ended", "hot (program.py:4)")
    screen.type("q")
    screen.shows("ended with 0")


def test_a_terminal_that_is_too_small(
    program: Callable[..., Program], terminal: Callable[..., Terminal]
) -> None:
    program("-q", "-o", "run", "--format", "folded")
    screen = terminal("run", size=(50, 10))
    screen.shows("50 x 10 is too small: 60 x 12 is needed")
    screen.type("q")
    screen.shows_not("is too small")


# --- where nothing can be shown -------------------------------------------------------------------

WITHOUT = "import sys; sys.modules['textual'] = None; from pyhybrid.cli import main; main()"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--json", "text.part"), "text.part: not a pyhybrid spool"),
        (("--json", "old.part"), "old.part: written by an older pyhybrid: spool version 1,"),
        (("--json", "empty.part"), "empty.part: breaks off before anything was recorded"),
        (("--json", "4194304"), "there is no process 4194304"),
        (("--json", "none.py"), "can't open 'none.py'"),
        (("--json",), "what to show is missing"),
        (("text.part",), "the screen needs textual: pip install 'pyhybrid[live]'"),
    ],
)
def test_one_line_says_why(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "text.part").write_text("x" * 100)
    (tmp_path / "old.part").write_bytes(b"PYHSPOOL" + b"\1\0\0\0" + bytes(100))
    (tmp_path / "empty.part").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT, "live", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    first, *others = done.stderr.splitlines()
    assert done.returncode in (1, 2) and message in first and len(others) < 2, done.stderr
    assert not done.stdout


def test_a_flight_recorder(program: Callable[..., Program], tmp_path: Path) -> None:
    """Its windows are shown one after the other."""
    of = program("-q", "-o", "run", "--format", "folded", "--keep-last", "2s")
    shown = live(tmp_path, "run")
    assert shown.stdout
    begins, before = 0, 0.0
    for line in shown.stdout:
        now = json.loads(line)
        begins += now["seconds"] < before
        before = now["seconds"]
        assert before < 60
        if begins >= 2 and any(each["calls_per_s"] for each in named(now, "work")):
            break
    of.end()
    now = last(shown)
    assert now["ended"] and len(now["processes"]) == 1


def test_no_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PYHYBRID, "live", "1"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pyhybrid: this is no terminal: --json prints a line of JSON each time\n"
