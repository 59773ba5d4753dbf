"""The real perf on our perf.data: what it prints is compared with the profile's own figures."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from perf_support import (
    CLOCK_EVENT,
    CLOCK_ONLY,
    EVENTS,
    EXACT_EVENT,
    frames_of,
    perf,
    perf_name,
    report,
    sampled,
    script,
)
from support import Run

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.needs("perf")

NAMED = "python", "region", "pseudo"  # kinds of frames that have names by our map
TURN = "work::Spinner::turn"  # newer versions of perf add the parameters

# argv: rounds of a loop in Python and microseconds in C, twenty times.
SHARES = """
import chain, sys
def in_python(n):
    while n: n -= 1
for _ in range(20):
    in_python(int(sys.argv[1]))
    chain.spin(int(sys.argv[2]))
"""


def self_weights(profile: Profile) -> Counter[str]:
    """By perf's name of the leaf."""
    weights: Counter[str] = Counter()
    for row in profile.sampled:
        weights[perf_name(frames_of(profile, row.stack)[0])] += row.weight_ns
    return weights


def own_names(profile: Profile) -> set[str]:
    """Names of which perf knows no other spelling: ours, and those of what the test built."""
    names = set()
    for frame in profile.frames.values():
        file = profile.modules[frame.module].path if frame.module else ""
        built = "/chain" in file and frame.source == "symtab"
        if built or frame.kind not in ("native", "kernel"):
            names.add(perf_name(frame))
    return names


def by_symbol(rows: list[list[str]]) -> Counter[str]:
    """Of columns period and symbol; perf (7.2) may have two rows of what has no address."""
    periods: Counter[str] = Counter()
    for period, symbol in rows:
        periods[symbol[4:]] += int(period)
    return periods


def check_own(rows: Counter[str], profile: Profile, expected: Counter[str]) -> None:
    assert rows.total() == expected.total()
    names = own_names(profile)
    assert {n: rows[n] for n in names} == {n: expected[n] for n in names}


@pytest.mark.engine
def test_events(perfed: Path, pyhybrid: Callable[..., Run]) -> None:
    assert perf(perfed, "evlist").split() == list(EVENTS)
    for line in perf(perfed, "evlist", "-v").splitlines():
        assert "IP|TID|TIME|CALLCHAIN|CPU|PERIOD|IDENTIFIER" in line
    sample = pyhybrid("--mode", "sample", "--format", "perf", "-c", "sum(range(10**6))")
    assert perf(sample.folder, "evlist").split() == [CLOCK_EVENT]
    hybrid = pyhybrid("--format", "perf", "-c", "sum(range(10**6))")
    assert perf(hybrid.folder, "evlist").split() == [CLOCK_EVENT]
    trace = pyhybrid("--mode", "trace", "--format", "perf", "-c", "sum(range(10**6))")
    assert perf(trace.folder, "evlist").split() == [EXACT_EVENT]
    periods = [int(p) for p in perf(trace.folder, "script", "-G", "-F", "period").split()]
    assert sum(periods) == sum(row.self_ns for row in trace.profile().exact) > 0


@pytest.mark.further
def test_build_ids(perfed: Path, profile: Profile) -> None:
    lines = perf(perfed, "buildid-list").splitlines()
    listed = dict(reversed(line.split(" ", 1)) for line in lines)
    kernel = listed.pop("[kernel.kallsyms]", None)
    assert listed == {m.path: m.build_id for m in profile.modules.values() if m.build_id}
    assert kernel == profile.meta["kernel_build_id"]
    assert len([path for path in listed if "/chain" in path or "libspinner" in path]) == 2


@pytest.mark.further
def test_header(perfed: Path, profile: Profile) -> None:
    text = perf(perfed, "report", "--header-only")
    fields = dict(re.findall(r"^# ([a-z ]+?) +: (.*)$", text, re.M))
    system = os.uname()
    assert fields["hostname"] == system.nodename
    assert fields["os release"] == system.release
    assert fields["arch"] == system.machine
    assert int(fields["nrcpus online"]) == os.cpu_count()
    assert re.search(
        f"model name\\s*: {re.escape(fields['cpudesc'])}\n", Path("/proc/cpuinfo").read_text()
    )
    assert fields["total memory"] == f"{profile.meta['memory_kb']} kB"
    assert fields["perf version"].startswith("pyhybrid ")
    assert "perfed.py" in fields["cmdline"]
    for event in EVENTS:
        assert f"# event : name = {event}," in text
    threads = [t for t in profile.threads.values() if t.first_ns and t.last_ns]
    first, last = min(t.first_ns or 0 for t in threads), max(t.last_ns or 0 for t in threads)
    assert float(fields["time of first sample"]) == pytest.approx(first / 1e9, abs=1e-6)
    assert float(fields["time of last sample"]) == pytest.approx(last / 1e9, abs=1e-6)


@pytest.mark.further
def test_time_of_day(perfed: Path, profile: Profile) -> None:
    """CLOCK_MONOTONIC is translated by the pair of times in the head."""
    monotonic, text = (
        perf(perfed, "script", *CLOCK_ONLY, "-G", "-F", field).split("\n", 1)[0]
        for field in ("time", "tod")
    )
    shift_ns = profile.meta["start_unix_ns"] - profile.meta["start_ns"]
    minute_s = (float(monotonic.rstrip(": ")) + shift_ns / 1e9) % 60
    assert float(text.split()[1].rstrip(":").rsplit(":", 1)[1]) == pytest.approx(minute_s, abs=1e-4)


@pytest.mark.further
def test_threads(perfed: Path, profile: Profile) -> None:
    pid = profile.process.pid
    tasks = re.findall(
        r"^ +(\d+) +(\d+) +(-?\d+) +\|\s*(.*)$", perf(perfed, "report", "--tasks"), re.M
    )
    named = {int(tid): name for process, tid, _, name in tasks if int(process) == pid}
    assert named == {t.tid: t.name for t in profile.threads.values()}
    assert {"loader 7 [1]", "x:y/z 12", "MainThread"} <= set(named.values())
    parents = {int(tid): int(parent) for process, tid, parent, _ in tasks if int(process) == pid}
    assert {parents[tid] for tid in parents if tid != pid} == {pid}


def test_report_by_symbol(perfed: Path, profile: Profile) -> None:
    tables = report(perfed, "--no-children", "-F", "period,sym", "--sort", "sym")
    rows = by_symbol(tables[CLOCK_EVENT])
    check_own(rows, profile, self_weights(profile))


@pytest.mark.further
@pytest.mark.engine
def test_report_with_children(perfed: Path, profile: Profile) -> None:
    """perf counts a sample once for each function on its stack; so do these figures."""
    inclusive: Counter[str] = Counter()
    for row in profile.sampled:
        for name in {perf_name(frame) for frame in frames_of(profile, row.stack)}:
            inclusive[name] += row.weight_ns
    total = sum(row.weight_ns for row in profile.sampled)
    tables = report(perfed, "--children", "-F", "overhead_children,sym", "--sort", "sym")
    rows = {symbol[4:]: float(share.rstrip("%")) for share, symbol in tables[CLOCK_EVENT]}
    names = own_names(profile) & inclusive.keys()
    assert names <= rows.keys()
    for name in names:
        assert rows[name] == pytest.approx(100 * inclusive[name] / total, abs=0.011), name


@pytest.mark.further
def test_report_by_thread_library_and_symbol(perfed: Path, profile: Profile) -> None:
    options = ("--no-children", "-F", "period,comm,dso,sym", "--sort", "comm,dso,sym")
    rows = report(perfed, *options)[CLOCK_EVENT]
    by_thread: Counter[str] = Counter()
    for row in profile.sampled:
        by_thread[profile.threads[row.thread].name] += row.weight_ns
    found: Counter[str] = Counter()
    for period, comm, _, _ in rows:
        found[comm] += int(period)
    assert found == +by_thread
    libraries = {(library, symbol) for _, _, library, symbol in rows}
    assert any(
        library == "libspinner.so" and symbol.startswith(f"[.] {TURN}")
        for library, symbol in libraries
    )
    assert any("chain" in library and symbol == "[.] burn" for library, symbol in libraries)
    assert all(library.startswith("[JIT]") for library, symbol in libraries if "py::" in symbol)


@pytest.mark.further
def test_report_by_cpu(perfed: Path, profile: Profile) -> None:
    weights: Counter[int] = Counter()
    for chunk in profile.program_timeline():
        cpu = 0
        for i in range(len(chunk.place)):
            cpu = chunk.cpus.get(i, cpu)
            weights[cpu] += chunk.weights.get(i, 1) * profile.period_ns
    rows = report(perfed, "--no-children", "-F", "period,cpu", "--sort", "cpu")[CLOCK_EVENT]
    assert {int(cpu): int(period) for period, cpu in rows} == +weights


@pytest.mark.usefixtures("profile")
def test_callers_from_the_root_on(perfed: Path) -> None:
    """`-g caller`: each row's chain begins at the thread's start and ends with the function."""
    options = ("--no-inline", "--no-children", "-g", "caller", "--sort", "sym")
    text = perf(perfed, "report", "--stdio", *options)
    chain = re.split(r"\[\.\] burn *\n", text)[1].split("%  [", 1)[0]
    at = [chain.index(name) for name in ("py::work", "py::leaf", "spin\n", "burn\n")]
    assert at == sorted(at)


@pytest.mark.further
@pytest.mark.engine
def test_kernel_frames_are_the_kernels(perfed: Path, profile: Profile) -> None:
    """perf takes each address for the kernel's or the program's by the context before it."""
    expected = sampled(profile)
    in_kernel: Counter[bool] = Counter()
    for sample in script(perfed, *CLOCK_ONLY):
        weight_ns, frames = expected[sample.tid, sample.time]
        assert sample.period == weight_ns
        assert len(sample.frames) == len(frames)
        for theirs, ours in zip(sample.frames, frames, strict=True):
            known = ours.kind == "kernel" and ours.symbol is not None
            assert (theirs.address >= 1 << 63) == known
            if known and theirs.symbol != "[unknown]":
                in_kernel[theirs.symbol == ours.symbol] += 1
    if profile.meta["kernel_build_id"]:
        assert in_kernel[True]
    assert in_kernel[False] <= 0.05 * in_kernel.total()  # an address may have several names


@pytest.mark.further
def test_diff(pyhybrid: Callable[..., Run], chain: Path) -> None:
    """Python grew and C shrank, as in the profiles; between a file and itself nothing did."""
    files = []
    own = []  # percent of the time, by symbol
    options = ("--format", "perf", "--format", "perf-map", "-c", SHARES)
    for loops, c_us in ((10_000, 18_000), (400_000, 2_000)):
        run = pyhybrid(*options, loops, c_us, env={"PYTHONPATH": str(chain)})
        pyhybrid("export", "--format", "perf", "--exact-times")
        files.append(run.path(f"{loops}.data"))
        run.path("perf.data").rename(files[-1])
        weights = self_weights(run.profile())
        own.append({symbol: 100 * ns / weights.total() for symbol, ns in weights.items()})
    shares = {}
    for pair in (files, files[:1] * 2):
        text = perf(run.folder, "diff", "--sort", "sym", *map(str, pair))
        clock, exact = text.split(f"# Event '{EXACT_EVENT}'")
        shares[pair[1]] = {
            symbol: (float(base or 0), float(delta))
            for base, delta, symbol in re.findall(
                r"^ +([\d.]+)?%? +([+-][\d.]+)% +\[\.\] (\S.*?)\s*$", clock, re.M
            )
        }
        assert "in_python" in exact
    same, changed = shares[files[0]], shares[files[1]]
    (python,) = (name for name in changed if "py::in_python" in name)
    for symbol in ("burn", python):
        before, after = (by_name.get(symbol, 0) for by_name in own)
        assert changed[symbol] == pytest.approx((before, after - before), abs=0.02)
    assert changed["burn"][1] < 0 < changed[python][1]
    assert all(delta == 0 for _, delta in same.values())


@pytest.mark.further
@pytest.mark.usefixtures("profile")
def test_annotate(perfed: Path) -> None:
    """Instructions of a C++ function and of a C one, with all the samples between them."""
    rows = report(perfed, "--no-children", "-F", "sym", "--sort", "sym")[CLOCK_EVENT]
    (turn,) = (symbol[4:] for (symbol,) in rows if symbol[4:].startswith(TURN))
    for symbol in (turn, "burn"):
        text = perf(perfed, "annotate", "--stdio", "-s", symbol)
        clock = text.split(f"for {EXACT_EVENT}")[0]
        shares = re.findall(r"^ +([\d.]+) +: +([0-9a-f]+): +\S", clock, re.M)
        assert sum(float(share) for share, _ in shares) == pytest.approx(100, abs=1)
        assert len({address for _, address in shares}) == len(shares)
        assert "(%r" in clock


@pytest.mark.further
def test_exact_self_times(perfed: Path, profile: Profile) -> None:
    expected: Counter[str] = Counter()
    for row in profile.exact:
        expected[perf_name(profile.frames[profile.nodes.frame[row.node]])] += row.self_ns
    tables = report(perfed, "--no-children", "-F", "period,sym", "--sort", "sym")
    rows = by_symbol(tables[EXACT_EVENT])
    assert rows == +expected


def test_exact_paths(perfed: Path, profile: Profile) -> None:
    """Each sample's call chain is a node's path, with the thread and the time of it."""
    nodes, frames = profile.nodes, profile.frames
    expected: Counter[tuple[int, int, tuple[str, ...]]] = Counter()
    for row in profile.exact:
        path, node = [], row.node
        while node:
            frame = frames[nodes.frame[node]]
            path.append(perf_name(frame) if frame.kind in NAMED else "C")
            node = nodes.parent[node]
        if row.self_ns:
            expected[profile.threads[row.thread].tid, row.self_ns, tuple(path)] += 1
    found: Counter[tuple[int, int, tuple[str, ...]]] = Counter()
    for sample in script(perfed):
        if sample.event == EXACT_EVENT:
            names = (f.symbol if "/perf-" in f.file else "C" for f in sample.frames)
            found[sample.tid, sample.period, tuple(names)] += 1
    assert found == expected
    assert {sample.event for sample in script(perfed, *CLOCK_ONLY)} == {CLOCK_EVENT}
