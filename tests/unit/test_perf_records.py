"""perf.data record by record: order, threads that share a number, the exact event, features."""

import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_profile import PID, all_in_tables, example, fake_symbols
from perf_support import perf
from spool_writer import SpoolWriter, native, python

from pyhybrid.assemble import open_profile
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.perf import samples as perf_samples
from pyhybrid.exporters.perf.addresses import SyntheticAddresses
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.perf_data import EXACT_EVENT, Perf
from pyhybrid.tables.profile import Profile

SAMPLE, FINISHED_ROUND = 9, 68
SECOND = 1_000_000_000


def records(path: Path) -> list[tuple[int, bytes]]:
    """Type and bytes of the data section's records."""
    data = path.read_bytes()
    at, size = struct.unpack_from("<QQ", data, 40)
    found, end = [], at + size
    while at < end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        found.append((kind, data[at : at + length]))
        at += length
    assert at == end
    return found


def sample_times(found: list[tuple[int, bytes]]) -> list[int]:
    return [struct.unpack_from("<Q", raw, 32)[0] for kind, raw in found if kind == SAMPLE]


def two_threads() -> SpoolWriter:
    """Two threads in turns of 1 s, 1,000 samples a chunk."""
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "f", "/f.py", 1)
    rows = [writer.stack(python(1, 2 * i)) for i in range(2)]
    writer.stacks()
    for thread in (1, 2):
        writer.thread(thread, PID + thread, "python")
        for chunk in range(5):
            times = {"first_ns": (2 + chunk) * SECOND + thread, "dt_ns": 1_000_000}
            writer.samples(thread, [rows[thread - 1]] * 1000, **times)
    return writer


def test_records_are_in_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rounds: what comes after the end of one is not earlier than what came before it."""
    monkeypatch.setattr(perf_samples, "ROUND", 3000)
    with open_profile(two_threads().save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    found = records(tmp_path / "perf.data")
    times = sample_times(found)
    assert len(times) == 10_000
    assert times == sorted(times)
    assert 1 <= [kind for kind, _ in found].count(FINISHED_ROUND) <= 3


@pytest.mark.needs("perf")
def test_perf_takes_rounds_without_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_samples, "ROUND", 10)
    with open_profile(two_threads().save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    times = perf(tmp_path, "script", "-G", "-F", "time").split()
    assert len(times) == 10_000
    assert times == sorted(times)


@pytest.fixture
def reused(tmp_path: Path) -> Iterator[Profile]:
    """A thread's number, used by another one later; both were sampled and traced."""
    writer = SpoolWriter(PID)
    writer.meta(pid=PID, mode="hybrid")
    writer.code(1, "f", "/f.py", 1)
    writer.code(2, "g", "/f.py", 9)
    writer.module(1, "/lib/x.so", 0x7F0000000000)
    rows = [writer.stack(python(1, 0)), writer.stack(python(2, 0))]
    writer.stacks()
    for index, name in enumerate(("first", "second")):
        begin_ns = (2 + 3 * index) * SECOND
        writer.thread(index + 1, 4321, "python", name, first_ns=begin_ns)
        writer.samples(index + 1, [rows[index]] * 4, first_ns=begin_ns)
        writer.exact_thread(index + 1, 4321, begin_ns)
        writer.exact_nodes(index + 1, 1, (0, python(index + 1, 0)))
        writer.exact_counts(index + 1, {"node": 1, "calls": 1, "ticks": 700 + index})
    writer.end(time_ns=9 * SECOND)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(exact_times=True), profile, str(tmp_path / "perf.data"))
        perf_map = PerfMap()
        path = perf_map.default_path(profile, "")
        export_to(perf_map, profile, path)
        yield profile
        Path(path).unlink(missing_ok=True)


@pytest.mark.needs("perf")
def test_threads_of_one_number_keep_their_names(reused: Profile, tmp_path: Path) -> None:
    assert sample_times(records(tmp_path / "perf.data"))[4] == 2 * SECOND + 3_000_000
    text = perf(tmp_path, "script", "-F", "comm,period,event,ip,sym")
    found = Counter(re.findall(r"^(\w+) +(\d+) +(\S+):\s+\S+ py::(\w)", text, re.M))
    assert found == {
        ("first", "1000000", "cpu-clock", "f"): 4,
        ("second", "1000000", "cpu-clock", "g"): 4,
        ("first", "700", EXACT_EVENT, "f"): 1,
        ("second", "701", EXACT_EVENT, "g"): 1,
    }


@pytest.mark.needs("perf")
def test_exact_paths_with_native_functions(tmp_path: Path) -> None:
    """A native function of an exact path stands at its start, in its library."""
    writer = SpoolWriter(PID)
    writer.meta(pid=PID, mode="trace")
    writer.code(1, "f", "/f.py", 1)
    writer.module(1, "/lib/x.so", 0x7F0000000000)
    writer.functions({native(1, 0x510): native(1, 0x500)})
    writer.exact_thread(1, PID)
    writer.exact_nodes(1, 1, (0, python(1, 0)), (1, native(1, 0x510)), (2, python(1, 0)))
    counts = ({"node": 1, "calls": 1, "ticks": 50}, {"node": 3, "calls": 2, "ticks": 20})
    writer.exact_counts(1, *counts)
    writer.end()
    with open_profile(writer.save(tmp_path / "x.part"), all_in_tables()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    chains = re.findall(
        r"^ *(\d+).*\n((?:\t.*\n)+)", perf(tmp_path, "script", "-F", "period,ip,dso"), re.M
    )
    depths = {period: len(chain.splitlines()) for period, chain in chains}
    assert depths == {"30": 1, "20": 3}
    assert "500 (/lib/x.so)" in chains[1][1]


def periods(path: Path, event: int) -> list[tuple[int, list[int]]]:
    """Period and user-space addresses of each sample of an event, by its place."""
    found = []
    for kind, raw in records(path):
        if kind == SAMPLE and struct.unpack_from("<Q", raw, 8)[0] == 1 + event:
            period, n, _ = struct.unpack_from("<QQQ", raw, 48)
            found.append((period, list(struct.unpack_from(f"<{n - 1}Q", raw, 72))))
    return found


def nested() -> SpoolWriter:
    """50 levels of f, each with exact self time; g below up to 300 ones is sampled in 3 threads."""
    writer = SpoolWriter(PID)
    writer.meta(pid=PID, mode="hybrid")
    writer.code(1, "f", "/f.py", 1)
    writer.code(2, "g", "/f.py", 9)
    rows = [writer.stack(*[python(1, 0)] * depth, python(2, 0)) for depth in range(1, 301, 3)]
    writer.stacks()
    for thread in (1, 2, 3):
        writer.thread(thread, PID + thread - 1, "python")
        writer.samples(thread, rows)
    writer.samples(1, rows[:2] * 500, first_ns=3 * SECOND)
    writer.exact_thread(1, PID)
    writer.exact_nodes(1, 1, *((i, python(1, 0)) for i in range(50)))
    writer.exact_counts(1, *({"node": i, "calls": 1, "ticks": 100 - i} for i in range(1, 51)))
    writer.end()
    return writer


@pytest.mark.parametrize("limit", [1000, 4000, 20_000, 60_000, 150_000, 10**6])
def test_within_a_limit_weights_are_the_same_in_all(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "perf.data"
    with open_profile(nested().save(tmp_path / "x.part"), fake_symbols()) as profile:
        synthetic = SyntheticAddresses(profile)
        notes = export_to(Perf(exact_times=True), profile, str(path), limit_bytes=limit).notes
        weights = (
            sum(row.weight_ns for row in profile.sampled),
            sum(row.self_ns for row in profile.exact),
        )
    samples = sum(len(raw) for kind, raw in records(path) if kind == SAMPLE)
    assert samples <= limit
    names = {at: profile.frames[frame].name for frame, at in synthetic.of_frame.items()}
    for event, weight in enumerate(weights):
        told = periods(path, event)
        assert sum(period for period, _ in told) == weight
        for _, (*chain, last) in told:
            assert all(address in names for address in chain)
            assert last in names or last == synthetic.left_out
            assert len(chain) <= 127 or limit == 10**6 or "summed" not in "".join(notes)
    leaves = Counter[str]()
    for period, chain in periods(path, 0):
        leaves[names.get(chain[0], "")] += period
    if limit >= 4000:
        assert leaves == {"g": weights[0]}
    assert len(notes) == (limit < 10**6)


def test_exact_samples_beyond_the_limit_are_summed(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    with open_profile(nested().save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert export_to(Perf(exact_times=True), profile, str(path)).notes == []
        assert len(periods(path, 1)) == 50
        (note,) = export_to(Perf(exact_times=True), profile, str(path), limit_bytes=40_000).notes
        left_out = SyntheticAddresses(profile).left_out
    told = periods(path, 1)
    whole = [period for period, chain in told if chain[-1] != left_out]
    assert 10 < len(whole) < 50
    share = sum(whole) / sum(period for period, _ in told)
    assert f"exact times by call path for {share:.1%} of the time" in note


@pytest.mark.needs("perf")
def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        for key in ("hostname", "n_cpus", "start_unix_ns"):
            del profile.meta[key]
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    (missing,) = re.findall("# missing features: (.*)", perf(tmp_path, "report", "--header-only"))
    lacking = {"HOSTNAME", "NRCPUS", "CPUDESC", "CPUID", "TOTAL_MEM", "CLOCK_DATA"}
    assert lacking <= set(missing.split())
    assert not {"OSRELEASE", "ARCH", "EVENT_DESC", "SAMPLE_TIME", "BUILD_ID"} & set(missing.split())


@pytest.mark.needs("perf")
def test_a_thread_that_was_never_sampled_may_have_come_first(tmp_path: Path) -> None:
    """It has the last id nevertheless."""
    writer = SpoolWriter(PID)
    writer.meta(pid=PID, mode="hybrid")
    writer.code(1, "f", "/f.py", 1)
    row = writer.stack(python(1, 0))
    writer.stacks()
    writer.thread(1, 4321, "later", first_ns=5 * SECOND)
    writer.samples(1, [row] * 4, first_ns=5 * SECOND)
    for index, (comm, begin_ns) in enumerate((("later", 5 * SECOND), ("early", 2 * SECOND)), 1):
        writer.exact_thread(index, 4321, begin_ns, comm)
        writer.exact_nodes(index, 1, (0, python(1, 0)))
        writer.exact_counts(index, {"node": 1, "calls": 1, "ticks": 700 + index})
    writer.end(time_ns=9 * SECOND)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(exact_times=True), profile, str(tmp_path / "perf.data"))
    text = perf(tmp_path, "script", "-F", "comm,period,event")
    found = Counter(re.findall(r"^ *(\w+) +(\d+) ", text, re.M))
    assert found == {("later", "1000000"): 4, ("later", "701"): 1, ("early", "702"): 1}
