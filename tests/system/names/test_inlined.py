"""Inlined functions and lines of native code, of a library whose chain of calls is known.

The library is called through ctypes, whose own code may lie below the Python function; the chain is
what follows `burn`.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, Run
from viewer_support import pprof

pytestmark = pytest.mark.once

PROGRAM = """
import ctypes, sys, time
burn = ctypes.CDLL("./libinlined.so").burn
burn.argtypes, burn.restype = [ctypes.c_long], ctypes.c_double
end = time.process_time() + 0.4
def work():
    while time.process_time() < end:
        burn(100_000)
work()
"""
CALLED_BACK = """
import ctypes, time
library = ctypes.CDLL("./libinlined.so")
def work():
    end = time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))
def from_drive(): work()
def from_both(): work()
library.drive(ctypes.CFUNCTYPE(None)(from_drive))
library.both(ctypes.CFUNCTYPE(None)(from_both))
"""
CHAIN = ["burn", "outer", "middle_[i]", "innermost_[i]"]
PLAIN = ["burn", "outer"]


def build(folder: Path, *options: str, source: str = "inlined.c") -> Path:
    library = folder / "libinlined.so"
    shutil.copy(TARGETS / source, folder / "source.c")
    command = ["gcc", "-O2", "-g", "-fPIC", "-shared", "-Wl,--build-id=sha1", *options]
    subprocess.run([*command, "-o", library, "source.c"], check=True, cwd=folder)
    return library


def split(library: Path, debug: Path) -> None:
    """Move the library's debug information into the file `debug`."""
    debug.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", library, debug], check=True)
    subprocess.run(["strip", "--strip-debug", library], check=True)


def build_id(library: Path) -> str:
    text = subprocess.run(
        ["readelf", "-n", library], check=True, capture_output=True, text=True
    ).stdout
    return text.split("Build ID:")[1].split()[0]


def chains(folded: Path) -> Counter[str]:
    """What follows `burn` on the stacks where it is, in user space; and their counts."""
    counts: Counter[str] = Counter()
    for line in folded.read_text().splitlines():
        path, _, count = line.rpartition(" ")
        names = [name for name in path.split(";") if not name.endswith("_[k]")]
        if "burn" in names:
            counts[";".join(names[names.index("burn") :])] += int(count)
    return counts


def total(folded: Path) -> int:
    return sum(int(line.rpartition(" ")[2]) for line in folded.read_text().splitlines())


def mostly(counts: Counter[str], names: list[str]) -> bool:
    """Do nearly all samples below `burn` have this path?  Some are at its or outer's own ends."""
    return counts[";".join(names)] > 0.9 * counts.total()


@pytest.fixture(params=["sample", "hybrid"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def profile(pyhybrid: Callable[..., Run], mode: str = "sample") -> Run:
    return pyhybrid("--mode", mode, "-c", PROGRAM)


@pytest.mark.first_cases(1)
def test_folded_stacks_have_the_chain(
    pyhybrid: Callable[..., Run], tmp_path: Path, mode: str
) -> None:
    build(tmp_path)
    run = profile(pyhybrid, mode)
    with_chain = run.path("out.folded").read_bytes()
    assert mostly(chains(run.path("out.folded")), CHAIN)
    sum_of_all = total(run.path("out.folded"))

    pyhybrid("export", "-f", "folded")
    assert run.path("out.folded").read_bytes() == with_chain
    pyhybrid("export", "-f", "folded", "--no-inlines")
    assert mostly(chains(run.path("out.folded")), PLAIN)
    assert "_[i]" not in run.path("out.folded").read_text()
    assert total(run.path("out.folded")) == sum_of_all


@pytest.mark.first_cases(1)
def test_views_show_functions_and_lines(
    pyhybrid: Callable[..., Run], tmp_path: Path, mode: str
) -> None:
    build(tmp_path)
    run = profile(pyhybrid, mode)
    assert "innermost_[i] (innermost.h:10, libinlined.so)" in run.result.stderr
    tree = pyhybrid("report", "tree").result.stdout
    assert "innermost_[i] (innermost.h:10)" in tree
    assert "[i]" not in pyhybrid("report", "tree", "--no-inlines").result.stdout

    hottest = json.loads(pyhybrid("report", "--json").result.stdout)["functions"][0]
    assert hottest["name"] == "innermost_[i]"
    assert hottest["declared_at"] == f"{tmp_path}/innermost.h:10"

    head, _, text = pyhybrid("report", "lines").result.stdout.partition("\n\n")
    assert head.startswith("no lines were recorded (--lines -t NAME)")
    assert text.startswith("innermost_[i] (innermost.h)")
    lines = [line.split() for line in text.split("\n\n")[0].splitlines()[2:]]
    assert {int(line[0]) for line in lines} <= set(range(10, 17))
    assert max(lines, key=lambda line: float(line[1].rstrip("%")))[0] in ("13", "14")


@pytest.mark.further
@pytest.mark.needs("go")
def test_pprof_has_the_chain_and_its_lines(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    build(tmp_path)
    run = profile(pyhybrid)
    pyhybrid("export", "-f", "pprof")
    peek = pprof("-peek", "^innermost$", run.path("out.pb.gz"))
    assert re.search(r"\|   middle \(inline\)\n.*\| innermost", peek)
    lines = pprof("-top", "-lines", run.path("out.pb.gz"))
    assert re.search(r"innermost \S*/innermost\.h:1[34] \(inline\)", lines)


@pytest.mark.further
def test_what_calls_python_has_the_chain(
    pyhybrid: Callable[..., Run], tmp_path: Path, mode: str
) -> None:
    """Above counted functions, too, where one chain leads to all calls of them."""
    build(tmp_path, source="calls_back.c")
    run = pyhybrid("--mode", mode, "--format", "folded", "-c", CALLED_BACK)
    stacks = run.path("out.folded").read_text().splitlines()
    paths = [re.sub(r" \([^;]*\)", "", line.rpartition(" ")[0]).split(";") for line in stacks]

    def above(function: str, native: str) -> set[str]:
        """What is inlined in `native`, where that called the function."""
        of_it = (path[path.index(native) :] for path in paths if {function, native} <= {*path})
        below = (takewhile(lambda name: name.endswith("_[i]"), path[1:]) for path in of_it)
        return {";".join(names) for names in below}

    assert above("from_drive", "drive") == {"twice_[i];call_it_[i]"}
    sampled = {"twice_[i];call_it_[i]", "other_[i]"}
    assert above("from_both", "both") == (sampled if mode == "sample" else {""})
    if mode == "hybrid":
        tree = pyhybrid("report", "tree").result.stdout
        (line,) = (line.split() for line in tree.splitlines() if "from_drive" in line)
        assert line[2] == "2"  # calls


@pytest.mark.further
def test_a_time_window_has_native_lines(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    build(tmp_path)
    pyhybrid("--mode", "hybrid", "--lines", "-t", "work", "-c", PROGRAM)
    assert "\nwork (" in "\n" + pyhybrid("report", "lines").result.stdout
    text = pyhybrid("report", "lines", "--from", "1ns").result.stdout
    assert "innermost_[i]" in text
    assert "\nPython lines are not kept by time: left out\n" in text
    assert "\nwork (" not in text


@pytest.mark.further
def test_perf_data_has_no_inlined_functions_of_ours(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """perf finds them itself, by address."""
    library = build(tmp_path)
    run = profile(pyhybrid)
    recorded = run.path("perf.data").read_bytes()
    pyhybrid("export", "-f", "perf", "-f", "folded")
    assert run.path("perf.data").read_bytes() == recorded
    library.unlink()
    pyhybrid("export", "-f", "perf")
    assert run.path("perf.data").read_bytes() == recorded


@pytest.mark.further
def test_a_split_debug_file(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    library = build(tmp_path)
    debug = tmp_path / ".debug" / "libinlined.debug"
    split(library, debug)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", library], check=True)
    run = profile(pyhybrid)
    assert mostly(chains(run.path("out.folded")), CHAIN)
    debug.unlink()
    pyhybrid("export", "-f", "folded")
    assert "_[i]" not in "".join(chains(run.path("out.folded")))


@pytest.mark.further
def test_large_debug_information_is_left_to_the_report(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    empty = tmp_path / "large_unit.s"  # of DWARF 4
    empty.write_text(".section .debug_info\n.long 64 << 20\n.short 4\n.long 0\n.byte 8\n"
                     ".fill (64 << 20) - 7\n.section .note.GNU-stack\n")  # fmt: skip
    build(tmp_path, str(empty))
    run = profile(pyhybrid)
    assert mostly(chains(run.path("out.folded")), PLAIN)
    note = "libinlined.so: its debug information is large: `pyhybrid report` reads it"
    assert note in run.result.stderr
    tree = pyhybrid("report", "tree").result.stdout
    assert "is large" not in tree
    assert "innermost_[i] (innermost.h:10)" in tree


@pytest.mark.further
def test_the_summary_has_notes(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "another").mkdir()
    build(tmp_path / "another", "-DANOTHER")
    replaced = f"{PROGRAM}\nimport os\nos.replace('another/libinlined.so', 'libinlined.so')\n"
    said = pyhybrid("--mode", "sample", "-c", replaced).result.stderr
    # (Of names there is a note only where the process may not be asked for them.)
    note = "libinlined.so is another build than the one that ran: no source lines"
    # A path that is longer than a line is cut in two, wherever that is.
    assert "".join(note.split()) in "".join(said.split()), said


@pytest.mark.further
@pytest.mark.parametrize("has_build_id", [True, False])
def test_another_build_tells_nothing(
    pyhybrid: Callable[..., Run], tmp_path: Path, has_build_id: bool
) -> None:
    options = [] if has_build_id else ["-Wl,--build-id=none"]
    library = build(tmp_path, *options)
    run = profile(pyhybrid)
    assert mostly(chains(run.path("out.folded")), CHAIN)
    library.unlink()
    build(tmp_path, "-DANOTHER", "-fno-omit-frame-pointer", "-falign-functions=128", *options)
    said = pyhybrid("export", "-f", "folded").result.stderr
    assert mostly(chains(run.path("out.folded")), PLAIN)
    assert "_[i]" not in "".join(chains(run.path("out.folded")))
    assert ("libinlined.so is another build than the one that ran" in said) is has_build_id


class Server(http.server.ThreadingHTTPServer):
    """Serves files by path, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.has_been_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.has_been_asked.set()
        self.server.may_answer.wait()
        body = self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.may_answer.set()
        server.shutdown()
        thread.join()


# With ASan preloaded libp11-kit, of debuginfod-find, waits for ever when it is unloaded.
DEBUGINFOD = pytest.mark.needs("debuginfod", "plain_build")


@pytest.mark.further
@DEBUGINFOD
def test_debuginfod_is_asked_on_request_only(
    pyhybrid: Callable[..., Run], tmp_path: Path, server: Server
) -> None:
    library, debug = build(tmp_path), tmp_path / "fetched" / "debug"
    split(library, debug)
    request = f"/buildid/{build_id(library)}/debuginfo"
    server.files[request] = debug.read_bytes()
    shutil.rmtree(debug.parent)
    env = {
        "DEBUGINFOD_URLS": server.url,
        "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"),
        "no_proxy": "127.0.0.1",
    }
    run = pyhybrid("--mode", "sample", "-c", PROGRAM, env=env)
    for view in ("tree", "quality", "--json"):
        pyhybrid("report", view, env=env)
    pyhybrid("export", "-f", "folded", env=env)
    assert server.asked == []
    assert "middle" not in "".join(chains(run.path("out.folded")))

    said = pyhybrid("export", "-f", "folded", "--debuginfod", env=env).result.stderr
    assert server.asked.count(request) == 1
    assert "pyhybrid: asking debuginfod for libinlined.so ...\n" in said
    assert mostly(chains(run.path("out.folded")), CHAIN)
    asked = len(server.asked)
    tree = pyhybrid("report", "tree", "--debuginfod", env=env).result.stdout
    assert "innermost_[i] (innermost.h:10)" in tree
    assert request not in server.asked[asked:]  # it is kept


@pytest.mark.further
@DEBUGINFOD
def test_debuginfod_can_be_interrupted(
    pyhybrid: Callable[..., Run], tmp_path: Path, server: Server
) -> None:
    library = build(tmp_path)
    subprocess.run(["strip", "--strip-debug", library], check=True)
    profile(pyhybrid)
    server.may_answer.clear()
    env = {
        **os.environ,
        "DEBUGINFOD_URLS": server.url,
        "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"),
        "DEBUGINFOD_TIMEOUT": "1000",
        "no_proxy": "127.0.0.1",
    }
    command = [sys.executable, "-P", "-m", "pyhybrid", "report", "--debuginfod"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE) as asking:
        try:
            assert server.has_been_asked.wait(PATIENCE_S)
            asking.send_signal(signal.SIGINT)
            _, said = asking.communicate(timeout=PATIENCE_S)
        finally:
            asking.kill()
    assert asking.returncode == -signal.SIGINT
    assert said.rstrip().endswith(b"KeyboardInterrupt")
    assert said.count(b"asking debuginfod") == 1


@pytest.mark.further
@DEBUGINFOD
def test_what_keeps_debuginfod_from_answering_is_said(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    library = build(tmp_path)
    subprocess.run(["strip", "--strip-debug", library], check=True)
    profile(pyhybrid)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and listens not
        env = {
            "DEBUGINFOD_URLS": f"http://127.0.0.1:{nobody.getsockname()[1]}",
            "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"),
            "no_proxy": "127.0.0.1",
            "LC_ALL": "C.UTF-8",
        }
        said = pyhybrid("export", "-f", "folded", "--debuginfod", env=env).result.stderr
    assert f"pyhybrid: debuginfod: {build_id(library)}: Connection refused\n" in said


@pytest.mark.further
def test_what_debuginfod_needs_is_said(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    pyhybrid("--mode", "sample", "--format", "folded", "-c", "sum(range(10**6))")
    env = {"DEBUGINFOD_URLS": ""}
    result = pyhybrid("report", "--debuginfod", env=env, check=False).result
    assert (result.returncode, result.stdout) == (1, "")
    assert "$DEBUGINFOD_URLS names no server" in result.stderr
    env = {"DEBUGINFOD_URLS": "http://127.0.0.1", "PATH": str(tmp_path)}
    result = pyhybrid("report", "--debuginfod", env=env, check=False).result
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "pyhybrid: --debuginfod needs debuginfod-find (of elfutils), which is not here\n"
    )
    result = pyhybrid("report", "--debuginfod", "--no-inlines", check=False).result
    assert result.returncode == 2
