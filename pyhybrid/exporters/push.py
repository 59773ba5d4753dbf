"""Sends profiles to servers of continuous profiling, as pprof: Pyroscope's and Parca's.

Protocols: https://grafana.com/docs/pyroscope/latest/reference-server-api/ (push.v1.PusherService);
parca/profilestore/v1alpha1/profilestore.proto by its gateway for JSON.  Both take gzipped pprof in
base64 with labels.  A profile is that of a process, or of so many steps of it.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pyhybrid.base.files import one_line
from pyhybrid.capture.children import program_of
from pyhybrid.capture.output_lock import PART, PROFILE, RANKS
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters.pprof import Pprof
from pyhybrid.tables.profile import Profile
from pyhybrid.views.processes import identities
from pyhybrid.views.selection.sample_selection import Choice, choose
from pyhybrid.views.training.steps import find_steps

PATIENCE_S = 30
Labels = dict[str, str]
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Server(NamedTuple):
    """Hold where a kind of server takes profiles, and what it is sent."""

    path: str
    body: Callable[[list[dict[str, str]], str], Any]


SERVERS = {
    "pyroscope": Server(
        "/push.v1.PusherService/Push",
        lambda labels, raw: {"series": [{"labels": labels, "samples": [{"rawProfile": raw}]}]},
    ),
    "parca": Server(
        "/api/profiles/writeraw",
        lambda labels, raw: {
            "series": [{"labels": {"labels": labels}, "samples": [{"rawProfile": raw}]}]
        },
    ),
}


class Part(NamedTuple):
    """Hold what is sent at once: a profile with its labels, and its time of day, if it is not that
    of the run."""

    profile: Profile
    labels: Labels
    begin_unix_ns: int | None = None
    duration_ns: int = 0


def label(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE.  Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not _LABEL.fullmatch(name):
        raise ValueError(f"{text!r} is not NAME=VALUE, of letters, digits and _")
    return name, value


class Pusher:
    """Send profiles to a server: `http://host:4040` is Pyroscope's, `parca+http://host:7070`
    Parca's."""

    def __init__(self, url: str) -> None:
        """Take its address.  Raises UsageError."""
        kind, plus, address = url.partition("+")
        if not plus:
            kind, address = "pyroscope", url
        parts = urlsplit(address)
        if kind not in SERVERS or parts.scheme not in ("http", "https") or not parts.hostname:
            known = ", ".join(f"{name}+http://host:port" for name in SERVERS)
            raise UsageError(f"--push takes http://host:port, or one of {known}: not {url}")
        self._server = SERVERS[kind]
        place = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/")
        path += self._server.path * (not path.endswith(self._server.path))
        self.url = urlunsplit((parts.scheme, place, path, parts.query, ""))
        self._headers = {"Content-Type": "application/json"}
        if parts.username is not None:
            words = f"{parts.username}:{parts.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(words).decode()}"

    def send(self, part: Part, exact_times: bool = False) -> int:
        """Send it; returns how many bytes of pprof it is.  Raises PyhybridError."""
        import urllib.error
        import urllib.request

        exporter, file = Pprof(), io.BytesIO()
        exporter.exact_times = exact_times
        exporter.begin_unix_ns, exporter.duration_ns = part.begin_unix_ns, part.duration_ns
        exporter.write(part.profile, file)
        pairs = [{"name": name, "value": value} for name, value in sorted(part.labels.items())]
        raw = base64.b64encode(file.getvalue()).decode()
        body = json.dumps(self._server.body(pairs, raw)).encode()
        request = urllib.request.Request(self.url, body, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                why = one_line(error.read(500).decode("utf-8", "replace"))
            raise PyhybridError(f"{self.url} answers {error.code}: {why or error.reason}") from None
        except (OSError, ValueError) as error:
            why = one_line(getattr(error, "reason", None) or error)
            raise PyhybridError(f"{self.url} takes nothing: {why}") from None
        return len(file.getvalue())


def parts_of(profile: Profile, own: Labels, every: int = 0) -> Iterator[Part]:
    """Yield the processes of a profile that have samples or calls, with their labels, to which
    `own` are added; of each `every` steps one, where that is asked for.  Raises PyhybridError."""
    known = identities(profile)
    several = len(profile.processes) > 1
    for number, process in profile.processes.items():
        shown = profile
        if several:
            shown, _ = choose(profile, Choice(processes=[str(process.pid)]))
        if not shown.sampled and not shown.exact.calls:
            continue
        facts = profile.meta | known[number]
        labels = {
            "__name__": "wall" if profile.meta.get("clock") == "wall" else "process_cpu",
            "service_name": program_of(process.argv),
            "host": str(facts.get("hostname") or ""),
            "run": _run(profile.path),
            "pid": str(process.pid),
        }
        if facts.get("rank") is not None:
            labels["rank"] = str(facts["rank"])
        labels |= own
        if every:
            yield from _steps(shown, labels, every)
        else:
            yield Part(shown, labels)


def _steps(profile: Profile, labels: Labels, every: int) -> Iterator[Part]:
    """Yield the samples of each so many steps, with the number of the first one as a label."""
    found = find_steps(profile).steps
    a, b = (profile.clock_pairs or [(0, 0)])[0]
    start_ns = profile.process.start_ns or 0
    for at in range(0, len(found), every):
        begin_ns = found[at].begin_ns
        end_ns = found[min(at + every, len(found)) - 1].end_ns
        window = Choice(begin_ns=begin_ns - start_ns, end_ns=end_ns - start_ns)
        shown, _ = choose(profile, window)
        if shown.sampled:
            of_step = labels | {"step": str(found[at].number)}
            yield Part(shown, of_step, begin_ns + b - a, end_ns - begin_ns)


def _run(path: str) -> str:
    """Return what the run is called: by its file, or the folder of its ranks."""
    folder, file = os.path.split(os.path.abspath(path))
    if folder.endswith(RANKS):
        return os.path.basename(folder).removesuffix(RANKS)
    return file.removesuffix(PART).removesuffix(PROFILE)
