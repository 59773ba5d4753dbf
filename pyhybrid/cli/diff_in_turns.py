"""The runs of `pyhybrid diff --run`: two programs in turns, and the files of each.

Turns are A B, B A, A B, and so on: a machine that gets busier, or warmer, is none's difference.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Self

from pyhybrid.base.terminal_text import say
from pyhybrid.cli.without_profile import split
from pyhybrid.errors import PyhybridError, UsageError

SIDES = "before", "after"
_USAGE = "diff --run N takes two programs: -- PROGRAM -- PROGRAM"


def commands(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the command lines of both, as they stand behind `pyhybrid`.

    Where they have a `--` of their own, the middle one divides them.  Raises UsageError.
    """
    dividers = [at for at, each in enumerate(words) if each == "--"]
    if len(dividers) % 2 == 0:
        several = ": of an even number of `--` none is the middle one" if dividers else ""
        raise UsageError(_USAGE + several)
    at = dividers[len(dividers) // 2]
    sides = words[:at], words[at + 1 :]
    if not all(split(side)[1] for side in sides):
        raise UsageError(_USAGE)
    return sides


class Turns:
    """Run two programs in turns; `files` are the profiles of each.

    Used with `with`: at the end a folder of our own is removed, unless its files `are_needed` or
    something failed.
    """

    def __init__(self, sides: tuple[list[str], list[str]], folder: str | None) -> None:
        self.files: tuple[list[str], list[str]] = ([], [])
        self.are_needed = False
        self._sides, self._is_ours = sides, folder is None
        try:
            if folder is None:
                folder = tempfile.mkdtemp(prefix="pyhybrid-diff-")
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise PyhybridError(f"cannot make the folder {folder}: {error.strerror}") from None
        self._folder = os.path.abspath(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if not self._is_ours:
            return
        if (self.are_needed or kind) and os.listdir(self._folder):
            say(f"the runs' files are in {self._folder}")
        else:
            shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, n: int) -> None:
        """Run both until each has run `n` times.  Raises PyhybridError where a run fails."""
        for turn in range(len(self.files[0]), n):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                self._run(side, turn + 1)
            say(f"{turn + 1} of {n} runs a side")

    def _run(self, side: int, number: int) -> None:
        ours, program = split(self._sides[side])
        prefix = os.path.join(self._folder, f"{SIDES[side]}{number}")
        # What stands last is in force.
        options = [*ours, "-q", "--strict", "-o", prefix, "--", *program]
        safe_path = ["-P"] if sys.flags.safe_path else []
        command = [sys.executable, *safe_path, "-m", "pyhybrid", *options]
        log, profile = f"{prefix}.log", f"{prefix}.pyhybrid"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(profile)  # of another comparison
            with open(log, "wb") as output:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
        except OSError as error:
            raise PyhybridError(f"cannot run {program[0]}: {error.strerror or error}") from None
        except KeyboardInterrupt:
            raise PyhybridError("interrupted") from None
        which = f"run {number} of {SIDES[side]} ({' '.join(program)})"
        if code := done.returncode:
            how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise PyhybridError(f"{which} failed, {how}{_last_line(log)}; its output is in {log}")
        if not os.path.exists(profile):
            raise PyhybridError(f"{which} left no profile (its output is in {log})")
        self.files[side].append(profile)


def _last_line(log: str) -> str:
    with open(log, "rb") as file:
        lines = file.read().decode(errors="backslashreplace").split("\n")
    last = next((each.strip() for each in reversed(lines) if each.strip()), "")
    return f": {last.removeprefix('pyhybrid: ')}" if last else ""
