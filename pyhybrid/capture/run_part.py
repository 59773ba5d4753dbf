"""A part of the run of `python -m pyhybrid`, as a profile of its own: a `Profiler` within it.

There is one sampler, and one spool, in a process.  So a part is what the spool has at its end less
what it had at its begin: it is copied at both, and the finishing process takes the difference
(assemble/run_part.py).  The run itself goes on meanwhile.
"""

import contextlib
import os
import shutil
import tempfile
from typing import IO, TYPE_CHECKING

from pyhybrid.base.clock_pair import MONOTONIC
from pyhybrid.capture.finisher import wait_for
from pyhybrid.capture.output_lock import PROFILE, check_folder
from pyhybrid.errors import PyhybridError
from pyhybrid.options.settings import Settings

if TYPE_CHECKING:
    from pyhybrid.capture.profiling_run import Profiling

_COPIED_AT_ONCE = 1 << 24


class RunPart:
    """Profile a part of a run, from its making to `finish`, but for pauses.  Raises PyhybridError.

    Of a run that has no profile (`--mode none`) it has none, either.
    """

    def __init__(self, run: "Profiling", settings: Settings, *, makes_folders: bool) -> None:
        self._run, self._settings, self.pid = run, settings, run.pid
        self.folder: str | None = None  # of what `finish` has made; the caller removes it
        self.prefix = ""  # of its files; "": it has none that stay
        if settings.output:
            self.prefix = os.path.abspath(settings.output).removesuffix(PROFILE)
            check_folder(self.prefix, makes=makes_folders)
        # Begins and ends in turn: when, and the spool as it was.  Files without a name: whatever
        # becomes of this process, nothing is left.
        self._marks: list[tuple[int, IO[bytes]]] = []
        self.paused = True
        self.resume()

    def resume(self) -> None:
        """Begin, or go on after `pause`."""
        self._run.enable()
        try:
            # Also where the run goes on only now.
            spool = self._run.native.call_as_own(self._spool_as_it_is)
        except BaseException:
            self._run.disable()
            raise
        self._marks.append((self._now_ns(), spool))
        self.paused = False

    def pause(self) -> None:
        """Pause: what happens until `resume` is no part of it."""
        now_ns = self._now_ns()
        self._marks.append((now_ns, self._spool_as_it_is()))
        self._run.disable()
        self.paused = True

    def _now_ns(self) -> int:
        return int(self._run.native.read_clock(MONOTONIC))

    def _spool_as_it_is(self) -> IO[bytes]:
        self._run.native.flush()
        try:
            copy = tempfile.TemporaryFile(prefix="pyhybrid-")  # noqa: SIM115
            if not self._run.settings.counts:
                return copy
            with open(self._run.spool, "rb") as spool:
                # Its head first, which has what was committed: by the flush.
                shutil.copyfileobj(spool, copy, _COPIED_AT_ONCE)
        except OSError as error:
            raise PyhybridError(f"{self._run.spool} cannot be copied: {error.strerror}") from None
        return copy

    def finish(self) -> str | None:
        """End, and make the files: the profile's path, or None where why not has been reported."""
        if not self.paused:
            self.pause()
        if not self._run.settings.counts:
            return None
        self.folder = tempfile.mkdtemp(prefix="pyhybrid-")
        words = []
        for number, (time_ns, copy) in enumerate(self._marks):
            path = os.path.join(self.folder, f"{number}.part")
            with copy, open(path, "wb") as file:
                copy.seek(0)
                shutil.copyfileobj(copy, file, _COPIED_AT_ONCE)
            words += ["--mark", f"{time_ns}:{path}"]
        prefix = self.prefix or os.path.join(self.folder, "out")
        formats = [word for name in self._settings.formats for word in ("--format", name)]
        summary = ["--summary"] if self._settings.summary else []
        arguments = [*summary, *formats, *words, path, prefix]
        try:
            made = wait_for(self._run.finisher.spawn(arguments, -1, sends_end=False), path)
        except OSError as error:
            raise PyhybridError(f"the profile could not be made: {error.strerror}") from None
        return prefix + PROFILE if made else None

    def stop(self) -> bool:
        """End without files."""
        self.abandon()
        return True

    def abandon(self) -> None:
        """Leave nothing."""
        for _, copy in self._marks:
            with contextlib.suppress(OSError):
                copy.close()
        self._marks.clear()
        if not self.paused:
            self._run.disable()
        self.paused = True
