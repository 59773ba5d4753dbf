"""Where the program begins: what runs it is in no profile, however pyhybrid was started.

One that never begins leaves no profile.
"""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import MODES
from support import ON_STACK, PATIENCE_S, Run, check_calls_shown

from pyhybrid.tables.profile import Profile

PROGRAM = """
import atexit, sys, time

def work(n):
    end = time.thread_time() + 0.04
    while time.thread_time() < end:
        sum(range(1000))
    return n and work(n - 1)

@atexit.register
def bye():
    work(1)

work(4)
sys.exit(END)
"""
LAUNCHER = """
import threading
from pyhybrid.cli import main

def launch(arguments):
    main(arguments)
    return "never counted"

def after():
    pass

if __name__ == "__main__":
    import sys
    launch(sys.argv[1:])
    after()
"""

# What the interpreter calls for a script, for `-c` (3.13+), and at the end.
BY_MAIN = ("FileLoader.__init__", "_find_and_load", "_register_code", "_shutdown")

WAYS = ["script", "code", "stdin", "module", "submodule", "folder", "archive"]


def arguments(folder: Path, way: str, end: str, text: str = PROGRAM) -> list[str]:
    """The program's part of the command line."""
    text = text.replace("END", end)
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("def early(): pass\nearly()\n")
    for name in ("job.py", "package/__main__.py", "package/job.py"):
        (folder / name).write_text(text)
    if way == "code":
        return ["-c", text]
    if way == "archive":
        with zipfile.ZipFile(folder / "job.pyz", "w") as archive:
            archive.writestr("__main__.py", text)
    return {
        "script": ["job.py"],
        "stdin": ["-"],
        "module": ["-m", "job"],
        "submodule": ["-m", "package.job"],
        "folder": ["package"],
        "archive": ["job.pyz"],
    }[way]


STARTED_BY = {
    "python -m": [sys.executable, "-m", "pyhybrid"],
    "command": [os.path.join(os.path.dirname(sys.executable), "pyhybrid")],
    "launcher": [sys.executable, "launcher.py"],
}


def roots(profile: Profile) -> set[str]:
    """The outermost Python functions on the paths, counted or sampled."""
    nodes, frames = profile.nodes, profile.frames
    found = set()
    ends = {row.node for row in profile.exact}
    for node in ends | {profile.stacks.node[row.stack] for row in profile.sampled}:
        root = ""
        while node:
            frame = frames[nodes.frame[node]]
            if frame.kind == "python":
                root = frame.name
            node = nodes.parent[node]
        found.add(root)
    return found - {""}


def calls(profile: Profile) -> Counter[str]:
    """By function of the program's."""
    counted: Counter[str] = Counter()
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        if frame.name in ("<module>", "work", "bye", "early", "launch", "after", "main"):
            counted[frame.name] += row.calls
    return counted


def run_it(folder: Path, command: list[str], way: str, end: str) -> Profile:
    (folder / "launcher.py").write_text(LAUNCHER)
    text = PROGRAM.replace("END", end)
    done = subprocess.run(
        [*command, *arguments(folder, way, end)],
        cwd=folder, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == int(end), done.stderr
    check_calls_shown(folder, done.stderr)
    return Profile.open(str(folder / "out.pyhybrid"))


def check(profile: Profile, way: str) -> None:
    """Its own functions are there, each call of them; none of what runs it."""
    runpy = way in ("module", "submodule", "folder", "archive")
    package = way == "submodule"  # imported by runpy, before the module is run
    assert {"<module>"} <= roots(profile) <= {"<module>", "_run_module_as_main", "bye", *BY_MAIN}
    for frame in profile.frames.values():
        assert "pyhybrid" not in Path(frame.file or "").parts, frame  # the package, the command
        assert "launcher" not in (frame.file or ""), frame
    if not profile.exact:
        return
    expected = Counter({"<module>": 1 + package, "work": 5 + 2, "bye": 1, "early": package})
    counted = calls(profile)
    modules = counted.pop("<module>")
    assert modules >= expected.pop("<module>")  # others are imported
    assert counted == +expected
    assert ("_run_module_as_main" in roots(profile)) == runpy


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["hybrid", pytest.param("sample", marks=pytest.mark.slow)])
def test_what_the_program_is(tmp_path: Path, mode: str, way: str) -> None:
    with run_it(tmp_path, [*STARTED_BY["command"], "--mode", mode], way, "0") as profile:
        check(profile, way)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("started_by", STARTED_BY)
@pytest.mark.parametrize("mode", [*MODES, "sample"])
def test_what_it_is_started_by(tmp_path: Path, mode: str, started_by: str) -> None:
    with run_it(tmp_path, [*STARTED_BY[started_by], "--mode", mode], "script", "3") as profile:
        check(profile, "script")


@pytest.mark.further
@pytest.mark.parametrize("unwinder", ["table", "libunwind"])
def test_by_other_unwinders(tmp_path: Path, unwinder: str) -> None:
    command = [*STARTED_BY["command"], "--mode", "sample", "--unwinder", unwinder]
    with run_it(tmp_path, command, "module", "0") as profile:
        check(profile, "module")


@pytest.mark.further
def test_from_within_a_program_nothing_is_cut(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """It began before the profiler: its callers are its own, up to the interpreter's main."""
    (tmp_path / "job.py").write_text(
        "import pyhybrid, sys, time\n"
        "def inner():\n"
        "    with pyhybrid.Profiler(mode=sys.argv[1], output='api') as p:\n"
        "        end = time.thread_time() + 0.2\n"
        "        while time.thread_time() < end: work()\n"
        "def work(): sum(range(1000))\n"
        "def outer(): inner()\n"
        "outer()\n"
    )
    for mode in ("hybrid", "sample"):
        subprocess.run([sys.executable, "job.py", mode], cwd=tmp_path, check=True)
        with Profile.open(str(tmp_path / "api.pyhybrid")) as profile:
            assert roots(profile) == {"<module>"}
            names = {frame.name for frame in profile.frames.values()}
            assert {"<module>", "outer", "inner", "work"} <= names


@pytest.mark.further
def test_it_stops_at_the_program_in_every_generator_and_thread(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """A function that is called by no frame of the program has none above it."""
    (tmp_path / "job.py").write_text(
        "import gc, signal, sys, threading, weakref\n"
        "def on_signal(*_): spin()\n"
        "def spin(): sum(range(30000))\n"
        "class A:\n"
        "    def __del__(self): spin()\n"
        "signal.signal(signal.SIGUSR1, on_signal)\n"
        "def numbers():\n"
        "    for n in range(50):\n"
        "        spin(); yield n\n"
        "list(numbers())\n"
        "thread = threading.Thread(target=spin); thread.start(); thread.join()\n"
        "for _ in range(20): signal.raise_signal(signal.SIGUSR1); A()\n"
        "sys.excepthook = lambda *_: spin()\n"
        "last = A()\n"
        "1 / 0\n"
    )
    profile = pyhybrid("job.py", check=False).profile()
    expected = {"<module>", "<lambda>", "A.__del__", "Thread._bootstrap"}
    assert {"<module>", "<lambda>"} <= roots(profile) <= {*expected, *BY_MAIN}


SHOWS_ITS_STACK = f"""{ON_STACK}
import atexit, sys
def show(*_):
    print(*on_stack(), flush=True)
show()
sorted([1], key=show)
sys.excepthook = show
atexit.register(show)
END
"""


@pytest.mark.first_cases(1)
@pytest.mark.needs("plain_build")
@pytest.mark.version
@pytest.mark.parametrize("end", ["sys.exit(3)", "1 / 0", ""])
@pytest.mark.parametrize("way", WAYS)
def test_no_library_of_ours_lies_below_the_program(tmp_path: Path, way: str, end: str) -> None:
    """Rust's standard library has room for four, whose debug information it reads but once."""
    words = arguments(tmp_path, way, end, SHOWS_ITS_STACK)
    (tmp_path / "input").write_text(SHOWS_ITS_STACK.replace("END", end))

    def shown(*ours: str) -> tuple[int, str, str]:
        command = [sys.executable, *ours, *words]
        with open(tmp_path / "input") as file:
            options = {"stdin": file, "capture_output": True, "text": True, "check": False}
            done = subprocess.run(command, cwd=tmp_path, **options)
        return done.returncode, done.stdout, done.stderr

    bare = shown()
    assert bare[1].count("libc.so.6") == (4 if end == "1 / 0" else 3)
    assert shown("-m", "pyhybrid", "-q", "--c-calls", "--format", "folded") == bare


def a_package(folder: Path, text: str) -> None:
    """In `folder`: `package`, whose __init__.py has this text, and `wrong.py`, no Python."""
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text(text)
    (folder / "wrong.py").write_text("x = (")


def what_cannot_begin(folder: Path) -> None:
    """Without a `__main__`: a folder, an archive; what no source or `.pyc` is."""
    (folder / "empty").mkdir()
    with zipfile.ZipFile(folder / "empty.pyz", "w") as archive:
        archive.writestr("other.py", "")
    (folder / "large.py").write_text(f"x = {'-' * 100_000}1")
    (folder / "script.py").write_text("x = 1")
    compiled = Path(py_compile.compile(str(folder / "script.py"), str(folder / "cut.pyc")) or "")
    code = compiled.read_bytes()
    compiled.write_bytes(code[:-5])
    (folder / "other_version.pyc").write_bytes(b"\x61" + code[1:])


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "words",
    [
        *("-m absent", "-m absent.part", "-m package", "-m package.absent"),
        *("wrong.py", "-m wrong", "-c x=(", "large.py", "cut.pyc", "other_version.pyc"),
        *("./empty", "empty.pyz"),
    ],
)
@pytest.mark.version
def test_what_never_begins_leaves_what_was_there(
    pyhybrid: Callable[..., Run], tmp_path: Path, words: str
) -> None:
    """It was not found, or not compiled: its error and one line are all that is seen of it."""
    a_package(tmp_path, "")
    what_cannot_begin(tmp_path)
    arguments, env = words.split(), {"PYTHONPATH": str(tmp_path)}
    for name in ("out.pyhybrid", "out.folded", "out.pyhybrid.part", "out.pyhybrid.part.old"):
        (tmp_path / name).write_text(f"an earlier {name}")
    os.utime(tmp_path / "out.pyhybrid.part.old", (1, 1))

    def there() -> dict[str, tuple[int, str]]:
        paths = tmp_path.glob("out*")
        return {path.name: (path.stat().st_mtime_ns, path.read_text()) for path in paths}

    before = {path.name for path in tmp_path.iterdir()}, there()
    command, with_ours = [sys.executable, *arguments], {**os.environ, **env}
    bare = subprocess.run(command, cwd=tmp_path, env=with_ours, capture_output=True, text=True)
    assert bare.returncode
    line = "pyhybrid: the program never began: there is no profile of it\n"
    ways: list[tuple[tuple[str, ...], str]] = [((), line)]
    if words in ("-m absent", "wrong.py", "-c x=("):  # one that is found so, read so, compiled so
        ways.append((("-q",), ""))
    for options, said in ways:
        result = pyhybrid(*options, *arguments, env=env, check=False).result
        assert (result.returncode, result.stderr) == (bare.returncode, bare.stderr + said)
        assert ({path.name for path in tmp_path.iterdir()}, there()) == before


@pytest.mark.further
@pytest.mark.parametrize("name", ["job.py", "job.pyc", "job"])
def test_what_ends_by_an_error_without_a_traceback_has_begun(
    pyhybrid: Callable[..., Run], tmp_path: Path, name: str
) -> None:
    (tmp_path / "source.py").write_text(
        "import sys\n"
        "def ended():\n"
        "    sys.excepthook = lambda _, error, __: error.with_traceback(None)\n"
        "    raise SyntaxError('of its own')\n"
        "ended()\n"
    )
    if name == "job.py":
        (tmp_path / "source.py").rename(tmp_path / name)
    else:
        py_compile.compile(str(tmp_path / "source.py"), str(tmp_path / name))
    run = pyhybrid("--mode", "trace", f"./{name}", check=False)
    assert run.result.returncode == 1
    assert "ended" in {frame.name for frame in run.profile().frames.values()}


@pytest.mark.further
@pytest.mark.parametrize(
    "words", [("-m", "package"), ("-m", "package.part"), ("-c", "import package")]
)
@pytest.mark.parametrize("text", ["import absent", "import wrong", "raise SystemExit(3)"])
def test_what_fails_in_its_own_imports_has_begun(
    pyhybrid: Callable[..., Run], tmp_path: Path, words: tuple[str, str], text: str
) -> None:
    a_package(tmp_path, f"def early(): pass\nearly()\n{text}")
    run = pyhybrid(*words, env={"PYTHONPATH": str(tmp_path)}, check=False)
    assert run.result.returncode == (3 if "Exit" in text else 1)
    assert "early" in {frame.name for frame in run.profile().frames.values()}
