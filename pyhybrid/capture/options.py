"""The options of a run: name, type, check, help, default and destination of each, in this table.

The command line (cli/run.py), `Settings`, `Profiler`, the keys of configuration files
(config_file.py), the arguments of `_native.start`, the words of the command line that are followed
by a value (cli/without_profile.py) and the site's page of options are made from it.

To add an option write a field:

    c_calls: bool = option(
        "--c-calls",                  # its flags; none: it is no option of the command line.  Files
                                      # know it by the long one, or else by the field's name
        kind=Flag(),                  # how it is read and checked (option_kinds.py, _lists)
        default=False,                # and `at_command_line=`, where it is another one there
        modes=COUNTING,               # with others it is refused; left out: it goes with all
        native="c_calls",             # the argument of _native.start (src/python/start_options.c)
        help="count and time calls of C functions, too",  # None: not shown
    )                                 # `keyword_help=` where Profiler's documentation says more

in `ProfilerOptions`, or in `Options` if the command line alone has it; `settings.c_calls` is its
value then.  What several options must agree about is in settings.py.

Imports nothing that takes memory: where there is none, it tells where the program's words begin.
"""

from __future__ import annotations

from pyhybrid.capture.option_fields import MODES, Declared, option
from pyhybrid.capture.option_kinds import (
    Choice,
    Duration,
    Flag,
    Kind,
    Number,
    Part,
    PowerOfTwo,
    Rate,
    Seconds,
    Size,
    Switch,
)
from pyhybrid.capture.option_lists import BitNames, BitNamesOf, Names, Patterns, Sinks, Tables

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

CLOCKS = {"cpu": 0, "wall": 1}  # enum sampler_clock
ENGINES = {"auto": 0, "perf_event": 1, "timer": 2, "sigtrap": 5}  # enum sampler_engine
SAMPLING, COUNTING = ("hybrid", "sample"), ("hybrid", "trace")
CALLS = (*COUNTING, "none")  # where calls are told of, to a profile or to live outputs
FORMATS = ("folded", "perf", "perf-map")  # written unless asked not to
VIEWERS = ("html", "pprof", "firefox", "speedscope", "chrome", "cpuprofile", "pfw")
FURTHER_FORMATS = ("pstats", "callgrind", "lttng", *VIEWERS)
ALL_FORMATS = (*FORMATS, *FURTHER_FORMATS)  # the classes are in exporters/
TRACY, TRACY_LINES = "tracy", "tracy:lines"
PERFSTUBS = "perfstubs"
SINKS = ("print", "usdt", "lttng", TRACY, PERFSTUBS)  # src/emit
# src/capi; each is an option, too.  The variable by which libraries find it, or all symbols.
TOOLS = {PERFSTUBS: None, "itt": "INTEL_LIBITTNOTIFY64", "nvtx": "NVTX_INJECTION64_PATH"}
USAGE = {"cpu": 1, "memory": 2, "process": 4}  # enum usage_kinds
EMIT_VALUES = {"none": 0, "text": 1, "repr": 2}  # enum emit_values
TIMER_KEYS = ("include_timers", "exclude_timers", "include_files", "exclude_files")  # PerfStubs'
UNWINDERS = ("own", "table", "libunwind")  # table: ours, libraries as where libc cannot tell them


FUNCTION_TABLES = Tables(  # `[[function]]`
    {
        "name": Kind(),
        "lines": Flag(),
        "args": Flag(),
        "usage": BitNames("usage", USAGE),
        "slower_than": Duration(),
    }
)
USAGE_KIND = BitNamesOf("usage", USAGE)


class ProfilerOptions(Declared):
    """Those that a program has, too."""

    config: Sequence[str] = option(
        "--config",
        kind=Names(),
        default=(),
        metavar="FILE",
        in_files=False,
        help="options from this file, too (TOML, JSON or YAML), instead of the one that "
        "PYHYBRID_CONFIG names; those of the command line win",
        keyword_help="options from this file, or these, too (TOML, JSON or YAML); keywords win",
    )
    hz: int = option(
        "--hz",
        kind=Rate(1, 1_000_000_000),
        default=999,
        metavar="N",
        native="period_ns",
        help="samples per second of CPU time (--clock wall: of time) of each thread; above 1000 as "
        "many as take a fifth of a core (default: %(default)s)",
    )
    mode: str = option(
        "--mode",
        kind=Choice("mode", MODES),
        default="hybrid",
        help="sample stacks, trace every call of a Python function, or both in one tree (default); "
        "none: only what --emit does",
    )
    clock: str = option(
        "--clock",
        kind=Choice("clock", CLOCKS),
        default="cpu",
        native="clock",
        help="sample CPU time (default), or wall-clock time, waiting included",
    )
    wall_threads: Sequence[str] = option(
        "--wall-thread",
        kind=Patterns(longest=200, room=1000),  # SAMPLER_PATTERNS_MAX
        default=(),
        metavar="NAME",
        modes=SAMPLING,
        native="wall_threads",
        help="with --clock wall: sample only threads of this name (threading's, or the kernel's, "
        "which is cut to 15 bytes; a pattern of the shell: `loader-*`)",
    )
    engine: str = option(
        "--engine",
        kind=Choice("engine", ENGINES),
        default="auto",
        native="engine",
        help="what drives the CPU clock (--clock wall has its own)",
    )
    kernel: bool | None = option(
        "--kernel",
        kind=Switch(),
        default=None,
        native="kernel_frames",
        help="frames of the kernel below system calls and page faults (default: where perf_event "
        "gives them; with sigtrap on more than 16 processors only if asked for)",
    )
    output: str | None = option(
        "-o",
        "--output",
        kind=Kind(),
        default=None,
        metavar="PREFIX",
        help="what the names of all files begin with; a folder that is not there is made "
        "(default: out; perf.data is PREFIX.perf.data then)",
        keyword_help="what the names of all files begin with (PREFIX.pyhybrid and the `formats`); "
        "None: no file stays, the result is `profile` alone",
    )
    formats: Sequence[str] | None = option(
        "--format",
        kind=Names("format", ALL_FORMATS),
        default=(),
        at_command_line=None,
        metavar="NAME",
        help=f"export this format instead of the default ones ({', '.join(FORMATS)}; with --mode "
        f"trace folded, and with -q none): also {', '.join(FURTHER_FORMATS)}",
        keyword_help="also export these, by their names on the command line",
    )
    include: Sequence[str] = option(
        "--include",
        kind=Names(),
        default=(),
        metavar="REGEX",
        modes=CALLS,
        help="trace only functions whose qualified name, module or file it is found in; "
        "`stdlib` and `site-packages` stand for those files",
    )
    exclude: Sequence[str] = option(
        "--exclude",
        kind=Names(),
        default=(),
        metavar="REGEX",
        modes=CALLS,
        help="trace none of these",
    )
    functions: Sequence[str] = option(
        "-t",
        "--function",
        kind=Names(),
        default=(),
        metavar="NAME",
        modes=CALLS,
        help="trace only this function (its qualified name, module.qualname, file.py:qualname, or "
        "a pattern of the shell for these: `Model.*`), and keep its single calls (with --lines "
        "only where --keep asks for them)",
    )
    keep: Sequence[str] = option(
        "--keep",
        kind=Names(),
        default=(),
        metavar="NAME",
        modes=COUNTING,
        help="keep the single calls of this function (as -t names it), each with its times, its "
        "thread and how it ended, and trace all others as ever",
    )
    usage: Sequence[str] = option(
        "--usage",
        kind=USAGE_KIND,
        default=(),
        metavar="NAMES[:FUNCTION]",
        modes=COUNTING,
        native="usage",
        help="what each call that is kept used: cpu, its thread's user and system time, faults and "
        "context switches; memory, the process's at begin and end; process, its CPU time; or "
        "several, like cpu,memory; or what those of one function used, which are kept: cpu:train",
    )
    args: Sequence[str] = option(
        "--args",
        kind=Names(),
        default=(),
        metavar="NAME",
        modes=COUNTING,
        help="keep the single calls of this function, each with its arguments, as far as their "
        "exact types tell them in short: `5`, `'text'`, `<list of 3>`, `<Tensor>`",
    )
    function_settings: Sequence[Mapping[str, Any]] = option(
        kind=FUNCTION_TABLES,
        default=(),
        modes=COUNTING,
        in_files=False,  # config_file.py: their key is that of `functions`
        help="settings of single functions, of which each has a `name` and its single calls kept: "
        "`lines` and `args`, true or false, `usage`, and `slower_than`, `50ms`, which keeps no "
        "shorter ones",
    )
    max_calls: int = option(
        "--max-calls",
        kind=Number(1, 50_000_000),
        default=1 << 20,
        metavar="N",
        modes=COUNTING,
        native="max_calls",
        help="so many single calls are kept all (32 bytes each); of more the slowest of each path "
        "and a sample of the others (default: %(default)s)",
    )
    include_timers: Sequence[str] | None = option(
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of functions' bare names: trace only these (a key of PerfStubs' filters)",
    )
    exclude_timers: Sequence[str] | None = option(
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of functions' bare names: trace none of these",
    )
    include_files: Sequence[str] | None = option(
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of their files: trace only functions in these",
    )
    exclude_files: Sequence[str] | None = option(
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of their files: trace no functions in these",
    )
    events: bool = option(
        "--events",
        kind=Flag(),
        default=False,
        modes=COUNTING,
        native="events",
        help="log every begin and end of a function or region, too (8 bytes each)",
    )
    last_events: float | None = option(
        "--last-events",
        kind=Seconds(),
        default=None,
        metavar="TIME",
        modes=COUNTING,
        native="keep_events_ns",
        help="log them, but keep only those of the last TIME (10s)",
        keyword_help="log them, but keep only those of so many seconds, the last ones",
    )
    lines: bool = option(
        "--lines",
        "-l",
        kind=Flag(),
        default=False,
        modes=CALLS,
        native="lines",
        help="count and time each line of the functions that -t and --include choose, with -p of "
        "all unless some are chosen; --emit tracy tells of them, too, with --mode none as with -p",
    )
    c_calls: bool = option(
        "--c-calls",
        kind=Flag(),
        default=False,
        modes=COUNTING,
        native="c_calls",
        help="count and time calls of C functions, too",
    )
    emit: Sequence[str] = option(
        "--emit",
        kind=Sinks("live output", SINKS),
        default=(),
        metavar="NAME[:ARG]",
        modes=CALLS,
        help="tell of calls while they happen, too: print[:FILE], a line for each, or "
        "print:tree[:FILE], with times; usdt, probes for bpftrace and perf; lttng; "
        "tracy[:LIBRARY], zones; perfstubs[:LIBRARY], timers of a tool; --mode none makes no "
        "profile besides",
    )
    announce: bool = option(
        "--announce",
        kind=Flag(),
        default=False,
        modes=CALLS,
        help="print a line when a function that -t or --keep names is called, and one when it ends "
        "(--emit print:announce)",
    )
    emit_value: str = option(
        "--emit-value",
        kind=Choice("emit_value", EMIT_VALUES),
        default="text",
        help="what --emit tells of returned and yielded values: nothing, what the exact type tells "
        "(default), or repr(), which runs the program's code and may take long",
    )
    perfstubs: bool = option(
        "--perfstubs",
        kind=Flag(),
        default=False,
        help="timers, counters and metadata of libraries with PerfStubs inside (ADIOS2, PETSc): "
        "timers are frames of the tree",
    )
    itt: bool = option(
        "--itt",
        kind=Flag(),
        default=False,
        help="tasks of libraries that tell them to Intel's ITT (PyTorch, oneDNN, OpenVINO) are "
        "frames of the tree",
    )
    nvtx: bool = option(
        "--nvtx",
        kind=Flag(),
        default=False,
        help="ranges of NVTX, pushed and popped (PyTorch for CUDA, RAPIDS, nvtx.annotate), are "
        "frames of the tree",
    )
    modules: bool = option(
        "--no-modules",
        kind=Flag(value=False),
        default=True,
        help="PyTorch's modules are no frames of the tree (LM.layers.2.mlp)",
        keyword_help="PyTorch's modules are frames of the tree",
    )
    steps: bool = option(
        "--no-steps",
        kind=Flag(value=False),
        default=True,
        help="keep no single calls of PyTorch's optimizers, data loaders and the like, by which "
        "`report --steps` tells the steps of a training",
        keyword_help="keep the single calls of PyTorch's optimizers, data loaders and the like, by "
        "which the steps of a training are told",
    )
    gpu: bool = option(
        "--gpu",
        kind=Flag(),
        default=False,
        modes=COUNTING,
        native="event_windows",
        help="what a GPU does for PyTorch, below the calls that launched it: torch.profiler's CUDA "
        "activities, in windows of some steps",
    )
    gpu_steps: str = option(
        "--gpu-steps",
        kind=Part(),
        default="10/100",
        metavar="N/M",
        modes=COUNTING,
        help="with --gpu: N of each M steps of a training, or of a model's calls where nothing is "
        "trained (default: %(default)s)",
    )
    shapes: bool = option(
        "--shapes",
        kind=Flag(),
        default=False,
        modes=COUNTING,
        help="with which shapes PyTorch's operators are called, by one call in a hundred "
        "(`report --ops`)",
        keyword_help="note with which shapes operators of PyTorch are called, by one in a hundred",
    )
    compiler_calls: bool = option(
        "--compiler-calls",
        kind=Flag(),
        default=False,
        modes=COUNTING,
        help="count what torch.compile's compilers call, too, which otherwise is only sampled",
    )
    summary: bool = option(
        "-q",
        "--quiet",
        kind=Flag(value=False),
        default=False,
        at_command_line=True,
        help="print no summary",
        keyword_help="print one on stderr at the end",
    )
    max_depth: int = option(
        "--max-depth",
        kind=Number(1, 1 << 16),
        default=2048,
        metavar="N",
        native="max_frames",
        help="frames kept of a stack (default: %(default)s)",
    )
    max_nodes: int = option(
        "--max-nodes",
        kind=Number(1, 100_000_000),
        default=2_000_000,
        metavar="N",
        native="max_nodes",
        help="distinct stacks and traced paths kept (default: %(default)s)",
    )
    max_timeline: int = option(
        "--max-timeline",
        kind=Size(128 << 10, 1 << 60),
        default=0,
        metavar="SIZE",
        native="max_timeline_bytes",
        help="keep the times of so many bytes of samples, the newest ones (64M, 2G); of older ones "
        "only sums (a busy thread has 700 MB a day; default: no bound)",
        keyword_help="keep the times of so many bytes of samples, the newest ones; of older ones "
        "only sums (0: no bound)",
    )


class Options(ProfilerOptions):
    """All: those that only the command line has come last."""

    no_config: bool = option(
        "--no-config",
        kind=Flag(),
        default=False,
        in_files=False,
        help="take no options from files, neither pyproject.toml nor others",
    )
    paused: bool = option(
        "-p",
        "--paused",
        kind=Flag(),
        default=False,
        help="profile nothing until the program calls pyhybrid.enable()",
    )
    tracy: str | None = option(
        "--tracy",
        kind=Kind(),
        default=None,
        metavar="FILE",
        modes=CALLS,
        help="capture what --emit tracy tells into this file, by the capture program of Tracy's "
        "that is found",
    )
    tracy_library: str | None = option(
        "--tracy-library",
        kind=Kind(),
        default=None,
        metavar="PATH",
        modes=CALLS,
        help="the Tracy client for it: --emit tracy:PATH",
    )
    perf_trampoline: bool = option(
        "--perf-trampoline",
        kind=Flag(),
        default=False,
        help="switch on CPython's own names and stacks for a `perf record` that runs around this; "
        "our own perf.data is PREFIX.perf.data then",
    )
    strict: bool = option(
        "--strict",
        kind=Flag(),
        default=False,
        help="where it cannot be profiled as asked do not run the program at all",
    )
    unwinder: str = option(
        "--unwinder", kind=Choice("unwinder", UNWINDERS), default="own", help=None
    )
    ring_bytes: int = option(
        "--ring-bytes", kind=PowerOfTwo(0, 1 << 30), default=0, native="ring_bytes", help=None
    )


def followed_by_a_value() -> frozenset[str]:
    """The flags whose next word is their value."""
    return frozenset(
        flag for each in Options.options.values() if each.kind.takes_value for flag in each.flags
    )
