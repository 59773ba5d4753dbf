"""The options of a run: name, type, check, help, default and destination of each, in this table.

The command line (cli/run.py), `Settings`, `Profiler`, the keys of configuration files
(config_file.py), the arguments of `_native.start`, the words of the command line that are followed
by a value (cli/without_profile.py) and the site's page of options are made from it.

To add an option write a field:

    c_calls: bool = option(
        "--c-calls",                  # its flags; none: it is no option of the command line.  Files
                                      # know it by the long one, or else by the field's name
        group=FUNCTIONS,              # its heading in --help-all
        kind=Flag(),                  # how it is read and checked (kinds.py, lists.py)
        default=False,                # and `at_command_line=`, where it is another one there
        modes=COUNTING,               # with others it is refused; left out: it goes with all
        native="c_calls",             # the argument of _native.start (src/python/start_options.c)
        help="count and time calls of C functions, too",  # None: not shown
        brief="count C functions, too",  # only of the few that most people use: --help shows it
    )                                 # `keyword_help=` where Profiler's documentation has more

in `ProfilerOptions`, or in `Options` if the command line alone has it; `settings.c_calls` is its
value then.  What several options must agree about is in settings.py.

Imports nothing that takes memory: where there is none, it finds where the program's words begin.
"""

from __future__ import annotations

from pyhybrid.options.kinds import (
    MODES,
    Choice,
    Declared,
    Duration,
    Flag,
    Kind,
    Log,
    Number,
    PowerOfTwo,
    Rate,
    Seconds,
    Size,
    StartAt,
    Switch,
    option,
)
from pyhybrid.options.lists import (
    BitNames,
    BitNamesOf,
    Names,
    NumberRanges,
    Patterns,
    Sinks,
    SnapshotRules,
    Tables,
    TorchWords,
    Words,
)

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

RECORDING, FUNCTIONS, CALLS_OF = "recording", "which functions", "single calls"
TORCH, LIVE, NATIVE, LIMITS = "PyTorch", "live outputs", "native libraries", "limits"
GROUPS = (RECORDING, FUNCTIONS, CALLS_OF, TORCH, LIVE, NATIVE, LIMITS)
CLOCKS = ("cpu", "wall")
ALL_CHILDREN, FORKED_CHILDREN, NO_CHILDREN = "all", "fork", "none"
ENGINES = ("auto", "perf_event", "timer", "sigtrap")
SAMPLING, COUNTING = ("hybrid", "sample"), ("hybrid", "trace")
CALLS = (*COUNTING, "none")  # where calls are counted, for a profile or for live outputs
FORMATS = ("folded", "perf", "perf-map")  # written unless asked not to
VIEWERS = ("html", "pprof", "firefox", "speedscope", "chrome", "cpuprofile", "pfw")
FURTHER_FORMATS = ("pstats", "callgrind", "lttng", *VIEWERS)
ALL_FORMATS = (*FORMATS, *FURTHER_FORMATS)  # the classes are in exporters/
TRACY, TRACY_LINES = "tracy", "tracy:lines"
ANNOUNCE = "print:announce"
PERFSTUBS = "perfstubs"
SINKS = ("print", "usdt", "lttng", TRACY, PERFSTUBS)  # src/emit
# src/capi: what --regions knows.  The variable by which libraries find it; None: by its symbols.
TOOLS = {PERFSTUBS: None, "itt": "INTEL_LIBITTNOTIFY64", "nvtx": "NVTX_INJECTION64_PATH"}
USAGE = ("cpu", "memory", "process")  # in order of their bits
EMIT_VALUES = ("none", "text", "repr")
TIMER_KEYS = ("include_timers", "exclude_timers", "include_files", "exclude_files")  # PerfStubs'
UNWINDERS = ("own", "table", "libunwind")  # table: ours, libraries as where libc cannot name them


FUNCTION_TABLES = Tables(  # `[[function]]`
    {
        "name": Kind(),
        "lines": Flag(),
        "arguments": Flag(),
        "usage": BitNames("usage", USAGE, "USAGE"),
        "slower_than": Duration(),
    }
)
USAGE_KIND = BitNamesOf("usage", USAGE, "USAGE")
TORCH_KIND = TorchWords()


class ProfilerOptions(Declared):
    """Hold those that a program has, too."""

    config: Sequence[str] = option(
        "--config",
        group=RECORDING,
        kind=Names(),
        default=(),
        metavar="FILE",
        in_files=False,
        help="read options from this file, too (TOML, JSON or YAML), instead of the one that "
        "PYHYBRID_CONFIG names; those of the command line win",
        keyword_help="options from this file, or these, too (TOML, JSON or YAML); keywords win",
    )
    mode: str = option(
        "--mode",
        group=RECORDING,
        kind=Choice("mode", MODES),
        default="hybrid",
        metavar="MODE",
        brief="sample stacks, trace calls, or hybrid: both (default)",
        help="sample stacks, trace every call of a Python function, or both in one tree: hybrid "
        "(default); none: only what --emit does",
    )
    clock: str = option(
        "--clock",
        group=RECORDING,
        kind=Choice("clock", CLOCKS, "CLOCK"),
        modes=SAMPLING,
        default="cpu",
        native="clock",
        brief="CPU time, or wall-clock time with all waiting",
        help="sample CPU time (default), or wall-clock time, waiting included",
    )
    hz: int = option(
        "--hz",
        group=RECORDING,
        kind=Rate(1, 1_000_000_000),
        default=999,
        metavar="N",
        native="period_ns",
        brief="samples per second (default: %(default)s)",
        help="samples per second of CPU time (--clock wall: of time) of each thread; above 1000 as "
        "many as take a fifth of a core (default: %(default)s)",
    )
    wall_threads: Sequence[str] = option(
        "--wall-thread",
        group=RECORDING,
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
        group=RECORDING,
        kind=Choice("engine", ENGINES, "ENGINE"),
        default="auto",
        native="engine",
        help="what gives the signals of the CPU clock; auto takes the best that works here",
    )
    kernel: bool | None = option(
        "--kernel",
        group=RECORDING,
        kind=Switch(),
        default=None,
        native="kernel_frames",
        help="frames of the kernel below system calls and page faults (default: where perf_event "
        "gives them; with sigtrap on more than 16 processors only if asked for)",
    )
    output: str | None = option(
        "-o",
        "--output",
        group=RECORDING,
        kind=Kind(),
        default=None,
        metavar="PREFIX",
        brief="how all files' names begin (default: out)",
        help="what the names of all files begin with; a folder that is not there is made "
        "(default: out; perf.data is PREFIX.perf.data then)",
        keyword_help="what the names of all files begin with (PREFIX.pyhybrid and the `formats`); "
        "None: no file stays, the result is `profile` alone",
    )
    formats: Sequence[str] | None = option(
        "--format",
        group=RECORDING,
        kind=Names("format", ALL_FORMATS),
        default=(),
        at_command_line=None,
        metavar="NAME",
        brief=f"also html, pprof, ...; usual: {', '.join(FORMATS)}",
        help=f"write this format instead of the default ones ({', '.join(FORMATS)}; with --mode "
        f"trace folded, and with -q none): also {', '.join(FURTHER_FORMATS)}",
        keyword_help="also export these, by their names on the command line",
    )
    include: Sequence[str] = option(
        "--include",
        group=FUNCTIONS,
        kind=Names(),
        default=(),
        metavar="REGEX",
        modes=CALLS,
        brief="trace only where it is in the name or file; repeatable",
        help="trace only functions whose qualified name, module or file it is found in; "
        "`stdlib` and `site-packages` stand for those files",
    )
    exclude: Sequence[str] = option(
        "--exclude",
        group=FUNCTIONS,
        kind=Names(),
        default=(),
        metavar="REGEX",
        modes=CALLS,
        brief="trace none of these; repeatable",
        help="trace none of these",
    )
    functions: Sequence[str] = option(
        "-t",
        "--function",
        group=FUNCTIONS,
        kind=Names(),
        default=(),
        metavar="NAME",
        modes=CALLS,
        brief="trace only this function, keep its calls; repeatable",
        help="trace only this function (its qualified name, module.qualname, file.py:qualname, or "
        "a pattern of the shell for these: `Model.*`), and keep its single calls (with --lines "
        "only where --keep asks for them)",
    )
    keep: Sequence[str] = option(
        "--keep",
        group=CALLS_OF,
        kind=Names(),
        default=(),
        metavar="NAME",
        modes=COUNTING,
        brief="keep each call of this one, trace all; repeatable",
        help="keep the single calls of this function (as -t names it), each with its times, its "
        "thread and how it ended, and trace all others as ever",
    )
    usage: Sequence[str] = option(
        "--usage",
        group=CALLS_OF,
        kind=USAGE_KIND,
        default=(),
        metavar="NAMES[:FUNCTION]",
        modes=COUNTING,
        native="usage",
        help="measure what each kept call used: cpu, its thread's user and system time, faults and "
        "context switches; memory, the process's at begin and end; process, its CPU time; or "
        "several, like cpu,memory; or what the calls of one function used, which are kept: "
        "cpu:train",
    )
    arguments: Sequence[str] = option(
        "--arguments",
        group=CALLS_OF,
        kind=Names(),
        default=(),
        metavar="NAME",
        modes=COUNTING,
        help="keep each call of this function with its arguments, shortened: what their exact "
        "types tell, like `5`, `'text'`, `<list of 3>`, `<Tensor>`",
    )
    function_settings: Sequence[Mapping[str, Any]] = option(
        group=CALLS_OF,
        kind=FUNCTION_TABLES,
        default=(),
        modes=COUNTING,
        in_files=False,  # config_file.py: their key is that of `functions`
        help="settings of single functions, of which each has a `name` and its single calls kept: "
        "`lines` and `arguments`, true or false, `usage`, and `slower_than`, `50ms`, which keeps "
        "no shorter ones",
    )
    max_calls: int = option(
        "--max-calls",
        group=LIMITS,
        kind=Number(1, 50_000_000),
        default=1 << 20,
        metavar="N",
        modes=COUNTING,
        native="max_calls",
        help="keep all of so many single calls (32 bytes each); of more the slowest of each path "
        "and a sample of the others (default: %(default)s)",
    )
    include_timers: Sequence[str] | None = option(
        group=FUNCTIONS,
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of functions' bare names: trace only these (a key of PerfStubs' filters)",
    )
    exclude_timers: Sequence[str] | None = option(
        group=FUNCTIONS,
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of functions' bare names: trace none of these",
    )
    include_files: Sequence[str] | None = option(
        group=FUNCTIONS,
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of their files: trace only functions in these",
    )
    exclude_files: Sequence[str] | None = option(
        group=FUNCTIONS,
        kind=Names(),
        default=None,
        modes=CALLS,
        help="patterns of their files: trace no functions in these",
    )
    events: bool | float = option(
        "--events",
        group=CALLS_OF,
        kind=Log(),
        default=False,
        metavar="TIME",
        modes=COUNTING,
        native="events",
        help="log every begin and end of a function or region, too (8 bytes each); --events=10s "
        "keeps only those of the last 10 seconds",
        keyword_help="log every begin and end of a function or region, too: True (8 bytes each), "
        "or a number of seconds, the last ones, of which they are kept",
    )
    lines: bool = option(
        "--lines",
        "-l",
        group=FUNCTIONS,
        kind=Flag(),
        default=False,
        modes=CALLS,
        native="lines",
        brief="count and time lines of what -t, --include choose",
        help="count and time each line of the functions that -t and --include choose, with -p of "
        "all unless some are chosen; --emit tracy tells of them, too, with --mode none as with -p",
    )
    c_calls: bool = option(
        "--c-calls",
        group=FUNCTIONS,
        kind=Flag(),
        default=False,
        modes=COUNTING,
        native="c_calls",
        brief="count and time calls of C functions, too",
        help="count and time calls of C functions, too",
    )
    tasks: bool = option(
        "--tasks",
        group=FUNCTIONS,
        kind=Flag(),
        default=False,
        modes=COUNTING,
        native="tasks",
        help="put what tasks of asyncio run below the call that made each, as [task], instead of "
        "below the event loop",
    )
    imports: bool = option(
        "--imports",
        group=FUNCTIONS,
        kind=Flag(),
        default=False,
        modes=COUNTING,
        help="keep the calls of each function that imports of libraries run, instead of their sums "
        "by module, which make the end of a run short (--mode trace keeps them always)",
    )
    torch: Sequence[str] = option(
        "--torch",
        group=TORCH,
        kind=TORCH_KIND,
        default=(),
        metavar="WORDS",
        native="event_windows",
        brief="more of PyTorch: gpu, shapes, memory, compilers",
        help="what to record of PyTorch, words with commas between: modules, as frames of the tree "
        "(LM.layers.2.mlp), and steps, by single calls of optimizers, data loaders and the like, "
        "are there unless no-modules, no-steps say otherwise; gpu, what a GPU does, below the "
        "calls that launched it, of 10 of each 100 steps (gpu=10/100; of a model's calls where "
        "nothing is trained); shapes, with which operators are called, by one call in twenty; "
        "memory, what its allocators give out, by call and step, and who holds what grows; "
        "compilers, to count what torch.compile's compilers call, which otherwise is only sampled",
    )
    emit: Sequence[str] = option(
        "--emit",
        group=LIVE,
        kind=Sinks("live output", SINKS),
        default=(),
        metavar="NAME[:ARG]",
        modes=CALLS,
        brief="report calls live, to print, usdt, lttng, tracy, ...",
        help="tell of calls while they happen, too: print[:FILE], a line for each; "
        "print:tree[:FILE], with times; print:announce[:FILE], for functions that -t or --keep "
        "name; usdt, probes for bpftrace and perf; lttng; tracy[:LIBRARY], zones; "
        "perfstubs[:LIBRARY], timers of a tool; --mode none makes no profile besides",
    )
    emit_value: str = option(
        "--emit-value",
        group=LIVE,
        kind=Choice("emit_value", EMIT_VALUES),
        default="text",
        help="what --emit tells of returned and yielded values: nothing, what the exact type tells "
        "(default), or repr(), which runs the program's code and may take long",
    )
    regions: Sequence[str] = option(
        "--regions",
        group=NATIVE,
        kind=Words("source of regions", TOOLS),
        default=(),
        metavar="NAMES",
        help="what native libraries tell of themselves, as frames of the tree, names with commas "
        "between: perfstubs, timers, counters and metadata of PerfStubs (ADIOS2, PETSc); itt, "
        "tasks of Intel's ITT (PyTorch, oneDNN, OpenVINO); nvtx, ranges of NVTX, pushed and popped "
        "(PyTorch for CUDA, RAPIDS, nvtx.annotate)",
    )
    summary: bool = option(
        "-q",
        "--quiet",
        group=RECORDING,
        kind=Flag(value=False),
        default=False,
        at_command_line=True,
        brief="print no summary",
        help="print no summary",
        keyword_help="print one on stderr at the end",
    )
    max_depth: int = option(
        "--max-depth",
        group=LIMITS,
        kind=Number(1, 1 << 16),
        default=2048,
        metavar="N",
        native="max_frames",
        help="frames kept of a stack (default: %(default)s)",
    )
    max_nodes: int = option(
        "--max-nodes",
        group=LIMITS,
        kind=Number(1, 100_000_000),
        default=2_000_000,
        metavar="N",
        native="max_nodes",
        help="distinct stacks and traced paths kept (default: %(default)s)",
    )
    max_timeline: int = option(
        "--max-timeline",
        group=LIMITS,
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
    """Hold all: those that only the command line has come last."""

    no_config: bool = option(
        "--no-config",
        group=RECORDING,
        kind=Flag(),
        default=False,
        in_files=False,
        help="take no options from files, neither pyproject.toml nor others",
    )
    paused: bool = option(
        "-p",
        "--paused",
        group=RECORDING,
        kind=Flag(),
        default=False,
        brief="begin when the program calls pyhybrid.enable()",
        help="profile nothing until the program calls pyhybrid.enable()",
    )
    start_at: str | None = option(
        "--start-at",
        group=RECORDING,
        kind=StartAt(),
        default=None,
        metavar="WHEN",
        help="step=N: profile nothing until so many steps are done, calls of an optimizer of "
        "PyTorch's or of pyhybrid.step(); /10s: begin the program when the time of day has full "
        "ten seconds, on all hosts at once",
    )
    tracy: str | None = option(
        "--tracy",
        group=LIVE,
        kind=Kind(),
        default=None,
        metavar="FILE",
        modes=CALLS,
        help="capture what --emit tracy tells into this file, by the capture program of Tracy's "
        "that is found",
    )
    perf_trampoline: bool = option(
        "--perf-trampoline",
        group=RECORDING,
        kind=Flag(),
        default=False,
        help="switch on CPython's own names and stacks for a `perf record` that runs around this; "
        "our own perf.data is PREFIX.perf.data then",
    )
    children: str = option(
        "--children",
        group=RECORDING,
        kind=Kind(),
        default=ALL_CHILDREN,
        metavar="WHICH",
        help="profile the program's child processes with it, in one profile: all (default), those "
        "of fork alone, none, or those whose script, module or name of multiprocessing's is one of "
        "these (train.py,eval*)",
    )
    no_children: bool = option(
        "--no-children",
        group=RECORDING,
        kind=Flag(),
        default=False,
        brief="leave child processes out of the profile",
        help="--children none",
    )
    ranks: str | None = option(
        "--ranks",
        group=RECORDING,
        kind=NumberRanges(),
        default=None,
        metavar="LIST",
        help="of the ranks that a launcher starts profile these alone (0,8,16-23); the others run "
        "without a profile",
    )
    max_children_disk: int = option(
        "--max-children-disk",
        group=LIMITS,
        kind=Size(1 << 20, 1 << 50),
        default=2 << 30,
        metavar="SIZE",
        help="if the spools of children take more, further ones are counted, not profiled (2G)",
    )
    keep_last: float | None = option(
        "--keep-last",
        group=RECORDING,
        kind=Seconds(),
        default=None,
        metavar="TIME",
        modes=COUNTING + SAMPLING[1:],
        help="a flight recorder: keep what the last 5m or 2h have (and up to a quarter more), for "
        "programs that run for days; `pyhybrid snapshot` makes a profile of it, as does the end",
    )
    snapshot_when: Sequence[str] = option(
        "--snapshot-when",
        group=RECORDING,
        kind=SnapshotRules(),
        default=(),
        metavar="CONDITION",
        help="with --keep-last: make a snapshot, once in that time, when a step takes long ("
        "'step > 3 x median'), or the process more CPU time, in percent of one processor, or "
        "memory ('cpu > 90 %%', 'rss > 20G'); and at each signal of this name ('signal USR1')",
    )
    leave_part: bool = option(
        "--leave-part",
        group=RECORDING,
        kind=Flag(),
        default=False,
        help="leave PREFIX.pyhybrid.part as it is where the program is killed: `report` reads it "
        "(without: the files are made of it then)",
    )
    strict: bool = option(
        "--strict",
        group=RECORDING,
        kind=Flag(),
        default=False,
        help="refuse to run the program if it cannot be profiled as asked",
    )
    unwinder: str = option(
        "--unwinder",
        group=RECORDING,
        kind=Choice("unwinder", UNWINDERS),
        default="own",
        help=None,
    )
    ring_bytes: int = option(
        "--ring-bytes",
        group=LIMITS,
        kind=PowerOfTwo(0, 1 << 30),
        default=0,
        native="ring_bytes",
        help=None,
    )


def followed_by_a_value() -> frozenset[str]:
    """Return the flags whose next word is their value."""
    return frozenset(
        flag for each in Options.options.values() if each.kind.takes_value for flag in each.flags
    )
