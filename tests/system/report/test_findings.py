"""Findings: each is said of a program in which it was planted, none of others."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import TARGETS, Run, made_once
from torch_support import OURS as TORCH_PROCESS_HAS
from torch_support import TorchProcess

from pyhybrid.base.pseudo_frames import OWN_WORK
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.views.findings import MOST, Finding, findings
from pyhybrid.views.waits import all_waits, waits_of

pytestmark = pytest.mark.once

MODULE = """
import time
while time.process_time() < 1:
    pass
"""


def profile_of(pyhybrid: Callable[..., Run], what: str, *options: str, **variables: str) -> Profile:
    options = ("-q", "--format", "folded", *options)
    return pyhybrid(*options, TARGETS / "planted.py", what, env=variables).profile()


def by_rule(profile: Profile) -> dict[str, Finding]:
    of_it = findings(profile)
    assert len(of_it) <= MOST
    assert all(each.evidence and each.command for each in of_it)
    return {each.rule: each for each in of_it}


def found(
    pyhybrid: Callable[..., Run], what: str, *options: str, **variables: str
) -> dict[str, Finding]:
    return by_rule(profile_of(pyhybrid, what, *options, **variables))


def share_below(profile: Profile, symbols: str) -> float:
    """Of the samples that have one of these functions on their path."""
    names = re.compile(symbols)
    found, own = (
        {f.id for f in profile.frames.values() if is_one(f.symbol or "")}
        for is_one in (names.match, OWN_WORK.__eq__)
    )
    below = [(False, False)]
    nodes = profile.nodes
    for parent, frame in list(zip(nodes.parent, nodes.frame, strict=True))[1:]:
        here, ours = below[parent]
        below.append((here or frame in found, ours or frame in own))
    weights = [(*below[profile.stacks.node[row.stack]], row.weight_ns) for row in profile.sampled]
    all_ns = sum(weight_ns for _, ours, weight_ns in weights if not ours)
    return sum(weight_ns for here, ours, weight_ns in weights if here and not ours) / all_ns


def test_a_clean_program(pyhybrid: Callable[..., Run]) -> None:
    assert found(pyhybrid, "clean") == {}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("what", "rule", "says"),
    [
        ("tiny_calls", "tiny calls", "2,000,000 calls of tiny (planted.py:"),
        ("tiny_recursion", "tiny calls", "635,621 calls of fib (planted.py:"),
        ("called_from_c", "called from C", "is key (planted.py:"),
        ("waiting", "waiting", " of CPU time in "),
    ],
)
def test_planted(pyhybrid: Callable[..., Run], what: str, rule: str, says: str) -> None:
    profile = profile_of(pyhybrid, what)
    findings = by_rule(profile)
    if rule == "tiny calls" and not are_tiny(profile, says):
        assert rule not in findings  # on a machine where each waits for a processor
        return
    assert says in findings[rule].text.replace(str(TARGETS) + "/", "")
    assert findings[rule].share <= 1


def are_tiny(profile: Profile, says: str) -> bool:
    """Did calls of the function that a finding names take 2 us or less?"""
    name = says.split(" of ")[1].partition(" (")[0]
    (frame,) = (frame.id for frame in profile.frames.values() if frame.name == name)
    of_it = function_calls(profile)[frame]
    return of_it.total_ns <= 2000 * of_it.calls


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("what", "rule", "says", "least", "symbols"),
    [
        ("collection", "garbage collection", "is garbage collection", 0.6, "gc_collect"),
        (
            *("allocation", "allocation", "most of it in allocate (planted.py:", 0.35),
            # With symbols of the C library, or by what it exports.
            r"(__libc_)?(malloc|calloc|free|realloc|_int_(malloc|free).*)$",
        ),
        (
            *("page_faults", "page faults", "most of it in touch (planted.py:", 0.3),
            r"(asm_)?exc_page_fault$|handle_mm_fault$",
        ),
        (
            *("locks", "locks", "most of it in hand_over (planted.py:", 0.2),
            r"do_futex$|__x64_sys_futex$",
        ),
    ],
)
def test_a_share_is_that_of_the_samples(
    pyhybrid: Callable[..., Run], what: str, rule: str, says: str, least: float, symbols: str
) -> None:
    profile = profile_of(pyhybrid, what)
    finding = by_rule(profile)[rule]
    assert says in finding.text.replace(str(TARGETS) + "/", "")
    assert least < finding.share < 1
    assert finding.share == pytest.approx(share_below(profile, symbols), abs=0.02)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", ["hybrid", "trace"])
@pytest.mark.parametrize(
    ("what", "who", "more"),
    [
        ("blocked", "the main thread did not run", ()),
        ("blocks_loop", "the event loop was blocked", ()),
        ("blocks_loop", "the event loop was blocked", ("--tasks",)),
    ],
)
def test_what_waits(
    pyhybrid: Callable[..., Run], what: str, who: str, more: tuple[str, ...], mode: str
) -> None:
    """Exact times less the CPU time: the function that waited, for as long as it slept."""
    options = ("--mode", mode, "--format", "folded", *more)
    run = pyhybrid(*options, TARGETS / "planted.py", what)
    profile = run.profile()
    finding = by_rule(profile)["blocked"]
    assert finding.text.startswith(f"{who} for ")
    assert " of it in sync (" in finding.text
    assert "--clock wall" in finding.command
    waits = all_waits(profile, 5)
    assert waits
    assert waits.functions[0].name.startswith("sync (")
    (slept_ns,) = [
        tally.self_ns
        for frame, tally in function_calls(profile).items()
        if profile.frames[frame].name == "sync"
    ]
    # On a busy machine it waited for a processor, too, and what of that was where is not known.
    assert 0 < waits.functions[0].waited_ns <= slept_ns
    assert waits.waited_ns + waits.idle_ns >= 0.9 * 50 * 0.04e9
    (line,) = [line for line in run.result.stderr.splitlines() if line.startswith("waited ")]
    assert " s sync (planted.py:" in line


@pytest.mark.further
@pytest.mark.parametrize("mode", ["hybrid", "trace"])
@pytest.mark.parametrize("what", ["idle_loop", "idle_threads", "idle_server"])
def test_what_waits_for_work_is_idle(pyhybrid: Callable[..., Run], what: str, mode: str) -> None:
    profile = profile_of(pyhybrid, what, "--mode", mode)
    assert "blocked" not in by_rule(profile)
    assert sum(each.idle_ns for each in waits_of(profile)) > 0.5e9


@pytest.mark.further
def test_threads_that_wait_count_where_no_processor_was_wanting(
    pyhybrid: Callable[..., Run],
) -> None:
    path = pyhybrid("-q", "--format", "folded", TARGETS / "planted.py", "waiting_threads").path()
    for delay_ns, is_said in ((0, True), (10**12, False)):
        with Profile.open(str(path)) as profile:
            profile.meta["main_delay_ns"] = delay_ns  # as on a quiet machine, or a busy one
            said, waits = by_rule(profile), all_waits(profile, 1)
        assert ("blocked" in said) == is_said
        assert waits
        assert waits.unknown_threads == (0 if is_said else 4)  # which is said in `waited`
        assert (waits.unknown_ns > 10**9) == (not is_said)
        if is_said:
            assert said["blocked"].text.startswith("4 threads did not run for ")
            assert "most of it in sync (" in said["blocked"].text


@pytest.mark.further
def test_the_clock_that_sees_waits_needs_no_such_word(pyhybrid: Callable[..., Run]) -> None:
    assert "blocked" not in found(pyhybrid, "blocked", "--clock", "wall")


QUOTA = "/sys/fs/cgroup/cpu/pyhybrid-test-{}", "/sys/fs/cgroup/pyhybrid-test-{}"


@pytest.fixture
def small_quota() -> Iterator[Path]:
    """A group of processes that may run for 20 ms in 100."""
    old, new = (Path(path.format(os.getpid())) for path in QUOTA)
    group = old if old.parent.is_dir() else new
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    try:
        try:
            if group == old:
                (group / "cpu.cfs_period_us").write_text("100000")
                (group / "cpu.cfs_quota_us").write_text("20000")
            else:
                (group / "cpu.max").write_text("20000 100000")
            (group / "cgroup.procs").read_text()
        except OSError as error:
            pytest.skip(f"no quota can be set: {error}")
        yield group
    finally:
        group.rmdir()


@pytest.mark.further
def test_a_container_whose_quota_is_used_up(
    pyhybrid: Callable[..., Run], small_quota: Path
) -> None:
    program = f"""
import os
def throttled():
    with open({str(small_quota / "cpu.stat")!r}) as file:
        facts = dict(line.split() for line in file)
    return int(facts.get("throttled_time", 0)) + 1000 * int(facts.get("throttled_usec", 0))
before = throttled()
while throttled() < before + 300_000_000: pass
with open({str(small_quota.parent / "cgroup.procs")!r}, "w") as group:
    group.write(str(os.getpid()))  # what makes the profile need not be slow
"""
    enter = f'echo $$ >{small_quota}/cgroup.procs; exec "$@"'
    run = pyhybrid("-q", "--format", "folded", "-c", program, within=("sh", "-c", enter, "sh"))
    finding = by_rule(run.profile())["throttled"]
    assert finding.text.startswith("the container was throttled for ")
    assert finding.evidence["seconds"] >= 0.3


@pytest.mark.further
def test_imports(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "planted_module.py").write_text(MODULE)
    finding = found(pyhybrid, "imports", PYTHONPATH=str(tmp_path))["imports"]
    assert finding.evidence["module"] == "planted_module"
    assert finding.share > 0.5
    text = pyhybrid("report", "--no-inlines").result.stdout
    assert f"found    {finding.text}" in text


@pytest.mark.further
def test_threads_that_wait_for_the_gil(pyhybrid: Callable[..., Run]) -> None:
    finding = found(pyhybrid, "gil", "--clock", "wall")["gil"]
    assert finding.evidence["holder"].startswith("count (")
    assert finding.evidence["threads"] >= 4


@pytest.mark.further
@pytest.mark.needs("torch")
def test_threads_that_spin(pyhybrid: Callable[..., Run]) -> None:
    finding = found(pyhybrid, "spinning", OMP_WAIT_POLICY="active")["spinning"]
    assert finding.evidence["pool"] == "OpenMP (libgomp)"
    assert "gomp_team_barrier_wait_end" in finding.evidence["functions"]
    assert finding.evidence["threads"] >= 2
    assert finding.evidence["seconds"] >= 0.5
    assert " of the CPU time, " in finding.text


@pytest.fixture(scope="session")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter's library without the names of its own functions, as Debian has it."""
    mapped = re.findall(r"/\S*/libpython3\.\S*", Path("/proc/self/maps").read_text())
    if not mapped:
        pytest.skip("the interpreter is no library of its own")

    def make(folder: Path) -> None:
        copy = folder / os.path.basename(mapped[0])
        subprocess.run(["strip", "--strip-all", "-o", copy, mapped[0]], check=True)

    return made_once(tmp_path_factory, "stripped", make)


@pytest.mark.further
@pytest.mark.parametrize(
    ("what", "rule", "says"),
    [
        (
            "automatic_collection",
            "garbage collection",
            "is garbage collection, most of it in make_objects (planted.py:",
        ),
        ("mapped", "called from C", "called from map.__next__ "),
    ],
)
def test_what_a_stripped_interpreter_does(
    pyhybrid: Callable[..., Run], stripped: Path, what: str, rule: str, says: str
) -> None:
    """By what its method tables name, and by what called that."""
    profile = profile_of(pyhybrid, what, LD_LIBRARY_PATH=str(stripped))
    used = [m.path for m in profile.modules.values() if "libpython3" in m.path]
    assert used == [str(path) for path in stripped.iterdir()]
    finding = by_rule(profile)[rule]
    assert says in finding.text.replace(str(TARGETS) + "/", "")
    assert finding.share > 0.25


@pytest.fixture(scope="session")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of parallel.c, and a libgomp without the names of its functions."""

    def make(folder: Path) -> None:
        command = ["gcc", "-O2", "-fPIC", "-shared", "-fopenmp", "-o", folder / "libparallel.so"]
        subprocess.run([*command, TARGETS / "parallel.c"], check=True)
        loaded = subprocess.check_output(["ldd", folder / "libparallel.so"], text=True)
        (libgomp,) = re.findall(r"libgomp\S* => (\S+)", loaded)
        stripped = folder / os.path.basename(libgomp)
        subprocess.run(["strip", "--strip-all", "-o", stripped, libgomp], check=True)

    return made_once(tmp_path_factory, "parallel", make)


@pytest.mark.further
def test_threads_of_a_stripped_library_that_spin(
    pyhybrid: Callable[..., Run], parallel: Path
) -> None:
    """One of two threads works; the numbers are those of the pool that is named."""
    program = f"""
import ctypes
library = ctypes.CDLL({str(parallel / "libparallel.so")!r})
library.alone.restype = ctypes.c_long
library.alone.argtypes = ctypes.c_long, ctypes.c_long
library.alone(20_000, 30)
"""
    variables = {"OMP_WAIT_POLICY": "active", "LD_LIBRARY_PATH": str(parallel)}
    profile = pyhybrid("-q", "--format", "folded", "-c", program, env=variables).profile()
    assert {f.symbol for f in profile.frames.values() if f.kind == "native"} >= {"alone"}
    (finding,) = [each for each in findings(profile) if each.rule == "spinning"]
    assert finding.evidence["pool"] == "OpenMP (libgomp)"
    assert finding.evidence["threads"] == 2
    assert all("libgomp" in name for name in finding.evidence["functions"])
    files = {m.id: os.path.basename(m.path) for m in profile.modules.values()}
    frames, of_path = profile.frames, [frozenset[str]()]
    for parent, frame in list(zip(profile.nodes.parent, profile.nodes.frame, strict=True))[1:]:
        here = {files.get(frames[frame].module or 0, ""), frames[frame].symbol or ""}
        of_path.append(of_path[parent] | here)
    waiting_ns = sum(
        row.weight_ns
        for row in profile.sampled
        for names in [of_path[profile.stacks.node[row.stack]]]
        if any("libgomp" in name for name in names) and "alone._omp_fn.0" not in names
    )
    assert finding.evidence["seconds"] * 1e9 == pytest.approx(waiting_ns, rel=0.01)


@pytest.mark.further
@pytest.mark.needs("torch")
def test_threads_that_sleep_do_not_spin(torch_process: TorchProcess, tmp_path: Path) -> None:
    """Wall-clock time has samples of a pool's threads that wait for work, too."""
    assert TORCH_PROCESS_HAS["OMP_WAIT_POLICY"] == "passive"
    options = ("-q", "--format", "folded", "--clock", "wall")
    torch_process.profiled(tmp_path, *options, TARGETS / "planted.py", "resting")
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        findings = by_rule(profile)
    assert "spinning" not in findings
    assert findings["idle threads"].evidence["threads"] >= 3
    pools = ("gomp_thread_start", "thread_main")  # OpenMP's, and PyTorch's pthreadpool
    assert findings["idle threads"].evidence["function"] in pools
