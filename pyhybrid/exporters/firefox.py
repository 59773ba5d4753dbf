"""A profile for the Firefox Profiler (profiler.firefox.com), gzipped JSON.

Format: the "processed profile", version 60 - https://github.com/firefox-devtools/profiler, its
src/types/profile.ts and docs-developer/CHANGELOG-formats.md; files of an older version are upgraded
as they are loaded.  Tables are structs of arrays that all threads share; text is numbered.

Each sample has its time and its weight in milliseconds; a Python function is one of "JavaScript",
so that the stack filters JavaScript and Native choose Python and native code.  What a thread had to
do with the GIL, and calls that were kept, are markers.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from heapq import nlargest
from itertools import groupby
from typing import Any, BinaryIO

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.exporter import Exporter
from pyhybrid.exporters.firefox_tables import CATEGORIES, PYTHON, REGION, Shared, Table
from pyhybrid.exporters.viewer_names import CREATOR, encodable, facts, title
from pyhybrid.tables import Call, Chunk, stack_of, waits
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import gil_runs, periods_of, times

VERSION = 60
GECKO_VERSION = 30  # of the format that the browser itself writes, from which this one stems
MOST_CALLS = 20_000  # the viewer slows down with more markers
INTERVAL = 1  # a marker's phase


class Firefox(Exporter):
    """Writes the folded call paths of every sample."""

    name = "firefox"
    help = "for profiler.firefox.com: samples of all threads in time"
    suffix = ".firefox.json.gz"

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Raises PyhybridError where there are no samples."""
        if not profile.sampled:
            raise PyhybridError(f"{profile.path}: no samples, which Firefox's format is made of")
        shared = Shared(profile)
        calls = defaultdict(list)
        for call in nlargest(MOST_CALLS, profile.calls, key=lambda each: each.busy_ns):
            calls[call.thread].append(call)
        whole = {
            "meta": _meta(profile),
            "threads": [
                _Thread(profile, shared, thread).content(chunks, calls[thread])
                for thread, chunks in groupby(profile.timeline(), lambda chunk: chunk.thread)
            ],
            "libs": shared.libraries,
            "pages": [],
            "shared": shared.tables(),
        }
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
            out.write(json.dumps(whole, separators=(",", ":")).encode())
        more = len(profile.calls) > MOST_CALLS
        return [f"has the longest {MOST_CALLS:,} of {len(profile.calls):,} calls"] if more else []


def _meta(profile: Profile) -> dict[str, Any]:
    meta = profile.meta
    entries = [{"label": name, "format": "string", "value": text} for name, text in facts(profile)]
    return {
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "interval": profile.period_ns / 1e6,
        "startTime": meta.get("start_unix_ns", 0) / 1e6,
        "processType": 0,
        "product": title(profile.process),
        "importedFrom": CREATOR,
        "stackwalk": 1,
        "symbolicated": True,
        "usesOnlyOneStackType": False,
        "sourceCodeIsNotOnSearchfox": True,
        "keepProfileThreadOrder": True,
        "platform": "X11",
        "oscpu": f"Linux {meta.get('arch', '')}",
        "CPUName": meta.get("cpu"),
        "logicalCPUs": meta.get("n_cpus"),
        "arguments": encodable(" ".join(profile.process.argv)),
        "categories": CATEGORIES,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "markerSchema": [
            _schema("gil", "GIL {marker.data.state}", state="What the thread had to do with it"),
            _schema("call", "{marker.name}", ended="Ended", attributes="Attributes"),
        ],
        "extra": [{"label": "pyhybrid", "entries": entries}],
    }


def _schema(name: str, label: str, **fields: str) -> dict[str, Any]:
    return {
        "name": name,
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "tooltipLabel": label,
        "chartLabel": label,
        "fields": [{"key": key, "label": text, "format": "string"} for key, text in fields.items()],
    }


class _Thread:
    """A thread; its times are milliseconds from the start."""

    def __init__(self, profile: Profile, shared: Shared, thread: int) -> None:
        self._profile, self._shared, self._row = profile, shared, profile.threads[thread]
        self._start_ns = profile.process.start_ns or 0
        self._samples = Table("stack", "timeDeltas", "weight", "threadCPUDelta")
        self._markers = Table("name", "startTime", "endTime", "phase", "category", "data")
        self._last_ms = 0.0

    def content(self, chunks: Iterator[Chunk], calls: list[Call]) -> dict[str, Any]:
        """The thread, as it is written."""
        for chunk in chunks:
            self._add_samples(chunk)
            for state, begin_ns, end_ns in gil_runs(chunk, self._profile.period_ns):
                if state != "neither":
                    data = {"type": "gil", "state": state}
                    self._mark(f"GIL {state}", begin_ns, end_ns, PYTHON, data)
        for call in calls:
            function = self._shared.names[self._profile.nodes.frame[call.node]].name
            data = {"type": "call", "ended": call.state}
            if call.attributes:
                data["attributes"] = encodable(call.attributes)
            self._mark(function, call.begin_ns, call.end_ns, REGION, data)
        pid, name = self._profile.pid_of(self._row.id), encodable(self._row.name)
        return {
            "processType": "default",
            "processName": title(self._profile.processes[self._row.process]),
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": max(0, self._ms(self._row.start_ns)),
            "unregisterTime": None,
            "pausedRanges": [],
            "name": name,
            "isMainThread": self._row.tid == pid,
            "pid": str(pid),
            "tid": self._row.tid,
            "samples": {**self._samples.content(), "weightType": "tracing-ms"},
            "markers": self._markers.content(),
            "showMarkersInTimeline": True,
        }

    def _add_samples(self, chunk: Chunk) -> None:
        for place, time_ns, periods in zip(
            chunk.place, times(chunk), periods_of(chunk), strict=True
        ):
            if stack_of(place) in self._profile.own_stacks:
                continue
            at_ms, weight_ns = self._ms(time_ns), periods * self._profile.period_ns
            stack = self._shared.stack(stack_of(place))
            step_ms = round(at_ms - self._last_ms, 3)
            cpu_ns = 0 if waits(place) else weight_ns
            self._samples.add(stack, step_ms, round(weight_ns / 1e6, 3), cpu_ns)
            self._last_ms = at_ms

    def _mark(
        self, name: str, begin_ns: int, end_ns: int, category: int, data: dict[str, str]
    ) -> None:
        begin, end = self._ms(begin_ns), self._ms(end_ns)
        self._markers.add(self._shared.text(name), begin, end, INTERVAL, category, data)

    def _ms(self, time_ns: int) -> float:
        return round((time_ns - self._start_ns) / 1e6, 3)
