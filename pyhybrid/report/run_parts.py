"""The parts of a summary: the run, its clock, its samples, calls, and what profiling cost."""

from __future__ import annotations

from collections import Counter

from pyhybrid.base.pseudo_frames import IMPORT_FUNCTIONS, SIGNALS_BLOCKED, UNKNOWN_PYTHON
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.imports import summed_functions
from pyhybrid.views.calls.function_calls import own_calls
from pyhybrid.views.processes import Unprofiled, processes_cpu_ns, unprofiled
from pyhybrid.views.stack_quality import (
    HandlerCost,
    busy_threads,
    gil_shares,
    hz_reached,
    off_cpu_share,
    stack_quality,
    unaccounted_ns,
)


class Run(Record):
    """Describe the process that was profiled; null where it is not known."""

    version: str  # of the pyhybrid that recorded
    python: str
    argv: list[str]
    pid: int
    start_unix_ns: int | None  # when it began
    complete: bool  # false: the process was killed, or the file's end is missing
    snapshot: str | None  # why the profile was made while the process ran; null: it was not
    mode: str  # sample, trace, hybrid
    wall_ns: int | None
    cpu_ns: int | None  # of the process, while profiling ran
    main_delay_ns: int | None  # for so long the main thread was ready, but had no processor
    end_cpu_ns: int | None  # of the interpreter's end, which comes after that and is not sampled
    n_threads: int
    n_busy_threads: int
    n_processes: int  # that are in the profile
    n_forked: int | None  # child processes, in it or not
    n_spawned: int | None
    children_cpu_ns: int | None  # of those that have ended; null: not known, or none
    children: list[str]  # names of multiprocessing's, as far as they are known
    still_running: list[int]  # child processes that ran when the profile was made
    unprofiled: Unprofiled | None  # child processes that are not in it; null: none

    @classmethod
    def of(cls, profile: Profile) -> Run:
        """Return that of a profile."""
        meta, process, threads = profile.meta, profile.process, list(profile.threads.values())
        ends_ns = (t.last_ns or 0 for t in threads)
        end_ns = process.end_ns or max(int(meta.get("recorded_until_ns") or 0), *ends_ns, 0)
        return cls(
            version=str(meta.get("version") or "?"),
            python=str(meta.get("python") or "?"),
            argv=process.argv,
            pid=process.pid,
            start_unix_ns=meta.get("start_unix_ns"),
            complete=bool(meta.get("complete")),
            snapshot=meta.get("snapshot"),
            mode=str(meta.get("mode") or "sample"),
            wall_ns=end_ns - process.start_ns if process.start_ns and end_ns else None,
            cpu_ns=sum(processes_cpu_ns(profile).values()) or None,
            main_delay_ns=meta.get("main_delay_ns"),
            end_cpu_ns=meta.get("end_cpu_ns"),
            n_threads=sum(thread.n_threads for thread in threads if not thread.is_ours),
            n_busy_threads=len(busy_threads(profile)),
            n_processes=len(profile.processes),
            n_forked=process.n_forked,
            n_spawned=process.n_spawned,
            children_cpu_ns=meta.get("children_cpu_ns"),
            children=list(meta.get("children") or ()),
            still_running=list(meta.get("still_running") or ()),
            unprofiled=unprofiled(profile),
        )


class Clock(Record):
    """Describe what gave the samples' signals."""

    kind: str  # cpu, wall
    wall_threads: list[str]  # patterns of the names of those sampled by wall-clock time; empty: all
    engine: str  # sigtrap, perf_event, timer, monotonic; none: no samples
    engine_reason: str  # why this one
    hz_asked: int | None
    hz: int | None  # what the engine was set to
    hz_reached: float | None  # samples per second of the clock, over busy threads
    period_ns: int  # what one sample stands for

    @classmethod
    def of(cls, profile: Profile) -> Clock:
        """Return that of a profile."""
        meta = profile.meta
        return cls(
            kind=str(meta.get("clock") or "?"),
            wall_threads=list(meta.get("wall_threads") or ()),
            engine=str(meta.get("engine") or "?"),
            engine_reason=str(meta.get("engine_reason") or ""),
            hz_asked=meta.get("hz_asked"),
            hz=meta.get("hz"),
            hz_reached=hz_reached(profile),
            period_ns=profile.period_ns,
        )


class Samples(Record):
    """Describe how many there are, how good, and what is in none."""

    signals: int  # == recorded + the sum of losses
    recorded: int
    losses: dict[str, int]  # samples, by reason
    recorded_weight_ns: int
    missed_weight_ns: int  # CPU time (or wall-clock time) that no signal stood for
    unaccounted_ns: int  # CPU time that no thread's samples stand for; 0: none, or not known
    own_weight_ns: int  # of what ran only because of the profiler: outside all shares
    stacks: dict[str, float]  # complete, re_anchored, gapped, truncated: shares of the weight
    gil: dict[str, float]  # held, waiting, neither: shares of the weight
    off_cpu: float | None  # share of the weight in threads that waited; null: a CPU clock
    blocked: list[str]  # the names of threads that block signals, and have rows of their own

    @classmethod
    def of(cls, profile: Profile) -> Samples:
        """Return those of a profile."""
        threads, losses = profile.threads.values(), Counter[str]()
        for loss in profile.losses:
            losses[loss.reason] += loss.samples
        return cls(
            signals=sum(t.signals for t in threads),
            recorded=sum(t.recorded for t in threads),
            losses=dict(losses),
            recorded_weight_ns=sum(t.recorded_weight_ns for t in threads),
            missed_weight_ns=sum(t.missed_weight_ns for t in threads),
            unaccounted_ns=unaccounted_ns(profile),
            own_weight_ns=profile.own_weight_ns,
            stacks=stack_quality(profile),
            gil=gil_shares(profile),
            off_cpu=off_cpu_share(profile),
            blocked=sorted(
                frame.name.partition("thread ")[2]
                for frame in profile.frames.values()
                if frame.symbol == SIGNALS_BLOCKED
            ),
        )


class Calls(Record):
    """Hold what events counted, of all functions together."""

    calls: int  # of Python functions
    n_traced: int  # functions that were called
    unknown_calls: int  # of Python functions that are not distinguished
    c_calls: int | None  # of C functions, by Python functions; null: not counted
    n_c_traced: int | None
    turns: int  # calls, and generators' goings on
    traced_ns: int  # self time of all traced functions together

    @classmethod
    def of(cls, profile: Profile) -> Calls | None:
        """Return those of a profile; None: nothing was traced."""
        if not profile.exact:
            return None
        traced = own_calls(profile)
        python, native, unknown, folded = [], [], [], []
        for number, each in traced.items():
            frame = profile.frames[number]
            python += [each] * (frame.kind == "python")
            native += [each] * (frame.kind == "native")
            unknown += [each] * (frame.symbol == UNKNOWN_PYTHON)
            folded += [each] * (frame.symbol == IMPORT_FUNCTIONS)
        counts_c = bool(profile.meta.get("c_calls"))
        return cls(
            calls=sum(f.calls for f in [*python, *folded]),
            n_traced=sum(f.calls > 0 for f in python) + summed_functions(profile),
            unknown_calls=sum(f.calls for f in unknown),
            c_calls=sum(f.calls for f in native) if counts_c else None,
            n_c_traced=sum(f.calls > 0 for f in native) if counts_c else None,
            turns=sum(f.turns for f in traced.values()),
            traced_ns=sum(f.self_ns for f in traced.values()),
        )


class Cost(Record):
    """Hold what profiling took."""

    handler_median_ns: int | None  # what the signal handler took
    handler_p99_ns: int | None
    sample_ns: int | None  # of one sample, interrupt and all, measured at start
    overhead: float | None  # share of the CPU time that sampling took, by that
    call_ns: float | None  # what counting one turn costs, measured at start
    counting_ns: int | None  # what counting took: an estimate by that; own_weight_ns if it is more

    @classmethod
    def of(cls, profile: Profile, calls: Calls | None) -> Cost:
        """Return that of a profile."""
        handler, meta = HandlerCost(profile), profile.meta
        return cls(
            handler_median_ns=handler.quantile_ns(0.5),
            handler_p99_ns=handler.quantile_ns(0.99),
            sample_ns=round(meta.get("cost_ns", 0)) or None,  # a merged profile's is a mean
            overhead=handler.overhead(),
            call_ns=meta.get("call_cost_ns"),
            counting_ns=_counting_ns(profile, calls),
        )


def _counting_ns(profile: Profile, calls: Calls | None) -> int | None:
    """Count two events a turn, or C function's call, one a line; what some took beyond that.

    What samples met of it is true, too: of a killed process nothing else has the latter.  What
    Profilers within the run did is none of it.
    """
    call_cost_ns = float(profile.meta.get("call_cost_ns") or 0)
    if calls is None or not call_cost_ns:
        return None
    n_lines = sum(row.hits for row in profile.lines)
    more_ns = int(profile.meta.get("counting_more_ns") or 0)
    events = calls.turns + (calls.c_calls or 0) + n_lines / 2
    counted_ns = round(events * call_cost_ns) + more_ns
    met_ns = profile.own_weight_ns - int(profile.meta.get("parts_cpu_ns") or 0)
    return max(counted_ns, met_ns if profile.meta.get("clock") == "cpu" else 0)
