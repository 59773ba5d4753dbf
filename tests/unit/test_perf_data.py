"""perf.data and the perf map, read back by the real perf."""

import os
import re
import struct
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from example_profile import (
    LIBRARY,
    PATHS,
    PERIOD_NS,
    PID,
    SAMPLES,
    WEIGHT,
    all_in_tables,
    example,
    fake_symbols,
)
from perf_support import perf
from spool_writer import SpoolWriter, kernel, native, pseudo, python

from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.perf.addresses import PAGE, REGIONS, SyntheticAddresses
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.old_maps import remove_old
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.finish.finish import finish
from pyhybrid.tables.profile import Profile

ROW = re.compile(r"\s+[\d.]+% ")
# Of an address without a name, perf 6.1 prints the place in the file, 7.2 that in memory: within a
# page the same.
UNNAMED = re.compile(r"[0-9a-f]+([0-9a-f]{3} \[unknown\])")
GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    """The example."""
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as opened:
        yield opened


@pytest.fixture
def recorded(profile: Profile, tmp_path: Path) -> Iterator[Path]:
    """A folder with the example's perf.data; its map lies where perf looks."""
    assert export_to(Perf(), profile, str(tmp_path / "perf.data")).notes == []
    path = PerfMap().default_path(profile, "out")
    assert path == f"/tmp/perf-{PID}.map"
    export_to(PerfMap(), profile, path)
    yield tmp_path
    Path(path).unlink(missing_ok=True)


def test_what_only_damaged_files_have_is_written_all_the_same(tmp_path: Path) -> None:
    """A build-id that is longer than perf has room for, the kernel below a function of ours."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.module(1, "/lib/long.so", 0x7F0000000000, build_id=bytes(300))
    spool.thread(1, PID, "python")
    row = spool.stack(kernel(0xFFFF888000001000), native(1, 16))
    spool.stacks()
    spool.samples(1, [row])
    with open_profile(spool.save(tmp_path / "x.part"), all_in_tables()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    assert "long.so" in perf(tmp_path, "script")


def own_region(text: str, base: int) -> str:
    """With the run's synthetic addresses as if they began with the first region."""

    def moved(match: re.Match[str]) -> str:
        offset = int(match[0], 16) - base
        return f"{REGIONS.start + offset:x}" if 0 <= offset < 1 << 20 else match[0]

    return re.sub(r"\b[0-9a-f]{12}\b", moved, text)


def comparable(text: str) -> str:
    """Without what versions of perf print differently: columns, and UNNAMED."""
    return re.sub(r" +", " ", UNNAMED.sub(r"\1", text))


@pytest.mark.needs("perf")
def test_script_golden(profile: Profile, recorded: Path) -> None:
    """Every sample, frame by frame; perf finds none of the libraries."""
    text = perf(recorded, "script", "--no-inline")
    text = own_region(text, SyntheticAddresses(profile).base)
    text = text.replace(str(PID), "0000PID")
    golden = (GOLDEN / "example.perf-script").read_text()
    assert comparable(text) == comparable(golden)


@pytest.mark.needs("perf")
def test_periods_are_the_recorded_weight(recorded: Path) -> None:
    periods = [int(p) for p in perf(recorded, "script", "-G", "-F", "period").split()]
    assert (len(periods), sum(periods)) == (SAMPLES, WEIGHT * PERIOD_NS)


@pytest.mark.needs("perf")
def test_report(recorded: Path) -> None:
    text = perf(
        recorded, "report", "--stdio", "--no-children", "-g", "none", "--sort", "comm,dso,sym"
    )
    assert "Event count (approx.): 15000000" in text
    rows = {" ".join(line.split()) for line in text.splitlines() if ROW.match(line)}
    assert f"6.67% MainThread [JIT] tid {PID} [.] [jit]" in rows
    assert f"6.67% MainThread [JIT] tid {PID} [.] py::__init__:<shim>:0" in rows
    assert {row.split()[1] for row in rows} == {"MainThread", "loader:1"}


@pytest.mark.needs("perf")
def test_evlist_buildids_and_header(recorded: Path) -> None:
    assert perf(recorded, "evlist") == "cpu-clock\n"
    ids = perf(recorded, "buildid-list").split()
    assert ids == ["01" * 20, PATHS[1], "02" * 20, PATHS[2]]
    header = perf(recorded, "report", "--header-only")
    for line in (
        "# hostname : host",
        "# os release : 6.18.0",
        "# perf version : pyhybrid 0.1.0",
        "# arch : x86_64",
        "# nrcpus online : 2",
        "# cmdline : workload.py --steps 3",
        "# time of first sample : 2.000000",
        "# time of last sample : 2.009000",
    ):
        assert line in header


def test_the_same_bytes_again(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    export_to(Perf(), profile, str(path))
    first = path.read_bytes()
    export_to(Perf(), profile, str(path))
    assert path.read_bytes() == first
    assert (tmp_path / "perf.data.old").read_bytes() == first
    assert sorted(os.listdir(tmp_path)) == ["perf.data", "perf.data.old", "x.part"]


@pytest.mark.needs("perf")
def test_beyond_the_limit_periods_are_summed(tmp_path: Path) -> None:
    writer = example()
    writer.samples(1, [14] * 50, first_ns=2_100_000_000)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        output = export_to(Perf(), profile, str(tmp_path / "perf.data"), limit_bytes=5000)
        assert len(output.notes) == 1
        assert "summed periods" in output.notes[0]
    periods = [int(p) for p in perf(tmp_path, "script", "-G", "-F", "period").split()]
    assert sum(periods) == (WEIGHT + 50) * PERIOD_NS
    assert len(periods) <= SAMPLES + 1


def test_where_it_goes(profile: Profile) -> None:
    assert Perf().default_path(profile, "out") == "perf.data"
    assert Perf().default_path(profile, "/x/out") == "/x/perf.data"
    profile.meta["perf_trampoline"] = True  # ./perf.data is that of the `perf record` around
    assert Perf().default_path(profile, "/x/out") == "/x/out.perf.data"
    assert Callgrind().default_path(profile, "/x/out") == "/x/callgrind.out"
    profile.meta["custom_prefix"] = True
    assert Perf().default_path(profile, "/x/job") == "/x/job.perf.data"


@pytest.mark.needs("perf")
def test_deep_stacks_fit_a_record(tmp_path: Path) -> None:
    """A record holds some 8,000 frames: the leaf's side is kept."""
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "f", "/f.py", 1)
    writer.code(2, "leaf", "/f.py", 2)
    writer.thread(1, PID, "python")
    row = writer.stack(*(python(1, 2 * i) for i in range(9000)), python(2, 0))
    writer.stacks()
    writer.samples(1, [row])
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
        leaf = SyntheticAddresses(profile).of_frame[2]
    lines = perf(tmp_path, "script", "--max-stack", "9000", "-F", "ip").split()
    assert 8000 < len(lines) < 9000
    assert int(lines[0], 16) == leaf


@pytest.mark.needs("perf")
def test_a_reused_address_is_the_library_of_its_time(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    for number, path in ((1, "/lib/first.so"), (2, "/lib/second.so")):
        raw = path.encode()
        head = writer_module(number, 0x7F0000000000, number * 2_000_000_000, len(raw))
        writer.record(2, head + raw)
    writer.thread(1, PID, "python")
    first, second = writer.stack(native(1, 0x10)), writer.stack(native(2, 0x10))
    writer.stacks()
    writer.samples(1, [first], first_ns=3_000_000_000)
    writer.samples(1, [second], first_ns=5_000_000_000)
    with open_profile(writer.save(tmp_path / "x.part"), all_in_tables()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    lines = perf(tmp_path, "script", "-F", "ip,dso").split()
    assert [word for word in lines if "lib" in word] == ["(/lib/first.so)", "(/lib/second.so)"]


def writer_module(number: int, base: int, load_ns: int, path_length: int) -> bytes:
    """A MODULE record's head and one segment, without a build-id."""
    from pyhybrid import spool as form

    head = form.STRUCT["spool_module"].pack(number, 1, base, load_ns, 0, path_length)
    return head + form.STRUCT["spool_segment"].pack(base, 0x1000, 0, 5)


def test_map_lines(profile: Profile) -> None:
    lines = PerfMap().lines(profile)
    names = [line.split(" ", 2)[2] for line in lines]
    assert "py::<module>:/home/me/workload.py:1" in names
    assert f"py::Linear.forward:{LIBRARY}/site-packages/torch/nn/modules/linear.py:130" in names
    assert "[truncated]" in names
    ranges = sorted((int(a, 16), int(n, 16)) for a, n, _ in (line.split(" ", 2) for line in lines))
    assert all(a + n <= b for (a, n), (b, _) in pairwise(ranges))


def test_map_names_are_safe(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "f(1);\ng", "/a (copy)/f.py", 1)
    writer.thread(1, PID, "python")
    row = writer.stack(python(1, 0))
    writer.stacks()
    writer.samples(1, [row])
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        (_, line) = PerfMap().lines(profile)  # after that of frames left out
    assert line.endswith(" py::f[1]: g:/a [copy]/f.py:1")


def addresses_of(writer: SpoolWriter, folder: Path) -> SyntheticAddresses:
    with open_profile(writer.save(folder / "x.part"), fake_symbols()) as profile:
        return SyntheticAddresses(profile)


def test_synthetic_addresses_avoid_what_is_mapped(tmp_path: Path) -> None:
    base = addresses_of(example(), tmp_path).base
    writer = example()
    writer.module(9, "/lib/huge.so", base - REGIONS.step, size=3 * REGIONS.step + PAGE)
    addresses = addresses_of(writer, tmp_path)
    assert addresses.base == base + 3 * REGIONS.step
    assert addresses.jit == [(0x7E0000000000, 4096)]


@pytest.mark.exhaustive
def test_each_run_has_addresses_of_its_own(tmp_path: Path) -> None:
    """Another run may have the same number of its process, and the same program."""
    bases = set()
    for start_ns in range(1000, 1100):
        writer = example()
        writer.meta(pid=PID, start_ns=start_ns)
        bases.add(addresses_of(writer, tmp_path).base)
    assert len(bases) == 100
    assert all(base in REGIONS for base in bases)


def test_map_replaces_our_own_old_one(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "perf-1.map"
    path.write_text("stale\n")
    assert export_to(PerfMap(), profile, str(path)) == (str(path), [])
    assert "stale" not in path.read_text()
    assert path.read_text().splitlines() == PerfMap().lines(profile)


def test_map_is_not_written_through_a_link(profile: Profile, tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "perf-1.map"
    victim.write_text("precious\n")
    path.symlink_to(victim)
    output = export_to(PerfMap(), profile, str(path))
    assert output.path is None
    assert "not written" in output.notes[0]
    assert path.is_symlink()
    assert victim.read_text() == "precious\n"


@pytest.mark.needs("root")
def test_map_of_another_user_is_left_alone(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "perf-1.map"
    path.write_text("theirs\n")
    os.chown(path, 65534, 65534)
    output = export_to(PerfMap(), profile, str(path))
    assert output.path is None
    assert "belongs to another user" in output.notes[0]
    assert path.read_text() == "theirs\n"


@pytest.mark.parametrize("exporter", [Perf(), PerfMap()])
def test_unwritable_place_is_one_line(
    profile: Profile, tmp_path: Path, exporter: Perf | PerfMap
) -> None:
    with pytest.raises(PyhybridError, match="cannot write"):
        export_to(exporter, profile, str(tmp_path / "no" / "folder" / "x"))


@pytest.mark.needs("perf")
def test_long_thread_names_are_whole(tmp_path: Path) -> None:
    """The kernel cuts names at 15 bytes; threading's are longer, and perf takes them."""
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 77, "python", "ThreadPoolExecutor-0_worker_31 \u00e9")
    row = writer.stack(python(1, 0))
    writer.stacks()
    writer.samples(1, [row])
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    assert "ThreadPoolExecutor-0_worker_31 \u00e9" in perf(tmp_path, "script", "-F", "comm")


def test_the_kernel_has_an_address_where_nobody_knows_which(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "work", "/x/job.py", 4)
    row = writer.stack(python(1, 1), pseudo(8))
    writer.stacks()
    writer.thread(1, 1, "python")
    writer.samples(1, [row])
    writer.end()
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
        lines = PerfMap().lines(profile)
    named = {name: int(start, 16) for start, _, name in (line.split(None, 2) for line in lines)}
    chain = struct.pack("<QQ", named["[kernel]"], named["py::work:/x/job.py:4"])
    assert (tmp_path / "perf.data").read_bytes().count(chain) == 1


def test_the_map_of_a_process_that_got_the_number_later_stays(tmp_path: Path) -> None:
    writer = SpoolWriter(os.getpid())
    writer.meta(pid=os.getpid(), start_ns=1)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        path = Path(PerfMap().default_path(profile, ""))
        path.write_text("1000 10 of_that_process\n")
        try:
            (note,) = export_to(PerfMap(), profile, str(path)).notes
            assert path.read_text() == "1000 10 of_that_process\n"
        finally:
            path.unlink()
        assert f"process {os.getpid()} is another one now" in note


DEAD = 4_194_305  # no process has this number


@pytest.fixture
def maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all maps, instead of /tmp."""
    folder = tmp_path / "maps"
    folder.mkdir()
    for module in ("names_map", "old_maps"):
        monkeypatch.setattr(
            f"pyhybrid.exporters.perf.{module}.perf_map_path",
            lambda pid: str(folder / f"perf-{pid}.map"),
        )
    return folder


def written(prefix: Path, pid: int, start_ns: int = 10**9) -> Path:
    """A profile, whose map is written, too."""
    spool = SpoolWriter(pid)
    spool.meta(pid=pid, start_ns=start_ns)
    spool.thread(1, pid, "python")
    spool.code(1, "f", "/x/a.py", 3)
    row = spool.stack(python(1, 1))
    spool.stacks()
    spool.samples(1, [row])
    path = finish(spool.save(f"{prefix}.part"), str(prefix), fake_symbols())
    with Profile.open(path) as profile:
        exporter = PerfMap()
        target = exporter.default_path(profile, str(prefix))
        assert export_to(exporter, profile, target).path == target
    return Path(path)


def test_maps_of_profiles_that_are_gone_are_removed(tmp_path: Path, maps: Path) -> None:
    kept, gone = written(tmp_path / "kept", DEAD), written(tmp_path / "gone", DEAD + 1)
    written(tmp_path / "again", DEAD + 2)
    written(tmp_path / "again", DEAD + 3, 2 * 10**9)  # in its place: it is that of perf.data.old
    written(tmp_path / "again", DEAD + 8, 3 * 10**9)
    alive = written(tmp_path / "alive", os.getpid(), time.monotonic_ns())
    touched = written(tmp_path / "touched", DEAD + 4)
    os.utime(touched, ns=(1, 1))
    (maps / f"perf-{DEAD + 5}.map").write_text("7f0000000000 40 another's\n")
    (maps / f"perf-{DEAD + 6}.map").symlink_to(maps / f"perf-{DEAD + 1}.map")
    theirs = (maps / f"perf-{DEAD + 1}.map").read_bytes().replace(b"mnt:[", b"mnt:[9")
    (maps / f"perf-{DEAD + 7}.map").write_bytes(theirs)  # of another namespace
    remove_old()
    assert len(list(maps.iterdir())) == 9
    gone.unlink()
    alive.unlink()
    remove_old()
    left = {path.name for path in maps.iterdir()}
    numbers = [DEAD, *range(DEAD + 3, DEAD + 9), os.getpid()]
    assert left == {f"perf-{number}.map" for number in numbers}
    assert kept.exists()


def test_a_map_says_whose_it_is_and_nothing_lies_there(tmp_path: Path, maps: Path) -> None:
    path = written(tmp_path / "out", DEAD)
    first, *rest = (maps / f"perf-{DEAD}.map").read_text().splitlines()
    assert first.startswith('1 1 pyhybrid:{"spaces": ["mnt:[')
    assert f'"{path}"' in first
    with Profile.open(str(path)) as profile:
        assert rest == PerfMap().lines(profile)
