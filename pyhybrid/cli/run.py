"""Run a program under the profiler: options, then the program and its own arguments."""

import argparse
import sys
from collections.abc import Callable

from pyhybrid import __version__
from pyhybrid.capture.run_program import Program
from pyhybrid.capture.settings import CLOCKS, EMIT_VALUES, ENGINES, MAX_DEPTH, MAX_NODES, MODES
from pyhybrid.cli.parser import Duration, Number, Parser
from pyhybrid.cli.start import begin
from pyhybrid.cli.without_profile import run_bare, split
from pyhybrid.errors import UsageError
from pyhybrid.terminal_text import say

USAGE = """\
python -m pyhybrid [options] script.py [args...]
       python -m pyhybrid [options] -m module [args...]
       python -m pyhybrid [options] -c code [args...]
       python -m pyhybrid report [FILE]          print the summary of a profile again
       python -m pyhybrid export [FILE] -f NAME  write it in another format
       python -m pyhybrid compare-cprofile [options] script.py [args...]"""

DESCRIPTION = "Profile a Python program: Python and native frames of all threads in one call tree."

EPILOG = """\
Without options: out.pyhybrid, out.folded, perf.data and /tmp/perf-PID.map are written when the
program ends, and a summary is printed on stderr.  Then `perf report`, or
`flamegraph.pl out.folded > flame.svg`."""


def make_parser() -> Parser:
    parser = Parser(
        prog="pyhybrid",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--hz",
        type=Number(1, 1_000_000_000),
        default=999,
        metavar="N",
        help="samples per second of CPU time (--clock wall: of time) of each thread; above 1000 as "
        "many as take a fifth of a core (default: 999)",
    )
    add(
        "--mode",
        choices=list(MODES),
        default="hybrid",
        help="sample stacks, trace every call of a Python function, or both in one tree (default); "
        "none: only what --emit does",
    )
    add(
        "--clock",
        choices=list(CLOCKS),
        default="cpu",
        help="sample CPU time (default), or wall-clock time, waiting included",
    )
    add(
        "--wall-thread",
        action="append",
        default=[],
        metavar="NAME",
        help="with --clock wall: sample only threads of this name (threading's, or the kernel's, "
        "which is cut to 15 bytes; a pattern of the shell: loader-*); repeatable",
    )
    add(
        "--engine",
        choices=list(ENGINES),
        default="auto",
        help="what drives the CPU clock (--clock wall has its own)",
    )
    add(
        "--kernel",
        action=argparse.BooleanOptionalAction,
        help="frames of the kernel below system calls and page faults (default: where perf_event "
        "gives them; with sigtrap on more than 16 processors only if asked for)",
    )
    add(
        "-o",
        "--output",
        metavar="PREFIX",
        help="what the names of all files begin with "
        "(default: out; perf.data is PREFIX.perf.data then)",
    )
    add(
        "--format",
        action="append",
        metavar="NAME",
        help="export this format instead of the default ones (folded, perf, perf-map; with --mode "
        "trace folded): also pstats, callgrind; repeatable",
    )
    add(
        "-p",
        "--paused",
        action="store_true",
        help="profile nothing until the program calls pyhybrid.enable()",
    )
    add(
        "--include",
        action="append",
        default=[],
        metavar="REGEX",
        help="trace only functions whose qualified name, module or file it is found in; repeatable;"
        " `stdlib` and `site-packages` stand for those files",
    )
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="REGEX",
        help="trace none of these; repeatable",
    )
    add(
        "-t",
        "--function",
        action="append",
        default=[],
        metavar="NAME",
        help="trace only this function (its qualified name, or module.qualname); repeatable",
    )
    add(
        "--events",
        action="store_true",
        help="log every begin and end of a function or region, too (8 bytes each)",
    )
    add(
        "--last-events",
        type=Duration(),
        metavar="TIME",
        help="log them, but keep only those of the last TIME (10s)",
    )
    add(
        "--lines",
        action="store_true",
        help="count and time each line of the functions that -t and --include choose",
    )
    add(
        "--c-calls",
        action="store_true",
        help="count and time calls of C functions, too",
    )
    add(
        "--emit",
        action="append",
        default=[],
        metavar="NAME[:ARG]",
        help="tell of calls while they happen, too: print[:FILE], a line for each, or "
        "print:tree[:FILE], with times; --mode none makes no profile besides; repeatable",
    )
    add(
        "--emit-value",
        choices=list(EMIT_VALUES),
        default="text",
        help="what --emit tells of returned and yielded values: nothing, what the exact type tells "
        "(default), or repr(), which runs the program's code and may take long",
    )
    add(
        "--perf-trampoline",
        action="store_true",
        help="switch on CPython's own names and stacks for a `perf record` that runs around this; "
        "our own perf.data is PREFIX.perf.data then",
    )
    add(
        "--strict",
        action="store_true",
        help="where it cannot be profiled as asked do not run the program at all",
    )
    add("-q", "--quiet", action="store_true", help="print no summary")
    # table: our own one, libraries as where the C library cannot tell them to a handler
    add("--unwinder", choices=["own", "table", "libunwind"], default="own", help=argparse.SUPPRESS)
    add(
        "--max-depth",
        type=Number(1, MAX_DEPTH),
        default=2048,
        metavar="N",
        help="frames kept of a stack (default: 2048)",
    )
    add(
        "--max-nodes",
        type=Number(1, MAX_NODES),
        default=2_000_000,
        metavar="N",
        help="distinct stacks and traced paths kept (default: 2000000)",
    )
    add("--ring-bytes", type=Number(64, 1 << 30), default=0, help=argparse.SUPPRESS)
    add("--version", action="version", version=f"pyhybrid {__version__}")
    return parser


def _activate_trampoline(quiet: bool) -> None:
    from pyhybrid.capture.perf_trampoline import activate

    advice = activate()
    if not quiet:
        say(advice)


def run(arguments: list[str]) -> tuple[Program, Callable[[], None]]:
    """Parse, start profiling, and return the program to run, and what to call when it begins.

    Raises PyhybridError.
    """
    parser = make_parser()
    ours, program = split(arguments)
    options = parser.parse_args(ours)
    if not program:
        raise UsageError("a program to run is missing (see --help)")
    selecting = options.include or options.exclude or options.function
    if selecting and options.mode == "sample":
        raise UsageError("--include, --exclude and -t choose what is traced: use --mode hybrid")
    if options.wall_thread and (options.clock != "wall" or options.mode in ("trace", "none")):
        raise UsageError("--wall-thread chooses what --clock wall samples")
    if options.clock == "wall" and options.engine != "auto":
        raise UsageError("--engine is for the CPU clock: --clock wall has its own")
    if options.c_calls and options.mode == "sample":
        raise UsageError("--c-calls are traced: use --mode hybrid")
    if options.ring_bytes & (options.ring_bytes - 1):
        raise UsageError("--ring-bytes must be a power of two")
    job = Program(program)
    if options.perf_trampoline:
        _activate_trampoline(options.quiet)
    asked = {
        "hz": options.hz,
        "mode": options.mode,
        "clock": options.clock,
        "wall_threads": options.wall_thread,
        "engine": options.engine,
        "prefix": options.output,
        "formats": tuple(options.format) if options.format else None,
        "summary": not options.quiet,
        "unwinder": options.unwinder,
        "max_depth": options.max_depth,
        "max_nodes": options.max_nodes,
        "ring_bytes": options.ring_bytes,
        "include": options.include,
        "exclude": options.exclude,
        "functions": options.function,
        "events": options.events,
        "last_events": options.last_events and options.last_events / 1e9,
        "lines": options.lines,
        "c_calls": options.c_calls,
        "kernel": options.kernel,
        "perf_trampoline": options.perf_trampoline,
        "emit": options.emit,
        "emit_value": options.emit_value,
    }
    profiling = begin(asked, [sys.executable, *program], options.strict)
    if profiling:
        profiling.native.mark_launcher()
        profiling.finish_at_exit()
    else:
        run_bare(program)
    job.prepare()
    return job, profiling.resume if profiling and not options.paused else lambda: None
