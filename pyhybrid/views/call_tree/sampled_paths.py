"""The sampled call paths as other programs get them: folded, with addresses and lines.

The tree is that of the rows of the table `stack`, without those that folding leaves out: a step is
a place in code, not only a function.  By functions its paths are those of the folded tree.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from pyhybrid._columns import paths, take
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import ABOVE, FoldedTree

Lines = tuple[tuple[int, int], ...]


class Location(NamedTuple):
    """Hold a step: `lines` are its frame and line, then those inlined there, innermost last.

    Line 0 is not known.  `address` is absolute, of native code and the kernel.
    """

    address: int | None
    lines: Lines


class SampledPaths:
    """Build the tree of one profile.

    `parent` and `location` (an index of `locations`) are indexed by path; 0 is the root, which is
    no step, and parents come first.  `of_row` maps the rows of `stack` to paths.
    """

    def __init__(self, profile: Profile) -> None:
        """Build that of a profile with its inlined functions, or without."""
        self._profile, self._tree = profile, FoldedTree.of(profile)
        stacks = profile.stacks
        parents = array("I", stacks.parent)
        self._folded = take(self._tree.of_node, array("I", stacks.node))
        known = {Location(None, ()): 0}  # the root's
        numbers, how = array("I", [0]), bytearray([ABOVE])
        lines = self._lines(parents)
        for address, of_row in zip(stacks.address[1:], lines, strict=True):
            how.append(0 if of_row else ABOVE)
            location = Location(address if of_row else None, of_row)
            numbers.append(known.setdefault(location, len(known)))
        self.locations = list(known)
        self.of_row: Sequence[int]
        self.parent: Sequence[int]
        self.location: Sequence[int]
        self.of_row, self.parent, self.location = paths(parents, numbers, how)

    def _lines(self, parents: "array[int]") -> list[Lines]:
        """Return each row's but the root's; (): no step; `parents` become those by function."""
        folded, frames = self._folded, self._tree.frame
        above, nearest = take(folded, parents), take(self._tree.parent, folded)
        places, lines = self._profile.places, self._profile.stacks.line
        own = {folded[stack] for stack in self._profile.own_stacks}
        of_rows: list[Lines] = []
        known: dict[Lines, Lines] = {}  # most rows are as others are
        for row in range(1, len(parents)):
            if folded[row] == above[row] or folded[row] in own:
                of_rows.append(())
            elif nearest[row] == above[row] and row not in places:
                place = ((frames[folded[row]], lines[row] or 0),)
                of_rows.append(known.setdefault(place, place))
            else:
                of_rows.append(self._chain(row, parents))
        return of_rows

    def _chain(self, row: int, parents: "array[int]") -> Lines:
        """Return those of a row that stands for several frames, or for one below an outer row."""
        tree, above = self._tree, parents[row]
        chain = [self._folded[row]]  # from the inside out
        while (node := tree.parent[chain[-1]]) != 0:
            chain.append(node)
        while above and self._folded[above] not in chain:
            above = parents[above]
        parents[row] = above
        steps = chain[: chain.index(self._folded[above])] if above else chain
        at = {place.frame: place.line for place in self._profile.places.get(row, ())}
        at.setdefault(tree.frame[chain[0]], self._profile.stacks.line[row] or 0)
        return tuple((tree.frame[step], at.get(tree.frame[step], 0)) for step in reversed(steps))
