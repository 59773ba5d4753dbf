"""Files that appear whole or not at all: written beside their place, then renamed into it."""

import contextlib
import os
from collections.abc import Iterator

from pyhybrid.errors import PyhybridError


@contextlib.contextmanager
def replacing(path: str, of_process: int | None = None) -> Iterator[str]:
    """Yield the path of a temporary file that replaces `path` if the block ends well.

    Its name is that of this process, or, in a fork that works for it, `of_process`.
    Raises PyhybridError where the file cannot be written; what stood at `path` is then unharmed.
    """
    temporary = f"{path}.{of_process or os.getpid()}.tmp"
    try:
        _forget(temporary)  # of a process of this number that was killed
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise PyhybridError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        _forget(temporary)


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
