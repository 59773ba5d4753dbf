"""Names the modules of a model in which operators were called whose shapes were noted.

In the spool such a place is a thread and a node of its exact tree (frameworks/torch.py); in the
profile's metadata `shapes_modules` has rows: the number of the shapes, module, its class, whether
the backward pass called it for that, how often.
"""

from collections import Counter

from pyhybrid.assemble.frames import Frames
from pyhybrid.assemble.memory import Names, node_of
from pyhybrid.assemble.trees import Tree
from pyhybrid.spool.content import Spool


def name_modules(spool: Spool, nodes: dict[int, memoryview], tree: Tree, frames: Frames) -> None:
    """Name them in the spool's metadata; `nodes` are those of each thread's exact tree."""
    calls = spool.meta.pop("shapes_calls", None)
    if not calls:
        return
    names, found = Names(tree, frames), Counter[tuple[int, str, str, bool]]()
    for of, thread, node, is_later, n in calls:
        module, of_class, *_ = names.of(node_of(spool, nodes, thread, node))
        found[of, module, of_class, is_later] += n
    spool.meta["shapes_modules"] = [(*key, n) for key, n in sorted(found.items())]
