"""V8's CPU profile of one thread, for VS Code and Chrome's DevTools.

Format: Chrome DevTools Protocol, `Profiler.Profile` - nodes that list their children,
the node of each sample, and the steps of time between samples in microseconds.
"""

import json
from array import array
from collections import Counter
from itertools import pairwise
from typing import Any, BinaryIO

from pyhybrid._columns import take
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.viewer_names import functions
from pyhybrid.tables import stack_of
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import times
from pyhybrid.views.call_tree.folded_tree import FoldedTree

# Call paths as V8's CPU profiler has them, which the formats chrome and cpuprofile have.
#
# Format: Chrome DevTools Protocol, `Profiler.ProfileNode` - nodes are numbered from 1, the root,
# on, and have a call frame whose lines count from 0.

ROOT = 1


class Nodes:
    """Hold those of a thread, made as they are needed."""

    def __init__(self, profile: Profile) -> None:
        self._tree, self._functions = FoldedTree.of(profile), functions(profile)
        own = {profile.stacks.node[stack] for stack in profile.own_stacks}
        # Nobody's: such a sample has no weight, but the time until the next one.
        self._numbers = {0: ROOT} | {self._tree.of_node[node]: ROOT for node in own}
        self.new: list[dict[str, Any]] = [{"id": ROOT, "callFrame": _call_frame("(root)", "", 0)}]

    def of(self, node: int) -> int:
        """Number a folded node; what is made for it is added to `new`, parents first."""
        path = []
        while node not in self._numbers:
            path.append(node)
            node = self._tree.parent[node]
        above = self._numbers[node]
        for each in reversed(path):
            self._numbers[each] = len(self._numbers) + 1
            frame = _call_frame(*self._functions[self._tree.frame[each]])
            self.new.append({"id": self._numbers[each], "parent": above, "callFrame": frame})
            above = self._numbers[each]
        return above


def _call_frame(name: str, file: str, line: int) -> dict[str, Any]:
    return {
        "functionName": name,
        "scriptId": "0",
        "url": file,
        "lineNumber": line - 1,
        "columnNumber": -1,
    }


class CpuProfile(Exporter):
    """Write the thread with most samples: the format has no place for others."""

    name = "cpuprofile"
    help = "for VS Code: the samples of one thread, that with most of them unless --thread says"
    suffix = ".cpuprofile"

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it; raises PyhybridError where there are no samples."""
        thread = max(profile.threads.values(), key=lambda row: row.recorded, default=None)
        if not thread or not thread.recorded:
            raise PyhybridError(f"{profile.path}: no samples, which this format is made of")
        of_stack = take(FoldedTree.of(profile).of_node, array("I", profile.stacks.node))
        nodes, samples, at_us = Nodes(profile), list[int](), list[int]()
        for chunk in profile.timeline():
            if chunk.thread == thread.id:
                samples += (nodes.of(of_stack[stack_of(place)]) for place in chunk.place)
                at_us += (time_ns // 1000 for time_ns in times(chunk))
        hits, children = Counter(samples), {node["id"]: list[int]() for node in nodes.new}
        for node in nodes.new[1:]:
            children[node.pop("parent")].append(node["id"])
        for node in nodes.new:
            node |= {"hitCount": hits[node["id"]], "children": children[node["id"]]}
        start_us = at_us[0] - profile.period_ns // 1000
        content = {"nodes": nodes.new, "startTime": start_us, "endTime": at_us[-1]}
        content |= {"samples": samples}
        content["timeDeltas"] = [now - last for last, now in pairwise([start_us, *at_us])]
        file.write(json.dumps(content, separators=(",", ":")).encode())
        others = len(profile.threads) > 1
        return [f"has the thread {thread.name} alone"] if others else []
