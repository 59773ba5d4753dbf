"""Threads of native pools that only wait: wall-clock time has many samples of them."""

from collections import Counter
from typing import Any

from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.findings.measured_profile import Evidence, Measured

LEAST_WAITING = 0.95  # of a thread's time


def idle(measured: Measured, _: dict[str, Any]) -> Evidence:
    """Threads that no Python ran on, and that hardly ever ran; and what they are, mostly: the
    outermost function of theirs that is shown."""
    profile = measured.profile
    node_of = profile.stacks.node
    all_ns: Counter[int] = Counter()
    waiting_ns: Counter[int] = Counter()
    with_python = set()
    for row in profile.sampled:
        all_ns[row.thread] += row.weight_ns
        if row.waits:
            waiting_ns[row.thread] += row.weight_ns
        if measured.python_frames[node_of[row.stack]]:
            with_python.add(row.thread)
    threads = {
        thread
        for thread in set(waiting_ns) - with_python
        if waiting_ns[thread] >= LEAST_WAITING * all_ns[thread]
    }
    if not threads:
        return None
    tree, starts = FoldedTree.of(profile), Counter[int]()
    for row in profile.sampled:
        if row.thread in threads:
            path = tree.path(tree.of_node[node_of[row.stack]])
            starts[path[0] if path else 0] += row.weight_ns
    function = measured.labels.get(starts.most_common(1)[0][0], "native code")
    share = measured.share(sum(all_ns[thread] for thread in threads))
    return {**share, "threads": len(threads), "function": function}
