"""The program's functions as a short tree: what is a row, and with which time."""

from pathlib import Path

from example_profile import fake_symbols
from spool_writer import SpoolWriter, native, python
from traces import Rows, trace

from pyhybrid.assemble import open_profile
from pyhybrid.report.screen import render
from pyhybrid.report.summary import summarize
from pyhybrid.symbols.plumbing import IMPORT_FILES, IMPORT_KEPT
from pyhybrid.tables.profile import Profile
from pyhybrid.views.lines.program_tree import TreeRow, program_tree

LIBRARY = "/usr/lib/python3.12/json/encoder.py"


def sampled(tmp_path: Path, **stacks: int) -> Profile:
    """Of paths such as `main_dumps_n`, and how many samples each has: `main`, `rank` and `key` are
    the program's, `dumps` and `encode` a library's, `load` an import, `module` what it runs, `n`
    native code."""
    spool = SpoolWriter()
    spool.meta()
    spool.module(0, "/usr/lib/libwork.so", 0x7F1000000000, 0x7F1000100000)
    files = dict.fromkeys(("main", "rank", "key"), "/home/me/job.py")
    files |= dict.fromkeys(("dumps", "encode"), LIBRARY)
    words = {"n": native(0, 0x1000)}
    for number, (name, file) in enumerate(files.items(), 1):
        spool.code(number, name, file, 10 * number)
        words[name] = python(number, 0)
    spool.code(8, IMPORT_KEPT, next(iter(IMPORT_FILES)), 1)
    spool.code(9, "<module>", "/usr/lib/python3.12/heavy/__init__.py", 1)
    words |= {"load": python(8, 0), "module": python(9, 0)}
    spool.thread(1, 1, "python")
    rows = []
    for path, n in stacks.items():
        rows += [spool.stack(*(words[name] for name in path.split("_")))] * n
    spool.stacks()
    spool.samples(1, rows)
    spool.end()
    return open_profile(spool.save(tmp_path / "x.part"), fake_symbols())


def shown(rows: list[TreeRow]) -> list[str]:
    """`depth name samples`."""
    return [f"{row.depth} {row.function.split(' (')[0]} {row.weight_ns}" for row in rows]


def tree(profile: Profile, most: int = 20) -> list[str]:
    with profile:
        rows = program_tree(profile, most)
        period_ns = profile.period_ns
    return shown([row._replace(weight_ns=row.weight_ns // period_ns) for row in rows])


def test_native_code_and_libraries_are_their_callers(tmp_path: Path) -> None:
    profile = sampled(tmp_path, main_n=10, main_rank_n=50, main_dumps_encode_n=20, main_dumps=20)
    assert tree(profile) == ["0 main 100", "1 rank 50", "1 dumps 40"]


def test_what_a_library_calls_of_the_program_hangs_below_it(tmp_path: Path) -> None:
    profile = sampled(tmp_path, main_dumps_encode_key_n=30, main_dumps_encode=70)
    assert tree(profile) == ["0 main 100", "1 dumps 100", "2 key 30"]


def test_a_library_that_only_passes_on_is_no_row(tmp_path: Path) -> None:
    profile = sampled(tmp_path, dumps_main_rank=97, dumps_main=2, dumps=1)
    assert tree(profile) == ["0 main 99", "1 rank 97"]


def test_a_recursion_is_one_row(tmp_path: Path) -> None:
    profile = sampled(tmp_path, main_rank_rank_rank_key=40, main_rank=60)
    assert tree(profile) == ["0 main 100", "1 rank 100", "2 key 40"]


def test_an_import_is_one_row(tmp_path: Path) -> None:
    profile = sampled(tmp_path, main_load_module_n=80, main_rank=20)
    assert tree(profile) == ["0 main 100", "1 [import heavy] 80", "1 rank 20"]


def test_threads_without_python_are_rows_where_they_are_much(tmp_path: Path) -> None:
    with sampled(tmp_path, main_rank=94, n=6) as profile:
        kinds = [(row.kind, row.depth) for row in program_tree(profile, 20)]
    assert kinds == [("program", 0), ("program", 1), ("thread", 0)]


def test_a_function_that_only_calls_another_one_is_one_line_with_it(tmp_path: Path) -> None:
    stacks = {"main_rank_key": 55, "main_rank_key_dumps": 41, "main_rank": 2, "main_encode": 2}
    with sampled(tmp_path, **stacks) as profile:
        lines = ["".join(text for text, _ in line) for line in render(summarize(profile, [], []))]
    head = next(at for at, line in enumerate(lines) if "function, with what it called" in line)
    names = [line[19:].split(" (")[0] for line in lines[head + 1 :]]
    assert names == ["main", "  rank > key", "    dumps", "  encode"]


def test_what_is_small_and_what_there_is_no_room_for_is_left_out(tmp_path: Path) -> None:
    many = {"main_rank": 600, "main_key": 393, "main_dumps": 7}
    assert tree(sampled(tmp_path, **many)) == ["0 main 1000", "1 rank 600", "1 key 393"]
    assert tree(sampled(tmp_path, **many), most=2) == ["0 main 1000", "1 rank 600"]


def test_exact_time_makes_a_function_large_that_only_waits(tmp_path: Path) -> None:
    """Calls of a recursion add up, its time is that of the outermost."""
    rows: Rows = [
        (0, "main", {"calls": 1, "ticks": 1000}),
        (1, "wait", {"calls": 2, "ticks": 600}),
        (2, "wait", {"calls": 3, "ticks": 500}),
        (1, "[phase]", {"calls": 1, "ticks": 5}),
    ]
    with trace(tmp_path, rows) as profile:
        found = [(r.depth, r.function, r.calls, r.share) for r in program_tree(profile, 20)]
    assert [each[:3] for each in found] == [
        (0, "main (job.py:10)", 1),
        (1, "wait (job.py:20)", 5),
    ]
    assert found[1][3] == 0.6
