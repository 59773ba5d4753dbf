"""Output formats: each a class of its own in a file of its own, made from a `Profile` alone."""

from typing import Protocol

from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.lttng import Lttng
from pyhybrid.exporters.output import Output
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.exporters.pstats import PStats
from pyhybrid.profile_file.profile import Profile


class Exporter(Protocol):
    """What every exporter offers; `name` is the word after `-f`."""

    name: str
    help: str

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Where it goes if nobody says; `prefix` is what the profile file's name begins with."""

    def write(self, profile: Profile, path: str, limit_bytes: int | None = None) -> Output:
        """Write `path`.  Raises PyhybridError.

        With `limit_bytes` a format that can be coarser keeps below it, and says so in a note.
        """


EXPORTERS: dict[str, type[Exporter]] = {
    each.name: each for each in (Folded, Perf, PerfMap, PStats, Callgrind, Lttng)
}
# perf finds inlined functions by addresses itself, and exact figures are of whole functions.
AS_RECORDED = {each.name for each in (Perf, PerfMap, PStats, Callgrind, Lttng)}
