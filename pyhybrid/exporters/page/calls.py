"""Single calls that were kept, and the lines that were counted, for the page."""

from heapq import nlargest
from operator import itemgetter

from pyhybrid.exporters.page.columns import Columns, steps
from pyhybrid.exporters.page.tree import Strings, Tree
from pyhybrid.tables.profile import Profile
from pyhybrid.views.lines.python_lines import function_lines

MAX_CALLS = 20_000  # the slowest ones
STATES = ("returned", "raised", "partial")  # web/src/profile.ts has these, too.


def add_calls(profile: Profile, tree: Tree, strings: Strings, columns: Columns) -> int:
    """The slowest calls in order of time; returns how many there are in all."""
    start_ns = profile.process.start_ns or 0
    threads = {thread: at for at, thread in enumerate(profile.threads)}
    calls = sorted(
        nlargest(MAX_CALLS, profile.calls, key=lambda call: call.end_ns - call.begin_ns),
        key=itemgetter(3),  # begin_ns
    )
    frames = (tree.number(profile.nodes.frame[call.node]) for call in calls)
    columns.add("call.thread", (threads[call.thread] for call in calls))
    columns.add("call.frame", frames)
    columns.add("call.begin", steps(max(0, call.begin_ns - start_ns) for call in calls))
    columns.add("call.duration", (call.end_ns - call.begin_ns for call in calls))
    columns.add("call.busy", (call.busy_ns for call in calls))
    columns.add("call.state", (STATES.index(call.state) for call in calls))
    columns.add("call.attributes", (strings.number(call.attributes or "") for call in calls))
    return len(profile.calls)


def add_lines(profile: Profile, strings: Strings, columns: Columns) -> None:
    """Hits and times of the lines that a run with --lines recorded."""
    rows = [(each.file, line) for each in function_lines(profile) for line in each.lines]
    columns.add("line.file", (strings.number(file) for file, _ in rows))
    columns.add("line.line", (line.line for _, line in rows))
    columns.add("line.hits", (line.hits for _, line in rows))
    columns.add("line.total", (line.total_ns for _, line in rows))
