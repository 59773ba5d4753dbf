"""The `meta` of several profiled processes, as one."""

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyhybrid.errors import PyhybridError

# Figures of files that were measured otherwise cannot be added up.
ALIKE = {"mode": "--mode", "clock": "--clock", "period_ns": "--hz"}
SUMS = (
    *("kernel_lost", "kernel_mute", "unaccounted_ns", "unplaced_regions", "unmatched_regions"),
    *("counting_more_ns", "main_delay_ns", "end_cpu_ns", "parts_cpu_ns"),
)
MOST = (  # of a container, or of imports, which are the same ones for all, mostly
    *("throttled_ns", "throttled", "import_functions"),
)
ALL = ("complete", "kernel_frames", "imports")
ANY = (
    *("other_tools", "lines", "c_calls", "c_calls_inexact", "tasks"),
    *("compiler_calls", "compiles_full"),
)
LISTS = (
    *("notes", "formats", "functions", "keep", "args", "usage", "usage_of", "function_tables"),
    *("decorated", "slower_than", "wall_threads", "jitdumps", "compiles", "unsampled_calls"),
)
OF_ALL = ("unsampled_calls",)  # nodes, which are those of all
OF_RUNS = ("complete", "children_cpu_ns", "children")
# What a process is, which all of them together are not (capture/children.py).
IDENTITY = ("how", "ppid", "before_ns", "name", "rank", "local_rank", "world_size")
TEXTS = ("cells", "metadata")
COSTS = ("cost_ns", "call_cost_ns", "call_cost_inside_ns")  # of one sample, of one call
BEGIN, END = ("start_ns", "start_unix_ns"), ("stop_ns", "stop_unix_ns")


def check_alike(first: dict[str, Any], meta: dict[str, Any], path: str) -> None:
    """Raise PyhybridError where the process of `path` was measured otherwise than the first."""
    for key, option in ALIKE.items():
        if meta.get(key) != first.get(key):
            raise PyhybridError(
                f"{path}: measured with another {option} than the first: they cannot be merged"
            )


def merged_meta(metas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of all: what differs and cannot be added up is the first one's."""
    first = metas[0]
    merged = {key: value for meta in reversed(metas) for key, value in meta.items()} | first
    # What is so of a run is so whatever becomes of its children, which are killed as a rule.
    runs = [meta for meta in metas if meta.get("how", "root") == "root"]
    for key in IDENTITY if len(metas) > 1 else ():
        merged.pop(key, None)
    for key in merged:
        of = runs if key in OF_RUNS and runs else metas
        values = [meta[key] for meta in of if meta.get(key) is not None]
        if values:
            merged[key] = _merged(key, values)
    first_of_all = min(metas, key=lambda meta: int(meta.get("start_unix_ns", 0)))
    last_of_all = max(metas, key=lambda meta: int(meta.get("stop_unix_ns", 0)))
    for keys, meta in ((BEGIN, first_of_all), (END, last_of_all)):
        merged |= {key: meta[key] for key in keys if key in meta}
    return merged


class Facts:
    """Collect what processes recorded of themselves, and what of that all share."""

    def __init__(self) -> None:
        self.metas: list[dict[str, Any]] = []  # of each file
        self._of: list[tuple[int, dict[str, str]]] = []  # of a process, JSON by key
        self._texts: dict[Hashable, str] = {}  # each once, by what it is of or by itself

    def add(
        self, meta: dict[str, Any], processes: Iterable[int], known: Iterable[tuple[int, str, str]]
    ) -> None:
        """Add those of a file; `known` are the rows of its `process_meta`, the others are as its
        `meta` has them."""
        self.metas.append(meta)
        of_all = {**dict.fromkeys(LISTS, ()), **meta}  # also the lists that it lacks
        shared = {key: self._text(value) for key, value in of_all.items() if key not in OF_ALL}
        own: dict[int, dict[str, str]] = {}
        for process, key, value in known:
            own.setdefault(process, {})[key] = self._once(value)
        self._of += ((process, shared | own.get(process, {})) for process in processes)

    def merged(self) -> dict[str, Any]:
        """Return those of all: see merged_meta()."""
        return merged_meta(self.metas)

    def rows(self, merged: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
        """Yield the rows of `process_meta`: what differs from what is `merged` of all, and what a
        process is."""
        texts: dict[str, str | None] = dict.fromkeys(IDENTITY)
        texts |= {key: json.dumps(value) for key, value in merged.items()}
        for process, facts in self._of:
            for key in sorted(facts.keys() & texts.keys()):
                if facts[key] != texts[key]:
                    yield process, key, facts[key]

    def _text(self, value: Any) -> str:
        key = (type(value), value) if isinstance(value, str | int | None) else None
        text = self._texts.get(key) if key else None
        if text is None:
            text = self._once(json.dumps(value))
            if key:
                self._texts[key] = text
        return text

    def _once(self, text: str) -> str:
        return self._texts.setdefault((None, text), text)


def _merged(key: str, values: list[Any]) -> Any:
    if key in SUMS:
        return sum(values)
    if key in MOST:
        return max(values)
    if key in COSTS:
        return sum(values) / len(values)
    if key in ALL:
        return all(values)
    if key in ANY:
        return any(values)
    if key in LISTS:
        found: dict[Hashable, Any] = {}  # a node, a text, or what has no hash
        for each in (each for value in values for each in value):
            has_hash = isinstance(each, int | str)
            found.setdefault(each if has_hash else (json.dumps(each),), each)
        return list(found.values())
    if key in TEXTS:
        return {name: text for value in reversed(values) for name, text in value.items()}
    if key == "sources":
        return _sources(values)
    if key == "counters":
        return _counters(values)
    return values[0]


def _sources(values: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the texts of each file: of several none is right, and the hash is that of no text."""
    merged: dict[str, Any] = {}
    for file, known in (item for value in values for item in value.items()):
        of_all = merged.setdefault(file, dict(known))
        of_all["stale"] = sorted({*of_all["stale"], *known["stale"]})
        if of_all["hash"] != known["hash"]:
            of_all["hash"] = ""
    return merged


def _counters(values: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for each in (counter for value in values for counter in value):
        known = merged.get(each["name"])
        if known is None:
            merged[each["name"]] = dict(each)
            continue
        for name in ("n", "sum", "sum_of_squares"):
            known[name] += each[name]
        known["min"], known["max"] = min(known["min"], each["min"]), max(known["max"], each["max"])
    return list(merged.values())
