"""The page of a profile in a browser: tests/viewers/browse.mjs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from support import PATIENCE_S, printed

BROWSE = Path(__file__).parents[2] / "viewers" / "browse.mjs"


class Browser:
    """One that several tests use, one after the other; no page knows of another."""

    def __init__(self, errors: Path) -> None:
        """`errors`: what it says goes to this file."""
        self._errors = errors
        environment = {**os.environ, "CHROMIUM": shutil.which("chromium") or ""}
        pipe = subprocess.PIPE
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                ["node", str(BROWSE)], stdin=pipe, stdout=pipe, stderr=file, env=environment
            )

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)

    def __call__(self, file: Path, steps: str, hash: str = "", **options: Any) -> Any:
        """What `steps` (JavaScript) return, of a page that neither fails nor asks for anything.

        `options` are playwright's of a context: viewport, colorScheme.
        """
        assert self._process.stdin and self._process.stdout
        asked = {"file": str(file), "steps": steps, "hash": hash, "options": options}
        asked["patience_ms"] = 1000 * PATIENCE_S
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._errors.read_text()
        told = json.loads(line)
        assert "failed" not in told, told["failed"]
        assert told["errors"] == [], told["errors"]
        assert told["requests"] == [], told["requests"]
        return told["result"]


def report(folder: Path, *options: str) -> Any:
    """What `report --json` says of the profile there."""
    return json.loads(printed(folder, "report", "--json", *options))


ALL = "#imports=all"  # as the report has them
FUNCTIONS = "return await page.evaluate('window.functions()');"


def figures(functions: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """How often each name has each row of figures, of functions that have any."""
    names = (
        *("name", "samples", "self_ns", "total_ns", "python_ns"),
        *("calls", "raised", "exact_self_ns", "exact_total_ns"),
    )
    rows: dict[tuple[Any, ...], int] = {}
    for function in functions:
        row = tuple(function[name] for name in names)
        if any(row[1:]):
            rows[row] = rows.get(row, 0) + 1
    return rows


def check_same(shown: list[dict[str, Any]], told: dict[str, Any]) -> None:
    """All functions of the report are in the page's table, with the same figures."""
    mine, theirs = figures(shown), figures(told["functions"])
    assert theirs
    assert {row: mine.get(row) for row in theirs} == theirs
