"""Where an export goes: a file that appears whole or not at all, or what nothing may replace."""

import contextlib
import io
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters import Exporter
from pyhybrid.tables.profile import Profile

# Files that appear whole or not at all: written beside their place, then renamed into it.


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


def named(output: str) -> str:
    """Return the path that -o means: `-` is stdout."""
    return "/dev/stdout" if output == "-" else output


class Output(NamedTuple):
    """Hold the file that was written (None: the notes have why not), and notes for the user."""

    path: str | None
    notes: list[str]


class _Refused(Exception):
    """This is raised where the exporter must not put the file there."""


def export_to(
    exporter: Exporter,
    profile: Profile,
    path: str | None,
    limit_bytes: int | None = None,
    *,
    in_place: bool = False,
) -> Output:
    """Write `profile` to `path`; None: by an exporter that writes no file.  Raises PyhybridError.

    With `in_place` a pipe, a device or a descriptor (/dev/stdout) gets what a file would, all at
    once at the end, and a folder that is not there is made; without, a file takes its place.
    """
    if path is None:
        return Output(None, exporter.write(profile, io.BytesIO(), limit_bytes))
    exporter.prepare(profile, path)
    try:
        if in_place and (_descriptor(path) is not None or _is_special(path)):
            notes = _write_into(exporter, profile, path, limit_bytes)
        else:
            if in_place:
                _make_folder(path)
            notes = _replace(exporter, profile, path, limit_bytes)
    except _Refused as reason:
        return Output(None, [f"{path} not written: {reason}"])
    return Output(path, [f"{path} {note}" for note in notes])


def _replace(exporter: Exporter, profile: Profile, path: str, limit_bytes: int | None) -> list[str]:
    with replacing(path) as temporary:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, exporter.mode), "w+b") as stream:
            notes = exporter.write(profile, stream, limit_bytes)
        if reason := exporter.refuses(profile, path):
            raise _Refused(reason)
        if exporter.keeps_old and os.path.lexists(path):
            os.replace(path, path + ".old")
    return notes


def _write_into(
    exporter: Exporter, profile: Profile, path: str, limit_bytes: int | None
) -> list[str]:
    import shutil  # both are seldom needed, and take long to import
    import tempfile

    try:
        with tempfile.TemporaryFile() as whole:
            notes = exporter.write(profile, whole, limit_bytes)
            whole.seek(0)
            # Not opened anew: what a shell has put there, or appends, must stay.
            descriptor = _descriptor(path)
            with open(path if descriptor is None else os.dup(descriptor), "wb") as target:
                shutil.copyfileobj(whole, target)
    except OSError as error:
        raise PyhybridError(f"cannot write {path}: {error.strerror or error}") from error
    return notes


def _make_folder(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    except OSError as error:
        raise PyhybridError(f"cannot write {path}: {error.strerror}") from error


def _descriptor(path: str) -> int | None:
    """Return the number in /dev/stdout, /dev/fd/N, /proc/self/fd/N."""
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
