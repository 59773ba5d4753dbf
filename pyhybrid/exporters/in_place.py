"""Outputs that nothing may replace: pipes, devices, descriptors."""

import contextlib
import os
import re
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
    descriptor = _descriptor(path)
    if descriptor is None and not _is_special(path):
        yield path
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            whole = os.path.join(folder, "whole")
            yield whole
            # Not opened anew: what a shell has put there, or appends, must stay.
            target = path if descriptor is None else os.dup(descriptor)
            with open(whole, "rb") as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)
    except OSError as error:
        raise PyhybridError(f"cannot write {path}: {error.strerror or error}") from error


def _descriptor(path: str) -> int | None:
    """The number in /dev/stdout, /dev/fd/N, /proc/self/fd/N."""
    folder, name = os.path.split(path)
    link = os.path.join(os.path.realpath(folder), name)
    with contextlib.suppress(OSError):
        if os.path.dirname(link) == "/dev":
            link = os.readlink(link)
    found = re.fullmatch(rf"/proc/(?:self|{os.getpid()})/fd/(\d+)", link)
    return int(found[1]) if found else None


def _is_special(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
