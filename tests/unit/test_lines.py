"""Lines of functions: from the spool to the listing."""

import io
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import pytest
from example_profile import fake_symbols
from spool_writer import SpoolWriter, native, python

from pyhybrid._columns import LINE_LIMIT
from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.report.line_listing import print_lines
from pyhybrid.report.screen import render, render_report
from pyhybrid.report.source_text import Source, Sources
from pyhybrid.report.summary import summarize
from pyhybrid.report.table import plain
from pyhybrid.report.tree import CallTree
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import labels_of
from pyhybrid.views.lines.python_lines import FunctionLines, LineFigures, function_lines

MAIN, WORK, SORTED = python(1, 0), python(2, 0), native(1, 0x100)


def line(number: int) -> int:
    """The word of a line."""
    return LINE_LIMIT | number


def spool(recorded: bool = True) -> SpoolWriter:
    """main calls work in its line 3, directly and through C; ticks are half nanoseconds."""
    writer = SpoolWriter()
    writer.meta(mode="trace", lines=recorded)
    writer.clock(1000, 500)
    writer.module(1, "/usr/lib/libfake.so", 0x7F0000000000)
    writer.code(1, "main", "a.py", 1)
    writer.code(2, "work", "a.py", 10)
    writer.exact_thread(1, 100)
    writer.exact_thread(2, 101)
    if recorded:
        rows = ((0, MAIN), (1, line(3)), (1, WORK), (3, line(11)), (1, SORTED), (5, WORK))
        writer.exact_nodes(1, 1, *rows, (6, line(11)), (6, line(12)))
        writer.exact_nodes(2, 1, (0, WORK), (1, line(12)))
        writer.exact_counts(1, {"node": 4, "calls": 1, "ticks": 2})  # overridden below
        writer.exact_counts(
            1,
            {"node": 1, "calls": 1, "ticks": 4001},
            {"node": 2, "calls": 1, "ticks": 4000},
            {"node": 3, "calls": 1, "ticks": 601},
            {"node": 4, "calls": 3, "ticks": 600},
            {"node": 6, "calls": 1, "ticks": 301},
            {"node": 7, "calls": 2, "ticks": 200},
            {"node": 8, "calls": 1, "ticks": 100},
        )
        writer.exact_counts(2, {"node": 1, "calls": 1, "ticks": 400}, {"node": 2, "ticks": 400})
    writer.clock(4001000, 2000500)
    writer.end()
    return writer


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    with open_profile(spool().save(tmp_path / "x.part"), fake_symbols()) as profile:
        yield profile


def test_rows(profile: Profile) -> None:
    frames = profile.frames
    names = {node: frames[f].name for node, f in enumerate(profile.nodes.frame) if node}
    assert len(names) == 5  # lines are none of them: main, work, C, work, and work on its own
    rows = [(r.thread, names[r.node], r.line, r.hits, r.total_ns) for r in profile.lines]
    assert sorted(rows) == [
        (1, "main", 3, 1, 2000),
        (1, "work", 11, 2, 100),
        (1, "work", 11, 3, 300),
        (1, "work", 12, 1, 50),
        (2, "work", 12, 0, 200),
    ]
    # A line is no call, and no part of what its function calls.
    main = next(row for row in profile.exact if names[row.node] == "main")
    assert (main.calls, main.total_ns, main.self_ns) == (1, 2000, 2000 - 300 - 150)


def test_by_function(profile: Profile) -> None:
    assert function_lines(profile) == [
        FunctionLines("main", "a.py", 1, 1, [LineFigures(3, 1, 2000)]),
        FunctionLines("work", "a.py", 10, 3, [LineFigures(11, 5, 400), LineFigures(12, 1, 250)]),
    ]
    told = plain(summarize(profile, [], []))["lines"]
    assert told[0] == {
        "name": "main",
        "file": "a.py",
        "line": 1,
        "calls": 1,
        "lines": [{"line": 3, "hits": 1, "total_ns": 2000}],
    }


def test_the_view(profile: Profile) -> None:
    assert profile.query("SELECT * FROM hot_line") == [
        ("main", "a.py", 3, 1, 2000),
        ("work", "a.py", 11, 5, 400),
        ("work", "a.py", 12, 1, 250),
    ]


def test_a_listing_without_source(profile: Profile) -> None:
    stream = io.StringIO()
    print_lines(profile, stream)
    assert [row.rstrip() for row in stream.getvalue().splitlines()] == [
        "main (a.py:1)  1 call, 0.0000 s in its lines; source not found",
        "  line        hits      time ms   us per hit   time  source",
        "     3           1        0.002         2.00 100.0%",
        "",
        "work (a.py:10)  3 calls, 0.0000 s in its lines; source not found",
        "  line        hits      time ms   us per hit   time  source",
        "    11           5        0.000         0.08  61.5%",
        "    12           1        0.000         0.25  38.5%",
    ]


def test_none_recorded(tmp_path: Path) -> None:
    path = spool(recorded=False).save(tmp_path / "x.part")
    with open_profile(path, fake_symbols()) as profile:
        assert profile.lines == []
        assert summarize(profile, [], []).lines is None
        with pytest.raises(PyhybridError, match="no lines were recorded"):
            print_lines(profile, io.StringIO())


# --- source ---------------------------------------------------------------------------------------

TEXT = """\
import functools

@functools.cache
def decorated(n):
    text = '''
    \f
    '''
    return n


class Body:
    async def method(self):
        return [x
                for x in (y for y in "ab")]

pair = (lambda: 1,
        lambda: 2)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_text(TEXT)
    return path


BEFORE, NEVER = 1, 1 << 62  # any change; later than any change


def find(file: Path, name: str, first: int, last: int, begin_ns: int = NEVER) -> Source:
    """Of a run that began at `begin_ns`, of which no more is known."""
    return Sources({"start_unix_ns": begin_ns}).function(str(file), name, first, last)


@pytest.mark.parametrize(
    ("name", "first", "last", "found"),
    [
        ("decorated", 3, 8, (3, 8)),
        ("Body", 11, 12, (11, 14)),
        ("Body.method", 12, 13, (12, 14)),
        ("Body.method.<locals>.<genexpr>", 14, 14, (14, 14)),
        ("<lambda>", 16, 16, (16, 16)),
        ("<lambda>", 17, 17, (17, 17)),
        ("<module>", 1, 16, (1, 17)),
    ],
)
def test_source(file: Path, name: str, first: int, last: int, found: tuple[int, int]) -> None:
    source = find(file, name, first, last)
    lines = TEXT.split("\n")
    assert source.lines == {n: lines[n - 1] for n in range(found[0], found[1] + 1)}
    assert source.note == ""


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("decorated", 4, 8),  # it begins in another line now
        ("other", 3, 8),
        ("decorated", 3, 9),  # a line that ran is no part of it
        ("<lambda>", 14, 14),
        ("<module>", 1, 40),
    ],
)
def test_source_that_is_another_one_now(file: Path, name: str, first: int, last: int) -> None:
    source = find(file, name, first, last)
    assert (source.lines, source.note) == ({}, "source has changed")


def test_source_that_was_touched(file: Path) -> None:
    os.utime(file, ns=(5, 5))
    assert find(file, "Body", 11, 11, 5).note == ""
    source = find(file, "Body", 11, 11, 4)
    assert len(source.lines) == 4
    assert source.note == "source has changed since: lines may have moved"


@pytest.mark.parametrize("content", [b"def f(:", b"\xff\xfe", b"\0", b"# coding: nonsense\n", None])
def test_source_that_cannot_be_read(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert find(file, "f", 1, 1).note == "source not found"


def test_a_pipe_is_no_source(file: Path) -> None:
    """A program read from one has ended with it: to open it again would wait for ever."""
    file.unlink()
    os.mkfifo(file)
    assert find(file, "f", 1, 1).note == "source not found"
    assert Sources({"start_unix_ns": NEVER}).lines(str(file), [1]).note == "source not found"


def codes_of(text: str) -> list[CodeType]:
    """All code objects of a text."""
    codes = [compile(text, "a.py", "exec")]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return codes


@pytest.fixture
def recorded(file: Path, tmp_path: Path) -> Callable[..., Sources]:
    """Runs of functions with the file's text then: `recorded(since_ns, (text, name), ...)`."""

    def record(begin_ns: int, *functions: tuple[str, str]) -> Sources:
        writer = SpoolWriter()
        writer.meta(python=platform.python_version(), cwd=str(tmp_path), start_unix_ns=begin_ns)
        for number, (text, name) in enumerate(functions, 1):
            code = next(each for each in codes_of(text) if each.co_name == name)
            where = code.co_qualname, "a.py", code.co_firstlineno
            writer.code(number, *where, table=code.co_linetable)
        with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
            return Sources(profile.meta)

    return record


def test_a_text_that_was_edited_after_the_run(file: Path, recorded: Callable[..., Sources]) -> None:
    sources = recorded(NEVER, (TEXT, "decorated"))
    assert sources.lines("a.py", [4]) == Source({4: "def decorated(n):"}, "", False)
    file.write_text(f"# moved\n{TEXT}")
    os.utime(file, ns=(0, 0))  # as by `mv` of an older file: its time tells nothing
    assert sources.lines("a.py", [4]).changed
    assert sources.function("a.py", "decorated", 3, 8).note == "source has changed"
    file.write_text(TEXT)  # and back
    assert not sources.lines("a.py", [4]).changed


def test_a_text_that_was_edited_while_it_ran(recorded: Callable[..., Sources]) -> None:
    before = TEXT.replace("class Body", "\n\nclass Body")
    unchanged = recorded(BEFORE, (TEXT, "decorated"), (TEXT, "method"))
    assert unchanged.lines("a.py", range(99)).note == ""
    assert len(unchanged.lines("a.py", range(99)).lines) == len(TEXT.split("\n"))
    sources = recorded(BEFORE, (TEXT, "decorated"), (before, "method"))
    assert sources.lines("a.py", [4]).lines == {4: "def decorated(n):"}
    assert sources.lines("a.py", [14, 15]).lines == {}
    assert sources.function("a.py", "decorated", 3, 8).lines[4] == "def decorated(n):"
    assert sources.function("a.py", "Body.method", 14, 15).note == "source has changed"


def test_of_another_interpreter_s_code_no_text_is_known(tmp_path: Path, file: Path) -> None:
    writer = SpoolWriter()
    writer.meta(python="3.1.4", cwd=str(tmp_path), start_unix_ns=BEFORE)
    code = next(each for each in codes_of(TEXT) if each.co_name == "decorated")
    where = code.co_qualname, file.name, code.co_firstlineno
    writer.code(1, *where, table=code.co_linetable)
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert Sources(profile.meta).lines("a.py", [3]).lines == {}


@pytest.mark.parametrize("clock", ["cpu", "wall"])
def test_lines_that_wait_come_last(clock: str, tmp_path: Path) -> None:
    """By wall-clock time; that of another clock is work, and what waits less than half is, too."""
    (code,) = codes_of("thread.join()\nqueue.get() + work()\nwork()")
    at = {line: begin // 2 for begin, _, line in code.co_lines()}
    writer = SpoolWriter()
    writer.meta(clock=clock)
    writer.code(1, "<module>", "/home/me/job.py", 1, table=code.co_linetable)
    writer.code(2, "Thread.join", "/usr/lib/python3.12/threading.py", 1)
    writer.code(3, "Queue.get", "/usr/lib/python3.12/queue.py", 1)
    writer.thread(1, 1, "python")
    first, second, third = (python(1, at[line]) for line in (1, 2, 3))
    join, get = writer.stack(first, python(2, 0)), writer.stack(second, python(3, 0))
    stacks = [join] * 50 + [get] * 20 + [writer.stack(second)] * 20 + [writer.stack(third)] * 10
    writer.stacks()
    writer.samples(1, stacks)
    writer.end()
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        summary = summarize(profile, [], [])
        tree = CallTree(profile, labels_of(profile), 0, all_frames=False, imports=True)
        report = ["".join(text for text, _ in row) for row in render_report(summary, tree, 100, 50)]
    waits = clock == "wall"
    found = [(each.line, each.waits) for each in summary.program_lines]
    assert found == ([(2, False), (3, False), (1, True)] if waits else [(1, 0), (2, 0), (3, 0)])
    shown = ["".join(text for text, _ in row) for row in render(summary)]
    (row,) = (each for each in shown if "job.py:1 " in each)
    assert ("job.py:1  waits:" in row) == waits
    functions = {each.name.partition(" ")[0]: each.waits for each in summary.functions}
    assert functions == {"Thread.join": waits, "Queue.get": waits, "<module>": False}
    table = report[next(at for at, row in enumerate(report) if "Python function" in row) :]
    names = [name for row in table[1:4] for name in ("join", "get", "module") if name in row]
    assert names == (["module", "join", "get"] if waits else ["join", "module", "get"])
