"""A profiler in forty lines: callbacks of sys.monitoring in Python, figures to LTTng by pylttng.

    python sysmon_profiler.py [STEPS]

Counts and times every Python function of workload.py, prints the 20 with the most time as cProfile
does, and emits an event `sysmon:function_stats` for each.  Each callback costs about a microsecond:
`python -m pyhybrid --mode trace --format lttng workload.py` does the same for a thirtieth.
"""

import sys
import threading
import time
from collections import Counter
from types import CodeType

import pylttng
import workload

MONITORING = sys.monitoring
TOOL = MONITORING.PROFILER_ID
EVENTS = MONITORING.events


class Stacks(threading.local):
    """Of each thread: the functions that run and when they began, and how often each of them."""

    def __init__(self) -> None:
        self.open: list[tuple[CodeType, float]] = []
        self.active: Counter[CodeType] = Counter()


stacks = Stacks()
calls: Counter[CodeType] = Counter()
total_time: Counter[CodeType] = Counter()  # seconds; a recursion is within its first call


def begins(code: CodeType, *_: object) -> None:
    """A function is called, or a generator goes on."""
    calls[code] += 1
    stacks.active[code] += 1
    stacks.open.append((code, time.perf_counter()))


def ends(code: CodeType, *_: object) -> None:
    """It returns, yields or raises."""
    if not stacks.open:  # it ran before we did
        return
    _, since = stacks.open.pop()
    stacks.active[code] -= 1
    if not stacks.active[code]:
        total_time[code] += time.perf_counter() - since


def main() -> None:
    """Profile the workload, print the figures, emit them."""
    training = workload.Training()
    callbacks = {EVENTS.PY_START: begins, EVENTS.PY_RESUME: begins, EVENTS.PY_THROW: begins}
    callbacks |= {EVENTS.PY_RETURN: ends, EVENTS.PY_YIELD: ends, EVENTS.PY_UNWIND: ends}
    MONITORING.use_tool_id(TOOL, "sysmon_profiler")
    for event, callback in callbacks.items():
        MONITORING.register_callback(TOOL, event, callback)
    MONITORING.set_events(TOOL, sum(callbacks))
    workload.run_workload(training, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    MONITORING.set_events(TOOL, 0)
    MONITORING.free_tool_id(TOOL)

    print("   calls  total_time  function")
    for code, total in total_time.most_common(20):
        print(f"{calls[code]:8}  {total:10.4f}  {code.co_qualname}")
    for code, total in total_time.items():
        pylttng.trace_function_stats(
            filename=code.co_filename,
            lineno=code.co_firstlineno,
            funcname=code.co_name,
            calls=calls[code],
            total_time=total,
            avg_time=total / calls[code],
        )


if __name__ == "__main__":
    main()
