"""What a run ends with: the table of tests, their times and calls, and pages for a browser."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator

import pyhybrid
from pyhybrid._columns import add_up, nearest, take
from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError
from pyhybrid.report.table import Column, Table, number, shown, text
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import short_time

N_ROWS = 10


class Figures(Struct):
    """Hold the figures of one test, on the thread that ran it: wall-clock time, exact calls of
    Python functions, and CPU time by its samples."""

    wall_ns: int = 0
    calls: int = 0
    cpu_ns: int = 0


def test_table(paths: list[str], tests: set[str]) -> Iterator[str]:
    """Yield the lines of the table of these tests, from the profiles in which they are regions."""
    figures: dict[str, Figures] = {}
    for path in paths:
        try:
            with pyhybrid.load(path) as profile:
                _add(figures, profile, tests)
        except PyhybridError as error:
            yield str(error)
    by_time = sorted(figures, key=lambda test: -figures[test].wall_ns)
    by_calls = sorted(figures, key=lambda test: -figures[test].calls)
    if not figures:
        return
    tables = [_table("by time", by_time[:N_ROWS], figures)]
    if len(figures) > N_ROWS:
        tables.append(_table("by calls", by_calls[:N_ROWS], figures))
    yield from shown(tables)


def _table(order: str, tests: list[str], figures: dict[str, Figures]) -> Table:
    some = f"{len(tests)} of {len(figures)} tests" if len(tests) < len(figures) else "tests"
    columns = (
        Column("time", 9, lambda test: figures[test].wall_ns, short_time),
        Column("CPU", 10, lambda test: figures[test].cpu_ns or None, short_time),
        Column("calls", 14, lambda test: figures[test].calls, number),
        text(f"{some} {order}", str),
    )
    return Table(columns, tests)


def _add(figures: dict[str, Figures], profile: Profile, tests: set[str]) -> None:
    """Add each node to the test whose region is the nearest above."""
    frames, parent, frame = profile.frames, profile.nodes.parent, profile.nodes.frame
    is_test = [False] * (max(frames, default=0) + 1)
    is_python = bytearray(len(is_test))
    for each in frames.values():
        is_test[each.id] = each.kind == "region" and each.name in tests
        is_python[each.id] = each.kind == "python"
    regions = nearest(parent, take(bytes(is_test), frame))
    exact = profile.exact
    calls = add_up(
        take(regions, exact.node), exact.calls, len(frame), take(is_python, take(frame, exact.node))
    )
    wall = add_up(exact.node, exact.total_ns, len(frame))
    weights = [0] * len(frame)
    for row in profile.sampled:
        weights[regions[profile.stacks.node[row.stack]]] += row.weight_ns
    for node in sorted(set(array("I", regions))):
        if node and is_test[frame[node]]:
            figure = figures.setdefault(frames[frame[node]].name, Figures())
            figure.wall_ns += wall[node]
            figure.calls += calls[node]
            figure.cpu_ns += weights[node]


# Pages for a browser at a run's end (`--pyhybrid-html`), one a profile.


def write_pages(paths: list[str], folder: str) -> Iterator[str]:
    """Write the pages of these profiles into a folder, which is made; yields lines about it."""
    from pyhybrid.exporters.destination import export_to
    from pyhybrid.exporters.html import Html

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        yield f"no pages: {folder}: {error.strerror}"
        return
    for path in paths:
        name = os.path.basename(path).removesuffix(".pyhybrid") + ".html"
        try:
            with pyhybrid.load(path) as profile:
                output = export_to(Html(), profile, os.path.join(folder, name))
        except PyhybridError as error:
            yield f"no page: {error}"
        else:
            yield from (f"page: {output.path}", *output.notes)
