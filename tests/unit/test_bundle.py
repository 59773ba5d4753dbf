"""What a bundle of the hand-made profile has for perf to ask for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_profile import PID, example, fake_symbols
from perf_support import perf
from spool_writer import SpoolWriter, native, python

from pyhybrid.assemble import open_profile
from pyhybrid.exporters.perf.bundle import Bundle, write_bundle
from pyhybrid.tables.profile import Profile


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    """The example."""
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as opened:
        yield opened


def script(folder: Path) -> str:
    """What perf makes of the bundle."""
    return perf(folder, "--buildid-dir", ".debug", "script", "--no-inline", "-i", "perf.data")


@pytest.mark.needs("perf")
def test_every_name_of_the_profile(profile: Profile, tmp_path: Path) -> None:
    """None of the example's libraries exists, and no perf map was written."""
    assert not Path(f"/tmp/perf-{PID}.map").exists()
    write_bundle(profile, str(tmp_path / "b"))
    text = script(tmp_path / "b")
    names = set(re.findall(r"^\s+[0-9a-f]+ (.*?)(?:\+0x[0-9a-f]+)? \(", text, re.MULTILINE))
    sampled = {name for name in names if name != "[unknown]"}
    assert "at::_ops::add::call" in sampled  # perf demangles itself
    for frame in profile.frames.values():
        if frame.kind == "python":
            assert any(name.startswith(f"py::{frame.name}:") for name in sampled), frame
        elif frame.kind == "native" and frame.symbol and not frame.symbol.startswith("_Z"):
            assert frame.symbol in sampled, frame
    assert "([python])" in text
    assert f"perf-{PID}.map" not in text


@pytest.mark.needs("perf")
def test_every_name_of_exact_paths(tmp_path: Path) -> None:
    """Nothing was sampled; native functions, also those of other runtimes, are at their starts."""
    names = tmp_path / "perf.map"
    names.write_text("7e0000000ff0 40 jitted(int)\n")
    writer = SpoolWriter(PID)
    writer.meta(pid=PID, mode="trace", perf_map=str(names))
    writer.code(1, "f", "/f.py", 1)
    writer.code(2, "never", "/f.py", 9)
    writer.module(1, "/lib/x.so", 0x7F0000000000)
    writer.functions({native(1, 0x510): native(1, 0x500)})
    writer.exact_thread(1, PID)
    path = (python(1, 0), native(1, 0x510), native(0, 0x7E0000001010), python(1, 0), python(2, 0))
    writer.exact_nodes(1, 1, *enumerate(path))
    writer.exact_counts(1, {"node": 4, "calls": 1, "ticks": 50})
    writer.end()
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        bundle = Bundle(profile)
        write_bundle(profile, str(tmp_path / "b"))
    chain = re.findall(r"^\s+[0-9a-f]+ (.*)$", script(tmp_path / "b"), re.MULTILINE)
    assert chain == [
        "py::f:/f.py:1+0x0 ([python])",
        "jitted[int]+0x0 ([jit])",
        "x.so!+0x500+0x0 (/lib/x.so)",
        "py::f:/f.py:1+0x0 ([python])",
    ]
    assert not any(b"never" in contents for contents in bundle.files.values())


def test_the_same_bundle_again(profile: Profile) -> None:
    assert Bundle(profile).files == Bundle(profile).files


@pytest.mark.needs("perf")
def test_libraries_without_a_build_id_and_functions_without_a_size(tmp_path: Path) -> None:
    """Of a stripped library the unwind tables' function starts are all that is known."""
    writer = SpoolWriter()
    writer.meta()
    writer.module(1, "/lib/stripped.so", 0x7F0000000000, build_id=b"")
    writer.thread(1, 77, "python")
    writer.functions({native(1, 0x1234): native(1, 0x1200), native(1, 0x1300): native(1, 0x1200)})
    rows = [writer.stack(native(1, at)) for at in (0x1234, 0x1300, 0x1400)]
    writer.stacks()
    writer.samples(1, rows)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        write_bundle(profile, str(tmp_path / "b"))
    names = re.findall(r"^\s+[0-9a-f]+ (.*) \(/lib/stripped", script(tmp_path / "b"), re.MULTILINE)
    assert names == [
        "stripped.so!+0x1200+0x34",
        "stripped.so!+0x1200+0x100",
        "[unknown]",
    ]


def test_copies_of_a_library_share_its_image(tmp_path: Path) -> None:
    """They have one build-id, by which perf asks; each has functions that the other was not in."""
    writer = SpoolWriter()
    writer.meta()
    for number in (1, 2):
        writer.module(number, f"/lib/{number}.so", number << 40, build_id=b"\x07" * 20)
    writer.thread(1, 77, "python")
    starts = (native(1, 0x1000), native(2, 0x2000))
    writer.functions({start + 4: start for start in starts})
    rows = [writer.stack(start + 4) for start in starts]
    writer.stacks()
    writer.samples(1, rows)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        ((_, contents),) = (
            item for item in Bundle(profile).files.items() if item[0].endswith("07" * 19 + "/elf")
        )
    assert b"1.so!+0x1000\x00" in contents
    assert b"2.so!+0x2000\x00" in contents
