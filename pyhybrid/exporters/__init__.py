"""Output formats: each a class of its own in a file of its own, made from a `Profile` alone."""

from pyhybrid.capture.options import ALL_FORMATS
from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.chrome import Chrome
from pyhybrid.exporters.cpuprofile import CpuProfile
from pyhybrid.exporters.exporter import Exporter
from pyhybrid.exporters.firefox import Firefox
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.html import Html
from pyhybrid.exporters.lttng import Lttng
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.exporters.pfw import Pfw
from pyhybrid.exporters.pprof import Pprof
from pyhybrid.exporters.pstats import PStats
from pyhybrid.exporters.speedscope import Speedscope

_CLASSES: dict[str, type[Exporter]] = {
    each.name: each
    for each in (
        *(Folded, Perf, PerfMap, PStats, Callgrind, Lttng),
        *(Html, Pprof, Firefox, Speedscope, Chrome, CpuProfile, Pfw),
    )
}
EXPORTERS = {name: _CLASSES[name] for name in ALL_FORMATS}
# perf finds inlined functions by addresses itself, and exact figures are of whole functions.
AS_RECORDED = {each.name for each in (Perf, PerfMap, PStats, Callgrind, Lttng, Pfw)}
