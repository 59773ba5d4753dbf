"""`export -f perf --bundle`: the real perf reads it where nothing of the run is left."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from perf_support import perf
from support import TARGETS, Run

pytestmark = pytest.mark.needs("perf")

REPORT = ("report", "--stdio", "--no-children", "-g", "none", "--percent-limit", "0")
ROW = re.compile(r"\s+([\d.]+)%\s+\[([.k])\] (.*?)\s*$")
LIBRARY = re.compile(r" \[[^\]]*\]$")


def shares(folder: Path, *options: str) -> Counter[tuple[str, str]]:
    """Hundredths of a percent by (where, symbol without its version), as perf prints them about
    ./perf.data."""
    printed = perf(folder, *options, *REPORT, "--sort", "sym", "-i", "perf.data")
    percents: Counter[tuple[str, str]] = Counter()
    for row in filter(None, map(ROW.match, printed.splitlines())):
        percents[row[2], re.sub("@@?[A-Z].*", "", row[3])] += round(float(row[1]) * 100)
    return percents


@pytest.fixture
def run(nested: Run) -> Run:
    return nested


def test_nothing_of_the_run_is_needed(
    pyhybrid: Callable[..., Run], chain: Path, tmp_path: Path
) -> None:
    shutil.copytree(chain, tmp_path / "libraries")  # to be taken away
    environment = {"PYTHONPATH": str(tmp_path / "libraries")}
    run = pyhybrid(TARGETS / "nested.py", 0.5, 2, env=environment)
    whole = shares(run.folder)
    pyhybrid("export", "-f", "perf", "--bundle", "bundle")
    shutil.rmtree(run.path("libraries"))
    Path(f"/tmp/perf-{run.profile().process.pid}.map").unlink(missing_ok=True)
    assert not [name for _, name in shares(run.folder) if name.startswith("py::")]
    moved = run.path("elsewhere")
    run.path("bundle").rename(moved)
    bundled = shares(moved, "--buildid-dir", ".debug")
    assert bundled[".", "burn"] > 1000
    assert any(re.match(r"py::leaf:.*nested\.py:\d+$", name) for _, name in bundled)
    # In the bundle perf finds a name where it had ours, with the library; of an address it may
    # choose another one.
    whole = Counter({(at, LIBRARY.sub("", name)): n for (at, name), n in whole.items()})
    known = {key: share for key, share in whole.items() if key in bundled}
    assert sum(known.values()) > 0.97 * sum(whole.values())
    assert {key: bundled[key] for key in known} == known


@pytest.mark.further
@pytest.mark.engine
def test_the_kernel_has_its_names(run: Run, pyhybrid: Callable[..., Run]) -> None:
    profile = run.profile()
    names = {f.name for f in profile.frames.values() if f.kind == "kernel" and f.symbol}
    if not names:
        pytest.skip("this kernel does not tell names")
    # As if another kernel ran there.
    with contextlib.closing(sqlite3.connect(run.path())) as file, file:
        file.execute("update frame set name = 'other_' || name where kind = 'kernel'")
    pyhybrid("export", "-f", "perf", "--bundle", "bundle")
    kernel = {
        name for mode, name in shares(run.path("bundle"), "--buildid-dir", ".debug") if mode == "k"
    }
    others = {f"other_{name}" for name in names}
    assert kernel & others
    assert not kernel - others - {"<kernel>"}


@pytest.mark.further
def test_it_is_small_and_says_how_to_read_it(run: Run, pyhybrid: Callable[..., Run]) -> None:
    said = pyhybrid("export", "-f", "perf", "--bundle", "bundle").result.stderr
    command = said.splitlines()[-1].partition("read it with: ")[2]
    done = subprocess.run(
        command + " --stdio",
        shell=True,
        cwd=run.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "burn" in done.stdout, done.stderr
    assert command.partition(" && ")[2] in run.path("bundle/README.txt").read_text()
    cache = run.path("bundle/.debug").rglob("*")
    assert sum(file.stat().st_size for file in cache if file.is_file()) < 200_000


@pytest.mark.further
def test_only_what_was_chosen(run: Run, pyhybrid: Callable[..., Run]) -> None:
    pyhybrid("export", "-f", "perf", "--bundle", "bundle", "--python-only")
    bundled = shares(run.path("bundle"), "--buildid-dir", ".debug")
    assert any(name.startswith("py::leaf:") for _, name in bundled)
    assert all(name.startswith(("py::", "[")) for _, name in bundled)


@pytest.mark.further
def test_the_folder_must_be_new_or_empty(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    pyhybrid("-q", "-c", "sum(range(10**6))")
    export = ("export", "-f", "perf", "--bundle")
    for name in ("full", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "file").write_text("precious")
    for place, says in (
        ("full", "not empty"),
        ("link", "no folder"),
        ("link/", "no folder"),
        ("file", "no folder"),
        ("no/where", "No such file"),
    ):
        failed = pyhybrid(*export, place, check=False).result
        assert failed.returncode == 1
        assert says in failed.stderr
        assert failed.stderr.count("\n") == 1
    assert os.listdir(tmp_path / "full") == ["mine"]
    assert os.listdir(tmp_path / "empty") == []
    pyhybrid(*export, "empty")
    assert sorted(os.listdir(tmp_path / "empty")) == [".debug", "README.txt", "perf.data"]
    assert "not empty" in pyhybrid(*export, "empty", check=False).result.stderr


@pytest.mark.further
def test_a_failure_leaves_nothing(run: Run, pyhybrid: Callable[..., Run]) -> None:
    """A limit of a file's size: the images are smaller than perf.data."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    export = ("export", "-f", "perf", "--bundle", "bundle")
    failed = pyhybrid(*export, check=False, preexec_fn=limit).result
    assert failed.returncode == 1
    assert "cannot write bundle/perf.data: File too large" in failed.stderr
    assert not run.path("bundle").exists()


@pytest.mark.further
def test_usage(pyhybrid: Callable[..., Run]) -> None:
    for options in (("-f", "folded"), ("-f", "perf", "-f", "folded"), ("-f", "perf", "-o", "x")):
        failed = pyhybrid("export", *options, "--bundle", "b", check=False).result
        assert failed.returncode == 2
        assert "--bundle" in failed.stderr
    failed = pyhybrid("export", "-f", "perf", "--bundle", "", check=False).result
    assert failed.returncode == 2
    assert failed.stderr == "pyhybrid: --bundle takes the name of a folder\n"
