"""The sampled time of a profile's nodes, and sums of it over parts of the tree."""

from array import array
from collections.abc import Buffer, Iterable

from pyhybrid._columns import add_up, descend, take
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import INSIDE


class NodeWeights:
    """Hold a profile's columns, by node."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.parent, self.frame = profile.nodes.parent, profile.nodes.frame
        self.n_frames = max(profile.frames, default=0) + 1
        self.self_ns = array("q", bytes(8 * len(self.parent)))
        node_of, self.waiting_ns, self.samples = profile.stacks.node, 0, 0
        stacks = profile.sampled_stacks
        for row in profile.sampled:
            node = node_of[row.stack]
            self.self_ns[node] += row.weight_ns
            self.samples += row.samples
            if row.gil == "waiting":
                self.waiting_ns += row.weight_ns
        self.nodes = [node for node in set(map(node_of.__getitem__, stacks)) if self.self_ns[node]]
        self.all_ns = sum(self.self_ns) or 1
        self._one = array("I", bytes(4 * len(self.parent)))  # the number of the group of all nodes

    def marked(self, frames: Iterable[int]) -> memoryview:
        """Mark with 1 each node of one of these frames."""
        return self.kinds(dict.fromkeys(frames, 1), self.frame)

    def kinds(self, of_frame: dict[int, int], frames: Buffer) -> memoryview:
        """Return the kind of each node's frame, of a column of frames."""
        kinds = bytearray(self.n_frames)
        for frame, kind in of_frame.items():
            kinds[frame] = kind
        return take(kinds, frames)

    def below_frames(self, frames: Iterable[int]) -> memoryview:
        """Mark with 1 each node of one of these frames, or below one."""
        return descend(self.parent, self.marked(frames), INSIDE)

    def weight_ns(self, where: Buffer) -> int:
        """Return the weight of the samples there."""
        return add_up(self._one, self.self_ns, 1, where)[0]
