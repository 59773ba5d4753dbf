"""A file name for this run alone, found free and writable before the program starts."""

import os

from pyhybrid.errors import PyhybridError

LONGEST_SUFFIX = len(".4194304.pyhybrid.4194304.tmp-journal")  # SQLite's, of a file being written


def check_folder(prefix: str) -> None:
    """Find out now, not after an hour, that nothing can be written there."""
    folder = os.path.dirname(prefix)
    if not os.path.isdir(folder):
        raise PyhybridError(f"the output folder {folder!r} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PyhybridError(f"the output folder {folder!r} is not writable")
    name = os.fsencode(os.path.basename(prefix))
    if len(name) + LONGEST_SUFFIX > os.pathconf(folder, "PC_NAME_MAX"):
        raise PyhybridError(f"the output name {os.path.basename(prefix)!r} is too long")
    if os.path.isdir(prefix + ".pyhybrid"):
        raise PyhybridError(f"{prefix}.pyhybrid is a folder")


def claim(path: str) -> int | None:
    """An empty file at `path`, locked: its descriptor.  None if another process has it.

    What a killed run left there becomes PATH.old.
    """
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                if not os.fstat(descriptor).st_size:
                    return descriptor
                os.replace(path, path + ".old")
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
