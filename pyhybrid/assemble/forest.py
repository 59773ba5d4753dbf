"""All trees of a spool as one: the stacks', and below the same root each thread's exact tree.

With counted calls of C functions the exact trees come first (call_tree.py), else the stacks' does.
A frame word is a number here, that of a distinct one.
"""

from array import array

from pyhybrid._profile import C_CALL_LIMIT, LINE_LIMIT, distinct, shift
from pyhybrid.spool.records import Spool


class Forest:
    """Columns of all rows.

    `parents` are rows; `word` is the row's word's place in `words`, which are the distinct ones.
    `stacks` are the rows of the stacks' tree, `exact` those of each thread's by the exact half's
    number of it.
    """

    def __init__(self, spool: Spool) -> None:
        self._plant(spool, stacks_first=True)
        if any(C_CALL_LIMIT <= word < LINE_LIMIT for word in self.words):
            self._plant(spool, stacks_first=False)
        in_exact = set[int]().union(*(self.word[rows] for rows in self.exact.values()))
        self.exact_words = {self.words[each] for each in in_exact}
        self.stack_words = {self.words[each] for each in set(self.word[self.stacks])}

    def _plant(self, spool: Spool, stacks_first: bool) -> None:
        trees = list(zip(spool.exact_parents.values(), spool.exact_words.values(), strict=True))
        trees.insert(0 if stacks_first else len(trees), (spool.parents, spool.words))
        self.parents, words = array("I"), array("Q")
        slices = []
        for parents, of_tree in trees:
            begin = len(words)
            words += of_tree
            self.parents.frombytes(shift(parents, begin).cast("B"))
            self.parents[begin] = 0
            slices.append(slice(begin, len(words)))
        self.stacks = slices.pop(0 if stacks_first else -1)
        self.exact = dict(zip(spool.exact_words, slices, strict=True))
        self.word, first = distinct(words)
        self.words = [words[row] for row in first]
