"""Output formats: each a class of its own in a file of its own, made from a `Profile` alone."""

import importlib
from collections.abc import Iterator, Mapping

from pyhybrid.exporters.exporter import Exporter
from pyhybrid.options.table import ALL_FORMATS

_CLASSES = {
    "folded": "folded:Folded",
    "perf": "perf.perf_data:Perf",
    "perf-map": "perf.names_map:PerfMap",
    "pstats": "pstats:PStats",
    "callgrind": "callgrind:Callgrind",
    "lttng": "lttng:Lttng",
    "html": "html:Html",
    "pprof": "pprof:Pprof",
    "firefox": "firefox:Firefox",
    "speedscope": "speedscope:Speedscope",
    "chrome": "chrome:Chrome",
    "cpuprofile": "cpuprofile:CpuProfile",
    "pfw": "perfflowaspect:Pfw",
}


class _Exporters(Mapping[str, type[Exporter]]):
    """The classes by name.  Each is imported when it is asked for: at the end of a run, few are."""

    def __getitem__(self, name: str) -> type[Exporter]:
        module, _, each = _CLASSES[name].partition(":")
        found: type[Exporter] = getattr(importlib.import_module(f"{__name__}.{module}"), each)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(ALL_FORMATS)

    def __len__(self) -> int:
        return len(ALL_FORMATS)


EXPORTERS = _Exporters()
# perf finds inlined functions by addresses itself, and exact figures are of whole functions.
AS_RECORDED = {"perf", "perf-map", "pstats", "callgrind", "lttng", "pfw"}
