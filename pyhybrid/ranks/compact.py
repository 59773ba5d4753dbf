"""`pyhybrid ranks compact`: one sorted file of each table's, in place of many.

Ids are checked: two contents of one id would be added up as one.
"""

import os
from contextlib import suppress

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.destination import replacing
from pyhybrid.ranks.store import COMPACTED, ROW_GROUP, SUFFIX, Ranks, note_compacted, quoted
from pyhybrid.ranks.tables import TABLES


def compact(ranks: Ranks) -> str:
    """Write them, then remove the files that they have the rows of; returns what was done in one
    line.  Raises PyhybridError, and leaves all as it was, where ids are not of one content each."""
    clashes = ranks.ask("clashes")
    if clashes:
        raise PyhybridError(
            f"{ranks.folder}: {len(clashes)} ids have several contents: it is not compacted"
        )
    before = after = n = 0
    for table in sorted(TABLES.values(), key=lambda each: each.name == "process"):
        files = ranks.files[table.name]
        if not files:
            continue
        before += sum(map(os.path.getsize, files))
        path = os.path.join(ranks.tables_folder, table.name, COMPACTED + SUFFIX)
        with replacing(path) as temporary:
            ranks.execute(
                f'COPY (SELECT * FROM "{table.name}" ORDER BY {table.sorted_by}) '
                f"TO {quoted(temporary)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 9, "
                f"ROW_GROUP_SIZE {ROW_GROUP})"
            )
        after += os.path.getsize(path)
        for each in files:
            if each != path:
                n += 1
                with suppress(OSError):
                    os.unlink(each)
    note_compacted(ranks.tables_folder)
    return f"{ranks.folder}: {n:,} files, {before / 1e6:.1f} MB, are now {after / 1e6:.1f} MB"
