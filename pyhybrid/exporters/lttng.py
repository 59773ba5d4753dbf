"""Exact figures of each function as events `sysmon:function_stats` of LTTng-UST.

The figures are those of the format pstats, the fields are declared in src/emit/lttng_stats.h.  The
events go to the sessions that record them while this runs, and come from this process: the profiled
program needs nothing of LTTng's.
"""

from typing import BinaryIO

from pyhybrid.errors import UsageError
from pyhybrid.exporters.pstats import PStats
from pyhybrid.tables.profile import Profile


class Lttng(PStats):
    """Emit them; this writes no file."""

    name = "lttng"
    help = "exact calls and times as events sysmon:function_stats, for the LTTng session that runs"

    def default_path(self, profile: Profile, prefix: str) -> None:
        """Return None: it writes no file."""

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Emit them.  Raises PyhybridError where nothing was traced, or nobody records."""
        stats = self.stats(profile)
        try:
            import pylttng
        except ImportError as error:
            raise UsageError(str(error)) from None
        if not pylttng.is_recorded():
            raise UsageError(
                "no LTTng session records the figures of functions: "
                "`lttng enable-event --userspace 'sysmon:*'`, `lttng start`, then export again"
            )
        for (source, line, name), (_, calls, _, total_s, _) in stats.items():
            pylttng.trace_function_stats(source, line, name, calls, total_s)
        return [f"{len(stats)} functions are events sysmon:function_stats of LTTng"]
