"""A GPU's work for the page: time by call path, and single activities of each stream."""

from heapq import nlargest
from typing import Any

from pyhybrid.exporters.page.columns import Columns, steps
from pyhybrid.exporters.page.tree import Strings, Tree
from pyhybrid.tables.profile import Profile

MAX_ACTIVITIES = 50_000  # the longest ones: some 6 bytes each
TICK_NS = 100  # of their times


def add_gpu(
    profile: Profile, tree: Tree, strings: Strings, columns: Columns
) -> dict[str, Any] | None:
    """What the page is told of it beside the columns; None: nothing is known of a GPU."""
    if not profile.gpu:
        return None
    start_ns = profile.process.start_ns or 0
    streams = sorted({(work.device, work.stream) for work in profile.gpu})
    row_of = {work.id: at for at, work in enumerate(profile.gpu)}
    columns.add("gpu.node", (tree.folded.of_node[work.node] for work in profile.gpu))
    columns.add("gpu.ns", (work.ns for work in profile.gpu))
    columns.add("gpu.launches", (work.launches for work in profile.gpu))
    columns.add("gpu.backward", (work.backward for work in profile.gpu))
    columns.add("gpu.name", (strings.number(work.name) for work in profile.gpu))
    columns.add("gpu.stream", (streams.index((w.device, w.stream)) for w in profile.gpu))
    longest = nlargest(
        MAX_ACTIVITIES, profile.gpu_activities, key=lambda each: each.end_ns - each.begin_ns
    )
    shown = sorted(longest, key=lambda each: (each.begin_ns, each.work))
    begins = [max(0, each.begin_ns - start_ns) // TICK_NS for each in shown]
    columns.add("activity.work", (row_of[each.work] for each in shown))
    columns.add("activity.begin", steps(begins))
    columns.add("activity.ticks", ((e.end_ns - e.begin_ns) // TICK_NS for e in shown))
    # How long it waited; 0: that is not known.
    lags = ((e.begin_ns - e.launch_ns) // TICK_NS if e.launch_ns else 0 for e in shown)
    columns.add("activity.lag", (max(0, lag) for lag in lags))
    return {
        "tick_ns": TICK_NS,
        "streams": streams,
        "windows": [
            (max(0, each.begin_ns - start_ns), each.end_ns - start_ns)
            for each in profile.gpu_windows
        ],
        "n_left_out": sum(work.launches for work in profile.gpu) - len(shown),
    }
