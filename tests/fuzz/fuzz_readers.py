"""Runs a reader in Python over damaged inputs for some seconds.

    python fuzz_readers.py TARGET SECONDS SEED [FILE...]

The FILEs, which failed once, come first.  Each input is written to `input` in this folder before it
is read: it lies there if the program fails, for whatever reason.  It fails where a reader raises
what it must not, takes more memory than BYTES_AT_MOST, or CPU time without end.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import python_seeds
from example_profile import fake_symbols
from mutate import Pieces, damage
from spool_writer import with_checks

from pyhybrid.assemble import open_profile
from pyhybrid.base.files import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters import EXPORTERS
from pyhybrid.exporters.destination import export_to
from pyhybrid.report.line_listing import print_lines
from pyhybrid.report.quality import quality_listing, quality_report
from pyhybrid.report.screen import print_summary
from pyhybrid.report.summary import summarize
from pyhybrid.report.table import shown
from pyhybrid.report.tree import tree_lines
from pyhybrid.symbols.jit import JitFunctions
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.compensate import compensate

INPUT = Path("input")
BYTES_AT_MOST = 32 << 20  # more than whole inputs took; all are shorter than 100 KB
SECONDS_AT_MOST = 20  # CPU time of one input


def look_up(functions: JitFunctions) -> None:
    for name, start, size in functions.functions():
        assert functions.resolve(start + size - 1) == (name, start, size)


def read_perf_map(data: bytes) -> None:
    functions = JitFunctions()
    functions.add_perf_map(data)
    look_up(functions)


def read_jitdump(data: bytes) -> None:
    functions = JitFunctions()
    with contextlib.suppress(ValueError):  # the header's
        functions.add_jitdump(data)
    look_up(functions)


VIEWS: list[Callable[[Profile], object]] = [
    lambda profile: print_summary(summarize(profile, [], []), StringIO()),
    lambda profile: list(shown(quality_listing(quality_report(profile)))),
    lambda profile: list(tree_lines(profile)),
    lambda profile: print_lines(profile, StringIO()),
    lambda profile: list(profile.events()),
    compensate,
]


def read_spool(data: bytes) -> None:
    """As `report` and `export` do: what is damaged is left out, or one line."""
    INPUT.write_bytes(with_checks(data))
    try:
        profile = open_profile(str(INPUT), fake_symbols())
    except PyhybridError as error:
        assert "\n" not in str(error), error
        return
    with profile:
        for view in VIEWS:
            with contextlib.suppress(PyhybridError), damage_in(profile.path):
                view(profile)
        for exporter in EXPORTERS.values():
            if exporter.name == "lttng":  # needs a session; its figures are those of pstats
                continue
            with contextlib.suppress(PyhybridError), damage_in(profile.path):
                export_to(exporter(), profile, os.path.abspath(f"out.{exporter.name}"))


TABLES = (
    *("meta", "process", "threads", "losses", "modules", "frames", "nodes", "stacks"),
    *("sampled", "exact", "lines", "calls", "codes", "turns", "call_times", "c_names", "period_ns"),
)


def read_profile(data: bytes) -> None:
    """All tables, and what `report` and `export` make of them."""
    try:
        profile = open_profile(str(INPUT))
    except PyhybridError as error:
        assert "\n" not in str(error), error
        return
    with profile:
        for table in TABLES:
            with contextlib.suppress(PyhybridError):
                getattr(profile, table)
        for rows in (profile.events, profile.timeline):
            with contextlib.suppress(PyhybridError):
                list(rows())
        for view in VIEWS:
            with contextlib.suppress(PyhybridError), damage_in(profile.path):
                view(profile)
        for name in ("perf", "folded"):
            with contextlib.suppress(PyhybridError), damage_in(profile.path):
                export_to(EXPORTERS[name](), profile, os.path.abspath(f"out.{name}"))


TARGETS: dict[str, tuple[Callable[[], list[Pieces]], Callable[[bytes], None]]] = {
    "perf_map": (python_seeds.perf_maps, read_perf_map),
    "jitdump": (python_seeds.jitdumps, read_jitdump),
    "spool": (python_seeds.spools, read_spool),
    "profile": (python_seeds.profiles, read_profile),
}


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + BYTES_AT_MOST
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(target: str, seconds: str, seed: str, *files: str) -> None:
    make_seeds, read = TARGETS[target]
    seeds, rng = make_seeds(), random.Random(int(seed))

    def one(data: bytes) -> None:
        INPUT.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS_AT_MOST)  # SIGPROF ends the program
        read(data)

    for pieces in seeds:
        one(b"".join(pieces))
    limit_memory()
    for file in files:
        one(Path(file).read_bytes())
    end, n = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        one(damage(seeds, rng))
        n += 1
    print(f"{target}: {n} inputs, seed {seed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
