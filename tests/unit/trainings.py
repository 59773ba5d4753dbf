"""Trainings made by hand: what ran on the one thread, piece by piece, as samples and calls."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from example_profile import LIBRARY, PID, fake_symbols
from spool_writer import SpoolWriter, python, region

from pyhybrid.assemble import open_profile
from pyhybrid.tables import Backward, WatchedCall
from pyhybrid.tables.profile import Profile

MS = 1_000_000
BEGIN_NS = 2_000_000_000
LINE = 5  # of each function, from its first on: where all of them are

TORCH = f"{LIBRARY}/site-packages/torch"
PHASES = {
    "data": ("_BaseDataLoaderIter.__next__", f"{TORCH}/utils/data/dataloader.py"),
    "forward": ("Module._wrapped_call_impl", f"{TORCH}/nn/modules/module.py"),
    "backward": ("_engine_run_backward", f"{TORCH}/autograd/graph.py"),
    "optimizer": ("Optimizer.profile_hook_step.<locals>.wrapper", f"{TORCH}/optim/optimizer.py"),
}
OTHERS = {
    "import": ("_find_and_load", "<frozen importlib._bootstrap>"),
    "Linear.forward": ("Linear.forward", f"{TORCH}/nn/modules/linear.py"),
}
PROGRAM = "/w/train.py"

Path_ = tuple[str, ...]


class Training:
    """A program whose functions are in train.py, but for those of PHASES and OTHERS.

    On a path, `main/data/load`, functions stand below one another; `Net.fc:Linear` is a module of a
    model, through `forward` right below it.  The line that a function is on is its first and LINE.
    """

    def __init__(self, files: dict[str, str] | None = None, **meta: Any) -> None:
        """`files`: of further functions that are not in train.py."""
        self._known = PHASES | OTHERS | {name: (name, file) for name, file in (files or {}).items()}
        self._meta = meta
        self._pieces: list[tuple[Path_, int, bool]] = []

    def runs(self, path: str, ms: int, ran: bool = True) -> None:
        """A call that leads there below `main`, and stays so long; a sample is a millisecond where
        the thread `ran`, or with the wall clock."""
        self._pieces.append((("main", *path.split("/")), ms, ran))

    def step(self, *pieces: tuple[Any, ...]) -> None:
        """These, and an optimizer of a millisecond, with which it ends."""
        for piece in (*pieces, ("optimizer", 1)):
            self.runs(*piece)

    def profile(self, file: Path, backward: Iterable[tuple[str, int]] = ()) -> Profile:
        """All that ran; `backward`: milliseconds of work for these paths."""
        calls, total_ns = Counter[Path_](), Counter[Path_]()
        for path, ms, _ in self._pieces:
            for depth in range(1, len(path) + 1):
                calls[path[:depth]] += 1
                total_ns[path[:depth]] += ms * MS
        number = {path: at for at, path in enumerate(sorted(total_ns, key=len), 1)}
        spool = SpoolWriter(PID)
        spool.meta(pid=PID, mode="hybrid", start_ns=BEGIN_NS, cwd="/w", **self._meta)
        spool.thread(1, PID, "python", "MainThread")
        spool.exact_thread(1, PID)
        words = self._words(spool, sorted({name for path in number for name in path}))
        stacks = {path: spool.stack(*map(words.__getitem__, path)) for path in number}
        spool.stacks()
        now, cpu, n = BEGIN_NS, 0, 0
        watched: list[tuple[Path_, int, int, int, int]] = []
        for path, ms, ran in self._pieces:
            end, cpu_end = now + ms * MS, cpu + ms * MS * ran
            if ran or self._meta.get("clock") == "wall":
                spool.samples(1, [stacks[path]] * ms, now + MS // 2)
                n += ms
            for depth, name in enumerate(path, 1):
                if name in PHASES and name not in path[: depth - 1]:
                    watched.append((path[:depth], now, end, cpu, cpu_end))
            now, cpu = end, cpu_end
        spool.counters(1, n, n)
        spool.exact_nodes(1, 1, *((number.get(path[:-1], 0), words[path[-1]]) for path in number))
        for path, at in number.items():
            if ":" not in path[-1]:  # of modules nothing is counted but their functions
                spool.exact_counts(1, {"node": at, "calls": calls[path], "ticks": total_ns[path]})
        spool.end(now, cpu)
        profile = open_profile(spool.save(file), fake_symbols())
        nodes = self._nodes(profile)
        calls = [WatchedCall(1, nodes[path], *each, 0, 0, 0, 0) for path, *each in watched]
        passes = [
            Backward(1, nodes["main", *path.split("/")], "AddmmBackward0", 1, ms * MS)
            for path, ms in backward
        ]
        return profile.replaced({WatchedCall: calls, Backward: passes})

    def _words(self, spool: SpoolWriter, names: list[str]) -> dict[str, int]:
        words, table = {}, bytes([0x80 | 13 << 3 | 7, LINE << 1])
        for at, name in enumerate(names, 1):
            if ":" in name:
                spool.region(at, name.replace(":", "\0"))
                words[name] = region(at, is_object=True)
            else:
                qualname, file = self._known.get(name, (name, PROGRAM))
                spool.code(at, qualname, file, line_of(name, names), table=table)
                words[name] = python(at, 0)
        return words

    def _nodes(self, profile: Profile) -> dict[Path_, int]:
        """The profile's node of each path, by the names that were given here."""
        short = {each[0]: name for name, each in self._known.items()}
        nodes: dict[int, Path_] = {0: ()}
        for node, (parent, number) in enumerate(
            zip(profile.nodes.parent, profile.nodes.frame, strict=True)
        ):
            if node:
                frame = profile.frames[number]
                name = f"{frame.name}:{frame.symbol}" if frame.is_object else frame.name
                nodes[node] = (*nodes[parent], short.get(name, name))
        return {path: node for node, path in nodes.items()}


def line_of(name: str, names: list[str]) -> int:
    """Its first one."""
    return 10 * (names.index(name) + 1)
