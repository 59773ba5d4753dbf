"""Debug files from debuginfod servers, by build-id: the one module that knows debuginfod-find(1).

The program is part of elfutils.  It asks the servers in $DEBUGINFOD_URLS and keeps what it gets
where all its users look ($DEBUGINFOD_CACHE_PATH, else ~/.cache/debuginfod_client).  It runs
only where someone asked for it: without `--debuginfod` nothing is ever fetched.
"""

import os
import shutil
import subprocess

from pyhybrid.base.terminal_text import say
from pyhybrid.errors import PyhybridError

PROGRAM = "debuginfod-find"


class Debuginfod:
    """What servers have; `notes` says what went wrong."""

    def __init__(self) -> None:
        """Raises PyhybridError where the program is missing or no server is named."""
        self.notes: list[str] = []
        if not os.environ.get("DEBUGINFOD_URLS", "").strip():
            raise PyhybridError("--debuginfod: $DEBUGINFOD_URLS names no server")
        program = shutil.which(PROGRAM)
        if program is None:
            raise PyhybridError(f"--debuginfod needs {PROGRAM} (of elfutils), which is not here")
        self._program = program

    def find(self, build_id: str, module: str) -> str | None:
        """The path of the debug file of this build of `module`; None: no server has it.

        That may take minutes: it is said on stderr, and can be interrupted.
        """
        say(f"asking debuginfod for {os.path.basename(module)} ...")
        asked = subprocess.run(
            [self._program, "debuginfo", build_id],
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if asked.returncode == 0:
            return os.fsdecode(asked.stdout).removesuffix("\n")
        reason = os.fsdecode(asked.stderr).strip().rpartition(": ")[2]
        if reason != "No such file or directory":
            reason = reason or f"{PROGRAM} ended with {asked.returncode}"
            self.notes.append(f"debuginfod: {build_id}: {reason}")
        return None
