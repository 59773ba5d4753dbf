"""Folded stacks: plumbing folded away, every sample still counted."""

from pathlib import Path

import pytest
from example_profile import PATHS, PYTHON, WEIGHT, example, fake_symbols
from spool_writer import SpoolWriter, native, python
from traces import trace

from pyhybrid.assemble import open_profile
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.labels import Labels

GOLDEN = Path(__file__).parent.parent / "golden"


def opened(writer: SpoolWriter, tmp_path: Path) -> Profile:
    """The spool as a profile."""
    return open_profile(writer.save(tmp_path / "x.part"), fake_symbols())


def test_golden(tmp_path: Path) -> None:
    with opened(example(), tmp_path) as profile:
        path = tmp_path / "out.folded"
        assert export_to(Folded(), profile, str(path)) == (str(path), [])
        first = path.read_bytes()
        export_to(Folded(), profile, str(path))
    assert path.read_bytes() == first
    assert first.decode() == (GOLDEN / "example.folded").read_text()


def test_counts_are_the_recorded_weight(tmp_path: Path) -> None:
    with opened(example(), tmp_path) as profile:
        lines = folded_lines(profile)
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == WEIGHT


def folded_lines(profile: Profile) -> list[str]:
    """The lines that are written."""
    return Folded().lines(profile, FoldedTree(profile), Labels(profile).of_frame)


def counts(path: Path) -> dict[str, int]:
    """The lines of a file, and their counts."""
    lines = (line.rpartition(" ") for line in path.read_text().splitlines())
    return {line: int(n) for line, _, n in lines}


def test_names_are_short_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "out.folded"
    with opened(example(), tmp_path) as profile:
        export_to(Folded(), profile, str(path))
        assert "at::_ops::add::call;" in path.read_text()
        full = Folded()
        full.full_names = True
        export_to(full, profile, str(path))
        assert "at::_ops::add::call(" in path.read_text()
        assert sum(counts(path).values()) == WEIGHT


@pytest.mark.parametrize("limit", [0, 100, 400, 1000])
def test_within_a_limit_all_weight_is_told(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "out.folded"
    with opened(example(), tmp_path) as profile:
        export_to(Folded(), profile, str(path))
        whole = counts(path)
        (note,) = export_to(Folded(), profile, str(path), limit_bytes=limit).notes
    told = counts(path)
    assert "call paths, of 128 frames at most, for " in note
    assert sum(told.values()) == WEIGHT
    assert path.stat().st_size <= max(limit, 100)
    for line, n in told.items():
        thread, left_out, *function = line.split(";", 2)
        if line in whole:
            assert n == whole[line]
            continue
        assert left_out == "[frames left out]"
        assert any(
            each.startswith(f"{thread};") and each.endswith("".join(function)) for each in whole
        )
    assert (limit >= 400) == any(line in whole for line in told)


def test_a_deep_recursion_is_one_line(tmp_path: Path) -> None:
    """Without a limit it is one for each depth: megabytes for nothing."""
    path = tmp_path / "out.folded"
    depth = 3000
    levels = [(level, "down", {"calls": 1, "ticks": 10**6 - level}) for level in range(depth)]
    with trace(tmp_path, [*levels, (depth, "leaf", {"calls": 1, "ticks": 900_000})]) as profile:
        (note,) = export_to(Folded(), profile, str(path), limit_bytes=1 << 20).notes
        told = counts(path)
        total_ns = sum(row.self_ns for row in profile.exact)
    assert " for 100.0% of the time" in note
    assert sum(told.values()) == total_ns // 1000
    assert path.stat().st_size < 400_000
    cut = [line for line in told if "[frames left out]" in line]
    assert len(cut) == 2  # one with the leaf
    assert all(line.count(";") == 129 for line in cut)


def fold(tmp_path: Path, *stacks: list[int]) -> list[str]:
    """Folded lines of stacks over the example's libpython and these Python functions."""
    writer = SpoolWriter()
    writer.meta()
    writer.module(PYTHON, PATHS[PYTHON], 0)
    writer.module(LIBC, "/lib/libc.so.6", 0)
    writer.code(3, "<module>", "/x/job.py", 3)
    writer.code(4, "work", "/x/job.py", 4)
    writer.thread(1, 1, "python")
    for start, name in METHODS.items():
        writer.functions({start + 8: start})
        writer.function_name(start, name)
    rows = [writer.stack(*words) for words in stacks]
    writer.stacks()
    writer.samples(1, rows)
    with opened(writer, tmp_path) as profile:
        return [line.removeprefix("python;") for line in folded_lines(profile)]


START, EXEC, SORTED, COLD = (native(PYTHON, at) for at in (0x110, 0x310, 0x510, 0x810))
LIBC = 9
THREAD_START = native(LIBC, 0x88EF0)  # in a libc without symbols
NAMELESS = native(PYTHON, 0x9000)
METHODS = {  # of a stripped interpreter
    native(PYTHON, 0x9100): "builtins.exec",
    native(PYTHON, 0x9200): "builtin_function_or_method.__call__",
    native(PYTHON, 0x9300): "builtins.sorted",
    native(PYTHON, 0xB00): "type.__call__",  # PyType_Type[16], by the exported data
}
M_EXEC, M_CALL, M_SORTED, M_TYPE = (start + 8 for start in METHODS)
MODULE, WORK = (python(n, 1) for n in (3, 4))


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ([START, MODULE, WORK], "<module> (/x/job.py:3);work (/x/job.py:4)"),
        # exec stays, also where a stripped interpreter names it by its method tables only
        ([START, MODULE, EXEC, MODULE],
         "<module> (/x/job.py:3);builtin_exec;<module> (/x/job.py:3)"),
        ([START, MODULE, M_EXEC, MODULE],
         "<module> (/x/job.py:3);builtins.exec;<module> (/x/job.py:3)"),
        ([START, MODULE, M_CALL, M_SORTED, WORK],
         "<module> (/x/job.py:3);builtins.sorted;work (/x/job.py:4)"),
        ([START, MODULE, M_TYPE, WORK], "<module> (/x/job.py:3);work (/x/job.py:4)"),
        # plumbing goes, with the compiler's suffixes too
        ([START, MODULE, COLD, SORTED, COLD, WORK, COLD],
         "<module> (/x/job.py:3);builtin_sorted;work (/x/job.py:4)"),
        ([START, COLD], "[interpreter]"),
        # a stripped libc does not name the starts of threads and programs
        ([THREAD_START, THREAD_START, COLD, WORK], "work (/x/job.py:4)"),
        ([THREAD_START, WORK, THREAD_START], "work (/x/job.py:4);libc.so.6 [nameless]"),
    ],
)  # fmt: skip
def test_folding(tmp_path: Path, stack: list[int], line: str) -> None:
    assert fold(tmp_path, stack) == [f"{line} 1"]


def test_one_line_for_long_and_short_chains(tmp_path: Path) -> None:
    long, short = [START, MODULE, COLD, SORTED, COLD, WORK], [MODULE, SORTED, WORK]
    assert fold(tmp_path, long, short) == [
        "<module> (/x/job.py:3);builtin_sorted;work (/x/job.py:4) 2"
    ]


def test_an_import_is_one_frame(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python", "MainThread")
    writer.module(PYTHON, PATHS[PYTHON], 0x7F0000000000, build_id=b"\x01" * 20)
    importlib = "<frozen importlib._bootstrap>"
    writer.code(1, "<module>", "/home/me/a.py", 1)
    writer.code(2, "_find_and_load", importlib, 1300)
    writer.code(3, "_load_unlocked", importlib, 900)
    writer.code(4, "<module>", "/home/me/b.py", 1)
    exec_ = [native(PYTHON, 0x310), native(PYTHON, 0x410)]  # builtin_exec and what it calls
    path = [python(1, 9), python(2, 9), python(3, 9), *exec_, python(4, 9)]
    row = writer.stack(*path)
    writer.stacks()
    writer.samples(1, [row])
    with opened(writer, tmp_path) as profile:
        (line,) = Folded().lines(profile, FoldedTree(profile), Labels(profile).of_frame)
    assert line == "MainThread;<module> (a.py:1);[import b] 1"


def test_no_exact_time_is_lost_to_rounding(tmp_path: Path) -> None:
    """Microseconds are what lines count in; sums are right to one, those of each function too."""
    small = [(1, f"f{i}", {"calls": 1, "ticks": 900}) for i in range(1000)]
    rows = [(0, "main", {"calls": 1, "ticks": 1_000_000}), *small]
    with trace(tmp_path, rows) as profile:
        lines = folded_lines(profile)
    counts = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    assert sum(counts.values()) == 1000
    assert sum(n for path, n in counts.items() if ";f" in path) in (900, 901)
    assert set(counts.values()) == {0, 1, 100}
