"""A profile of what a run that goes on has recorded so far, which it does not notice.

Its spools are copied: its own, those of its children, and what its flight recorder has kept.
"""

import os
import shutil
import tempfile
from contextlib import suppress

from pyhybrid.capture.children import folder_beside
from pyhybrid.errors import PyhybridError
from pyhybrid.finish.all_processes import began_ns, spools_in
from pyhybrid.finish.finish import make_of_spools
from pyhybrid.spool import HEADER

_AT_ONCE = 1 << 24
TRIES = 10  # to copy spools while nothing changes


def make_snapshot(spool_path: str, prefix: str, why: str) -> str:
    """Write `PREFIX.pyhybrid` of what a run that goes on has recorded so far, it and its children,
    and return its path.  Raises PyhybridError."""
    with tempfile.TemporaryDirectory(prefix="pyhybrid-snapshot-") as folder:
        spools = copied_spools(spool_path, folder)
        if not spools:
            raise PyhybridError(f"{spool_path}: nothing is recorded there yet")
        return make_of_spools(spools, prefix, [], lambda: {"snapshot": why})


def copy_spool(source: str, target: str) -> None:
    """Copy a spool that is being written.  Raises OSError.

    Its header says which round of its counters is whole, so that is copied last.
    """
    with open(source, "rb") as read, open(target, "wb") as written:
        shutil.copyfileobj(read, written, _AT_ONCE)
        read.seek(0)
        head = read.read(HEADER.size)
        written.seek(0)
        written.write(head)


def copied_spools(spool: str, folder: str) -> list[str]:
    """Copy the spool of a run that goes on into the `folder`, and those of its children and of its
    flight recorder; returns the copies, the run's first.

    Raises PyhybridError.
    """
    parts = folder_beside(spool)
    for _ in range(TRIES):
        try:
            before = spools_in(parts)
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
            first = os.path.join(folder, os.path.basename(spool))
            copy_spool(spool, first)
            for name in before:
                with suppress(FileNotFoundError):  # it has become too old
                    copy_spool(os.path.join(parts, name), os.path.join(folder, name))
            # What the recorder moves meanwhile would be missing, or there twice.
            if not set(spools_in(parts)) - set(before):
                copies = sorted((os.path.join(folder, name) for name in before), key=began_ns)
                return [each for each in (first, *copies) if os.path.getsize(each)]
        except OSError as error:
            raise PyhybridError(f"{spool}: {error.strerror}") from None
    raise PyhybridError(f"{spool}: its processes change too fast")
