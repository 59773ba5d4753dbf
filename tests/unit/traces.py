"""Traces made by hand: threads, each a list of (parent node, function, counts).

Ticks are nanoseconds.  A function is a name: `[name]` is a region, but UNKNOWN and TASK.
"""

from pathlib import Path
from typing import Any

from example_profile import fake_symbols
from spool_writer import SpoolWriter, pseudo, python, region

from pyhybrid.assemble import open_profile
from pyhybrid.tables.profile import Profile

UNKNOWN, TASK = "[unknown python]", "[task]"
PSEUDO = {UNKNOWN: 4, TASK: 11}
Rows = list[tuple[int, str, dict[str, int]]]


def trace(tmp_path: Path, *threads: Rows, **meta: Any) -> Profile:
    """The profile; `meta` overrides what it says of itself."""
    spool = SpoolWriter()
    spool.meta(**{"mode": "trace", **meta})
    words: dict[str, int] = {}
    for name in (name for rows in threads for _, name, _ in rows):
        if name in words:
            continue
        number = len(words) + 1
        if name in PSEUDO:
            words[name] = pseudo(PSEUDO[name])
        elif name.startswith("["):
            spool.region(number, name[1:-1])
            words[name] = region(number)
        else:
            spool.code(number, name, "job.py", 10 * number)
            words[name] = python(number, 0)
    for index, rows in enumerate(threads, 1):
        spool.exact_thread(index, 4241 + index)
        spool.exact_nodes(index, 1, *((parent, words[name]) for parent, name, _ in rows))
        counts = [{"node": node, **row[2]} for node, row in enumerate(rows, 1)]
        spool.exact_counts(index, *counts)
    spool.end()
    return open_profile(spool.save(tmp_path / "x.part"), fake_symbols())


def times(profile: Profile) -> dict[str, tuple[int, int]]:
    """(total, self) by path, `2:main/work`; the number is the thread's."""
    found = {}
    for row in profile.exact:
        names, node = [], row.node
        while node:
            names.append(profile.frames[profile.nodes.frame[node]].name)
            node = profile.nodes.parent[node]
        found[f"{row.thread}:" + "/".join(reversed(names))] = (row.total_ns, row.self_ns)
    return found
