"""Exact times less what counting took, as estimated by what a call was measured to cost at start.

A turn (a call, or a generator's going on) costs `call_ns`, of which its own path is charged
`inside_ns` and its caller's self time the rest (src/instrument/calibrate.c).  So a path's total
loses the inside cost of its own turns, and the whole cost of all turns below it; what is left of a
self time is never below 0, and a total is the sum of the self times of its subtree.  Regions are
no calls, and cost nothing here.  What a task's turn costs besides is its event loop's, not that of
the call that made it, and is left there.
"""

from pyhybrid.base.pseudo_frames import TASK
from pyhybrid.errors import PyhybridError
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.profile import Profile

COMPENSATED = "compensated: the estimated cost of counting is subtracted from exact times"


def compensate(profile: Profile) -> Profile:
    """Return the profile with it subtracted from `exact`, once.

    Raises PyhybridError where the cost is not known.
    """
    if profile.view.compensated:
        return profile
    if not profile.exact:
        raise PyhybridError(f"{profile.path}: no calls were traced (--mode trace or hybrid)")
    call_ns, inside_ns = (profile.meta.get(f"call_cost{part}_ns") for part in ("", "_inside"))
    if call_ns is None or inside_ns is None:
        raise PyhybridError(
            f"{profile.path}: what counting cost was not measured there: it cannot be compensated"
        )
    return profile.replaced(
        view=profile.view._replace(compensated=True), exact=_less(profile, call_ns, inside_ns)
    )


def _less(profile: Profile, call_ns: float, inside_ns: float) -> ExactTable:
    nodes, frames = profile.nodes, profile.frames
    rows = {(row.thread, row.node): row for row in profile.exact}
    total = dict.fromkeys(rows, 0)  # of what is below, then with the path's own
    outside = dict.fromkeys(rows, 0.0)
    own = {}
    tasks = {each.id for each in frames.values() if each.kind == "pseudo" and each.symbol == TASK}
    for key in sorted(rows, key=lambda key: -key[1]):  # children before their parents
        thread, node = key
        row = rows[key]
        turns = row.calls + row.resumes
        if frames[nodes.frame[node]].kind == "region":
            turns = 0
        own[key] = max(0, row.self_ns - round(turns * inside_ns + outside[key]))
        total[key] += own[key]
        parent, is_task = nodes.parent[node], False
        while parent and (thread, parent) not in rows:
            is_task = is_task or nodes.frame[parent] in tasks
            parent = nodes.parent[parent]
        if parent:
            total[thread, parent] += total[key]
            if not is_task:
                outside[thread, parent] += turns * (call_ns - inside_ns)
    return ExactTable.of(
        row._replace(total_ns=total[key], self_ns=own[key]) for key, row in rows.items()
    )
