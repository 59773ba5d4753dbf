"""Chrome's trace events, for Perfetto, DevTools, chrome://tracing and Tracy's importer.

Format: "Trace Event Format" (trace_events.py) - calls of the event log, or those that were kept,
are begins and ends on their thread; samples are V8's CPU profile of each thread (events Profile and
ProfileChunk: nodes, samples and steps of time); the CPU that each thread used is a counter.

Times count from where torch.profiler's traces count from (`baseTimeNanoseconds` since the epoch:
libkineto begins anew every quarter of a year), so that the events of both fit into one file.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import BinaryIO

from pyhybrid._columns import take
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.cpuprofile import Nodes
from pyhybrid.exporters.trace_events import CallEvents, microseconds, missing
from pyhybrid.exporters.viewer_names import encodable, facts, title
from pyhybrid.tables import Chunk, stack_of, waits
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import periods_of, times
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.calls.call_events import BEGINS, GAP, edges

QUARTER_NS = 7_889_238_000_000_000
SAMPLES = "disabled-by-default-v8.cpu_profiler"  # a category
BIN_NS = 100_000_000  # of the counter


class Chrome(Exporter):
    """Write calls, samples and counters of all threads."""

    name = "chrome"
    help = "trace events for Perfetto and DevTools: calls, samples, CPU use in time"
    suffix = ".trace.json"

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it."""
        trace = _Trace(profile)
        head = {
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": trace.base_ns,
            "otherData": dict(facts(profile)),
            "traceEvents": [],
        }
        file.write(json.dumps(head).removesuffix("]}").encode())
        before = b"\n"
        for event in trace.events():
            file.write(before + event.encode())
            before = b",\n"
        file.write(b"\n]}\n")
        return missing(trace.n_missing, profile)


class _Trace:
    """Make the events of a profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        start_ns, unix_ns = profile.process.start_ns or 0, profile.meta.get("start_unix_ns", 0)
        self.base_ns = unix_ns - unix_ns % QUARTER_NS
        self._shift_ns = unix_ns - start_ns - self.base_ns
        self.n_missing = 0

    def events(self) -> Iterator[str]:
        """Yield them one by one."""
        for process in self._profile.processes.values():
            yield self._name("process_name", process.pid, 0, title(process))
        for number, thread in self._profile.threads.items():
            pid = self._profile.pid_of(number)
            yield self._name("thread_name", pid, thread.tid, encodable(thread.name))
        yield from self._calls()
        use: defaultdict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for thread, chunks in groupby(self._profile.timeline(), lambda chunk: chunk.thread):
            yield from self._samples(thread, chunks, use)
        yield from self._counters(use)

    def _name(self, what: str, pid: int, tid: int, name: str) -> str:
        event = {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
        return json.dumps(event)

    def _calls(self) -> Iterator[str]:
        events = CallEvents(self._profile)
        for edge in edges(self._profile):
            if edge.how == GAP:
                self.n_missing += edge.node
                continue
            us = microseconds(edge.time_ns + self._shift_ns)
            begins, usage = edge.how in BEGINS, events.usage(edge)
            yield events.begin(edge, us) if begins else events.end(edge, us)
            if usage is None:
                continue
            resident = usage.resident_begin if begins else usage.resident_end
            if resident is not None:
                pid = self._profile.pid_of(edge.thread)
                yield self._counter("resident memory", pid, us, {"bytes": resident})

    def _samples(
        self, thread: int, chunks: Iterator[Chunk], use: defaultdict[int, dict[str, int]]
    ) -> Iterator[str]:
        """Yield a profile of its own for each thread; what CPU time it had is added to `use`."""
        profile, row = self._profile, self._profile.threads[thread]
        of_stack = take(FoldedTree.of(profile).of_node, array("I", profile.stacks.node))
        nodes, last_us, period_ns = Nodes(profile), None, profile.period_ns
        head = {
            "ph": "P",
            "cat": SAMPLES,
            "id": hex(thread),
            "pid": profile.pid_of(thread),
            "tid": row.tid,
        }
        label = encodable(f"{row.name} ({row.tid})")
        for chunk in chunks:
            at_us = [(at_ns + self._shift_ns) // 1000 for at_ns in times(chunk)]
            if last_us is None:
                last_us = at_us[0]
                begin = {"name": "Profile", "ts": last_us, "args": {"data": {"startTime": last_us}}}
                yield json.dumps(head | begin)
            steps = [after - before for before, after in pairwise([last_us, *at_us])]
            samples = [nodes.of(of_stack[stack_of(place)]) for place in chunk.place]
            content = {"cpuProfile": {"nodes": nodes.new, "samples": samples}, "timeDeltas": steps}
            event = {"name": "ProfileChunk", "ts": last_us, "args": {"data": content}}
            yield json.dumps(head | event)
            nodes.new, last_us = [], at_us[-1]
            for place, us, periods in zip(chunk.place, at_us, periods_of(chunk), strict=True):
                if not waits(place):
                    use[us * 1000 // BIN_NS][label] += periods * period_ns

    def _counters(self, use: dict[int, dict[str, int]]) -> Iterator[str]:
        """Yield how many processors each thread used, by bins of time."""
        labels = dict.fromkeys(label for each in use.values() for label in each)
        bins = {each for at in use for each in (at, at + 1)}
        for at in sorted(bins):
            of_bin = use.get(at, {})
            values = {label: round(of_bin.get(label, 0) / BIN_NS, 3) for label in labels}
            pid = self._profile.process.pid
            yield self._counter("CPU", pid, microseconds(at * BIN_NS), values)

    def _counter(self, name: str, pid: int, us: str, values: dict[str, float]) -> str:
        event = {"ph": "C", "name": name, "pid": pid, "tid": 0, "args": values}
        return f'{json.dumps(event)[:-1]}, "ts": {us}}}'
