"""What a run left that was killed, or not finished: found where no file is named, and finished.

What makes files is imported only then.
"""

import fcntl
import os

from pyhybrid.capture.output_lock import PART, PROFILE
from pyhybrid.damage import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.options.table import FORMATS
from pyhybrid.profile_file.profile import Profile
from pyhybrid.terminal_text import say

PREFIX = "out"  # of a run that names no output


def usual_file() -> str:
    """The last run's profile; if that run was killed its files are made first.

    Where they cannot be, or the run goes on, it is its .part.  All that is said on stderr.
    """
    path, part = PREFIX + PROFILE, PREFIX + PART
    if not is_newer(part, path):
        return path
    from pyhybrid.cli.finish import export, make
    from pyhybrid.exporters import EXPORTERS

    try:
        with open(part, "rb") as spool:
            fcntl.flock(spool, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _, long = make(part, PREFIX)
            with Profile.open(path) as profile, damage_in(part):
                asked = set(profile.meta.get("formats", FORMATS))
            export(path, PREFIX, [name for name in EXPORTERS if name in asked], False, long)
            os.unlink(part)
    except BlockingIOError:
        say(f"{part}: the run goes on, or is being finished; this is what it has written so far")
        return part
    except (OSError, PyhybridError) as error:
        say(f"{part} is of a run that was killed: its files cannot be made: {error}")
        return part
    say(f"{part} was of a run that was killed: {path} and its exports are made of it")
    return path


def is_newer(path: str, than: str) -> bool:
    """Was it written later, or is it the only one?"""
    return _written_ns(path) > _written_ns(than)


def _written_ns(path: str) -> int:
    """0: not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
