"""`--emit tracy`: zones in a real Tracy client, as its own capture program has them."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import NO_PLUGINS, PATIENCE_S, TARGETS, Run
from tracy_support import (
    QUIET,
    capturing,
    client,
    folder,
    longest_timeline,
    other_client,
    source_of,
    unpack,
)

from pyhybrid.tables.profile import Profile

pytestmark = [pytest.mark.needs("tracy"), pytest.mark.once]

PROGRAM = TARGETS / "emitted.py"
NONE = ("--mode", "none")


def begins(profile: Profile) -> int:
    return sum(kind in ("call", "resume") for _, _, kind, _ in profile.events())


@pytest.mark.version
def test_as_many_zones_as_the_event_log_has_begins(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """With the names of functions, files, threads and regions."""
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        emit = f"tracy:{client()}"
        run = pyhybrid("--mode", "trace", "--events", "--emit", emit, PROGRAM, env=environment)
    assert captured.zones == begins(run.profile()) > 100
    names = captured.names()
    for name in (b"fib", b"numbers", bytes(PROGRAM), b"wor\\nker", b"\\x1b[31mepoch"):
        assert name in names


# IREE's own zones in C++ are in the same client.
BLUE = 0x2860C8  # of the program's functions
COPY = "def copy(device, array): return iree.runtime.asdevicearray(device, array).to_host()"
LOADS_ITS_OWN = f"""
import sys
def before(): pass
before()
import numpy, iree.runtime
def wait():
    while not any(map(sys.monitoring.get_events, filter(sys.monitoring.get_tool, (4, 3, 2)))):
        pass
def make_device(): return iree.runtime.get_device("local-sync")
{COPY}
wait()
device = make_device()
for i in range(5): copy(device, numpy.arange(1000, dtype=numpy.float32))
"""


@pytest.mark.further
def test_a_client_that_the_program_loads(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """It is found while the program runs, and its own zones are beside ours."""
    program = tmp_path / "program.py"
    program.write_text(LOADS_ITS_OWN)
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        pyhybrid(
            *(*NONE, "--emit", "tracy", "-t", "copy", "-t", "make_device", program),
            env={**environment, "IREE_PY_RUNTIME": "tracy"},
        )
    names = captured.names()
    assert b"before" not in names
    for name in (b"copy", b"make_device", b"iree_hal_device_transfer_range"):
        assert name in names
    copy = source_of(names, LOADS_ITS_OWN.splitlines().index(COPY) + 1, BLUE)
    copies = [within for source, within in longest_timeline(names) if source == copy]
    assert len(copies) == 5
    assert all(copies)  # with IREE's own zones
    assert "failure" not in captured.output.lower()  # each ends before what it began in


THREADS = """
import sys, threading
import pyhybrid
def worker():
    def inner():
        entered.wait()
        left.wait()
    inner()
def step(): pass
def main():
    thread.start()
    entered.wait()
    step()
    pyhybrid.disable()
    step()
    pyhybrid.enable()
    step()
    left.wait()
    thread.join()
entered, left = threading.Barrier(2), threading.Barrier(2)
thread = threading.Thread(target=worker)
main()
"""


@pytest.mark.further
def test_pauses_while_other_threads_run(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Zones of another thread end there: a capture refuses ends that are not its innermost one."""
    program = tmp_path / "program.py"
    program.write_text(THREADS)
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        emit = f"tracy:{client()}"
        run = pyhybrid("--mode", "trace", "--events", "--emit", emit, program, env=environment)
    assert "failure" not in captured.output.lower()
    assert captured.zones == begins(run.profile())


FORKS = """
import os, sys
def parent(): pass
def child(): pass
parent()
if not os.fork():
    for _ in range(1000): child()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
parent()
"""


@pytest.mark.further
def test_a_forked_child_is_silent(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """And ends as it would."""
    program = tmp_path / "program.py"
    program.write_text(FORKS)
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        emit, chosen = f"tracy:{client()}", ("-t", "parent", "-t", "child")
        pyhybrid(*NONE, "--emit", emit, *chosen, program, env=environment)
    assert captured.zones == 2


@pytest.mark.further
@pytest.mark.version
def test_a_forked_child_ends_where_nobody_captures(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """What it has printed is not lost."""
    code = (
        "import os, sys\n"
        "if not os.fork():\n"
        "    print('child')\n"
        "    sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    shown = pyhybrid(*NONE, "--emit", f"tracy:{client()}", "-c", code).result.stdout
    assert shown == "child\n3\n"


@pytest.mark.further
def test_more_functions_than_places(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """A capture of more than 32,767 would fail."""
    code = "exec(''.join(f'def f{i}(): pass\\nf{i}()\\n' for i in range(33_000)))"
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        emit, chosen = f"tracy:{client()}", ("--include", "^f[0-9]")
        run = pyhybrid(*NONE, "--emit", emit, *chosen, "-c", code, env=environment)
    assert captured.zones == 33_000
    assert b"f31999" in captured.names()
    assert b"f32000" not in captured.names()
    assert b"[other]" in captured.names()
    assert "1000 functions or lines are [other]" in run.result.stderr
    assert run.result.stderr.count("\n") == 1


@pytest.mark.further
@pytest.mark.parametrize(
    ("library", "said"),
    [
        ("/nowhere/x.so", "/nowhere/x.so: cannot open shared object file"),
        (f"{TARGETS}/emitted.py", "invalid ELF header"),
        ("libm.so.6", "libm.so.6: it is no Tracy client"),
        ("lines:libm.so.6", "libm.so.6: it is no Tracy client"),
    ],
)
def test_bad_libraries(pyhybrid: Callable[..., Run], library: str, said: str) -> None:
    emit = f"tracy:{library}"
    result = pyhybrid(*NONE, "--emit", emit, "-c", "print('ran')", check=False).result
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not result.stdout


@pytest.mark.further
def test_no_client_at_all(pyhybrid: Callable[..., Run]) -> None:
    """The program may load one, so this is known at its end."""
    result = pyhybrid(*NONE, "--emit", "tracy", "-c", "print('ran')").result
    assert result.stdout == "ran\n"
    assert "no Tracy client was loaded: name one (--emit tracy:LIBRARY)" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.further
def test_nobody_listens(pyhybrid: Callable[..., Run]) -> None:
    """The program ends all the same."""
    emit = f"tracy:{client()}"
    result = pyhybrid(*NONE, "--emit", emit, "-c", "print('ran')", env=QUIET).result
    assert result.stdout == "ran\n"
    assert not result.stderr


def library(path: object) -> tuple[str, str]:
    """Options that tell a client of this library."""
    return "--emit", f"tracy:{path}"


def tracy(file: str, *arguments: object) -> tuple[object, ...]:
    """Options that capture into a file, from a client that is loaded at once."""
    return ("--tracy", file, *library(client()), *arguments)


def test_a_file(pyhybrid: Callable[..., Run]) -> None:
    """Without anything around it, and the file is whole when the program has ended."""
    run = pyhybrid("--mode", "trace", "--events", *tracy("t.tracy"), PROGRAM)
    assert begins(run.profile()) > 100
    names = unpack(run.folder / "t.tracy")
    for name in (b"fib", b"numbers", bytes(PROGRAM), b"wor\\nker", b"\\x1b[31mepoch"):
        assert name in names
    assert "live output" not in run.result.stderr


@pytest.mark.further
def test_a_file_of_a_client_that_the_program_loads(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(LOADS_ITS_OWN)
    run = pyhybrid(*NONE, "--tracy", "t.tracy", program, env={"IREE_PY_RUNTIME": "tracy"})
    names = unpack(run.folder / "t.tracy")
    for name in (b"copy", b"make_device", b"iree_hal_device_transfer_range"):
        assert name in names
    assert "pyhybrid:" not in run.result.stderr


LINES = """
def numbers(n):
    for i in range(n):
        yield i
def work():
    total = 0
    for i in numbers(3):
        total += i
    return total
for _ in range(4): work()
"""


def test_lines(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Zones within those of their functions: as many as the profile counts of each."""
    program = tmp_path / "program.py"
    program.write_text(LINES)
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        emit = (*library(client()), "-l", "-t", "work", "-t", "numbers")
        run = pyhybrid("--mode", "trace", "--events", *emit, program, env=environment)
    profile = run.profile()
    hits = sum(row.hits for row in profile.lines)
    assert captured.zones == hits + begins(profile)
    assert hits > 40
    for name in (b"program.py:3", b"program.py:8", b"work", b"numbers"):
        assert name in captured.names()


@pytest.mark.further
def test_lines_of_everything(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Without a profile, in the parts that are marked."""
    program = tmp_path / "program.py"
    program.write_text(MARKED)
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        pyhybrid("-p", "-l", *NONE, *library(client()), program, env=environment)
    names = captured.names()
    assert b"program.py:3" in names
    assert b"program.py:4" in names
    assert b"program.py:5" not in names


MARKED = """
from pyhybrid.tracy import Profiler, signpost
def function_under_test(): child()
def child(): signpost("step", "one \N{SNOWMAN}")
def outside(): signpost("outside")
profiler = Profiler()
outside()
profiler.enable()
profiler.enable()
function_under_test()
signpost("warm-up done")
profiler.disable()
profiler.disable()
outside()
"""


@pytest.mark.further
def test_as_tracys_own_module(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """A program that is marked for it is profiled in part, and its signposts are messages."""
    program = tmp_path / "program.py"
    program.write_text(MARKED)
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        pyhybrid("-p", *NONE, *library(client()), program, env=environment)
    names = captured.names()
    assert captured.zones == 3  # the module's goes on in between
    for name in (b"function_under_test", b"child"):
        assert name in names
    assert "`TT_SIGNPOST: step\none \N{SNOWMAN}`".encode() in names
    assert b"`TT_SIGNPOST: warm-up done`" in names
    assert b"`TT_SIGNPOST: outside`" not in names


PYTEST = """
def marked(): child()
def child(): pass
def outside(): pass
def test_one(tracy_profile): marked()
def test_two(): outside()
"""


@pytest.mark.further
def test_a_marked_test(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Of pytest, by the fixture `tracy_profile`: the calls of that test alone."""
    (tmp_path / "test_it.py").write_text(PYTEST)
    module = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    with capturing(tmp_path / "t.tracy") as (captured, environment):
        environment["PYTEST_ADDOPTS"] = NO_PLUGINS
        run = pyhybrid("-p", *NONE, *library(client()), *module, env=environment)
    assert "2 passed" in run.result.stdout
    names = captured.names()
    for name in (b"marked", b"child", b"test_it.py::test_one"):
        assert name in names
    for name in (b"test_two", b"outside", b"pytest_pyfunc_call"):
        assert name not in names


@pytest.mark.further
@pytest.mark.parametrize("options", [(), ("--mode", "trace", "-q")])
def test_its_module_does_nothing_elsewhere(
    pyhybrid: Callable[..., Run], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Without pyhybrid, or where the whole program is profiled."""
    program = tmp_path / "program.py"
    program.write_text(MARKED)
    alone = [sys.executable, "-P", program]
    if not options:
        subprocess.run(alone, check=True)
    else:
        run = pyhybrid(*options, program)
        assert {"outside", "child"} <= {frame.name for frame in run.profile().frames.values()}


ENDS = {
    "sys.exit(3)": 3,
    "os._exit(3)": 3,
    "os.kill(os.getpid(), signal.SIGKILL)": -signal.SIGKILL,
    "raise KeyboardInterrupt": -signal.SIGINT,
}


@pytest.mark.further
@pytest.mark.parametrize("end", ENDS)
def test_ways_to_end(pyhybrid: Callable[..., Run], tmp_path: Path, end: str) -> None:
    """Nothing hangs, no process stays, and the file is there, of a killed program later."""
    program = tmp_path / "program.py"
    program.write_text(f"import os, signal, sys\ndef chosen(): pass\nchosen()\n{end}\n")
    run = pyhybrid(*NONE, *tracy("t.tracy"), "-t", "chosen", program, check=False)
    assert run.result.returncode == ENDS[end]
    deadline = time.monotonic() + PATIENCE_S
    while (captures := processes_of(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not captures
    assert (tmp_path / "t.tracy").stat().st_size


def processes_of(folder: Path) -> list[str]:
    """Those whose command line names a file in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes()
            if b"t.tracy" in words and bytes(folder) in words:
                found.append(words.decode())
    return found


CHILDREN = """
import os
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print("none")
"""


@pytest.mark.further
def test_the_program_has_no_child(pyhybrid: Callable[..., Run]) -> None:
    assert pyhybrid(*NONE, *tracy("t.tracy"), "-c", CHILDREN).result.stdout == "none\n"


# A connected client takes SIGPIPE for a crash.
WRITES_TO_NOBODY = """
import ctypes, os, re, sys
client = ctypes.CDLL(sys.argv[1])
def ignores_sigpipe():
    mask = int(re.search(r"SigIgn:\\s*(\\w+)", open("/proc/self/status").read())[1], 16)
    return mask >> 12 & 1
while not client.___tracy_connected() or not ignores_sigpipe(): pass
r, w = os.pipe()
os.close(r)
try: os.write(w, b"x")
except BrokenPipeError: print("goes on")
"""


@pytest.mark.further
def test_a_broken_pipe_harms_nothing(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WRITES_TO_NOBODY)
    run = pyhybrid(*NONE, *tracy("t.tracy"), program, client())
    assert run.result.stdout == "goes on\n"
    assert (tmp_path / "t.tracy").exists()


def bad_captures() -> list[tuple[tuple[object, ...], dict[str, str], str]]:
    """Options, environment, and what is said."""
    if folder() is None:
        return []
    other = ("--tracy", "t.tracy", *library(other_client()))
    bare = ("--tracy", "t.tracy", *library("libm.so.6"))
    return [
        (other, {}, "incompatible protocol version"),
        (bare, {}, "libm.so.6: it is no Tracy client"),
        (tracy("/nowhere/t.tracy"), {}, "/nowhere/t.tracy: No such file"),
        (tracy("t.tracy"), {"TRACY_PORT": "x"}, "TRACY_PORT is no port: x"),
        (tracy("t.tracy"), {"TRACY_PORT": "0"}, "TRACY_PORT is no port: 0"),
    ]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("options", "environment", "said"), bad_captures())
def test_bad_captures(
    pyhybrid: Callable[..., Run],
    options: tuple[object, ...],
    environment: dict[str, str],
    said: str,
) -> None:
    """One line; the program runs where something else was asked for."""
    code = ("-c", "print('ran')")
    result = pyhybrid(*NONE, *options, *code, env=environment, check=False).result
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not result.stdout
    result = pyhybrid("--mode", "trace", "-q", *options, *code, env=environment).result
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == "ran\n"


@pytest.mark.further
def test_a_port_in_use(pyhybrid: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        options = (*NONE, *tracy("t.tracy"), "-c", "print('ran')")
        result = pyhybrid(*options, env={"TRACY_PORT": port}, check=False).result
    assert result.returncode == 2
    assert f"the port {port} (TRACY_PORT): Address already in use" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.further
def test_a_file_without_any_client(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid(*NONE, "--tracy", "t.tracy", "-c", "print('ran')")
    assert run.result.stdout == "ran\n"
    assert "no Tracy client was loaded" in run.result.stderr
    assert run.result.stderr.count("\n") == 1
    assert not (run.folder / "t.tracy").exists()


@pytest.mark.further
def test_no_capture_program(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """None beside the client, on PATH or in a package."""
    alone = tmp_path / "client.so"
    alone.symlink_to(client())
    program = ("--tracy", "t.tracy", *library(alone), "-c", "print('ran')")
    code = (
        "import os, sys\n"
        "sys.path = [each for each in sys.path if not os.path.isdir(each + '/iree')]\n"
        "from pyhybrid.cli import main\n"
        f"sys.argv = {['pyhybrid', *NONE, *map(str, program)]}\n"
        "sys.exit(main())\n"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert result.returncode == 2
    assert "no capture program of Tracy's is there" in result.stderr
    assert result.stderr.count("\n") == 1
