"""What a run collects, and where it puts it: options of the command line and the API, checked.

Imports are few and light: the program waits for them.
"""

import os
from collections.abc import Sequence

from pyhybrid.errors import UsageError

MODES = ("sample", "trace", "hybrid", "none")
CLOCKS = {"cpu": 0, "wall": 1}
ENGINES = {"auto": 0, "perf_event": 1, "timer": 2, "sigtrap": 5}
MAX_DEPTH, MAX_NODES = 1 << 16, 100_000_000
NO_SAMPLES = 4  # the engine of the modes trace and none
SINKS = ("print", "lttng")  # src/emit
EMIT_VALUES = {"none": 0, "text": 1, "repr": 2}  # enum emit_values, src/emit/emit.h
FORMATS = ("folded", "perf", "perf-map")  # written unless asked not to
ALL_FORMATS = (*FORMATS, "pstats", "callgrind")  # exporters.EXPORTERS
PATTERN_MAX, PATTERNS_MAX = 200, 1000  # bytes, src/sampler/sampler.h


class Settings:
    """What to collect and where to put it; the names are those of the command line's options.

    `formats` None: the usual ones; `kernel` None: where it costs next to nothing.
    Raises UsageError for a value that does not exist.
    """

    def __init__(
        self,
        *,
        hz: int = 999,
        mode: str = "hybrid",
        clock: str = "cpu",
        wall_threads: Sequence[str] = (),
        engine: str = "auto",
        prefix: str | None = None,
        formats: tuple[str, ...] | None = None,
        summary: bool = True,
        unwinder: str = "own",
        max_depth: int = 2048,
        max_nodes: int = 2_000_000,
        ring_bytes: int = 0,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        functions: Sequence[str] = (),
        events: bool = False,
        last_events: float | None = None,
        lines: bool = False,
        c_calls: bool = False,
        kernel: bool | None = None,
        perf_trampoline: bool = False,
        emit: Sequence[str] = (),
        emit_value: str = "text",
    ) -> None:
        if formats is None:
            formats = FORMATS if mode != "trace" else ("folded",)  # perf reads samples
        if mode == "none":
            formats, summary = (), False  # there is no profile
        sinks = [each.partition(":")[::2] for each in emit]
        for name, value, known in (
            ("mode", mode, MODES),
            ("clock", clock, CLOCKS),
            ("engine", engine, ENGINES),
            ("emit_value", emit_value, EMIT_VALUES),
            *(("format", each, ALL_FORMATS) for each in formats),
            *(("live output", name, SINKS) for name, _ in sinks),
        ):
            if value not in known:
                raise UsageError(f"unknown {name} {value!r}: there are {', '.join(known)}")
        if not (isinstance(hz, int) and 1 <= hz <= 1_000_000_000):
            raise UsageError(f"hz must be a whole number from 1 on, not {hz!r}")
        for name, n, most in (
            ("max_depth", max_depth, MAX_DEPTH),
            ("max_nodes", max_nodes, MAX_NODES),
        ):
            if not (isinstance(n, int) and 1 <= n <= most):
                raise UsageError(f"{name} must be a whole number from 1 to {most}, not {n!r}")
        if last_events is not None and not 0 < last_events < 1e9:
            raise UsageError(f"last_events must be a number of seconds, not {last_events!r}")
        if (events or last_events) and mode == "sample":
            raise UsageError("an event log needs the mode trace or hybrid")
        if sinks and mode == "sample":
            raise UsageError("live outputs are of calls: use the mode hybrid, trace or none")
        if len({name for name, _ in sinks}) < len(sinks):
            raise UsageError("a live output is asked for twice")
        if mode == "none" and not sinks:
            raise UsageError("the mode none is for live outputs alone: name one (emit)")
        if mode == "none" and (events or last_events or lines or c_calls):
            raise UsageError("the mode none makes no profile: use the mode hybrid or trace")
        self.emit = sinks
        self.emit_value = emit_value
        self.events = events or last_events is not None
        self.keep_events_ns = round((last_events or 0) * 1e9)
        if clock == "wall" and engine != "auto":
            raise UsageError("an engine drives the CPU clock: clock wall has its own")
        if wall_threads and (clock != "wall" or mode in ("trace", "none")):
            raise UsageError("wall_threads are sampled by the clock on the wall: use clock wall")
        patterns = [os.fsencode(name) for name in wall_threads]
        if any(not each or b"\0" in each or len(each) > PATTERN_MAX for each in patterns):
            raise UsageError(f"wall_threads are names of 1 to {PATTERN_MAX} bytes, or patterns")
        if sum(len(each) + 1 for each in patterns) > PATTERNS_MAX:
            raise UsageError(f"wall_threads are too long: {PATTERNS_MAX} bytes is all there is")
        if lines and mode == "sample":
            raise UsageError("lines are counted by events: use mode hybrid or trace")
        if lines and not (include or functions):
            raise UsageError(
                "lines are counted of chosen functions only: name some (-t, --include)"
            )
        if c_calls and mode == "sample":
            raise UsageError("c_calls are traced: use the mode hybrid or trace")
        self.hz = hz
        self.mode = mode
        self.clock = clock
        self.wall_threads = patterns
        self.engine = engine
        self.prefix = prefix
        self.formats = formats
        self.summary = summary
        self.unwinder = unwinder
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.ring_bytes = ring_bytes
        self.functions = list(functions)
        self.lines = lines
        self.c_calls = c_calls
        self.kernel = kernel
        self.perf_trampoline = perf_trampoline
        self.decorated: dict[str, None] = {}  # functions: nothing counts but while they run
        self.filter = None
        if include or exclude or functions:  # (imports `re`)
            from pyhybrid.capture.trace_filter import selection

            self.filter = selection(include, exclude, functions)
