"""Exact figures of each function as events `sysmon:function_stats` of LTTng-UST.

The figures are those of the format pstats, the fields are declared in src/emit/lttng_stats.h.  The
events go to the sessions that record them while this runs, and come from this process: the profiled
program needs nothing of LTTng's.
"""

from pyhybrid.errors import UsageError
from pyhybrid.exporters.output import Output
from pyhybrid.exporters.pstats import PStats
from pyhybrid.profile_file.profile import Profile


class Lttng(PStats):
    """Emits them; writes no file."""

    name = "lttng"
    help = "exact calls and times as events sysmon:function_stats, for the LTTng session that runs"

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Nowhere."""
        return ""

    def write(self, profile: Profile, path: str, limit_bytes: int | None = None) -> Output:
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
        for (file, line, name), (_, calls, _, total_s, _) in stats.items():
            pylttng.trace_function_stats(file, line, name, calls, total_s)
        return Output(None, [f"{len(stats)} functions are events sysmon:function_stats of LTTng"])
