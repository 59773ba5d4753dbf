"""A program by its name alone: a command that is installed for this interpreter, or a module.

`pyhybrid pytest` runs what typing `pytest` runs: the script that pip wrote, under this interpreter.
Imports nothing but `os`, `sys` and the errors, until a module has to be looked for: there may be no
memory for more.
"""

import os
import sys

from pyhybrid.base import own_modules
from pyhybrid.errors import UsageError

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = (".py", ".pyc", ".pyz", ".zip")  # what ends so is no command


def as_interpreter_takes(words: list[str]) -> list[str]:
    """Return the program's words with a script's path, or `-m`, in the place of a name.

    A file of that name wins, as does a folder or archive that can be run; then commands, then
    modules.  Raises UsageError where there is none of them.
    """
    name, *arguments = words
    if name.startswith("-") or os.sep in name or name.endswith(_FILES) or _is_program(name):
        return words
    command, why_not = _command(name)
    if command:
        return [command, *arguments]
    if _is_module(name):
        return ["-m", *words]
    if os.path.lexists(name):
        return words  # run_program.py reports what is wrong with it
    raise UsageError(
        why_not
        or f"there is no program {name!r}: no file, and no command or runnable module of this "
        f"interpreter{_ours_like(name)}; name it as `script.py`, or as `-m module`"
    )


def _ours_like(name: str) -> str:
    """Return what of our own commands may be meant."""
    from difflib import get_close_matches

    from pyhybrid.cli import SUBCOMMANDS
    from pyhybrid.cli.report_views import VIEWS

    known = {**{view: f"report {view}" for view in VIEWS}, **{each: each for each in SUBCOMMANDS}}
    return "".join(
        f" (`pyhybrid {known[near]}`?)" for near in get_close_matches(name, known, 1, 0.75)
    )


def _is_program(name: str) -> bool:
    if os.path.isdir(name):
        return any(os.path.exists(os.path.join(name, f"__main__.{end}")) for end in ("py", "pyc"))
    return os.path.lexists(name)


def _command(name: str) -> tuple[str | None, str | None]:
    """Return the path of this interpreter's command, or why none of those that are there is one."""
    why_not = None
    for folder in _folders():
        path = os.path.join(folder, name)
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            continue
        python = _interpreter_of(path)
        if python is None:
            reason = f"{path} is no Python program: name the script or the module (-m) that it runs"
        elif _is_ours(python):
            return path, None
        else:
            reason = f"{path} runs under another interpreter: `{python} -m pyhybrid {name}`"
        why_not = why_not or reason
    return None, why_not


def _folders() -> "Iterator[str]":
    """Yield where this interpreter's commands are, then where the shell looks."""
    if sys.executable:
        yield os.path.dirname(sys.executable)
    yield os.path.join(sys.prefix, "bin")
    yield from filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep))


def _interpreter_of(path: str) -> str | None:
    """Return the Python, `python3` or a path, that a file's first lines name; None: none."""
    try:
        with open(path, "rb") as file:
            first, second = file.readline(4096), file.readline(4096)
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    elif second.startswith(b"'''exec' "):  # as pip writes it where the path is long, or has a space
        words = [os.fsdecode(second[8:]).partition(' "$0"')[0].strip(' "')]
    is_python = words and os.path.basename(words[0]).startswith(("python", "pypy"))
    return words[0] if is_python else None


def _is_ours(python: str) -> bool:
    """Is it this interpreter, in this environment?  `env python` finds one or the other."""
    return os.sep not in python or _environment(python) == _environment(sys.executable)


def _environment(python: str) -> tuple[str, str]:
    home = os.path.dirname(os.path.dirname(python))
    is_virtual = os.path.exists(os.path.join(home, "pyvenv.cfg"))
    return os.path.realpath(python), os.path.realpath(home) if is_virtual else ""


def _is_module(name: str) -> bool:
    """May `-m` run it?  Nothing is imported: of `package.module` the package is looked for."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    top, _, below = name.partition(".")
    before = sys.path[:]
    sys.path[:] = own_modules.program_path()
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()  # as with -m
    try:
        spec = find_spec(top)
        if spec and spec.submodule_search_locations is not None and not below:
            spec = PathFinder.find_spec(f"{name}.__main__", spec.submodule_search_locations)
        return spec is not None
    except (ImportError, ValueError, OSError):
        return False
    finally:
        sys.path[:] = before
