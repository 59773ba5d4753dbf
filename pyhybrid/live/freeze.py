"""Freezes what was recorded until now: another process makes a profile of copies of the spools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from pyhybrid.capture.finisher import SNAPSHOT
from pyhybrid.capture.output_lock import PART, PROFILE
from pyhybrid.finish.snapshot import copy_spool
from pyhybrid.live.model import Live


class Freezing:
    """Make profiles beside a prefix, one after the other, while `step` is called now and then."""

    def __init__(self, model: Live, prefix: str) -> None:
        self._model, self._prefix = model, prefix
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = self._output = ""

    def begin(self) -> str:
        """Begin one; returns what to say of it."""
        if self._process:
            return "a profile is being made"
        self._output = f"{self._prefix}.{time.strftime('%H%M%S')}"
        try:
            self._folder = tempfile.mkdtemp(prefix="pyhybrid-live-")
            words = self._words()
        except OSError as error:
            self._remove()
            return f"no profile: {error.strerror}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        return f"{self._output}{PROFILE} is being made"

    @property
    def is_busy(self) -> bool:
        """Is one being made?"""
        return self._process is not None

    def _words(self) -> list[str]:
        if self._model.processes[0].follower.is_window:  # those that have passed belong to it, too
            spool = self._model.path
            return ["pyhybrid.finish.finish", SNAPSHOT, "live", spool, self._output]
        copies = self._copies()
        if len(copies) == 1:
            return ["pyhybrid.finish.finish", copies[0], self._output]
        return ["pyhybrid", "merge", "-o", self._output, *copies]

    def _copies(self) -> list[str]:
        copies: list[str] = []
        for each in self._model.processes:
            if each.follower.is_begun:
                copies.append(os.path.join(self._folder, f"{len(copies)}{PART}"))
                copy_spool(each.follower.path, copies[-1])
        return copies

    def step(self) -> str:
        """Return what to say once it is made, or could not be; else ""."""
        if not self._process or self._process.poll() is None:
            return ""
        _, errors = self._process.communicate()
        code, self._process = self._process.returncode, None
        self._remove()
        if code:
            lines = errors.decode("utf-8", "replace").strip().splitlines() or ["?"]
            return f"no profile: {lines[-1]}"
        return f"{self._output}{PROFILE} is made"

    def wait(self) -> str:
        """Wait for the one that is being made; returns as `step`."""
        if self._process:
            with suppress(KeyboardInterrupt):
                self._process.wait()
        return self.step()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
