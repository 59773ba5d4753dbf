"""Files that we read: the package's own, tables as data; and damage in any other, in one line."""

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyhybrid.errors import PyhybridError


def text_beside(module: str, name: str) -> str:
    """Return the file `name` in the folder of a module, of which `module` is the `__file__`.

    Without pathlib, which takes as long to import as all modules of a room.
    """
    with open(os.path.join(os.path.dirname(module), name), encoding="utf-8") as file:
        return file.read()


def table_beside(module: str, name: str) -> dict[str, Any]:
    """Return the contents of the file `name`.toml there.

    It is installed as JSON, too (meson.build), which is read in a fiftieth of the time.
    """
    try:
        text = text_beside(module, f"{name}.json")
    except FileNotFoundError:  # this is not installed, but in a clone
        import tomllib

        return tomllib.loads(text_beside(module, f"{name}.toml"))
    table: dict[str, Any] = json.loads(text)
    return table


# What the contents of a file should not make possible: damage, which one line reports.

_IMPOSSIBLE = (
    *(TypeError, ValueError, LookupError, ArithmeticError, AttributeError),
    *(RecursionError, struct.error),
)


@contextmanager
def damage_in(path: str) -> Iterator[None]:
    """Turn what fails in the block into a PyhybridError: `path` is damaged."""
    try:
        yield
    except _IMPOSSIBLE as error:
        message = f"{path}: damaged: {type(error).__name__}: {one_line(error)}"
        raise PyhybridError(message) from error


def one_line(what: object) -> str:
    """Return its text, without line ends."""
    if str(what) == "interrupted":  # SQLite's word (tables/database.py)
        return "a query finds more than a file of its size can hold"
    return " ".join(str(what).split())
