"""A profile as findings measure it: its sampled time by node, its steps, its frames' labels."""

from array import array
from collections.abc import Buffer, Iterable
from functools import cached_property
from typing import Any

from pyhybrid._columns import add_up, nearest, outermost, take
from pyhybrid.symbols.plumbing import IMPORT_FILES
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.node_weights import NodeWeights
from pyhybrid.views.labels import labels_of
from pyhybrid.views.training.step_samples import StepSamples
from pyhybrid.views.training.steps import Step, steps_of

# Numbers and names, by the words that rules (findings.toml) limit and show: `share` of the samples'
# weight (0..1), `seconds` of it, counts.  None: there is nothing to show.
Evidence = dict[str, Any] | None


class Measured(NodeWeights):
    """Hold a profile's sampled time by node, and what else several measures ask for."""

    def __init__(self, profile: Profile, n_steps: int = 0) -> None:
        """Take a profile, or the part of one that is so many steps of a training."""
        super().__init__(profile)
        self._n_steps = n_steps
        process = profile.process
        self.wall_ns = (process.end_ns or 0) - (process.start_ns or 0) if process.end_ns else 0

    @property
    def time(self) -> str:
        """Return what shares of samples are of."""
        time = "CPU time" if self.profile.meta.get("clock") == "cpu" else "time of all threads"
        return f"{time} of {self._n_steps:,} steps" if self._n_steps else time

    @cached_property
    def steps(self) -> list[Step]:
        """Return those of a training; empty: it is none."""
        found = steps_of(self.profile)
        return found.steps if found else []

    @cached_property
    def step_samples(self) -> StepSamples:
        """Return the samples, by when they were."""
        return self.profile.once(StepSamples)

    @cached_property
    def labels(self) -> dict[int, str]:
        """Return frames as views write them."""
        return labels_of(self.profile, full_names=False)

    @cached_property
    def python_frames(self) -> memoryview:
        """Return for each node the nearest Python function's frame, itself or above, but for
        importlib's; 0: none."""
        frames = self.profile.frames.values()
        python = self.marked(
            f.id for f in frames if f.kind == "python" and f.file not in IMPORT_FILES
        )
        return take(self.frame, nearest(self.parent, python))

    def outermost_ns(self, frames: Iterable[int]) -> int:
        """Return the exact time of calls of these that are below none of them."""
        marked, n = self.marked(frames), len(self.parent)
        outer = outermost(self.parent, array("I", bytes(4 * n)), marked)
        node, total_ns = self.profile.exact.node, self.profile.exact.total_ns
        rows = zip(take(marked, node), take(outer, node), total_ns, strict=True)
        return sum(ns for is_one, is_outer, ns in rows if is_one and is_outer)

    def most(self, where: Buffer) -> str:
        """Return the Python function in which most of the weight there is."""
        by_frame = add_up(self.python_frames, self.self_ns, self.n_frames, where)
        frame = max(range(len(by_frame)), key=by_frame.__getitem__)
        return self.labels[frame] if frame else "native code"

    def share(self, weight_ns: int) -> dict[str, Any]:
        """Return the share of all weight."""
        return {"share": weight_ns / self.all_ns, "seconds": weight_ns / 1e9}
