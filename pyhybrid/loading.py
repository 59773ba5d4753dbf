"""What a program that reads profiles uses: `pyhybrid.load`, and the `Profile` that it returns."""

import io
import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.tables import TABLES, Exact
from pyhybrid.tables import profile as tables

if TYPE_CHECKING:
    from pyhybrid.report.step_listing import StepReport
    from pyhybrid.views.training.model import ModelFigures


class Function(NamedTuple):
    """A function of the profile has what was counted of it and what was sampled.

    `frame` is its number, for `profile.frames`.  calls, exact_total_ns, exact_self_ns: by events,
    wall-clock time; None where nothing counted it.  samples, total_ns, self_ns: by samples, in
    nanoseconds of the sampling clock; recursion counts once.
    """

    frame: int
    name: str
    file: str | None
    line: int | None
    calls: int | None = None
    exact_total_ns: int | None = None
    exact_self_ns: int | None = None
    samples: int = 0
    total_ns: int = 0
    self_ns: int = 0


class Profile(tables.Profile):
    """A profile has its tables (see the attributes), and what `pyhybrid report` shows of them.

    Every method raises PyhybridError where the file is damaged.
    """

    def report(self) -> str:
        """Return the summary, as `pyhybrid report` prints it."""
        from pyhybrid.report.screen import print_summary
        from pyhybrid.report.summary import summarize

        text = io.StringIO()
        print_summary(summarize(self, [], []), text)
        return text.getvalue()

    def tree(self, min_time_ns: int = 0) -> str:
        """Return the call tree as text, as `report tree` prints it; `min_time_ns` is as of its
        --min-time, in nanoseconds."""
        from pyhybrid.report.tree import tree_lines

        return "\n".join(tree_lines(self, min_time_ns)) + "\n"

    def functions(self) -> list[Function]:
        """Return the functions, by most samples of their own, then by exact self time."""
        from pyhybrid.views.call_tree.hot_paths import Hot
        from pyhybrid.views.calls.function_calls import function_calls

        hot = {each.frame: each for each in Hot(self).functions()}
        counted = function_calls(self)
        found = []
        for number in hot.keys() | counted.keys():
            frame, sampled, exact = self.frames[number], hot.get(number), counted.get(number)
            function = Function(number, frame.name, frame.file, frame.line)
            if exact:
                function = function._replace(
                    calls=exact.calls, exact_total_ns=exact.total_ns, exact_self_ns=exact.self_ns
                )
            if sampled:
                function = function._replace(
                    samples=sampled.samples, total_ns=sampled.total_ns, self_ns=sampled.self_ns
                )
            found.append(function)
        return sorted(found, key=lambda f: (-f.self_ns, -(f.exact_self_ns or 0), f.frame))

    def steps(self, n_slowest: int | None = None) -> "StepReport":
        """Return the steps of a training by phases, as `report steps` does.

        Raises PyhybridError where the profile has none.
        """
        from pyhybrid.report.step_listing import step_report

        return step_report(self, n_slowest)

    def model(self, by_class: bool = False) -> "ModelFigures":
        """Return a PyTorch model's modules, as `report modules`; `modules` are the ELF files.

        Raises PyhybridError where the profile has none.
        """
        from pyhybrid.views.training.model import model_figures

        return model_figures(self, by_class)

    def export(self, format: str, path: str | os.PathLike[str]) -> str:
        """Write it as another format (`pyhybrid export -f`); returns where.

        Raises UsageError for a format that is none, PyhybridError where it cannot be written.
        """
        from pyhybrid.exporters import EXPORTERS
        from pyhybrid.exporters.destination import export_to

        if format not in EXPORTERS:
            raise UsageError(f"no format {format!r}; there are: {', '.join(EXPORTERS)}")
        output = export_to(EXPORTERS[format](), self, os.fspath(path))
        return output.path or os.fspath(path)

    def to_pandas(self, table: str | None = None) -> Any:
        """Return the tree as a pandas DataFrame: a row per call path (index: node), of all threads.

        The columns are: parent, kind, name, file, line, module; of samples: samples, weight_ns
        (self figures); of events: calls, resumes, raised, exact_total_ns, exact_self_ns (NA where
        nothing was counted).  With the name of a `table` the rows of that one, a column a field.
        Raises PyhybridError where pandas is not installed, or there is no such table.
        """
        return _data_frame(self, table)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the page."""
        from pyhybrid.notebook import html_of

        return html_of(self)


def load(path: str | os.PathLike[str]) -> Profile:
    """Open a profile file, or the `.part` of a run that was killed.

    Raises PyhybridError, in one line, where the file is missing, not ours, damaged, or of another
    version than this program's.
    """
    return cast(Profile, open_profile(path, kind=Profile))


# The call tree, or a table, as a pandas DataFrame, where pandas is installed.

_OF_EVENTS = ["calls", "resumes", "raised", "exact_total_ns", "exact_self_ns"]


def _data_frame(profile: Profile, table: str | None) -> Any:
    """Return a row for each call path, or of a table: see `Profile.to_pandas`."""
    try:
        import pandas
    except ImportError:
        raise PyhybridError("to_pandas() needs pandas, which is not installed") from None
    if table is None:
        return _data_frame_of_tree(profile, pandas)
    if table not in TABLES:
        raise PyhybridError(f"no table {table!r}; there are: {', '.join(TABLES)}")
    row = TABLES[table]
    rows = profile.recorded if table == "sampled" else profile[row]
    return pandas.DataFrame(list(map(tuple, rows)), columns=list(row._fields)).convert_dtypes()


def _data_frame_of_tree(profile: Profile, pandas: Any) -> Any:
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
