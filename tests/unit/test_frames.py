"""Frames: their lines by the location table, as CPython decodes it; where threads begin."""

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest
from example_profile import PATHS, PYTHON, fake_symbols
from spool_writer import SpoolWriter, native, pseudo, python

from pyhybrid.assemble import open_profile
from pyhybrid.assemble.frames import LineTable

STDLIB = Path(sysconfig.get_path("stdlib"))
MODULES = [
    "argparse.py",
    "typing.py",
    "asyncio",
    "json",
    "unittest",
    "turtle.py",
    "ast.py",
    "email",
]
FILES = [f for name in MODULES for f in sorted((STDLIB / name).rglob("*.py") or [STDLIB / name])]
FILES += [STDLIB / name for name in MODULES if name.endswith(".py")]


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that it contains."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes(const)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(STDLIB)))
def test_agrees_with_cpython(file: Path) -> None:
    for code in codes(compile(file.read_bytes(), str(file), "exec")):
        table = LineTable(code.co_linetable, code.co_firstlineno)
        expected = [position[0] for position in code.co_positions()]
        assert [table.line(offset) for offset in range(len(expected))] == expected
        for start, end, line in code.co_lines():
            assert table.line(start // 2) == table.line(end // 2 - 1) == line


def test_lines_that_go_back_and_far() -> None:
    source = "x = (\n" + "\n" * 5000 + "f(\n1,\n2)\n+\n3)\n"
    code = compile(source, "far", "exec")
    table = LineTable(code.co_linetable, code.co_firstlineno)
    expected = [position[0] for position in code.co_positions()]
    assert [table.line(offset) for offset in range(len(expected))] == expected
    assert max(filter(None, expected)) > 5000


def test_no_table_and_outside() -> None:
    assert LineTable(b"", 7).line(0) is None
    code = compile("a\n", "one", "exec")
    table = LineTable(code.co_linetable, code.co_firstlineno)
    assert table.line(-1) is None
    assert table.line(len(code.co_code) // 2) is None


def test_any_bytes_do_no_harm() -> None:
    random.seed(1)
    for _ in range(500):
        table = LineTable(random.randbytes(40), 1)
        for offset in range(60):
            table.line(offset)


# The starts of threads and programs in a libc without symbols.

LIBC = 9
CLONE, START_THREAD, CALL_MAIN, OTHER = (native(LIBC, at) for at in (0x100, 0x200, 0x300, 0x400))
MAIN = native(PYTHON, 0x100)  # _start
TRUNCATED = pseudo(1)
WORK = python(1, 1)


def names(tmp_path: Path, *stacks: list[int], path: str = "/lib/libc.so.6") -> dict[int, str]:
    """Of the functions in libc, by address."""
    spool = SpoolWriter()
    spool.meta()
    spool.module(PYTHON, PATHS[PYTHON], 0x1000000)
    spool.module(LIBC, path, 0x2000000)
    spool.code(1, "work", "/x/job.py", 1)
    starts = CLONE, START_THREAD, CALL_MAIN, OTHER
    spool.functions({start + 8: start for start in starts})
    for stack in stacks:
        spool.stack(*(word + 8 if word in starts else word for word in stack))
    spool.stacks()
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        frames = [frame for frame in profile.frames.values() if frame.module == LIBC]
        assert all((f.source == "role") == (f.symbol is not None) for f in frames)
        return {frame.address or 0: frame.name for frame in frames}


def test_a_thread(tmp_path: Path) -> None:
    found = names(tmp_path, [CLONE, START_THREAD, WORK, OTHER], [CLONE, START_THREAD])
    assert found == {0x100: "clone3", 0x200: "start_thread", 0x400: "libc.so.6!+0x400"}


def test_no_thread(tmp_path: Path) -> None:
    """Below what is not known; in two places; in another library."""
    assert names(tmp_path, [TRUNCATED, OTHER]) == {0x400: "libc.so.6!+0x400"}
    both = names(tmp_path, [OTHER, WORK], [WORK, OTHER])
    assert both == {0x400: "libc.so.6!+0x400"}
    assert names(tmp_path, [CLONE], path="/lib/libx.so") == {0x100: "libx.so!+0x100"}


def test_the_program(tmp_path: Path) -> None:
    """What `__libc_start_main` calls; what other functions call is not it."""
    assert names(tmp_path, [MAIN, CALL_MAIN, WORK]) == {0x300: "libc.so.6!+0x300"}
    libc_start_main = native(PYTHON, 0xA10)
    assert names(tmp_path, [MAIN, libc_start_main, CALL_MAIN, WORK])[0x300] == (
        "__libc_start_call_main"
    )
