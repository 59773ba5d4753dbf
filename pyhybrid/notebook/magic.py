"""`%load_ext pyhybrid`: the magics `%%pyhybrid` and `%pyhybrid` profile a cell and a statement.

Their options are those of a `Profiler`, spelled as on the command line.
"""

import argparse
import ast
import inspect
import re
import shlex
import sys
from types import CodeType, FrameType
from typing import Any

from pyhybrid.capture.api import Profiler
from pyhybrid.cli.help_text import option_lines
from pyhybrid.cli.parser import Parser, add_options
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.options.table import ProfilerOptions
from pyhybrid.tables.profile import Profile

CELL, LAST = "exec", "eval"
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+|\S+""")
# What IPython makes of a line or cell with the magic: what is behind it, and of a cell below.
_CALL = re.compile(r"get_ipython\(\)\.run_(?:line|cell)_magic\('pyhybrid', (.*)\)$")


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls this, with its InteractiveShell."""

    def pyhybrid(line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True
        return profile_text(shell, line, cell)

    def awaited(lines: list[str]) -> list[str]:
        return [_awaited(shell, line) for line in lines]

    pyhybrid.__doc__ = f"{profile_text.__doc__}\n\n{_parser().format_help()}"
    shell.register_magic_function(pyhybrid, "line_cell")
    known = shell.input_transformers_post
    ours = awaited.__module__  # one is there already where it is loaded again
    known[:] = [each for each in known if getattr(each, "__module__", "") != ours] + [awaited]


def profile_text(shell: Any, line: str, cell: str | None) -> Any:
    """Profile a cell, or the rest of the line, and show the profile: it is `_` then.

    All threads of the kernel are profiled.  What the cell raises is raised.  A cell that awaits
    gives something to await.
    """
    __tracebackhide__ = True  # to IPython
    words, text = (shlex.split(line), cell) if cell is not None else _divided(line)
    profiled = _profile(shell, words, text)
    if _awaits(shell, text):
        return profiled
    try:
        profiled.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it has nothing to await")


async def _profile(shell: Any, words: list[str], text: str) -> Profile | None:
    __tracebackhide__ = True
    try:
        profiler = Profiler(**vars(_parser().parse_args(words)))
        if not text.strip():
            raise UsageError("there is nothing to profile")
        code, last = _compiled(shell, text)
        with profiler:
            value = await _run(shell, code, last)
        profile = profiler.profile
    except SystemExit:  # --help
        return None
    except PyhybridError as error:
        from IPython.core.error import UsageError as ShownError

        raise ShownError(f"pyhybrid: {error}") from None
    if value is not None:
        from IPython.display import display

        display(value)
    return profile


class _MagicParser(Parser):
    def format_help(self) -> str:
        lines = option_lines(ProfilerOptions.options.values())
        return "\n".join(["%%pyhybrid [options], or %pyhybrid [options] STATEMENT", "", *lines])


def _parser() -> Parser:
    parser = _MagicParser(prog="pyhybrid", allow_abbrev=False)
    add_options(parser, ProfilerOptions.options.values(), defaults=False)
    return parser


def _divided(line: str) -> tuple[list[str], str]:
    """Return the options at the head of a line, and the statement after them."""
    words = list(_WORD.finditer(line))
    parser = _parser()
    parser.add_argument("statement", nargs=argparse.REMAINDER)
    try:
        rest = parser.parse_args([each[0] for each in words]).statement
    except (PyhybridError, SystemExit):
        rest = []  # what is wrong is reported when they are parsed again
    n = len(words) - len(rest)
    text = line[words[n].start() :] if rest else ""
    return [each for word in words[:n] for each in shlex.split(word[0])], text


def _awaits(shell: Any, text: str) -> bool:
    """Does it await outside of functions, and may it?"""
    if not shell.autoawait:
        return False
    try:
        code = compile(shell.transform_cell(text), "", CELL, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return False  # IPython reports it when it runs
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _awaited(shell: Any, line: str) -> str:
    """Return a line of what IPython made of a cell: with `await` before a call that gives something
    to await."""
    if found := _CALL.search(line):
        try:
            texts = ast.literal_eval(f"({found[1]},)")
        except (SyntaxError, ValueError):
            return line  # the cell's own call
        if _awaits(shell, texts[1] if len(texts) > 1 else _divided(texts[0])[1]):
            return f"{line[: found.start()]}await {line[found.start() :]}"
    return line


def _compiled(shell: Any, text: str) -> tuple[CodeType, CodeType | None]:
    """Return the code, as IPython would make it of a cell, and that of its last expression."""
    plain = shell.transform_cell(text)
    tree = shell.transform_ast(shell.compile.ast_parse(plain))
    name = shell.compile.cache(plain, _number(shell), raw_code=text)
    last = None
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0):
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            shown = not plain.rstrip().endswith(";")
            expression = ast.Expression(tree.body.pop().value)
            if shown:
                last = shell.compile(expression, name, LAST)
            else:
                tree.body.append(ast.Expr(expression.body))
        return shell.compile(tree, name, CELL), last


def _number(shell: Any) -> int:
    """Return the number of the cell that runs, by the code in it that calls the magic."""
    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_code.co_filename not in numbers:
        frame = frame.f_back
    return numbers[frame.f_code.co_filename] if frame else int(shell.execution_count)


async def _run(shell: Any, code: CodeType, last: CodeType | None) -> Any:
    """Run it; views leave out what calls this function, by its name (frameworks/ipython.toml)."""
    __tracebackhide__ = True
    value = None
    for each in (code, last):
        if each:
            value = eval(each, shell.user_global_ns, shell.user_ns)
            if each.co_flags & inspect.CO_COROUTINE:
                value = await value
    return value
