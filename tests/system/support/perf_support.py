"""What the tests with the real perf share: running it, and reading what it prints."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.perf_data import EXACT_EVENT
from pyhybrid.tables import Frame, stack_of
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import times

CLOCK_EVENT = "cpu-clock"
EVENTS = (CLOCK_EVENT, EXACT_EVENT)
CLOCK_ONLY = ("--time", "0%-100%")  # the exact event's samples come after the last one


def write_perf_map(profile: Profile) -> None:
    """Makes the map of a profile that tests share again: /tmp is everyone's to clean up, and of a
    later process with the same number."""
    perf_map = PerfMap()
    output = export_to(perf_map, profile, perf_map.default_path(profile, "out"))
    assert output.path, output.notes


def perf(folder: Path, *arguments: str) -> str:
    """What perf prints, in the folder with perf.data (it would read stdin if that were a pipe)."""
    done = subprocess.run(
        ["perf", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(folder: Path, *options: str) -> dict[str, list[list[str]]]:
    """The rows of `perf report` by event, as columns."""
    text = perf(folder, "report", "--stdio", "--no-inline", "-g", "none", "-t", "|", *options)
    tables: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in text.splitlines():
        if match := re.match(r"# Samples: .* of event '(.*)'", line):
            rows = tables.setdefault(match[1], [])
        elif line and not line.startswith("#"):
            rows.append([column.strip() for column in line.split("|")])
    return tables


@dataclass
class ScriptFrame:
    """A line of a call chain; `symbol` without the offset, `file` the mapped file."""

    address: int
    symbol: str
    file: str


@dataclass
class ScriptSample:
    """A sample as `perf script` prints it: `frames` from the leaf on."""

    comm: str
    tid: int
    cpu: int
    time: str
    period: int
    event: str
    frames: list[ScriptFrame]


# By perf-script(1): the thread's name (which may have blanks), the tid, [cpu], time, period, event;
# then lines of address, symbol (which may have blanks) and offset, (file).
HEAD = re.compile(
    r"(?P<comm>\S.*?)\s+(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<time>\d+\.\d+):"
    r"\s+(?P<period>\d+)\s+(?P<event>\S+):\s*"
)
CHAIN = re.compile(
    r"\s+(?P<address>[0-9a-f]+) (?P<symbol>.+?)(?:\+0x[0-9a-f]+)? \((?P<file>[^()]+)\)"
)


def script(folder: Path, *options: str) -> list[ScriptSample]:
    """The samples of `perf script`; each line must be of its format."""
    samples = []
    for block in perf(folder, "script", "--no-inline", *options).strip().split("\n\n"):
        first, *rest = block.splitlines()
        head = HEAD.fullmatch(first)
        assert head, first
        frames = []
        for line in rest:
            match = CHAIN.fullmatch(line)
            assert match, line
            frames.append(ScriptFrame(int(match["address"], 16), match["symbol"], match["file"]))
        numbers = (int(head[name]) for name in ("tid", "cpu"))
        samples.append(
            ScriptSample(
                head["comm"], *numbers, head["time"], int(head["period"]), head["event"], frames
            )
        )
    return samples


def perf_name(frame: Frame) -> str:
    """What perf calls it, but for versions of symbols: Python functions have no parentheses."""
    if frame.kind == "python":
        name = f"py::{frame.name}:{frame.file}:{frame.line}"
    else:
        name = f"[{frame.name}]" if frame.kind == "region" else frame.name
    own = frame.kind in ("python", "region")
    return name.translate(str.maketrans("();", "[]:")) if own else name


def frames_of(profile: Profile, stack: int) -> list[Frame]:
    """A stack's frames, from the leaf on."""
    stacks, nodes = profile.stacks, profile.nodes
    frames = []
    while stack:
        frames.append(profile.frames[nodes.frame[stacks.node[stack]]])
        stack = stacks.parent[stack]
    return frames


def sampled(profile: Profile) -> dict[tuple[int, str], tuple[int, list[Frame]]]:
    """Weight and frames of every sample, by tid and time as perf prints it.

    (A thread has no two in one microsecond: its samples are about a millisecond apart.)
    """
    found = {}
    for chunk in profile.program_timeline():
        tid = profile.threads[chunk.thread].tid
        for i, (time_ns, place) in enumerate(zip(times(chunk), chunk.place, strict=True)):
            time = f"{time_ns // 10**9}.{time_ns % 10**9 // 1000:06}"
            weight_ns = chunk.weights.get(i, 1) * profile.period_ns
            found[tid, time] = weight_ns, frames_of(profile, stack_of(place))
    return found
