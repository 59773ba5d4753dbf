"""Callbacks for the six events that counting calls takes, around a block of code."""

import contextlib
import sys
from collections.abc import Callable, Iterator

TOOL = 4


@contextlib.contextmanager
def by_callback(callback: Callable[..., object]) -> Iterator[None]:
    monitoring, events = sys.monitoring, sys.monitoring.events
    monitoring.use_tool_id(TOOL, "floor")
    wanted = 0
    for name in ("PY_START", "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND"):
        event = getattr(events, name)
        monitoring.register_callback(TOOL, event, callback)
        wanted |= event
    monitoring.set_events(TOOL, wanted)
    yield
    monitoring.set_events(TOOL, 0)
    monitoring.free_tool_id(TOOL)
