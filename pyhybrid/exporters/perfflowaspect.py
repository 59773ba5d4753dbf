"""PerfFlowAspect's trace of calls (.pfw), without its decorators.

Format: https://github.com/flux-framework/PerfFlowAspect, advice_chrome.py - Chrome's trace events,
one a line.  As there PERFFLOW_OPTIONS chooses the file's name and the events: begins and ends
(log-event=verbose), or one event for each call, by their ends (compact).  Other than there the
bracket is closed, a call that raises has its end, a generator's call has an event for each of its
turns, and how one ended that did not return is in its arguments.

Readers (Hatchet) keep one stack for all threads, so threads come one after the other.  They compare
times as doubles, which since the epoch have steps of a quarter of a microsecond: a call begins and
ends half a microsecond within its caller at least.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import BinaryIO
from urllib.parse import urlparse

from pyhybrid.base.hashes import sha1
from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.trace_events import CallEvents, microseconds, missing
from pyhybrid.tables import Usage
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.call_events import BEGINS, GAP, Edge, edges

# PERFFLOW_OPTIONS, by which a user chooses what PerfFlowAspect writes and where.
#
# `name=solver:log-dir=traces:log-event=Compact`; what each means is described at
# https://perfflowaspect.readthedocs.io and in the class below.

VARIABLE = "PERFFLOW_OPTIONS"
_CHOICES = {
    "log-enable": ("true", "false"),
    "cpu-mem-usage": ("true", "false"),
    "log-event": ("verbose", "compact"),
    "log-format": ("array", "object"),
}
_DEFAULTS = {
    "name": "generic",  # of the program, for the file's name
    "log-filename-include": "hostname,pid",  # also: name, instance-path
    "log-dir": "./",
    "log-enable": "true",  # else nothing is written
    "cpu-mem-usage": "false",
    "log-event": "verbose",
    "log-format": "array",
}


class PerfflowOptions:
    """Hold the options of an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Parse them; raises UsageError for an unknown value; of unknown options see `notes`."""
        self._environment = environment
        self._values = dict(_DEFAULTS)
        self.notes: list[str] = []
        for word in filter(None, environment.get(VARIABLE, "").split(":")):
            name, _, value = word.partition("=")
            if name not in _DEFAULTS:
                self.notes.append(f"leaves {name} of {VARIABLE} alone")
                continue
            choices = _CHOICES.get(name)
            if choices and value.lower() not in choices:
                raise UsageError(f"{VARIABLE}: {name} is one of {', '.join(choices)}, not {value}")
            self._values[name] = value.lower() if choices else value

    def has(self, name: str, value: str) -> bool:
        """Has the option this value?"""
        return self._values[name] == value

    def path(self, hostname: str, pid: int) -> str:
        """Return the path of the file, in log-dir."""
        words = ["perfflow"]
        for word in self._values["log-filename-include"].split(","):
            known = {
                "name": self._values["name"],
                "instance-path": "{" + self._instance_path() + "}",
                "hostname": hostname,
                "pid": str(pid),
            }
            if word not in known:
                raise UsageError(f"{VARIABLE}: log-filename-include has no {word!r}")
            words.append(known[word])
        return os.path.normpath(os.path.join(self._values["log-dir"], ".".join(words) + ".pfw"))

    def _instance_path(self) -> str:
        """Return where in a hierarchy of batch jobs the program ran."""
        environ = self._environment
        unique = environ.get("FLUX_JOB_ID")
        if unique is None:
            step = environ.get("SLURM_JOB_ID"), environ.get("SLURM_STEP_ID")
            if None in step:
                step = environ.get("LSB_JOBID"), environ.get("LS_JOBPID")
            uri = environ.get("FLUX_URI")
            text = "1" if uri is None else os.path.dirname(urlparse(uri).path)
            if None not in step:
                text = ".".join(map(str, step))
            unique = sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
        above = environ.get("PERFFLOW_INSTANCE_PATH")
        return unique if above is None else f"{above}.{unique}"


WITHIN_NS = 500


class Pfw(Exporter):
    """Write the calls of the event log, or those that were kept."""

    name = "pfw"
    help = "calls as PerfFlowAspect writes them (PERFFLOW_OPTIONS), for Hatchet and Perfetto"

    @cached_property
    def _options(self) -> PerfflowOptions:
        return PerfflowOptions(os.environ)

    def default_path(self, profile: Profile, prefix: str) -> str | None:
        """Return where PerfFlowAspect would write; None: by its options nothing is written."""
        if self._options.has("log-enable", "false"):
            return None
        return self._options.path(str(profile.meta.get("hostname", "")), profile.process.pid)

    def prepare(self, profile: Profile, path: str) -> None:
        """Make log-dir."""
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        except OSError as error:
            raise PyhybridError(f"cannot write {path}: {error.strerror or error}") from error

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it; raises PyhybridError where no calls were kept."""
        if self._options.has("log-enable", "false"):
            return [f"no .pfw: {VARIABLE} has log-enable=false", *self._options.notes]
        with_usage = self._options.has("cpu-mem-usage", "true")
        trace = _Trace(profile, self._options.has("log-event", "compact"), with_usage)
        whole = self._options.has("log-format", "object")
        file.write(b'{"displayTimeUnit": "us", "traceEvents": [\n' if whole else b"[\n")
        before = b""
        for line in trace.lines():
            file.write(before + line.encode())
            before = b",\n"
        file.write(b"\n]}\n" if whole else b"\n]\n")
        if not trace.n_calls:
            raise PyhybridError(
                f"{profile.path}: no single calls: record with --keep NAME or --events"
            )
        notes = missing(trace.n_missing, profile) + self._options.notes
        if with_usage and not profile.usage:
            notes.append("has no CPU and memory usage: record with --usage cpu,memory")
        return notes


class _Open(Struct):
    """Hold a call that has begun, and the end of the last one in it."""

    begin_ns: int
    inner_ns: int = 0


class _Trace:
    """Make the events of a profile's calls."""

    def __init__(self, profile: Profile, compact: bool, with_usage: bool) -> None:
        meta = profile.meta
        self._profile, self._compact, self._with_usage = profile, compact, with_usage
        self._events = CallEvents(profile)
        self._to_epoch_ns = meta.get("start_unix_ns", 0) - meta.get("start_ns", 0)
        self.n_calls = self.n_missing = 0

    def lines(self) -> Iterator[str]:
        """Yield them event by event."""
        for _, of_thread in groupby(edges(self._profile), lambda edge: edge.thread):
            yield from self._of_thread(of_thread)

    def _of_thread(self, of_thread: Iterable[Edge]) -> Iterator[str]:
        events, open_, last_ns = self._events, list[_Open](), 0
        for edge in of_thread:
            if edge.how == GAP:
                self.n_missing += edge.node
                continue
            last_ns = max(edge.time_ns + self._to_epoch_ns, last_ns)
            if edge.how in BEGINS:
                self.n_calls += 1
                last_ns = max(last_ns, open_[-1].begin_ns + WITHIN_NS) if open_ else last_ns
                open_.append(_Open(last_ns))
                if not self._compact:
                    yield events.begin(edge, microseconds(last_ns))
                continue
            call = open_.pop()
            last_ns = max(last_ns, call.begin_ns, call.inner_ns + WITHIN_NS)
            if open_:
                open_[-1].inner_ns = last_ns
            if self._with_usage and (usage := events.usage(edge)):
                yield from self._usage(edge, usage, call.begin_ns, last_ns)
            if self._compact:
                length = microseconds(last_ns - call.begin_ns)
                yield events.whole(edge, microseconds(call.begin_ns), length)
            else:
                yield events.end(edge, microseconds(last_ns))

    def _usage(self, edge: Edge, usage: Usage, begin_ns: int, end_ns: int) -> Iterator[str]:
        """Yield counters that have a call's values while it ran, in percent and kB (1000 bytes)."""
        share = 100 * (usage.cpu_ns or 0) / (end_ns - begin_ns or 1)
        values = {"cpu_usage": share, "memory_usage": (usage.resident_end or 0) / 1000}
        for at_ns, shown in (begin_ns, values), (end_ns, dict.fromkeys(values, 0.0)):
            yield self._events.values(edge, microseconds(at_ns), shown)
