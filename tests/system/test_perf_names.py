"""The real perf shows no bare address: what it finds no name of, the perf map names."""

from __future__ import annotations

import subprocess
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


def test_the_vdso_has_names(pyhybrid: Callable[..., Run]) -> None:
    """perf has them only if its cache of build-ids has a copy."""
    ask = "import time\nfor _ in range(2_000_000): time.monotonic()"
    run = pyhybrid("--mode", "sample", "-c", ask)
    found = rows(run)
    if not any(m.path == "[vdso]" for m in run.profile().modules.values()):
        pytest.skip("this kernel has no vdso")
    assert in_map(found, run, "__vdso_clock_gettime [vdso]") == self_ns(run, "__vdso_clock_gettime")
