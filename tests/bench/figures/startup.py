"""How long after the command a program's first line runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from method import Figure, alternate, bare, profiled, row, run


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "first_line.py"
        script.write_text("import time; print(time.monotonic())\n")

        def seconds(command: list[str]) -> float:
            process = run(command, folder)
            return float(process.stdout) - process.started

        seconds(profiled(str(script)))  # warm: files in the page cache
        rounds = list(
            alternate(
                pairs,
                lambda: seconds(bare(str(script))),
                lambda: seconds(profiled(str(script))),
            )
        )
    return [
        Figure(
            "startup",
            "Time to start a program",
            [
                row("beyond bare Python", "s", [b - a for a, b in rounds], "<= 0.1"),
                row("bare Python, for comparison", "s", [a for a, _ in rounds]),
            ],
            [{"bare_s": a, "profiled_s": b} for a, b in rounds],
        )
    ]
