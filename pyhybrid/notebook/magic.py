"""`%load_ext pyhybrid`: the magic `%%pyhybrid`, which profiles a cell.

Its options are those of a `Profiler`, spelled as on the command line.
"""

import ast
import shlex
import sys
from types import CodeType, FrameType
from typing import Any

from pyhybrid.capture.api import Profiler
from pyhybrid.capture.options import ProfilerOptions
from pyhybrid.cli.parser import Parser, add_options
from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file.profile import Profile

CELL, LAST = "exec", "eval"


def load_ipython_extension(shell: Any) -> None:
    """IPython calls it, with its InteractiveShell."""

    def pyhybrid(line: str, cell: str) -> Profile | None:
        __tracebackhide__ = True
        return profile_cell(shell, line, cell)

    pyhybrid.__doc__ = f"{profile_cell.__doc__}\n\n{_parser().format_help()}"
    shell.register_magic_function(pyhybrid, "cell")


def profile_cell(shell: Any, line: str, cell: str) -> Profile | None:
    """Profile a cell, and show its profile below: it is `_` then.

    All threads of the kernel are profiled.  What the cell raises is raised.
    """
    __tracebackhide__ = True  # to IPython
    try:
        profiler = Profiler(**vars(_parser().parse_args(shlex.split(line))))
        code, last = _compiled(shell, cell)
        with profiler:
            value = _run(shell, code, last)
        profile = profiler.profile
    except SystemExit:  # --help
        return None
    except PyhybridError as error:
        from IPython.core.error import UsageError

        raise UsageError(f"pyhybrid: {error}") from None
    if value is not None:
        from IPython.display import display

        display(value)
    return profile


def _parser() -> Parser:
    parser = Parser(prog="%%pyhybrid", usage="%%pyhybrid [options]", allow_abbrev=False)
    add_options(parser, ProfilerOptions.options.values(), defaults=False)
    return parser


def _compiled(shell: Any, cell: str) -> tuple[CodeType, CodeType | None]:
    """The cell's code, as IPython would make it, and that of the expression at its end."""
    text = shell.transform_cell(cell)
    tree = shell.transform_ast(shell.compile.ast_parse(text))
    name = shell.compile.cache(text, _number(shell), raw_code=cell)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        shown = not text.rstrip().endswith(";")
        expression = ast.Expression(tree.body.pop().value)
        if shown:
            last = shell.compile(expression, name, LAST)
        else:
            tree.body.append(ast.Expr(expression.body))
    return shell.compile(tree, name, CELL), last


def _number(shell: Any) -> int:
    """Of the cell that runs, by the code in it that calls the magic."""
    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_code.co_filename not in numbers:
        frame = frame.f_back
    return numbers[frame.f_code.co_filename] if frame else int(shell.execution_count)


def _run(shell: Any, code: CodeType, last: CodeType | None) -> Any:
    """Views leave out what calls this function, by its name (frameworks/ipython.toml)."""
    __tracebackhide__ = True
    exec(code, shell.user_global_ns, shell.user_ns)
    return eval(last, shell.user_global_ns, shell.user_ns) if last else None
