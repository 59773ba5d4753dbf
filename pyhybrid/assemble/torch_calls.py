"""Names the calls to which PyTorch gave out memory (frameworks/torch_memory.py), and those of
operators whose shapes were noted (frameworks/torch.py): the module of a model around each, its
function, and the program's.

In the spool a call is a thread and a node of its exact tree.  In the profile's metadata it is what
people know it by, and calls that are the same so are one.
"""

from collections import Counter
from typing import Any

from pyhybrid.assemble.frames import Frames
from pyhybrid.assemble.trees import Tree
from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.frameworks.torch import is_plumbing
from pyhybrid.spool.content import Spool

FIGURES = (
    *("alive", "allocated", "pieces", "at_peak", "kept", "used"),
    *("later_allocated", "later_alive"),
)


def name_calls(spool: Spool, nodes: dict[int, memoryview], tree: Tree, frames: Frames) -> None:
    """Name those that got memory, in the spool's metadata; `nodes` are those of each thread's exact
    tree."""
    found = spool.meta.get("memory")
    if not found:
        return
    names = _Names(tree, frames)
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    of_call: list[dict[str, Any]] = []
    for thread, node, is_later, alive, allocated, pieces, at_peak, kept, used in found["calls"]:
        key = names.of(_node_of(spool, nodes, thread, node))
        row = rows.setdefault(key, dict(zip(_KEY, key, strict=True)) | dict.fromkeys(FIGURES, 0))
        of_call.append(row)
        now = dict(zip(FIGURES, (alive, allocated, pieces, at_peak, kept, used), strict=False))
        if is_later:  # what it had itself is the forward pass's
            now = {"at_peak": at_peak, "later_allocated": allocated, "later_alive": alive}
        for name, value in now.items():
            row[name] += value
    for each in found.pop("growing"):
        row = of_call[each["call"]]
        row["grown"] = row.get("grown", 0) + each["bytes"]
        row["grown_steps"], row["grown_since"] = each["steps"], each["since"]
        row["holders"] = list(dict.fromkeys([*row.get("holders", ()), *each["holders"]]))
    used = [row for row in rows.values() if row["pieces"] or row["later_allocated"]]
    found["calls"] = sorted(used, key=lambda row: (-row["at_peak"], -row["allocated"]))


def name_modules(spool: Spool, nodes: dict[int, memoryview], tree: Tree, frames: Frames) -> None:
    """Name the modules in which operators were called whose shapes were noted: `shapes_modules` of
    the metadata has rows of the number of the shapes, module, its class, whether the backward pass
    called it for that, how often.  `nodes` as of name_calls."""
    calls = spool.meta.pop("shapes_calls", None)
    if not calls:
        return
    names, found = _Names(tree, frames), Counter[tuple[int, str, str, bool]]()
    for of, thread, node, is_later, n in calls:
        module, of_class, *_ = names.of(_node_of(spool, nodes, thread, node))
        found[of, module, of_class, is_later] += n
    spool.meta["shapes_modules"] = [(*key, n) for key, n in sorted(found.items())]


def _node_of(spool: Spool, nodes: dict[int, memoryview], thread: int, node: int) -> int:
    """Return the node of the tree; 0: it is not known."""
    index, folded = spool.folded_nodes.get(thread, (0, None))
    if folded is not None and 0 < node <= len(folded):
        thread, node = index, folded[node - 1]
    of_thread = nodes.get(thread)
    return of_thread[node] if of_thread is not None and node < len(of_thread) else 0


_KEY = ("module", "of_class", "function", "file", "line", "caller", "caller_file", "caller_line")


class _Names:
    """Name what a node is known by."""

    def __init__(self, tree: Tree, frames: Frames) -> None:
        self._tree = tree
        self._row = {row.id: row for row in frames.rows}
        self._known: dict[int, tuple[Any, ...]] = {}

    def of(self, node: int) -> tuple[Any, ...]:
        """Return the values of _KEY; empty texts and zeros where there is none."""
        if node not in self._known:
            self._known[node] = self._of(node)
        return self._known[node]

    def _of(self, node: int) -> tuple[Any, ...]:
        module: tuple[Any, ...] = ()
        own: tuple[Any, ...] = ()
        caller: tuple[Any, ...] = ()
        while node:
            row = self._row[self._tree.node_frames[node]]
            if row.is_object and not module:
                module = row.name, row.symbol or ""
            elif row.kind == "python" and not is_plumbing(row.file or "", row.name):
                place = row.name, row.file or "", row.line or 0
                own = own or place
                if not caller and not is_librarys(row.file or ""):
                    caller = place
            if module and caller:
                break
            node = self._tree.node_parents[node]
        return (*(module or ("", "")), *(own or ("", "", 0)), *(caller or ("", "", 0)))
