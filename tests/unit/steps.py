"""How much Python a piece of work runs: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType

TOOL = 4  # an id of sys.monitoring that no tool has by custom


def steps(work: Callable[[], object]) -> int:
    """Calls, of Python and of C functions, and turns of loops in `work()`.

    What C code does within one call is one step.
    """
    n = 0

    def count(_code: CodeType, *_where: object) -> None:
        nonlocal n
        n += 1

    monitoring, events = sys.monitoring, sys.monitoring.events
    counted = (events.PY_START, events.PY_RESUME, events.CALL, events.JUMP)
    monitoring.use_tool_id(TOOL, "steps")
    try:
        for event in counted:
            monitoring.register_callback(TOOL, event, count)
        monitoring.set_events(TOOL, sum(counted))
        work()
    finally:
        monitoring.set_events(TOOL, 0)
        for event in counted:
            monitoring.register_callback(TOOL, event, None)
        monitoring.free_tool_id(TOOL)
    return n
