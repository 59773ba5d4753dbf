"""The location table's lines against CPython's own decoder, over much of the standard library."""

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from pyhybrid.assemble.line_table import LineTable

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
