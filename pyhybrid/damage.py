"""What the contents of a file should not make possible: damage, said in one line."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from pyhybrid.errors import PyhybridError

_IMPOSSIBLE = (
    *(TypeError, ValueError, LookupError, ArithmeticError, AttributeError),
    *(RecursionError, struct.error),
)


@contextmanager
def damage_in(path: str) -> Iterator[None]:
    """Of what fails in the block `path` is the cause: a PyhybridError says that it is damaged."""
    try:
        yield
    except _IMPOSSIBLE as error:
        message = f"{path}: damaged: {type(error).__name__}: {one_line(error)}"
        raise PyhybridError(message) from error


def one_line(what: object) -> str:
    """Its text, without line ends."""
    if str(what) == "interrupted":  # SQLite's word (profile_file/database.py)
        return "a query finds more than a file of its size can hold"
    return " ".join(str(what).split())
