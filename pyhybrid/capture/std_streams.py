"""The program's standard streams: unbuffered ones are kept whole although signals come; our lines.

`python -u` writes text straight to a FileIO and ignores how much of it the system took: a signal in
the middle of a large write to a pipe would lose the rest.
"""

from __future__ import annotations

import io
import sys
from posix import write  # at the end `os` may have another

from pyhybrid.base.terminal_text import visible

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def keep_whole(
    whole_write: Callable[[io.FileIO], Callable[..., Any]], kept: list[io.FileIO]
) -> None:
    """Give unbuffered standard streams a `write` that goes on; `kept` is for `release`."""
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        stream = getattr(sys, name, None)
        raw = stream.buffer if type(stream) is io.TextIOWrapper else None
        if type(raw) is io.FileIO and "write" not in vars(raw):
            kept.append(raw)
            vars(raw)["write"] = whole_write(raw)


def release(kept: list[io.FileIO]) -> None:
    """Restore them as they were."""
    for raw in kept:
        vars(raw).pop("write", None)
    kept.clear()


def say(line: str) -> None:
    """Print one line on standard error; `sys.stderr` is the program's, and may be gone."""
    for step in (
        lambda: sys.stderr.flush(),
        lambda: write(2, f"pyhybrid: {visible(line)}\n".encode()),
    ):
        try:
            step()
        except Exception:
            continue
