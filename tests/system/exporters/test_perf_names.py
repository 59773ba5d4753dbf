"""The real perf shows no bare address: what it finds no name of, the perf map names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from perf_support import CLOCK_EVENT, report
from support import TARGETS, Run

pytestmark = pytest.mark.needs("perf")

Rows = dict[tuple[str, str], int]  # periods by library and symbol, as perf has them


@pytest.fixture
def stripped(chain: Path, tmp_path: Path) -> Path:
    """A copy of the extension chain without `.symtab`."""
    (built,) = chain.glob("chain*.so")
    folder = tmp_path / "libraries"
    folder.mkdir()
    subprocess.run(["strip", "--strip-all", "-o", folder / built.name, built], check=True)
    return folder / built.name


def with_debugdata(chain: Path, stripped: Path) -> None:
    """Its static functions in `.gnu_debugdata`, as Fedora's libraries have them."""
    mini = stripped.with_suffix(".mini")
    (built,) = chain.glob("chain*.so")
    keep = ["--only-keep-debug", "--strip-debug"]
    subprocess.run(["objcopy", *keep, built, mini], check=True)
    subprocess.run(["xz", "--force", mini], check=True)
    section = f".gnu_debugdata={mini}.xz"
    subprocess.run(["objcopy", "--add-section", section, stripped], check=True)


def rows(run: Run) -> Rows:
    """Of the clock's event."""
    columns = ("--no-children", "-F", "period,dso,sym", "--sort", "dso,sym")
    found: Counter[tuple[str, str]] = Counter()
    for period, library, symbol in report(run.folder, *columns)[CLOCK_EVENT]:
        found[library, symbol] += int(period)
    return found


def work(pyhybrid: Callable[..., Run], library: Path) -> Run:
    environment = {"PYTHONPATH": str(library.parent)}
    return pyhybrid("--hz", 4999, TARGETS / "nested.py", 0.4, env=environment)


def in_map(found: Rows, run: Run, symbol: str) -> int:
    """Its period, which stands in no other file's rows."""
    place = f"[JIT] tid {run.profile().process.pid}"
    assert {library for library, each in found if each == f"[.] {symbol}"} == {place}
    return found[place, f"[.] {symbol}"]


def self_ns(run: Run, name: str) -> int:
    profile = run.profile()
    (frame,) = (f.id for f in profile.frames.values() if f.name == name)
    of_stack = [profile.nodes.frame[node] for node in profile.stacks.node]
    return sum(row.weight_ns for row in profile.sampled if of_stack[row.stack] == frame)


@pytest.mark.further
def test_names_of_debugdata(pyhybrid: Callable[..., Run], chain: Path, stripped: Path) -> None:
    with_debugdata(chain, stripped)
    run = work(pyhybrid, stripped)
    found = rows(run)
    assert not [symbol for _, symbol in found if symbol.startswith("[.] 0x")]
    burnt = in_map(found, run, f"burn [{stripped.name}]")
    assert burnt == self_ns(run, "burn") > 0.3 * sum(found.values())
    profile = run.profile()
    own = {f.name for f in profile.frames.values() if f.source in ("symtab", "dynsym")}
    moved = [symbol for _, symbol in found for name in own if symbol.startswith(f"[.] {name} [")]
    assert not [symbol for symbol in moved if "vdso" not in symbol]  # perf names these itself


def test_names_of_functions_without_symbols(pyhybrid: Callable[..., Run], stripped: Path) -> None:
    run = work(pyhybrid, stripped)
    found = rows(run)
    assert not [symbol for _, symbol in found if symbol.startswith("[.] 0x")]
    nameless = {s[4:] for _, s in found if s.startswith(f"[.] {stripped.name}!+0x")}
    periods = {name: in_map(found, run, name) for name in nameless}
    assert periods == {name: self_ns(run, name) for name in nameless}
    assert max(periods.values()) > 0.3 * sum(found.values())  # burn


@pytest.mark.further
def test_the_vdso_has_names(pyhybrid: Callable[..., Run]) -> None:
    """perf has them only if its cache of build-ids has a copy."""
    ask = "import time\nfor _ in range(8_000_000): time.monotonic()"
    run = pyhybrid("--mode", "sample", "-c", ask)
    found = rows(run)
    if not any(m.path == "[vdso]" for m in run.profile().modules.values()):
        pytest.skip("this kernel has no vdso")
    assert in_map(found, run, "__vdso_clock_gettime [vdso]") == self_ns(run, "__vdso_clock_gettime")


def in_container(folder: Path, *command: object) -> tuple[str, str]:
    """What a command prints whose /tmp and working directory `folder` is, and on stderr."""
    enter = 'mount --rbind "$0" /tmp && cd /tmp && exec "$@"'
    if sys.prefix.startswith("/tmp/"):  # the interpreter is to be there as well
        inside = folder / Path(sys.prefix).relative_to("/tmp")
        inside.mkdir(parents=True, exist_ok=True)
        enter = f"mount --bind {shlex.quote(sys.prefix)} {shlex.quote(str(inside))} && {enter}"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", enter, folder, *command],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


WORK = """
import time
def {0}():
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
{0}()
"""


@pytest.mark.further
@pytest.mark.needs("root")
def test_a_process_of_the_same_number(tmp_path: Path) -> None:
    """Of two containers that share /tmp: perf never shows names of the other one's functions."""
    first, second = "work_of_first", "work_of_second"
    pyhybrid = (sys.executable, "-P", "-m", "pyhybrid")
    numbered = ("unshare", "--pid", "--fork", "--mount-proc")

    def functions(name: str) -> set[str]:
        command = ("perf", "report", "--stdio", "-i", f"{name}.perf.data", "--sort", "sym")
        return set(re.findall(r"py::(work_of_\w+)", in_container(tmp_path, *command)[0]))

    for name in (first, second):
        run = (*pyhybrid, "-q", "-o", name, "-c", WORK.format(name))
        in_container(tmp_path, *numbered, *run)
        if name == first:
            os.utime(tmp_path / "perf-1.map", (0, 0))  # before the second process began
    assert functions(second) == {second}
    assert functions(first) == set()
    export = (*pyhybrid, "export", f"{first}.pyhybrid", "-f", "perf")
    said = in_container(tmp_path, *export)[1]
    assert "/tmp/perf-1.map is another run's: perf will not name Python functions" in said
    assert "another" not in in_container(tmp_path, *export, "-f", "perf-map")[1]
    assert functions(first) == {first}
    assert functions(second) == set()
    (tmp_path / "perf-1.map").unlink()
    assert "/tmp/perf-1.map is missing" in in_container(tmp_path, *export)[1]
