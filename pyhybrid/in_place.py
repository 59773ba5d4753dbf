"""Outputs that nothing may replace: pipes, devices, descriptors."""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator

from pyhybrid.errors import PyhybridError


@contextlib.contextmanager
def into(path: str) -> Iterator[str]:
    """Yield `path`; where it is a pipe, a device or a descriptor (/dev/stdout), which nothing may
    replace, a file whose content goes there if the block ends well.  Raises PyhybridError.
    """
    if not _stays(path):
        yield path
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            whole = os.path.join(folder, "whole")
            yield whole
            with open(whole, "rb") as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
    except OSError as error:
        raise PyhybridError(f"cannot write {path}: {error.strerror or error}") from error


def _stays(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    folder = os.path.realpath(os.path.dirname(path))
    of_descriptors = folder == "/dev" or folder.startswith("/proc/")
    return of_descriptors or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
