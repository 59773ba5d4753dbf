"""Live outputs of a run: sinks, which are told of calls as they happen, and tools of other systems.

Both are shared objects of ours, loaded where they are asked for.
"""

import errno
import os
from typing import TYPE_CHECKING

from pyhybrid.capture import fork_warning
from pyhybrid.capture.std_streams import say
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.options.kinds import native_number
from pyhybrid.options.settings import Settings
from pyhybrid.options.table import TOOLS, TRACY

if TYPE_CHECKING:
    from pyhybrid.capture.tracy_capture import TracyCapture


class LiveOutputs:
    """Those that `settings` ask for; `capture` is of the process that captures Tracy's zones."""

    def __init__(self, settings: Settings, python: str | None) -> None:
        """`python` is an interpreter for other processes."""
        from pyhybrid import _native  # which was found: the run has said so where it is not there

        self._settings, self._native, self._python = settings, _native, python
        self.capture: TracyCapture | None = None

    def open_sinks(self) -> None:
        """Those that can be had; UsageError where there is none, and nothing else was asked for."""
        n_open = 0
        failed = []
        for name, argument in self._settings.sinks:
            try:
                said = fork_warning.load_output(self._native, self._open_sink, name, argument)
                n_open += 1
                if said:
                    say(f"the live output {name}: {said}")
            except (OSError, ValueError, PyhybridError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                if getattr(error, "errno", 0) == errno.EBUSY:
                    raise PyhybridError(f"cannot start: {reason}") from None
                failed.append(f"the live output {name} is not to be had: {reason}")
        if not self._settings.counts and not n_open:
            raise UsageError("; ".join(failed))
        for said in failed:
            say(said)

    def _open_sink(self, name: str, argument: str) -> str:
        """What it has to say.  Raises OSError, ValueError, PyhybridError; it is not open then."""
        path = os.path.join(os.path.dirname(self._native.__file__), f"libpyhybrid_{name}.so")
        if not os.path.exists(path):
            raise PyhybridError("pyhybrid was built without it (docs/live-outputs.md)")
        values = native_number("EMIT_VALUE", self._settings.emit_value)
        words = os.fsencode(path), os.fsencode(argument), values
        if name != TRACY or self._settings.tracy is None:
            return self._native.emit(*words)
        from pyhybrid.capture.tracy_capture import TracyCapture

        self.capture = TracyCapture(self._native, self._python, self._settings.tracy, argument)
        return self.capture.around(lambda: self._native.emit(*words))

    def open_tools(self) -> None:
        """Those by which other systems' instrumentation finds us; they stay, for it calls on."""
        folder = os.path.dirname(self._native.__file__)
        for name, variable in TOOLS.items():
            if name not in self._settings.regions:
                continue
            path = f"{folder}/libpyhybrid_tool_{name}.so"
            try:
                if not variable:
                    self._native.open_tool(os.fsencode(path))
                elif (os.environ.get(variable) or path) != path:
                    say(f"--regions {name}: what {variable} names is told, and pyhybrid is not")
                else:  # they load it; the program's own `os.environ` stays as it is
                    os.putenv(variable, path)
            except OSError as error:
                say(f"the tool {name} is not to be had: {error}")
