"""The call paths of several runs as one tree, with each run's sampled time on them.

Its steps are functions as same_functions.py knows them, so a path is one in all runs.  Paths
without samples are not in it, nor is the time in which threads of a pool spun.
"""

from __future__ import annotations

from array import array
from itertools import compress

from pyhybrid._columns import inclusive
from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.diff.function_figures import Function, functions_of, samples_of_nodes


class RunOnPaths(Struct):
    """Hold one run: of paths that it has samples on, itself, the weight in ns and its variance by
    the error of counting, in periods squared."""

    period_ns: int
    figures: dict[int, tuple[int, int]]


class ComparedPaths:
    """Hold `parent` and `function`, indexed by path; 0 is the root, parents come first."""

    def __init__(self) -> None:
        self.parent: array[int] = array("I", [0])
        self.function: list[Function] = [Function("", "", "")]
        self.runs: list[RunOnPaths] = []
        self._known: dict[tuple[int, Function], int] = {}

    def add(self, profile: Profile, names: dict[Function, Function]) -> None:
        """Add a run; `names` are those of its functions in all runs."""
        tree, samples = FoldedTree.of(profile), samples_of_nodes(profile)
        functions = functions_of(profile)
        below = inclusive(tree.parent, samples.weights)
        paths = {0: 0}
        run = RunOnPaths(profile.period_ns, {})
        for node in compress(range(1, len(below)), below[1:]):
            frame = tree.frame[node]
            function = functions.get(frame) or Function("pseudo", profile.frames[frame].name, "")
            path = paths[node] = self._path(paths[tree.parent[node]], names.get(function, function))
            if samples.weights[node]:
                weight, variance = run.figures.get(path, (0, 0))
                run.figures[path] = (
                    weight + samples.weights[node],
                    variance + samples.variances[node],
                )
        self.runs.append(run)

    def _path(self, parent: int, function: Function) -> int:
        path = self._known.setdefault((parent, function), len(self.parent))
        if path == len(self.parent):
            self.parent.append(parent)
            self.function.append(function)
        return path
