"""`pyhybrid ranks DIR --page FILE`: the verdict, and a heat map of ranks and steps, as one page."""

from __future__ import annotations

from pyhybrid.base.files import text_beside
from pyhybrid.capture.children import program_of
from pyhybrid.exporters.page import Columns, document
from pyhybrid.ranks.screen import verdict_listing
from pyhybrid.ranks.verdict import Judged
from pyhybrid.report.table import shown

MOST_RANKS, MOST_COLUMNS = 256, 500
# By the columns of the cells' query, in the order in which they are offered.
FIGURES = {
    "own": "own, without waits for other ranks",
    "step": "step",
    "wait": "waits for other ranks",
    "cpu": "CPU",
    "gc": "gc",
    "data": "loader",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "between the phases",
}


def page_of(run: Judged) -> str:
    """Return the text of the page: rows are the ranks, slow ones first, and others as far as there
    is room; columns are steps, or means of several."""
    verdict = run.verdict()
    order = [each.rank for each in verdict.slow]
    order += [each.rank for each in verdict.ranks if each.steps and each.rank not in {*order}]
    left = max(1, MOST_RANKS - len(verdict.slow[:MOST_RANKS]))
    others = order[len(verdict.slow) :]
    ranks = [*order[: len(verdict.slow)], *others[:: -(-len(others) // left) or 1]][:MOST_RANKS]
    most_steps = max((each.steps for each in verdict.ranks), default=0)
    every = max(1, -(-most_steps // MOST_COLUMNS))
    n_columns = -(-most_steps // every)
    process_of = {rank: run.main[rank]["process"] for rank in ranks}
    rows = run.ranks.ask("heat_cells", processes=process_of.values(), every=every)
    place = {process: at for at, process in enumerate(process_of.values())}
    columns = Columns()
    for number, name in enumerate(FIGURES):
        cells = [0] * (len(ranks) * n_columns)  # 0: nothing is known
        for row in rows:
            at = place[row["process"]] * n_columns + row["first"] // every
            cells[at] = 1 + max(0, int(row[f"{name}_ns"]) // row["steps"])
        columns.add(f"cell.{number}", cells)
    about = "A row is a rank, a column "
    about += "a step." if every == 1 else f"{every:,} steps, of which it shows the mean."
    if len(ranks) < len(order):
        about += f" {len(ranks):,} of {len(order):,} ranks are shown: the slow ones, and others."
    hosts = {each.rank: each.host for each in verdict.ranks}
    title = f"{len(verdict.ranks):,} ranks of {program_of(verdict.command.split())}"
    meta = {
        "title": title,
        "verdict": "\n".join(shown(verdict_listing(verdict))),
        "figures": [*FIGURES.values()],
        "ranks": ranks,
        "hosts": [hosts[rank] for rank in ranks],
        "columns": n_columns,
        "every": every,
        "step_ns": verdict.step_ns,
        "about": about,
    }
    return document(title, meta, columns, text_beside(__file__, "heat_map.js"))
