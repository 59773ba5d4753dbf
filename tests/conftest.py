"""What every test gets: requirements that say why they skip, the same environment on each machine,
a minute, and a proof that nothing leaked.

    @pytest.mark.needs("torch", "perf", "root")   skip where one of them is missing, saying which
    @pytest.mark.once                             privileges change nothing here: in one pass only
    @pytest.mark.leaves("threads", "fds")         this test's process keeps some: import torch does
    @pytest.mark.long("compiles all of it")       why it may take more than a minute

tests/system runs as root and as an ordinary user, and PYHYBRID_TEST_AS says which pass it is:
`root`, or `user` (no privileges, perf_event refused).  With CI=true a test may skip only for what
its pass cannot have; a skip for torch, perf or root where they must be there fails the session.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator

import pytest
import tracy_support
import viewer_support
from gdb_support import where_it_hangs
from hypothesis import settings
from support import WORKER, is_stripped

# Inputs are the same each time, but in `make fuzz`.  How long a test takes, other programs decide.
FUZZ = "PYHYBRID_FUZZ_SEED" in os.environ
settings.register_profile("ours", deadline=None, database=None, derandomize=not FUZZ)
settings.load_profile("ours")

# Variables that set up other programs, interpreters and libraries for whoever runs the tests: what
# needs one sets it.  (By those of Python's that are kept, test.sh says what is to be tested.)
OTHERS = re.compile(
    r"PYTHON(?!DONTWRITEBYTECODE$|MALLOC$|_JIT$)|PYHYBRID_CONFIG$"
    r"|(OMP|GOMP|KMP|MKL|OPENBLAS|NUMBA|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|MALLOC|GLIBC|RUST)_"
    r"|(LTTNG|TRACY|DEBUGINFOD|PERFSTUBS|PERFFLOW|FLUX|SLURM|MV2|JSM|MPI|LSB|LS|INTEL|NVTX|COVERAGE|RAY)_"
    r"|(LC|XDG|PIP|IPYTHON|JUPYTER|OMPI|PMI)_|(LOCAL_)?RANK$|WORLD_SIZE$|LANG|TZ$|COLUMNS$|LINES$|TERM$|(NO|FORCE)_COLOR$|PAGER$"
)
HOME = "" if WORKER else tempfile.mkdtemp(prefix="pyhybrid-home-")  # what programs keep there


def set_up() -> None:
    """What else a process inherits and tests could meet."""
    for name in [name for name in os.environ if OTHERS.match(name)]:
        del os.environ[name]
    os.environ |= {"LANG": "C.UTF-8", **({"HOME": HOME} if HOME else {})}
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these
        if signal.getsignal(number) is signal.SIG_IGN:  # (nohup, a shell's background job)
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


set_up()

CI = os.environ.get("CI") == "true"
TEST_AS = os.environ.get("PYHYBRID_TEST_AS", "root" if os.geteuid() == 0 else "user")


def has_lttng() -> bool:
    """The sink was built, and a session daemon can be started that is this process's own."""
    package = importlib.util.find_spec("pyhybrid")
    folders = package.submodule_search_locations if package else None
    return (
        any(os.path.exists(f"{folder}/libpyhybrid_lttng.so") for folder in folders or [])
        and all(map(shutil.which, ("lttng", "lttng-sessiond", "babeltrace2")))
        and (os.geteuid() != 0 or works("unshare", "--mount", "true"))
    )


def is_installed() -> bool:
    """Not editable: the tables that the build makes (meson.build) are in the package's folder."""
    package = importlib.util.find_spec("pyhybrid")
    folders = package.submodule_search_locations if package else None
    return any(os.path.exists(f"{folder}/symbols/plumbing.json") for folder in folders or [])


def has_bcc() -> bool:
    """Its tools, and headers of some kernel, with which they compile their programs."""
    return bool(shutil.which("pythoncalls-bpfcc") and glob.glob("/lib/modules/*/build/"))


def works(*command: str) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


# What a test can need: whether it is here, and whether this pass may be without it.
NEEDS: dict[str, Callable[[], bool]] = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "trainers": lambda: all(map(importlib.util.find_spec, ("pytorch_lightning", "accelerate"))),
    "tracy": lambda: tracy_support.folder() is not None,
    "adios2": lambda: importlib.util.find_spec("adios2") is not None,
    "nvtx": lambda: importlib.util.find_spec("nvtx") is not None,
    "hatchet": lambda: importlib.util.find_spec("hatchet") is not None,
    "nbclient": lambda: all(map(importlib.util.find_spec, ("nbclient", "ipykernel"))),
    "ray": lambda: importlib.util.find_spec("ray") is not None,
    "mpirun": lambda: shutil.which("mpirun") is not None,
    "ranks": lambda: importlib.util.find_spec("duckdb") is not None,
    "spark": lambda: importlib.util.find_spec("pyspark") is not None and works("java", "-version"),
    "servers": lambda: all(map(importlib.util.find_spec, ("gunicorn", "distributed", "celery"))),
    "perf": lambda: works("perf", "--version"),
    "bpftrace": lambda: works("bpftrace", "-e", "BEGIN { exit(); }"),  # as root, outside containers
    "bcc": lambda: is_here("bpftrace") and has_bcc(),
    "clang": lambda: works("clang", "--version"),
    "lttng": has_lttng,
    "bt2": lambda: works("/usr/bin/python3", "-c", "import bt2"),
    "debuginfod": lambda: shutil.which("debuginfod-find") is not None,
    "callgrind_annotate": lambda: shutil.which("callgrind_annotate") is not None,
    "go": lambda: viewer_support.GO is not None,
    "viewers": lambda: works("node", "--version") and os.path.exists(VIEWERS),
    "chromium": lambda: shutil.which("chromium") is not None,
    "installed": is_installed,
    "root": lambda: TEST_AS == "root" and os.geteuid() == 0,
    "interpreter_symbols": lambda: not is_stripped(),
    "plain_build": lambda: not os.environ.get("SAN"),  # libc alone, and at its own speed
}
VIEWERS = f"{os.path.dirname(__file__)}/viewers/node_modules"  # scripts/node_modules.sh
ROOTS = ["root", "bpftrace", "bcc"]  # nobody else has them
MAY_LACK = {
    *("interpreter_symbols", "mpirun", "plain_build", "ray", "servers", "spark"),
    *(ROOTS if TEST_AS == "user" else []),
    *(["tracy"] if sys.version_info >= (3, 14) else []),  # requirements/test.txt
    *(["hatchet"] if sys.version_info >= (3, 13) else []),  # the same
    *(["nvtx"] if sys.version_info >= (3, 15) else []),  # the same
}

N_TESTS = pytest.StashKey[int]()  # of this pass, chosen by markers or not

ERROR_LINES, ERROR_COLUMNS = 12, 300  # of a failed test, in PYHYBRID_FAILURES

is_here = functools.cache(lambda need: NEEDS[need]())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"needs(*what): skip where one of {list(NEEDS)} is missing")
    config.addinivalue_line("markers", "once: the pass as an ordinary user does not run it again")
    config.addinivalue_line("markers", "leaves(*what): this test may leave these: fds, threads")
    config.addinivalue_line("markers", "long(why): this test may take more than a minute")


def pytest_unconfigure() -> None:
    if HOME:
        shutil.rmtree(HOME, ignore_errors=True)


def pytest_report_header() -> str:
    here = ", ".join(f"{need}: {'yes' if is_here(need) else 'NO'}" for need in NEEDS)
    return f"pass: {TEST_AS} (uid {os.geteuid()}); {here}"


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_further_cases(items)
    chosen = {item: is_chosen(item) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not chosen[item]])
    items[:] = [item for item in items if chosen[item]]
    config.stash[N_TESTS] = len(items)


def mark_further_cases(items: list[pytest.Item]) -> None:
    """Mark the cases of a test beyond those that `first_cases` leaves in `make test`."""
    seen = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("first_cases")
        if mark and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker("further")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What pytest makes of the tests' source is kept beside it: most of what it takes to find them,
    in each worker of each pass.  Programs that tests run keep none of theirs."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before


def is_chosen(item: pytest.Item) -> bool:
    """Neither one that another pass has run, nor one of another slice (PYHYBRID_SLICE, K/N)."""
    if TEST_AS == "user" and item.get_closest_marker("once"):
        return False
    part, _, parts = os.environ.get("PYHYBRID_SLICE", "1/1").partition("/")
    return zlib.crc32(item.nodeid.encode()) % int(parts) + 1 == int(part)


# How long a test may take, and its set-up and its end, in seconds of a machine that does nothing
# else; and in those of any.  What goes on for as long as it is asked to (make fuzz, make stress)
# has that, too.
ASKED_S = sum(float(os.environ.get(f"PYHYBRID_{name}_S", "0")) for name in ("FUZZ", "STRESS"))
LIMIT_S, LONG_S, MOST_S, LOOK_S = 60 + ASKED_S, 600 + ASKED_S, 1800 + ASKED_S, 15


@contextlib.contextmanager
def bounded(item: pytest.Item) -> Iterator[None]:
    """Fails it where it does not end.  Seconds are longer on a machine that has more to do: by the
    square of that, since threads that wait for one another by spinning take so much longer."""
    why = [mark.args[0] for mark in item.iter_markers("long")]
    limit, used = LONG_S if why else LIMIT_S, 0.0
    begun, end = time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic() + MOST_S

    def look(*_: object) -> None:
        nonlocal used
        used += LOOK_S / max(1, os.getloadavg()[0] / len(os.sched_getaffinity(0))) ** 2
        if used >= limit or time.monotonic() >= end:
            signal.setitimer(signal.ITIMER_REAL, 0)
            its = children(begun)
            stacks = [where_it_hangs(pid) for pid in its]
            for pid in its:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)  # for what does not let it fail
            hint = "" if why else "; if it must, mark it `long`, and say why"
            pytest.fail("\n".join([f"takes longer than {limit:.0f} s alone{hint}", *stacks]))

    handler = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def children(since: float) -> list[int]:
    """Processes that this one has started since then, by CLOCK_BOOTTIME."""
    found, tick = [], 1 / os.sysconf("SC_CLK_TCK")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            _, parent, *words = file.read().rpartition(")")[2].split()
            if int(parent) == os.getpid() and (int(words[17]) + 1) * tick >= since:
                found.append(int(pid))
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    if time.time() > float(os.environ.get("PYHYBRID_UNTIL", "inf")):
        pytest.skip("no time left in this slice")
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            if not is_here(need):
                pytest.skip(f"needs {need}, which is missing here (pass: {TEST_AS})")
    with bounded(item):
        return (yield)


class NoSilentSkips:
    """In CI, a skip that names something this pass must have is a failure."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.look(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.look(report)  # pytest.importorskip at the top of a file

    def look(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.partition(" (pass:")[0]
        if any(re.search(rf"\b{need}\b", reason) for need in NEEDS.keys() - MAY_LACK):
            self.wrong.append(f"{report.nodeid}: {reason}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.wrong:
            terminalreporter.write_line(f"CI must not skip: {line}", red=True)


if CI:

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(session: pytest.Session) -> None:
        session.config.pluginmanager.register(NoSilentSkips(), "no-silent-skips")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note_failure(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    note_failure(report)


def note_failure(report: pytest.TestReport | pytest.CollectReport) -> None:
    """What failed goes to the file PYHYBRID_FAILURES, too, which `make test` ends with: of a long
    log, often only its end is kept."""
    path = os.environ.get("PYHYBRID_FAILURES")
    if path and report.failed and not WORKER:  # whose reports come again
        why = report.longreprtext.splitlines()
        lines = [line[:ERROR_COLUMNS] for line in why if line.startswith("E ")][:ERROR_LINES]
        with open(path, "a") as file:
            file.write("\n".join([f"{report.nodeid} ({report.when})", *lines, ""]))


def pytest_collection_finish(session: pytest.Session) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" and N_TESTS in session.config.stash:
        count(chosen=len(session.items), there=session.config.stash[N_TESTS])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if WORKER:
        return
    stats = terminalreporter.stats
    count(
        passed=len(stats.get("passed", [])),
        skipped=len(stats.get("skipped", [])),
        failed=len(stats.get("failed", [])) + len(stats.get("error", [])),
    )


def count(**numbers: int) -> None:
    """Goes to the file PYHYBRID_COUNTS, which `make test` ends with the sums of."""
    if path := os.environ.get("PYHYBRID_COUNTS"):
        with open(path, "a") as file:
            file.write("".join(f"{name} {number}\n" for name, number in numbers.items()))


def open_files() -> list[str]:
    """What the file descriptors of this process refer to."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(f"{fd} -> {os.readlink(f'/proc/self/fd/{fd}')}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return sorted(names)


def threads() -> list[str]:
    names = []
    for tid in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{tid}/comm") as file:
                names.append(f"{tid} {file.read().strip()}")
        except FileNotFoundError:
            continue
    return sorted(names)


def signal_dispositions() -> list[str]:
    """Caught and ignored, as the kernel knows them: Python does not see handlers set from C."""
    wanted = ("SigCgt", "SigIgn")
    bits = 1 << signal.SIGPROF - 1 | 1 << signal.SIGTRAP - 1
    with open("/proc/self/status") as file:
        rows = [line.split() for line in file if line.startswith(wanted)]
    return [f"{key} {int(value, 16) & bits:x}" for key, value in rows]


def timers() -> list[str]:
    with open("/proc/self/timers") as file:
        return sorted(line.strip() for line in file if line.startswith("ID"))


LEAKS: dict[str, Callable[[], list[str]]] = {
    "fds": open_files,
    "threads": threads,
    "signals": signal_dispositions,
    "timers": timers,
}


@pytest.fixture(autouse=True)
def nothing_leaked(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, this process has the files, threads, handlers and timers it had before."""
    allowed = {what for mark in request.node.iter_markers("leaves") for what in mark.args}
    looked_at = {what: look for what, look in LEAKS.items() if what not in allowed}
    before = {what: look() for what, look in looked_at.items()}
    yield
    deadline = time.monotonic() + 20  # a joined thread's entry in /proc goes a moment later
    while (after := {what: look() for what, look in looked_at.items()}) != before:
        if time.monotonic() > deadline:
            changed = {w: (before[w], after[w]) for w in before if before[w] != after[w]}
            pytest.fail(f"left behind (before, after): {changed}")
        time.sleep(0.01)
