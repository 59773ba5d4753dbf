"""Chrome's trace events of calls, as text: what the formats chrome and pfw have in common.

Format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
- an event is a JSON object; ph is its kind (B, E: a begin and an end on a thread; X: a whole
call; C: values of a counter), ts and dur are microseconds.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from pyhybrid.exporters.viewer_names import encodable, functions
from pyhybrid.tables import Frame, Usage
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.call_events import BEGINS, Edge, n_left_out
from pyhybrid.views.labels import shorten_file

_USUAL = (*BEGINS, "return")
_WITHIN = ("resume", "yield")  # the call has begun, or goes on


class CallEvents:
    """Make events of one profile's calls: `name` is the qualified name, `cat` the module."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._names, self._usage = functions(profile), profile.usage
        self._heads: dict[tuple[int, int], str] = {}

    def begin(self, edge: Edge, us: str) -> str:
        """Return the begin of a call at `us`."""
        call, arguments = edge.call, {}
        if call and call.attributes:
            arguments = json.loads(call.attributes)
        return self._event(edge, f'"B","ts":{us}', arguments)

    def end(self, edge: Edge, us: str) -> str:
        """Return its end: how, unless it returned, and what the call used where that is known."""
        return self._event(edge, f'"E","ts":{us}', self._ended(edge))

    def whole(self, edge: Edge, us: str, duration_us: str) -> str:
        """Return all of it, by its end."""
        return self._event(edge, f'"X","ts":{us},"dur":{duration_us}', self._ended(edge))

    def values(self, edge: Edge, us: str, values: dict[str, float]) -> str:
        """Return values of a counter with the function's name, from `us` on."""
        return self._event(edge, f'"C","ts":{us}', values)

    def usage(self, edge: Edge) -> Usage | None:
        """Return what the kept call used that begins or ends here for good; None: not known."""
        return self._usage.get(edge.call.id) if edge.call and edge.how not in _WITHIN else None

    def _ended(self, edge: Edge) -> dict[str, Any]:
        facts: dict[str, Any] = {} if edge.how in _USUAL else {"ended": edge.how}
        if usage := self.usage(edge):
            facts |= {name: value for name, value in usage._asdict().items() if value is not None}
            del facts["call"]
        return facts

    def _event(self, edge: Edge, rest: str, arguments: Mapping[str, Any]) -> str:
        ending = f',"args":{json.dumps(arguments)}' if arguments else ""
        return f'{self._head(edge.thread, edge.node)}"ph":{rest}{ending}}}'

    def _head(self, thread: int, node: int) -> str:
        key = (thread, node)
        if key not in self._heads:
            frame = self._profile.frames[self._profile.nodes.frame[node]]
            head = {
                "name": self._names[frame.id].name if frame.kind != "region" else frame.name,
                "cat": self._module(frame),
                "pid": self._profile.pid_of(thread),
                "tid": self._profile.threads[thread].tid,
            }
            self._heads[key] = json.dumps(head)[:-1] + ", "
        return self._heads[key]

    def _module(self, frame: Frame) -> str:
        """Return its __name__ where that is known, else as its file seems to be imported."""
        if frame.id in self._profile.codes:
            return encodable(self._profile.codes[frame.id].module)
        if frame.kind != "python" or not frame.file:
            return frame.kind
        argv, directory = self._profile.process.argv, str(self._profile.meta.get("cwd") or "")
        if frame.file in (os.path.join(directory, word) for word in argv[1:]):
            return "__main__"
        short = shorten_file(frame.file, directory).removesuffix(".py").removesuffix("/__init__")
        return encodable(short.lstrip("/").replace("/", "."))


def missing(n_events: int, profile: Profile) -> list[str]:
    """Return the notes on a trace's file that lacks so many begins and ends, or calls."""
    notes = [f"lacks {n_events:,} begins and ends"] if n_events else []
    if n_calls := n_left_out(profile):
        notes.append(f"lacks about {n_calls:,} calls that were not kept (--max-calls)")
    return notes


def microseconds(ns: int) -> str:
    """Return it with all digits, which a double may not have."""
    return f"{ns // 1000}.{ns % 1000:03}"
