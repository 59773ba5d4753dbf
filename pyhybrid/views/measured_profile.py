"""A profile as findings measure it: its samples' weight by node, and sums of it."""

from array import array
from collections.abc import Buffer, Iterable
from functools import cached_property
from typing import Any

from pyhybrid._profile import add_up, descend, nearest, take
from pyhybrid.profile_file.profile import Profile
from pyhybrid.pseudo import OWN_CALLBACK
from pyhybrid.symbols.plumbing import IMPORT_FILES
from pyhybrid.views.folded_tree import INSIDE
from pyhybrid.views.labels import Labels
from pyhybrid.views.step_samples import StepSamples
from pyhybrid.views.steps import Step, steps_of

# Numbers and names, by the words that rules (findings.toml) limit and say: `share` of the samples'
# weight (0..1), `seconds` of it, counts.  None: there is nothing to say.
Evidence = dict[str, Any] | None


class Measured:
    """A profile's columns, by node; samples of our own callbacks are in none."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.parent, self.frame = profile.nodes.parent, profile.nodes.frame
        self.n_frames = max(profile.frames, default=0) + 1
        own = self.below_frames(f.id for f in profile.frames.values() if f.symbol == OWN_CALLBACK)
        self.self_ns = array("q", bytes(8 * len(self.parent)))
        node_of, self.waiting_ns, self.samples = profile.stacks.node, 0, 0
        stacks = profile.sampled_stacks
        for row in profile.sampled:
            node = node_of[row.stack]
            if not own[node]:
                self.self_ns[node] += row.weight_ns
                self.samples += row.samples
                if row.gil == "waiting":
                    self.waiting_ns += row.weight_ns
        self.nodes = [node for node in set(map(node_of.__getitem__, stacks)) if self.self_ns[node]]
        self.all_ns = sum(self.self_ns) or 1
        self._one = array("I", bytes(4 * len(self.parent)))  # the number of the group of all nodes
        process = profile.process
        self.wall_ns = (process.end_ns or 0) - (process.start_ns or 0) if process.end_ns else 0

    def marked(self, frames: Iterable[int]) -> memoryview:
        """1 for each node of one of these frames."""
        return self.kinds(dict.fromkeys(frames, 1), self.frame)

    def kinds(self, of_frame: dict[int, int], frames: Buffer) -> memoryview:
        """The kind of each node's frame, of a column of frames."""
        kinds = bytearray(self.n_frames)
        for frame, kind in of_frame.items():
            kinds[frame] = kind
        return take(kinds, frames)

    def below_frames(self, frames: Iterable[int]) -> memoryview:
        """1 for each node of one of these frames, or below one."""
        return descend(self.parent, self.marked(frames), INSIDE)

    def weight_ns(self, where: Buffer) -> int:
        """Of the samples there."""
        return add_up(self._one, self.self_ns, 1, where)[0]

    @cached_property
    def steps(self) -> list[Step]:
        """Those of a training; empty: it is none."""
        found = steps_of(self.profile)
        return found.steps if found else []

    @cached_property
    def step_samples(self) -> StepSamples:
        """The samples, by when they were."""
        return StepSamples(self.profile)

    @cached_property
    def labels(self) -> dict[int, str]:
        """Frames as views write them."""
        return Labels(self.profile, full_names=False).of_frame

    @cached_property
    def python_frames(self) -> memoryview:
        """Of each node the nearest Python function's frame, itself or above, but for importlib's;
        0: none."""
        frames = self.profile.frames.values()
        python = self.marked(
            f.id for f in frames if f.kind == "python" and f.file not in IMPORT_FILES
        )
        return take(self.frame, nearest(self.parent, python))

    def most(self, where: Buffer) -> str:
        """The Python function in which most of the weight there is."""
        by_frame = add_up(self.python_frames, self.self_ns, self.n_frames, where)
        frame = max(range(len(by_frame)), key=by_frame.__getitem__)
        return self.labels[frame] if frame else "native code"

    def share(self, weight_ns: int) -> dict[str, Any]:
        """Of all weight."""
        return {"share": weight_ns / self.all_ns, "seconds": weight_ns / 1e9}
