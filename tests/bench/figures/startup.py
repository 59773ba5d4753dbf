"""How long after the command a program's first line runs, and a short command whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

from method import Figure, alternate, bare, over, profiled, row, run

SHORT = ("-c", "import torch")  # much is called, and it ends at once


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "first_line.py"
        script.write_text("import time; print(time.monotonic())\n")

        def seconds(command: list[str]) -> float:
            process = run(command, folder)
            return float(process.stdout) - process.started

        def whole(command: list[str]) -> list[float]:
            process = run(command, folder)
            return [process.cpu_s, process.ended - process.started]

        seconds(profiled(str(script)))  # warm: files in the page cache
        rounds = list(
            alternate(
                pairs,
                lambda: seconds(bare(str(script))),
                lambda: seconds(profiled(str(script))),
            )
        )
        sides = alternate(pairs, lambda: whole(bare(*SHORT)), lambda: whole(profiled(*SHORT)))
        short = [{"off": off, "hybrid": on} for off, on in sides]
    return [
        Figure(
            "startup",
            "Time to start a program",
            [
                row("beyond bare Python", "s", [b - a for a, b in rounds], "<= 0.1"),
                row("bare Python, for comparison", "s", [a for a, _ in rounds]),
                *over(
                    short,
                    "`import torch` alone, the whole command over bare",
                    "hybrid",
                    reach="<= 1.2",
                ),
            ],
            [{"bare_s": a, "profiled_s": b} for a, b in rounds] + short,
        )
    ]
