"""How a test's function is called so that it, and nothing of pytest, is profiled.

    pytest's frames | apart: the profile begins here | window | region of the test | the test

Functions of this package have no figures in a profile (`own` of _native.start), views leave out
what is `marked`, and pytest leaves all of them out of tracebacks.
"""

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from pyhybrid._native import call_apart, launcher, window
from pyhybrid.capture.api import region
from pyhybrid.capture.decorator import Awaited, marked
from pyhybrid.options.settings import Settings


class Idle:
    """A profile that counts in windows of `session` alone; 0: it counts all the time."""

    def __init__(self, session: int, settings: Settings) -> None:
        self.session, self.settings = session, settings

    def begin(self, name: str) -> int:
        """It has begun."""
        return self.session


def profiled(function: Callable[..., Any], name: str, idle: Idle) -> Callable[..., Any]:
    """`function`, whose calls count, in a region of this name.

    Of a coroutine function each turn counts.
    """
    make = _coroutine if inspect.iscoroutinefunction(function) else _function
    return functools.wraps(function)(make(function, name, idle))


def _function(function: Callable[..., Any], name: str, idle: Idle) -> Callable[..., Any]:
    @marked
    def inside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with window(idle.session), region(name):
            return function(*args, **kwargs)

    @marked
    def outside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        outer = launcher()
        try:
            return call_apart(inside, *args, **kwargs)
        finally:
            launcher(*outer)

    is_main = threading.current_thread() is threading.main_thread()
    return outside if idle.session and is_main else inside


def _coroutine(function: Callable[..., Any], name: str, idle: Idle) -> Callable[..., Any]:
    @marked
    async def inside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with region(name):
            return await function(*args, **kwargs)

    @marked
    async def outside(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return await Awaited(inside(*args, **kwargs), idle, name)

    return outside
