"""`@pyhybrid.profile`: what is decorated, and how its calls open windows (shared_profile.py).

A wrapper is of the kind of what it wraps, so that `inspect` sees the same.  A generator or
coroutine has a window for each of its turns: while it is suspended, others run.
"""

import functools
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol, overload

from pyhybrid._native import window
from pyhybrid.base.pseudo_frames import DECORATED
from pyhybrid.capture.shared_profile import SharedProfile, shared_by
from pyhybrid.errors import UsageError


@overload
def profile(**options: Any) -> "_Decorator": ...
@overload
def profile[T](function: T) -> T: ...
def profile(function: Any = None, **options: Any) -> Any:
    """Profile the calls of a function, all into one profile: `@profile`, `@profile(hz=99)`.

    It counts while a call runs, in all threads, and is idle in between.  Of generators and
    coroutines each turn counts, from where they go on to where they are suspended.  Of methods,
    class and static methods and properties the decorator stands above or below; callable objects,
    `functools.partial` and C functions become a function.  A class is refused, and what cannot be
    called: UsageError.

    The options are Profiler's.  Functions with equal options share a profile.  Its files are
    written once, when the program ends, or by `write_profile()`: in the current folder, named after
    the function that was called first, unless `output` names another; with a summary on stderr.

    One profiler runs in a process at a time.  A call while another one runs, or makes its files, is
    just a call.  A profile that is idle ends, with its files, when a Profiler starts or a function
    with other options is called, and calls of its own functions are just calls from then on: a line
    on stderr reports it.  There is one where a profile cannot be started, too.  Forked children are
    not profiled.
    """
    if function is None:
        return functools.partial(_decorated, options=options)
    return _decorated(function, options)


class _Decorator(Protocol):
    def __call__[T](self, function: T, /) -> T: ...


def _decorated(function: Any, options: dict[str, Any]) -> Any:
    again = functools.partial(_decorated, options=options)
    kind: Any = type(function)
    match function:
        case staticmethod() | classmethod():
            return kind(again(function.__func__))
        case property():
            accessors = (function.fget, function.fset, function.fdel)
            parts = [accessor and again(accessor) for accessor in accessors]
            return kind(*parts, function.__doc__)
        case functools.cached_property():
            return kind(again(function.func))
        case functools.partialmethod():
            whole = again(function.func)
            return kind(whole, *function.args, **function.keywords)
        case type():
            raise UsageError(f"@profile: {function.__qualname__} is a class: decorate its methods")
    if not callable(function):
        raise UsageError(
            f"@profile: what it decorates cannot be called: of type {kind.__qualname__}"
        )
    name = getattr(_called(function), "__qualname__", kind.__qualname__)
    name = name.replace("<locals>.", "")
    make = _maker(_called(function))
    return functools.wraps(function)(make(function, shared_by(options, name), name))


def _called(function: Any) -> Any:
    """Return the function whose code a call runs, as far as it is known."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or not inspect.isfunction(type(function).__call__):
        return function
    return type(function).__call__  # of an object


class _Begun(Protocol):
    """Hold a profile that has begun: `session`; else (0) `begin` begins it, and returns that."""

    session: int

    def begin(self, name: str, /) -> int: ...


_marked_codes: dict[types.CodeType, types.CodeType] = {}


def marked[T: Callable[..., Any]](function: T) -> T:
    """Name its code as what stands between a profiled function and its caller: views leave it
    out."""
    code = function.__code__
    named = _marked_codes.setdefault(code, code.replace(co_qualname=DECORATED))
    function.__code__ = named
    return function


type _Maker = Callable[[Callable[..., Any], SharedProfile, str], Callable[..., Any]]


def _maker(called: Any) -> _Maker:
    if inspect.isasyncgenfunction(called):
        return _async_generator
    if inspect.iscoroutinefunction(called):
        return _coroutine
    if not inspect.isgeneratorfunction(called):
        return _function
    is_awaited = called.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE  # by types.coroutine
    return _awaited_generator if is_awaited else _generator


def _function(function: Callable[..., Any], shared: SharedProfile, name: str) -> Callable[..., Any]:
    @marked
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with window(shared.session or shared.begin(name)):
            return function(*args, **kwargs)

    return wrapper


def _generator(
    function: Callable[..., Any], shared: SharedProfile, name: str
) -> Callable[..., Any]:
    @marked
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return (yield from _turns(function(*args, **kwargs), shared, name))

    return wrapper


def _awaited_generator(
    function: Callable[..., Any], shared: SharedProfile, name: str
) -> Callable[..., Any]:
    return types.coroutine(_generator(function, shared, name))


def _coroutine(
    function: Callable[..., Any], shared: SharedProfile, name: str
) -> Callable[..., Any]:
    @marked
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await Awaited(function(*args, **kwargs), shared, name)

    return wrapper


def _async_generator(
    function: Callable[..., Any], shared: SharedProfile, name: str
) -> Callable[..., Any]:
    @marked
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        turns = function(*args, **kwargs)
        step, argument = _first_step(turns), None
        while True:
            try:
                item = await Awaited(step(argument), shared, name)
            except StopAsyncIteration:
                return
            finally:
                argument = None  # an exception would keep this frame, which has it
            try:
                argument = yield item
                step = turns.asend
            except BaseException as error:  # GeneratorExit, too: that is its own affair
                step, argument = turns.athrow, error

    return wrapper


@marked
def _turns(turns: Any, shared: _Begun, name: str) -> Generator[Any, Any, Any]:
    """Do as `yield from turns`, with a window open for each turn (PEP 380)."""
    step, argument = turns.send, None
    while True:
        try:
            with window(shared.session or shared.begin(name)):
                item = step(argument)
        except StopIteration as end:
            return end.value
        finally:
            argument = None  # an exception would keep this frame, which has it
        try:
            argument = yield item
            step = turns.send
        except BaseException as error:  # GeneratorExit, too: what it does then is its own affair
            step, argument = turns.throw, error


class Awaited:
    """Await the turns of what is awaited, with a window open for each."""

    def __init__(self, awaitable: Any, shared: _Begun, name: str) -> None:
        self._of = awaitable, shared, name

    @marked
    def __await__(self) -> Generator[Any, Any, Any]:
        awaitable, shared, name = self._of
        turns = awaitable if hasattr(awaitable, "send") else awaitable.__await__()
        return _turns(turns, shared, name)


def _first_step(turns: AsyncGenerator[Any, Any]) -> Callable[[None], Any]:
    """Return `turns.asend`, hidden from the event loop: it would close the wrapper's."""
    hooks = sys.get_asyncgen_hooks()

    @marked
    def first(argument: None) -> Any:
        sys.set_asyncgen_hooks(None, None)
        try:
            return turns.asend(argument)  # calls the hooks, if there are any
        finally:
            sys.set_asyncgen_hooks(*hooks)

    return first
