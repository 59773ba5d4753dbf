"""Output formats: each a class of its own in a file of its own, made from a `Profile` alone."""

from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.exporter import Exporter
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.lttng import Lttng
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.exporters.pstats import PStats

EXPORTERS: dict[str, type[Exporter]] = {
    each.name: each for each in (Folded, Perf, PerfMap, PStats, Callgrind, Lttng)
}
# perf finds inlined functions by addresses itself, and exact figures are of whole functions.
AS_RECORDED = {each.name for each in (Perf, PerfMap, PStats, Callgrind, Lttng)}
