"""The call tree of the page: folded paths, the functions on them, and what events counted."""

import os
from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import eq

from pyhybrid._columns import add_up, pairs, take
from pyhybrid.base.pseudo_frames import OWN_WORK
from pyhybrid.exporters.page import Columns, steps
from pyhybrid.symbols.plumbing import is_interpreter
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import IN_RUNS, NAMELESS_START, FoldedTree
from pyhybrid.views.call_tree.hot_paths import Hot
from pyhybrid.views.call_tree.imports import import_line
from pyhybrid.views.calls.function_calls import calls_by_thread
from pyhybrid.views.labels import declared_at, labels_of, shorten_file, shorten_native
from pyhybrid.views.selection.frames_of_kind import PYTHON_ONLY
from pyhybrid.views.selection.sample_selection import Choice, choose

# web/src/columns.ts has these, too.
KINDS = ("python", "native", "interpreter", "kernel", "region", "pseudo", "process")
INLINED, RUN, NOT_FIRST, OWN, FOLDED_AWAY = 1, 2, 4, 8, 16


class Strings:
    """Number texts, each once; number 0 is the empty one."""

    def __init__(self) -> None:
        """Hold only the empty one."""
        self._number = {"": 0}

    def number(self, text: str) -> int:
        """Return the number of this text."""
        return self._number.setdefault(text, len(self._number))

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)


class Tree:
    """Hold the folded tree of a profile, with the page's own numbers of its frames."""

    def __init__(self, profile: Profile, strings: Strings, plumbing: bool) -> None:
        """Fold it; with `plumbing` the sampled paths are there as they were, too."""
        self._profile, self._strings = profile, strings
        self.folded = FoldedTree.of(profile)
        self.n_nodes = len(self.folded.parent)
        self._by_thread = calls_by_thread(profile)
        counted = (frame for _, frame in self._by_thread)
        kept = (profile.nodes.frame[call.node] for call in profile.calls)
        frame_of = profile.nodes.frame
        self._sampled = self._sampled_nodes() if plumbing else {0: 0}
        sampled = (frame_of[node] for node in self._sampled)
        used = sorted({*self.folded.frame, *counted, *kept, *sampled} - {0})
        self._number = {frame: at for at, frame in enumerate(used, 1)}
        self._imports = self.folded.imports
        # What stands for all that import statements run; 0: nothing did.
        self.import_frame = len(used) + 1 if any(self._imports.outer) else 0

    def _sampled_nodes(self) -> dict[int, int]:
        """Return all sampled paths' nodes, with plumbing: the page's number of each."""
        stacks, parent = self._profile.stacks, self._profile.nodes.parent
        found = {0}
        for node in {stacks.node[row.stack] for row in self._profile.recorded}:
            while node not in found:
                found.add(node)
                node = parent[node]
        return {node: at for at, node in enumerate(sorted(found))}

    def with_plumbing(self, node: int) -> int:
        """Return the page's number of a node of the profile's, among those that were sampled."""
        return self._sampled.get(node, 0)

    def number(self, frame: int) -> int:
        """Return the page's number of a frame."""
        return self._number[frame]

    def add_frames(self, columns: Columns, processes: Sequence[tuple[str, str, str]]) -> int:
        """Add the functions, number 0 is the root, and what stands for processes, by name, short
        name and pid; returns the number of the first of these."""
        text = self._strings.number
        labels, kinds = labels_of(self._profile), self.folded.kinds
        on_paths = set(self.folded.frame)
        rows = [(0,) * 8]
        for number in self._number:
            frame = self._profile.frames[number]
            flags = INLINED * frame.inlined | FOLDED_AWAY * (number not in on_paths)
            flags |= RUN * (kinds[number] in IN_RUNS)
            flags |= NOT_FIRST * (kinds[number] == NAMELESS_START)
            flags |= OWN * (frame.symbol == OWN_WORK)
            name = frame.name if frame.kind == "python" else labels[number]
            place, file = self._place(frame)
            kind = KINDS.index(self._kind(frame))
            at = (text(place), text(file), frame.line or 0, text(declared_at(frame)))
            short = name if frame.kind == "python" else shorten_native(name)
            rows.append((text(name), text(short), kind, flags, *at))
        if self.import_frame:
            all_of_them = text(import_line(Hot(self._profile, imports=False).imported))
            rows.append((all_of_them, all_of_them, KINDS.index("python"), 0, 0, 0, 0, 0))
        first = len(rows)
        for whole, short, pid in processes:
            rows.append((text(whole), text(short), KINDS.index("process"), 0, text(pid), 0, 0, 0))
        names = ("name", "short", "kind", "flags", "place", "file", "line", "declared")
        for column, values in zip(names, zip(*rows, strict=True), strict=True):
            columns.add(f"frame.{column}", values)
        return first

    def _kind(self, frame: Frame) -> str:
        module = self._profile.modules.get(frame.module or 0)
        is_c = frame.kind == "native" and module is not None and is_interpreter(module.path)
        return "interpreter" if is_c else frame.kind

    def _place(self, frame: Frame) -> tuple[str, str]:
        """Return where it is, shortly, and the whole path: of a Python function its file, of a
        native one its library."""
        if frame.kind == "python":
            folder = str(self._profile.meta.get("cwd") or "")
            return shorten_file(frame.file or "?", folder), frame.file or ""
        module = self._profile.modules.get(frame.module or 0)
        path = module.path if module else ""
        return os.path.basename(path), path

    def add_nodes(self, columns: Columns) -> None:
        """Add the paths: how far back each one's parent is, its function, whether it is an import
        statement's (1) or below one (2); and those that were sampled with all their frames."""
        parent, frame = self.folded.parent, self.folded.frame
        inside, outer = self._imports.where, self._imports.outer
        columns.add("node.import", map(int.__sub__, map(int.__mul__, inside, repeat(2)), outer))
        columns.add("node.up", array("I", map(int.__sub__, range(self.n_nodes), parent)))
        columns.add("node.frame", array("I", (self._number.get(each, 0) for each in frame)))

        nodes, numbers = self._profile.nodes, self._sampled
        up = (at - numbers[nodes.parent[node]] for node, at in numbers.items())
        columns.add("plumbing.up", up)
        frames = (self._number.get(nodes.frame[node], 0) for node in numbers)
        columns.add("plumbing.frame", frames)

    def add_exact(self, columns: Columns) -> tuple[list[int], int]:
        """Add what events counted of each path, thread by thread: how many rows each thread has,
        and the unit of their times in ns."""
        exact, folded = self._profile.exact, self.folded
        threads = list(self._profile.threads)
        of_row = take(folded.of_node, exact.node)
        # Else it is folded away.
        kept = bytes(
            map(eq, take(folded.frame, of_row), take(self._profile.nodes.frame, exact.node))
        )
        group, first = pairs(exact.thread, of_row)
        n = len(first)
        calls, total_ns, self_ns = (
            add_up(group, each, n, kept) for each in (exact.calls, exact.total_ns, exact.self_ns)
        )
        counts = add_up(group, array("q", list(kept)), n)
        keys = zip(take(exact.thread, first), take(of_row, first), range(n), strict=True)
        order = [g for _, _, g in sorted(key for key in keys if counts[key[2]])]
        unit_ns = 1000
        while max(total_ns, default=0) // unit_ns >> 32:
            unit_ns *= 10
        per_thread: dict[int, list[int]] = {thread: [] for thread in threads}
        for g in order:
            per_thread[exact.thread[first[g]]].append(g)
        ordered = [g for rows in per_thread.values() for g in rows]
        columns.add(
            "exact.node",
            (
                step
                for rows in per_thread.values()
                for step in steps(of_row[first[g]] for g in rows)
            ),
        )
        columns.add("exact.calls", (calls[g] for g in ordered))
        for name, values in (("total", total_ns), ("self", self_ns)):
            columns.add(f"exact.{name}", ((values[g] + unit_ns // 2) // unit_ns for g in ordered))
        return [len(rows) for rows in per_thread.values()], unit_ns

    def add_functions(self, columns: Columns) -> None:
        """Add what events counted of each function on each thread."""
        threads = {thread: at for at, thread in enumerate(self._profile.threads)}
        rows = sorted(self._by_thread.items())
        columns.add("function.thread", (threads[thread] for (thread, _), _ in rows))
        columns.add("function.frame", (self._number[frame] for (_, frame), _ in rows))
        for name in ("calls", "turns", "raised", "self_ns", "total_ns"):
            columns.add(f"function.{name}", (getattr(tally, name) for _, tally in rows))
        if self._profile.meta.get("c_calls"):
            # Without C functions their time is that of what called them.
            python, _ = choose(self._profile, Choice(frames=PYTHON_ONLY))
            alone = calls_by_thread(python)
            own = (alone[key].self_ns if key in alone else 0 for key, _ in rows)
            columns.add("function.python_self_ns", own)
