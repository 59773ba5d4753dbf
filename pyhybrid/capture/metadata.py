"""What a run records of itself in its profile's meta data, once its clocks have started.

Imports are few and light: the program waits for them.
"""

from __future__ import annotations

import sys

from pyhybrid import __version__
from pyhybrid.options.settings import GPU, Settings
from pyhybrid.options.table import USAGE_KIND

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from typing import Any


def describe(
    settings: Settings, started: dict[str, Any], clocks: tuple[int, int]
) -> dict[str, Any]:
    """Describe what was asked, and what came of it; `started` is what `_native.start` returned,
    `clocks` what clock_pair() has just done."""
    period = started["period_ns"]
    now_ns, unix_ns = clocks
    call_cost_ns, inside_ns, _ = started["call_cost"]
    return {
        "version": __version__,
        "python": sys.version.split()[0],
        "clock": settings.clock,
        "wall_threads": list(settings.wall_threads),
        "mode": settings.mode,
        "engine": started["engine"],
        "engine_reason": started["engine_reason"],
        "kernel_frames": started["no_kernel_frames"] is None,
        "no_kernel_frames": started["no_kernel_frames"] or "",
        "hz_asked": settings.hz,
        "hz": 1_000_000_000 // period,
        "period_ns": period,
        "cost_ns": started["cost_ns"],
        "tool_id": started["tool_id"],
        "comm": _comm(),
        "call_cost_ns": round(call_cost_ns, 2) or None,
        "call_cost_inside_ns": round(inside_ns, 2) if call_cost_ns else None,
        "functions": list(settings.functions),
        "keep": list(settings.keep),
        "args": list(settings.arguments),
        "usage": list(settings.usage),
        "paused": settings.paused,
        "start_at": settings.start_at if settings.begins_later else None,
        "usage_of": [name for _, name in USAGE_KIND.of_functions(settings.usage)],
        "function_tables": [table["name"] for table in settings.function_settings],
        "slower_than": settings.slower_than,
        "lines": settings.lines,
        "decorated": list(settings.decorated),
        "c_calls": settings.c_calls,
        "tasks": settings.tasks,
        "imports": settings.imports or settings.mode != "hybrid",
        "compiler_calls": "compilers" in settings.of_torch,
        "gpu_steps": settings.of_torch.get(GPU),
        "events_by_window": GPU in settings.of_torch and not settings.events,
        "c_calls_inexact": _c_calls_inexact(settings),
        "start_ns": started["start_ns"],
        "start_unix_ns": unix_ns - (now_ns - started["start_ns"]),
        "unwinder": settings.unwinder,
        "notes": _notes(settings, started),
        "custom_prefix": settings.output is not None,
        "formats": list(settings.formats),
        # ./perf.data is that of the `perf record` around us then.
        "perf_trampoline": settings.perf_trampoline,
    }


def _comm() -> str | None:
    """Return the kernel's name for the main thread, before the program may have changed it."""
    try:
        with open("/proc/self/comm", "rb", buffering=0) as file:
            return (file.read(64) or b"").decode("utf-8", "replace").rstrip("\n") or None
    except Exception:  # the program may forbid to open files
        return None


def _c_calls_inexact(settings: Settings) -> bool:
    return settings.c_calls and sys.version_info < (3, 12, 5)


def _notes(settings: Settings, started: dict[str, Any]) -> list[str]:
    """Return what is not as asked, a line each."""
    notes = []
    if settings.config:
        notes.append(f"options from {', '.join(settings.config)}")
    for name, least_ns in settings.slower_than:
        notes.append(f"single calls are kept from {least_ns / 1e6:g} ms on: {name}")
    period = started["period_ns"]
    if period > 1_000_000_000 // settings.hz:
        cost = started["cost_ns"] / 1000
        why = f"would cost more than 20 % of a core ({cost:.0f} us a sample)"
        if not cost:
            why = "may cost too much (no signal came when that was to be measured)"
        notes.append(f"{settings.hz} Hz {why}: {1_000_000_000 // period} Hz")
    if not started["watches_code"]:
        notes.append("no free code watcher: names of code objects that die may be wrong")
    if started["unlisted"]:
        notes.append(f"/proc does not show this process: {started['unlisted']}")
    if settings.kernel and started["no_kernel_frames"]:
        notes.append(f"no frames of the kernel: {started['no_kernel_frames']}")
    if _c_calls_inexact(settings):
        lost = "bound methods called with *args are missing (CPython < 3.12.5)"
        notes.append(f"calls of C functions: {lost}")
    return notes


# The cells of the notebook in which the program runs, by the files that IPython names for them.
#
# There are no such files: a cell's code names one that means nothing to a reader.


def notebook_cells() -> dict[str, str]:
    """Name each cell that was run, `Cell [3]`, by its file; none where there is no IPython.

    Never raises: it is the program's IPython.
    """
    try:
        return _cells(sys.modules.get("IPython.core.interactiveshell"))
    except Exception:
        return {}


def _cells(module: Any) -> dict[str, str]:
    if module is None or not module.InteractiveShell.initialized():
        return {}
    numbers = module.InteractiveShell.instance().compile._filename_map
    return {str(file): f"Cell [{number}]" for file, number in numbers.items()}
