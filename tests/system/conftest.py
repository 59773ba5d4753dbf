"""Real runs: the command line on real programs, and what the profile says of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import support
from fork_support import Forks
from gdb_support import core_files, where_it_crashed, where_it_hangs
from lttng_support import Lttng
from page_support import Browser
from perf_support import write_perf_map
from support import (
    PATIENCE_S,
    TARGETS,
    WORKER,
    Run,
    build_extension,
    check_calls_shown,
    common_folder,
    in_fork,
    made_once,
    modules_of_views,
    record,
)
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile

# Perf maps older than this are of runs that someone may still want to read; nobody in CI.
KEPT_BEFORE = 0.0 if os.environ.get("CI") == "true" else time.time()
TMP = os.open("/tmp", os.O_RDONLY)


@pytest.fixture(scope="session", autouse=True)
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The process in whose forks profiles are shown."""
    folder = common_folder(tmp_path_factory)
    support.views = Forks(folder, "views", modules_of_views(), frozen=True)
    yield
    support.views.close()


@pytest.fixture
def pyhybrid(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """pyhybrid(*arguments, check=True, input=None, timeout=PATIENCE_S, **options of Popen) -> Run

    `within`: the words of a command that runs it.
    """
    runs: list[Run] = []

    def run(
        *arguments: object,
        check: bool = True,
        input: str | None = None,
        within: Sequence[str] = (),
        timeout: float = PATIENCE_S,  # OpenMP programs take ten times as long side by side
        **options: Any,
    ) -> Run:
        options.setdefault("cwd", tmp_path)
        options["env"] = {**os.environ, **(options.get("env") or {})}
        result = None
        if not (input or within or options.keys() - {"cwd", "env"}):
            result = in_fork(arguments, options["cwd"], options["env"], timeout)
        if not result:
            command = [*within, sys.executable, "-P", "-m", "pyhybrid", *map(str, arguments)]
            pipe = subprocess.PIPE
            options = {"stdin": pipe if input else None, "stdout": pipe, "stderr": pipe, **options}
            with core_files() if check else contextlib.nullcontext():
                process = subprocess.Popen(command, text=True, **options)
            with process:
                try:
                    stdout, stderr = process.communicate(input, timeout)
                except subprocess.TimeoutExpired:
                    stacks = where_it_hangs(process.pid)
                    process.kill()
                    pytest.fail(f"{command} hangs:\n{stacks}")
            result = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
        runs.append(Run(Path(options["cwd"]), result))
        if check and result.returncode < 0:
            pytest.fail(
                f"{result.args}: {result.returncode}\n"
                f"{where_it_crashed(runs[-1].folder)}\n{result.stderr}"
            )
        if check:
            assert result.returncode == 0, result.stderr
        check_calls_shown(runs[-1].folder, result.stderr or "")
        return runs[-1]

    yield run
    for each in runs:
        each.close()


def pytest_sessionstart() -> None:
    """Whoever runs these tests holds /tmp; not by the workers, which are of one session."""
    if not WORKER:
        fcntl.flock(TMP, fcntl.LOCK_SH)


def pytest_sessionfinish() -> None:
    """No perf map is left: the pass as another user could not replace it when a number comes again.
    Tests read maps of processes that are gone: not while those of another session run."""
    if WORKER:
        return
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(TMP, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_perf_maps()


def remove_perf_maps() -> None:
    for path in Path("/tmp").glob("perf-*.map"):
        pid = path.stem.removeprefix("perf-")
        with contextlib.suppress(OSError):
            file = path.lstat()
            ours = file.st_uid == os.geteuid() and file.st_mtime >= KEPT_BEFORE
            if ours and not Path("/proc", pid).exists():
                path.unlink()


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the C extension tests/targets/chain.c, built for this interpreter."""
    return made_once(
        tmp_path_factory, "chain", lambda f: build_extension(f, "chain", "-g", "-pthread")
    )


@pytest.fixture(scope="session")
def perfed(tmp_path_factory: pytest.TempPathFactory, chain: Path) -> Path:
    """The folder where tests/targets/perfed.py ran in hybrid mode."""

    def make(folder: Path) -> None:
        library = folder / "libspinner.so"
        compiler = ["g++", "-O1", "-g", "-fPIC", "-shared", "-o", library]
        subprocess.run([*compiler, TARGETS / "spinner.cpp"], check=True)
        record(folder, TARGETS / "perfed.py", library, PYTHONPATH=str(chain))
        record(folder, "export", "--format", "perf", "--exact-times")

    return made_once(tmp_path_factory, "perfed", make)


@pytest.fixture(scope="session")
def nested_run(tmp_path_factory: pytest.TempPathFactory, chain: Path) -> Path:
    """The folder where tests/targets/nested.py ran in three threads."""

    def make(folder: Path) -> None:
        record(folder, TARGETS / "nested.py", 0.5, 3, PYTHONPATH=str(chain))

    return made_once(tmp_path_factory, "nested", make)


@pytest.fixture
def nested(nested_run: Path, tmp_path: Path) -> Iterator[Run]:
    """A copy of what it left; its perf map is made again, since /tmp is everyone's to clean up."""
    shutil.copytree(nested_run, tmp_path, dirs_exist_ok=True)
    run = Run.recorded(tmp_path)
    write_perf_map(run.profile())
    yield run
    run.close()


@pytest.fixture
def profile(perfed: Path) -> Iterator[Profile]:
    """Its profile; its perf map is made again, since /tmp is everyone's to clean up."""
    with Profile.open(str(perfed / "out.pyhybrid")) as opened:
        write_perf_map(opened)
        yield opened


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser; to start one takes longer than what most tests do with it."""
    browser = Browser(tmp_path_factory.mktemp("browser") / "stderr")
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def torch_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorchProcess]:
    """Runs programs that begin with PyTorch imported."""
    process = TorchProcess(tmp_path_factory)
    yield process
    process.close()


@pytest.fixture
def no_daemon() -> Iterator[Lttng]:
    """Where a session daemon of LTTng's can be started that is the test's own."""
    own = Lttng()
    try:
        yield own
    finally:
        own.close()


@pytest.fixture
def lttng(no_daemon: Lttng) -> Lttng:
    """There it runs."""
    no_daemon.start_daemon()
    return no_daemon
