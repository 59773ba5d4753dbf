"""Opens whatever holds a profile: its file, or a spool, of which it is made in memory.

What makes it is imported only for that: a file is read without.
"""

import os
from typing import TYPE_CHECKING, Any

from pyhybrid.spool import MAGIC
from pyhybrid.tables.database import File, begin_of, filled
from pyhybrid.tables.profile import Profile

if TYPE_CHECKING:
    from pyhybrid.symbols.resolve import Loader
    from pyhybrid.symbols.source_positions import Demangle


def open_profile(
    path: str | os.PathLike[str],
    symbols: "tuple[Loader, Demangle] | None" = None,
    kind: type[Profile] = Profile,
) -> Profile:
    """Open a profile file, or the `.part` of a run that was killed, as a profile of this `kind`;
    `symbols` replaces the native lookup for that.

    Raises PyhybridError, in one line, where the file is missing, not ours, damaged, or of another
    version than this program's.
    """
    path = os.fspath(path)
    if not begin_of(path).startswith(MAGIC):
        return kind.open(path)
    from pyhybrid.assemble.assemble import assemble

    made: dict[str, Any] = {}
    database = filled(path, ":memory:", lambda empty: made.update(assemble(empty, path, symbols)))
    return kind(path, File(path, database), **made)
