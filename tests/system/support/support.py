"""What the system tests share: a run of the command line, and what its profile says."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pkgutil
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest
from fork_support import Forks
from json_page import check_report

from pyhybrid.assemble import open_profile
from pyhybrid.base.pseudo_frames import PLT
from pyhybrid.cli import SUBCOMMANDS
from pyhybrid.tables import Thread
from pyhybrid.tables.profile import Profile

# The path that tests/targets/nested.py walks, outermost first.
NESTED = [
    "walk",
    "outer",
    "call_a",
    "a1",
    "a2",
    "inner",
    "call_b",
    "b1",
    "b2",
    "middle",
    "call_c",
    "c1",
    "c2",
    "leaf",
    "spin",
    "burn",
]

LINUX = tuple(int(part) for part in os.uname().release.split(".")[:2])

# Is this process one of several that share a session's tests?
WORKER = "PYTEST_XDIST_WORKER" in os.environ

# For how long a test waits for another process, in seconds: it may have a tenth of a processor.
PATIENCE_S = 600

TARGETS = Path(__file__).parents[2] / "targets"


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """Of all workers of a session."""
    return factory.getbasetemp().parent if WORKER else factory.getbasetemp()


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills; of several workers the first one that wants it calls `make`."""
    base = common_folder(factory)
    folder, made = base / name, base / f"{name}.made"
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


# The process in whose forks profiles are shown (conftest.py): a process of its own would take most
# of its time to import what shows them.
views: Forks | None = None


def modules_of_views() -> list[str]:
    """What subcommands import, some of it when it is needed."""
    packages = "cli", "exporters", "report", "views"
    return [
        module.name
        for package in packages
        for module in pkgutil.walk_packages(
            import_module(f"pyhybrid.{package}").__path__, f"pyhybrid.{package}."
        )
    ]


def in_fork(
    arguments: Sequence[object], folder: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str] | None:
    """Runs a subcommand there as `python -P -m pyhybrid` would; None: this is to be run by that."""
    if views and arguments and arguments[0] in SUBCOMMANDS and views.start_alike(environment):
        done = views.run(folder, "pyhybrid", *arguments, environment=environment, timeout=timeout)
        if arguments[0] == "report" and not done.returncode:
            check_report([str(each) for each in arguments], done.stdout)
        return done
    return None


def command(
    folder: Path, *arguments: object, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command line there; it ends with 0, or `check` is false."""
    environment = {**os.environ, **variables}
    done = in_fork(arguments, folder, environment, PATIENCE_S)
    if not done:
        words = [sys.executable, "-P", "-m", "pyhybrid", *map(str, arguments)]
        options = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
        done = subprocess.run(words, cwd=folder, env=environment, check=False, **options)
    assert done.returncode == 0 or not check, done.stderr
    return done


def printed(folder: Path, *arguments: object, check: bool = True, **variables: str) -> str:
    """What the command line prints there."""
    return command(folder, *arguments, check=check, **variables).stdout


def record(folder: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the profiler there; its perf map is this user's."""
    for _ in range(10):  # a process of this number may have left a map that is another user's
        done = command(folder, *arguments, **variables)
        if "belongs to another user" not in done.stderr:
            check_calls_shown(folder, done.stderr)
            return done
    pytest.fail(done.stderr)


# Plugins of pytest's that a test asks for, and no other meets (requirements/test.txt).
# Hypothesis' own takes three times as long to load as pytest.
PLUGINS = ("anyio", "asyncio", "hypothesispytest", "pytest_cov", "rerunfailures", "timeout")
NO_PLUGINS = " ".join(f"-p no:{name}" for name in PLUGINS)


def environment() -> dict[str, str]:
    """Without what tells of this pytest."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return {**others, "PYTEST_ADDOPTS": NO_PLUGINS}


def preloaded(library: Path) -> dict[str, str]:
    """The environment in which it is, after what is loaded so already: sanitizers are."""
    return {"LD_PRELOAD": ":".join(filter(None, (os.environ.get("LD_PRELOAD"), str(library))))}


def build_extension(folder: Path, name: str, *options: str) -> None:
    """The C extension tests/targets/NAME.c, for this interpreter."""
    target = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    command = ["gcc", "-O2", "-fPIC", "-shared", *options, include, "-o", target]
    subprocess.run([*command, TARGETS / f"{name}.c"], check=True)


def native_threads(folder: Path) -> Path:
    """The library tests/targets/short_threads.c."""
    library = folder / "libshort_threads.so"
    command = ["gcc", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-o", library]
    subprocess.run([*command, TARGETS / "short_threads.c"], check=True)
    return library


# Is CPython's own JIT on (3.14+, PYTHON_JIT=1)?
JIT = hasattr(sys, "_jit") and sys._jit.is_enabled()


@functools.cache
def is_stripped() -> bool:
    """Does the interpreter lack names of its static functions (Debian's)?"""
    mapped = re.findall(r"/\S*/libpython3\.\S*", Path("/proc/self/maps").read_text())
    file = Path(mapped[0] if mapped else sys.executable).resolve()
    return not subprocess.run(["nm", file], capture_output=True, check=True).stdout


def eval_frames(names: list[str]) -> list[str]:
    """Of eval loops that run; a stub that jumps to one comes before that."""
    loops = [name for name in names if name.startswith("_PyEval_EvalFrameDefault")]
    return [name for name in loops if not name.endswith(PLT)]


def long_enough(root: float, user: float) -> float:
    """CPU seconds for which a program is to run, so that enough samples come: timers, all that the
    ordinary user has, tick 250 times a second, however often they are asked to."""
    return root if os.geteuid() == 0 else user


# For a program: how often the collector has slept and looked.
LOOKS = r'''
def looks():
    import pathlib, re
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text() == "pyhybrid\n":
                status = (task / "status").read_text()
                return int(re.search(r"\nvolun.*\s(\d+)\n", status)[1])
        except OSError:  # a thread that has just ended
            continue
def looked(times=3):
    """Waits until it has looked at all that was there before."""
    import time
    before = looks()
    while looks() < before + times: time.sleep(0.001)
'''

# For a program: the files that code on this thread's stack is from.
ON_STACK = r"""
import ctypes, os
class Place(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("file", "base", "symbol", "address")]
def on_stack():
    c, place, found = ctypes.CDLL(None), Place(), (ctypes.c_void_p * 1000)()
    n = c.backtrace(found, len(found))
    places = [ctypes.c_void_p(each) for each in found[:n]]
    files = {place.file for each in places if c.dladdr(each, ctypes.byref(place))}
    return sorted(os.path.basename(os.fsdecode(file)) for file in files if file)
"""

# For a program: for how long this thread has waited for a processor (Linux: sched-stats.rst).
DELAY = """
def delay_ns():
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])
"""


@dataclass
class Run:
    """One run of `python -m pyhybrid` in a folder of its own."""

    folder: Path
    result: subprocess.CompletedProcess[str]
    opened: list[Profile] = field(default_factory=list)

    @classmethod
    def recorded(cls, folder: Path) -> Run:
        """One that was made before this test."""
        return cls(folder, subprocess.CompletedProcess([], 0, "", ""))

    def path(self, name: str = "out.pyhybrid") -> Path:
        return self.folder / name

    def profile(self, name: str = "out.pyhybrid") -> Profile:
        self.opened.append(open_profile(str(self.path(name))))
        return self.opened[-1]

    def close(self) -> None:
        for profile in self.opened:
            profile.close()


_SHOWN = re.compile(r"^calls +([\d,]+) of ", re.MULTILINE)
_WROTE = re.compile(r"^wrote +(\S+\.pyhybrid)\b", re.MULTILINE)


def check_calls_shown(folder: Path, summary: str) -> None:
    """The calls that a run's summary shows are all that its file has."""
    shown, file = _SHOWN.search(summary), _WROTE.search(summary)
    if shown and file:
        with contextlib.closing(sqlite3.connect(folder / file[1])) as database:
            (calls,) = database.execute(
                "SELECT sum(calls) FROM exact JOIN node ON node.id = node"
                " JOIN frame ON frame.id = frame"
                " WHERE kind = 'python' OR symbol = 'import_functions'"
            ).fetchone()
        assert int(shown[1].replace(",", "")) == calls


def paths(profile: Profile) -> Iterator[tuple[int, list[str], list[str]]]:
    """(samples, kinds, names) of every sampled stack, root first; names without module or file."""
    nodes, frames = profile.nodes, profile.frames
    for row in profile.sampled:
        kinds, names = [], []
        node = profile.stacks.node[row.stack]
        while node:
            frame = frames[nodes.frame[node]]
            kinds.append(frame.kind)
            names.append(frame.name)
            node = nodes.parent[node]
        yield row.samples, kinds[::-1], names[::-1]


def python_frames(profile: Profile, stack: int) -> Iterator[tuple[str, str | None, int | None]]:
    """Name, file and line of each Python function on a sampled path, the innermost first."""
    stacks, frames = profile.stacks, profile.frames
    while stack:
        frame = frames[profile.nodes.frame[stacks.node[stack]]]
        if frame.kind == "python":
            yield frame.name, frame.file, stacks.line[stack]
        stack = stacks.parent[stack]


def share_with_line(profile: Profile) -> float:
    """Of the Python functions on sampled paths."""
    known: Counter[bool] = Counter()
    for row in profile.sampled:
        for _, _, line in python_frames(profile, row.stack):
            known[line is not None] += row.samples
    return known[True] / known.total()


def covered_ns(profile: Profile, thread: Thread) -> int:
    """What is known of the thread's time: recorded, lost and missed weight."""
    lost = sum(loss.weight_ns for loss in profile.losses if loss.thread == thread.id)
    return thread.recorded_weight_ns + lost + thread.missed_weight_ns


def signalled_ns(profile: Profile, thread: Thread) -> int:
    """Of the thread's time, what signals came for: a busy machine may keep some from a record."""
    return covered_ns(profile, thread) - thread.missed_weight_ns


def check_losses(profile: Profile, slow: bool = False) -> None:
    """Samples that came too late are few, where the handler is not slow by itself.

    A busy machine makes some late: what it takes from a virtual one counts as the handler's time.
    """
    signals = sum(thread.signals for thread in profile.threads.values())
    late = sum(loss.samples for loss in profile.losses if loss.reason == "too_slow")
    lost = sum(loss.samples for loss in profile.losses)
    assert lost - late <= 0.005 * signals, profile.losses
    assert slow or late <= 0.05 * signals, profile.losses


_OF_A_BUSY_MACHINE = re.compile(
    r"of these threads [\d,]+ samples were lost in all, it is not known when"
    r"|threads ran for only .* there: `--clock wall` records where they wait, too"
)


def without_busy_notes(lines: list[str]) -> list[str]:
    """What a view of some samples prints of a program that does not wait, without what a busy
    machine brings: some samples come late, and threads wait for a processor."""
    return [line for line in lines if not _OF_A_BUSY_MACHINE.fullmatch(line)]


def check_invariants(profile: Profile) -> None:
    """What holds for every profile."""
    lost: dict[int, int] = {}
    for loss in profile.losses:
        lost[loss.thread] = lost.get(loss.thread, 0) + loss.samples
    recorded: dict[int, int] = {}
    weight: dict[int, int] = {}
    for row in profile.recorded:
        recorded[row.thread] = recorded.get(row.thread, 0) + row.samples
        weight[row.thread] = weight.get(row.thread, 0) + row.weight_ns
    for thread in profile.threads.values():
        assert thread.signals == thread.recorded + lost.get(thread.id, 0)
        assert recorded.get(thread.id, 0) == thread.recorded
        assert weight.get(thread.id, 0) == thread.recorded_weight_ns
    for table in (profile.nodes.parent, profile.stacks.parent):
        assert all(parent < child for child, parent in enumerate(table) if child)
