"""The profile of a whole run (`--pyhybrid`): one file, whoever ran the tests.

Workers of xdist's, forked children, and this process after a profile that made way, write parts of
it into a folder beside the file, which are merged at the end.
"""

import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyhybrid.capture.output_lock import PART, PROFILE
from pyhybrid.errors import PyhybridError
from pyhybrid.pytest_plugin.profiles import Idle, IdleProfile


class WholeRun:
    """Profile the run in this process; `parts` is the folder, of all processes of the run."""

    def __init__(
        self,
        prefix: str,
        lines: bool,
        argv: list[str] | None,
        worker: str | None,
        parts: str | None,
    ) -> None:
        self.parts = parts or f"{prefix}.parts-{os.getpid()}"
        self.notes: list[str] = []
        self._prefix, self._lines, self._argv = prefix, lines, argv
        self._pid, self._worker = os.getpid(), worker
        self._profile: IdleProfile | None = None  # as long as it counts
        self._n_profiles = 0

    @contextmanager
    def profile(self, begun: Callable[[IdleProfile], Idle | None]) -> Iterator[Idle | None]:
        """Give the profile in which a test counts; None: `begun` could not begin it.

        That of a forked child ends with the test: the child may end in any way.
        """
        if os.getpid() != self._pid:
            child = IdleProfile(self._part(f"forked-{os.getpid()}"), self._lines, self._argv)
            try:
                yield begun(child)
            finally:
                child.end()
            return
        if self._profile and self._profile.running:
            yield Idle(self._profile.session, self._profile.settings)
            return
        self._end_profile()
        is_first = not self._n_profiles and not self._worker
        who = self._worker or "main"
        prefix = self._prefix if is_first else self._part(f"{who}-{self._n_profiles + 1}")
        profile = IdleProfile(prefix, self._lines, self._argv)
        idle = begun(profile)
        if idle:
            self._profile = profile
            self._n_profiles += 1
        yield idle

    def _part(self, name: str) -> str:
        with suppress(OSError):  # that nothing can be written is known where the profile begins
            os.makedirs(self.parts, exist_ok=True)
        return os.path.join(self.parts, name)

    def _end_profile(self) -> str | None:
        """Return the path of its file."""
        profile, self._profile = self._profile, None
        if profile:
            profile.end()
        return profile.path if profile else None

    def end(self, makes_one: bool) -> list[str]:
        """Make the file, unless another process does; returns the paths of what was made."""
        self._end_profile()
        if not makes_one:
            return []
        path = self._prefix + PROFILE
        own = [path] if self._n_profiles and os.path.exists(path) else []
        parts = [
            f for kind in (PROFILE, PART) for f in glob.glob(f"{glob.escape(self.parts)}/*{kind}")
        ]
        if not parts:
            return own
        from pyhybrid.exporters.destination import replacing
        from pyhybrid.merge.merge import merge

        try:
            with replacing(path) as temporary:
                merge([*own, *sorted(parts)], temporary)
        except PyhybridError as error:
            self.notes.append(f"the parts of the profile are in {self.parts}: {error}")
            return [*own, *parts]
        shutil.rmtree(self.parts, ignore_errors=True)
        return [path]
