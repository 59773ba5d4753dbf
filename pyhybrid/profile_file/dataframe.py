"""The call tree, or a table, as a pandas DataFrame, where pandas is installed."""

from typing import TYPE_CHECKING, Any

from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file.tables import TABLES, Exact

if TYPE_CHECKING:
    from pyhybrid.profile_file.profile import Profile

_OF_EVENTS = ["calls", "resumes", "raised", "exact_total_ns", "exact_self_ns"]


def data_frame(profile: "Profile", table: str | None) -> Any:
    """A row for each call path, or of a table: see `Profile.to_pandas`."""
    try:
        import pandas
    except ImportError:
        raise PyhybridError("to_pandas() needs pandas, which is not installed") from None
    if table is None:
        return _tree(profile, pandas)
    if table not in TABLES:
        raise PyhybridError(f"no table {table!r}; there are: {', '.join(TABLES)}")
    row = TABLES[table]
    rows = profile.recorded if table == "sampled" else profile[row]
    return pandas.DataFrame(list(map(tuple, rows)), columns=list(row._fields)).convert_dtypes()


def _tree(profile: "Profile", pandas: Any) -> Any:
    nodes, frames, modules = profile.nodes, profile.frames, profile.modules
    ids = range(1, len(nodes.parent))
    rows = [frames[nodes.frame[node]] for node in ids]
    table = pandas.DataFrame(
        {
            "parent": nodes.parent[1:],
            "kind": [row.kind for row in rows],
            "name": [row.name for row in rows],
            "file": [row.file for row in rows],
            "line": pandas.array([row.line for row in rows], dtype="Int64"),
            "module": [modules[row.module].path if row.module else None for row in rows],
        },
        index=pandas.Index(ids, name="node"),
    )
    columns, node_of = ["node", "samples", "weight_ns"], profile.stacks.node
    sampled = [(node_of[row.stack], row.samples, row.weight_ns) for row in profile.sampled]
    names = [f"exact_{name}" if name.endswith("_ns") else name for name in Exact._fields]
    counted = pandas.DataFrame(dict(zip(names, profile.exact.columns, strict=True)))
    for figures in (
        pandas.DataFrame(sampled, columns=columns).groupby("node").sum(),
        counted.groupby("node").sum()[_OF_EVENTS],
    ):
        table = table.join(figures.astype("Int64"))
    return table.fillna({"samples": 0, "weight_ns": 0})
