"""What viewers show of functions and of the run, by formats that have places for each part."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from pyhybrid import __version__
from pyhybrid.tables import Frame, Process
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import labels_of, losses_text, shares_text
from pyhybrid.views.stack_quality import stack_quality

CREATOR = f"pyhybrid {__version__}"


class Function(NamedTuple):
    """Name a frame: `file` is its source file where that is known, else its library; "": neither.

    The line is its first one; 0: not known.
    """

    name: str
    file: str
    line: int


def functions(profile: Profile) -> dict[int, Function]:
    """Return them by frame id.  All text is such as UTF-8 has."""
    labels = labels_of(profile, full_names=False)

    def function(frame: Frame) -> Function:
        name = frame.name if frame.kind == "python" or frame.inlined else labels[frame.id]
        module = profile.modules.get(frame.module or 0)
        file = frame.file or (module.path if module else "")
        return Function(encodable(name), encodable(file), frame.line or 0)

    return {frame.id: function(frame) for frame in profile.frames.values()}


def encodable(text: str) -> str:
    """Return it without surrogates that are alone, as names of files may have them."""
    return text.encode("utf-8", "backslashreplace").decode()


def title(process: Process) -> str:
    """Return which run it is: its script or module."""
    argv = [os.path.basename(process.executable or "python"), *process.argv[1:]]
    return encodable(" ".join([argv[0], *map(os.path.basename, argv[1:2]), *argv[2:]]))


def facts(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the facts of the run and of what its figures are worth, each with its heading."""
    meta = profile.meta
    yield "command", encodable(" ".join(profile.process.argv))
    yield "profiler", CREATOR
    yield "host", encodable(str(meta.get("hostname", "")))
    yield "mode", str(meta.get("mode", ""))
    recorded = sum(thread.recorded for thread in profile.threads.values())
    if recorded:
        yield "clock", f"{meta.get('clock')} time, {meta.get('hz')} Hz, {meta.get('engine')}"
        yield "samples", f"{recorded:,}"
        losses: dict[str, int] = {}
        for loss in profile.losses:
            losses[loss.reason] = losses.get(loss.reason, 0) + loss.samples
        yield "samples lost", losses_text(losses)
        if own_ns := profile.own_weight_ns:
            yield "profiler's own work", f"{own_ns / 1e9:.2f} s, which no sample here stands for"
        yield "stacks", shares_text(stack_quality(profile))
