"""Call paths as V8's CPU profiler tells them, which the formats chrome and cpuprofile have.

Format: Chrome DevTools Protocol, `Profiler.ProfileNode` - nodes are numbered from 1, the root, on,
and have a call frame whose lines count from 0.
"""

from typing import Any

from pyhybrid.exporters.viewer_names import functions
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree

ROOT = 1


class Nodes:
    """Those of a thread, made as they are needed."""

    def __init__(self, profile: Profile) -> None:
        self._tree, self._functions = FoldedTree.of(profile), functions(profile)
        own = {profile.stacks.node[stack] for stack in profile.own_stacks}
        # Nobody's: such a sample has no weight, but the time until the next one.
        self._numbers = {0: ROOT} | {self._tree.of_node[node]: ROOT for node in own}
        self.new: list[dict[str, Any]] = [{"id": ROOT, "callFrame": _call_frame("(root)", "", 0)}]

    def of(self, node: int) -> int:
        """The number of a folded node; what is made for it is added to `new`, parents first."""
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
