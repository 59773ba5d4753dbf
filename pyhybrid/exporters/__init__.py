"""Output formats: each a class of its own in a file of its own, made from a `Profile` alone."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import BinaryIO, NamedTuple

from pyhybrid.options.table import ALL_FORMATS
from pyhybrid.tables.profile import Profile

# What every exporter offers.


class Exporter:
    """An exporter writes a format; `name` is the word after `-f`."""

    name: str
    help: str
    suffix = ""  # of its file's name, after what the profile's begins with
    keeps_old = False  # what stands in the file's place stays, as PATH.old
    is_text = True
    mode = 0o666  # of its file, less what the umask takes

    def default_path(self, profile: Profile, prefix: str) -> str | None:
        """Return where it goes by default; `prefix` is what the profile file's name begins with.

        It is None where it writes no file.
        """
        return prefix + self.suffix

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write all of it; `file` can be sought.  Raises PyhybridError.

        With `limit_bytes` the formats that are written unasked (table.FORMATS) keep below it, by
        being coarser.  All others somebody named: they are whole.  Their size has the bounds of
        what they hold: paths (--max-nodes), samples in time (--max-timeline), calls (--max-calls,
        --events).  Returns the notes on the file: what follows its name.
        """
        raise NotImplementedError

    def prepare(self, profile: Profile, path: str) -> None:
        """Prepare to write it, and to put it at `path`, where something may stand."""

    def refuses(self, profile: Profile, path: str) -> str:
        """Return why it must not be put at `path` after all; "" where it may.  Raises OSError."""
        return ""


# Names without separators.

# `str.translate` takes several times as long for a character that its table lacks.
ASCII = {code: code for code in range(128)}
# Readers of what is exported cut it at line ends, and stacks at semicolons.
SEPARATORS = ASCII | str.maketrans({";": ":", "\n": " ", "\r": " "})


# Weights of call paths within a limit of bytes: coarser where they are many, never less in all.
#
# The paths with most weight are whole, or as much of them as perf shows; of the others the function
# alone is written, and of those with least only the thread.

ALL = 1 << 32  # frames of a path
SHOWN = 127  # frames that perf shows of a call chain without --max-stack

Size = Callable[[int, int], int]  # of a record, by its row and how many frames its path keeps


class Summed(NamedTuple):
    """Hold a path's weight on a thread, in ns: `frames` from the leaf `row` on are written."""

    thread: int
    row: int
    weight_ns: int
    frames: int = ALL


_WEIGHT = attrgetter("weight_ns")


def within(
    rows: Iterable[Summed],
    limit_bytes: int,
    addresses: Sequence[int],
    size: Size,
) -> tuple[list[Summed], float]:
    """Return what fits, and the share of the weight whose paths are written.

    `addresses` are those of all rows.
    """
    ordered = sorted(rows, key=_WEIGHT, reverse=True)
    n = _that_fit(ordered, SHOWN, limit_bytes * 3 // 4, size)
    whole = [row._replace(frames=SHOWN) for row in ordered[:n]]
    whole_ns, total_ns = (sum(row.weight_ns for row in each) for each in (whole, ordered))
    others = by_function(ordered[n:], limit_bytes // 8, addresses, size)
    return whole + others, whole_ns / (total_ns or 1)


def by_function(
    rows: Iterable[Summed], limit_bytes: int, functions: Sequence[int], size: Size
) -> list[Summed]:
    """Return one for each thread and function, by `functions` of all rows; within the limit, but
    for one more a thread."""
    single = _together(rows, 1, lambda row: (row.thread, functions[row.row]))
    single.sort(key=_WEIGHT, reverse=True)
    n = _that_fit(single, 1, limit_bytes, size)
    return single[:n] + _together(single[n:], 0, lambda row: (row.thread, 0))


def _that_fit(rows: list[Summed], frames: int, limit_bytes: int, size: Size) -> int:
    """Return how many of `rows` fit."""
    n = 0
    while n < len(rows) and (limit_bytes := limit_bytes - size(rows[n].row, frames)) >= 0:
        n += 1
    return n


def _together(
    rows: Iterable[Summed], frames: int, key: Callable[[Summed], tuple[int, int]]
) -> list[Summed]:
    """Return one for all that have a key."""
    weights: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], int] = {}
    for row in rows:
        of = key(row)
        if of in weights:
            weights[of] += row.weight_ns
        else:
            first[of], weights[of] = row.row, row.weight_ns
    return [Summed(of[0], first[of], weight, frames) for of, weight in weights.items()]


_CLASSES = {
    "folded": "folded:Folded",
    "perf": "perf.perf_data:Perf",
    "perf-map": "perf.names_map:PerfMap",
    "pstats": "pstats:PStats",
    "callgrind": "callgrind:Callgrind",
    "lttng": "lttng:Lttng",
    "html": "html:Html",
    "pprof": "pprof:Pprof",
    "firefox": "firefox:Firefox",
    "speedscope": "speedscope:Speedscope",
    "chrome": "chrome:Chrome",
    "cpuprofile": "cpuprofile:CpuProfile",
    "pfw": "perfflowaspect:Pfw",
}


class _Exporters(Mapping[str, type[Exporter]]):
    """Map names to classes, imported when they are asked for: at the end of a run, few are."""

    def __getitem__(self, name: str) -> type[Exporter]:
        module, _, each = _CLASSES[name].partition(":")
        found: type[Exporter] = getattr(importlib.import_module(f"{__name__}.{module}"), each)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(ALL_FORMATS)

    def __len__(self) -> int:
        return len(ALL_FORMATS)


EXPORTERS = _Exporters()
# perf finds inlined functions by addresses itself, and exact figures are of whole functions.
AS_RECORDED = {"perf", "perf-map", "pstats", "callgrind", "lttng", "pfw"}
FOLDING = {*AS_RECORDED, "folded"}  # that need none of what import statements run
