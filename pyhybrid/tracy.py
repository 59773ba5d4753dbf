"""For programs that are marked for Tracy's Python module, with another import:

    from pyhybrid.tracy import Profiler, signpost

    profiler = Profiler()
    profiler.enable()
    function_under_test()
    profiler.disable()

`python -m pyhybrid -p --emit tracy...` profiles what is between the two, and all outputs do, not
only Tracy.  Without `-p`, or without pyhybrid, nothing happens.
"""

from pyhybrid._native import signpost as _signpost
from pyhybrid.capture.api import switch

__all__ = ["Profiler", "signpost"]


class Profiler:
    """Profile where it is enabled, in a run that was begun with `-p`."""

    def enable(self) -> None:
        """Profile from now on; if it does already nothing happens."""
        switch(True)

    def disable(self) -> None:
        """Profile no longer; if it does not nothing happens."""
        switch(False)


def signpost(header: str, message: str | None = None) -> None:
    """Send a message at this moment on this thread: a heading, and perhaps more."""
    text = header if message is None else f"{header}\n{message}"
    _signpost(f"`TT_SIGNPOST: {text}`".encode(errors="backslashreplace").replace(b"\0", b"\\0"))
