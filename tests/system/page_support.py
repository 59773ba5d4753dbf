"""The page of a profile in a browser: tests/viewers/browse.mjs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from support import PATIENCE_S

BROWSE = Path(__file__).parents[1] / "viewers" / "browse.mjs"


def browse(file: Path, steps: str, hash: str = "", **options: Any) -> Any:
    """What `steps` (JavaScript) return, of a page that neither fails nor asks for anything.

    `options` are playwright's of a browser: viewport, colorScheme.
    """
    environment = {
        **os.environ,
        "BROWSE": json.dumps(options),
        "CHROMIUM": shutil.which("chromium") or "",
    }
    command = ["node", str(BROWSE), str(file), *([hash] if hash else [])]
    done = subprocess.run(
        command, input=steps, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["errors"] == [], told["errors"]
    assert told["requests"] == [], told["requests"]
    return told["result"]


def report(folder: Path, *options: str) -> Any:
    """What `report --json` says of the profile there."""
    command = [sys.executable, "-P", "-m", "pyhybrid", "report", "--json", *options]
    return json.loads(subprocess.check_output(command, cwd=folder, stderr=subprocess.DEVNULL))


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
