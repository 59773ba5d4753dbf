"""Limits that markers set to what a test does: exact calls of a function, and time in it.

    @pytest.mark.limit_calls("pkg.module.function", 100)
    @pytest.mark.limit_time("pkg.Class.method", "50ms")

They hold for all threads, from the test's begin to its end.  A limit that cannot be checked fails
the test, too: a pass would claim what nobody knows.
"""

import importlib
import inspect
import os
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

from pyhybrid._native import calls_of, hold_calls, session
from pyhybrid.options.kinds import Duration
from pyhybrid.options.settings import Settings
from pyhybrid.views.labels import short_time

MARKERS = "limit_calls", "limit_time"
N_CALLERS = 10


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit a function to at most so much in a test."""

    marker: str
    name: str
    code: types.CodeType
    most: int  # calls, or nanoseconds
    label: str

    def exceeded_by(self, before: "_Calls", after: "_Calls") -> str | None:
        """Return the message for a test that did so."""
        calls = after.calls - before.calls
        times = after.ns - before.ns
        is_time = self.marker == "limit_time"
        measured = times if is_time else calls
        if measured.total() <= self.most:
            return None
        first = f"{short_time(times.total())} in " if is_time else ""
        lines = [f"{self.label}: {first}{_counted(calls.total())}"]
        callers = measured.most_common()
        for caller, _ in callers[:N_CALLERS]:
            of_caller = f"{short_time(times[caller])} in " if is_time else ""
            lines.append(f"    {of_caller}{_counted(calls[caller])} from {caller}")
        if len(callers) > N_CALLERS:
            lines.append(f"    and {len(callers) - N_CALLERS} more callers")
        return "\n".join(lines)


class _Calls:
    """Count one function's calls so far, by caller."""

    def __init__(self, code: types.CodeType) -> None:
        self.calls: Counter[str] = Counter()
        self.ns: Counter[str] = Counter()
        for caller, calls, ns in calls_of(code):
            label = _label(caller) if caller else "no function that is known"
            self.calls[label] += calls
            self.ns[label] += ns


def limits_of(item: pytest.Item) -> list[Limit]:
    """Return the test's; of a function's markers the closest.  What is no limit fails it."""
    limits: dict[tuple[str, str], Limit] = {}
    for marker in MARKERS:
        for mark in item.iter_markers(marker):
            limit = _limit(mark)
            limits.setdefault((marker, limit.name), limit)
    return list(limits.values())


@contextmanager
def checked(limits: list[Limit], settings: Settings | None, why_not: str) -> Iterator[None]:
    """Run the test meanwhile in a profile with these settings; None: in none, `why_not`."""
    if not limits:
        yield
        return
    if settings is None:
        _fail_unchecked(limits, why_not)
    if not (settings.traces and settings.counts and not settings.chooses):
        _fail_unchecked(limits, "the profile does not count the calls of all functions")
    measured, held = session(), hold_calls(True)
    try:
        before = _look(limits)
        yield
        if not held or session() != measured:
            _fail_unchecked(limits, "the profile ended during the test")
        after = _look(limits)
    finally:
        if held and session() == measured:
            hold_calls(False)
    failures = [limit.exceeded_by(*e) for limit, *e in zip(limits, before, after, strict=True)]
    if any(failures):
        pytest.fail("\n".join(filter(None, failures)), pytrace=False)


def _look(limits: list[Limit]) -> list[_Calls]:
    try:
        return [_Calls(limit.code) for limit in limits]
    except RuntimeError as error:
        _fail_unchecked(limits, str(error))


def _fail_unchecked(limits: list[Limit], why: str) -> NoReturn:
    pytest.fail(f"{limits[0].label} cannot be checked: {why}", pytrace=False)


def _limit(mark: pytest.Mark) -> Limit:
    label = f"{mark.name}({', '.join(map(repr, mark.args))})"
    try:
        name, most = mark.args
        if mark.kwargs or not isinstance(name, str):
            raise ValueError
    except ValueError:
        pytest.fail(f"{label}: it takes a function's name and a limit", pytrace=False)
    try:
        most = _most(mark.name, most)
        return Limit(mark.name, name, _code(name), most, label)
    except (ValueError, LookupError) as error:
        pytest.fail(f"{label}: {error}", pytrace=False)


def _most(marker: str, most: Any) -> int:
    if marker == "limit_time":
        return int(Duration().parse(str(most)))
    if type(most) is not int or most < 0:
        raise ValueError(f"{most!r} is not a number of calls")
    return most


def _code(name: str) -> types.CodeType:
    """Return the code of the Python function with this name; raises LookupError."""
    parts = name.split(".")
    found: Any = None
    for n in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:n])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name and (module == error.name or module.startswith(f"{error.name}.")):
                continue
            raise LookupError(f"{module} cannot be imported: {error}") from None
        except Exception as error:
            raise LookupError(f"{module} cannot be imported: {error}") from None
        break
    else:
        raise LookupError(f"there is no module that {name!r} begins with")
    for part in parts[n:]:
        try:
            of_module = isinstance(found, types.ModuleType)  # it may have a function for that
            found = getattr(found, part) if of_module else inspect.getattr_static(found, part)
        except AttributeError:
            raise LookupError(f"there is no {part!r} in it") from None
    code = getattr(inspect.unwrap(_function(found)), "__code__", None)
    if not isinstance(code, types.CodeType):
        raise LookupError(f"{name} is not a Python function")
    return code


def _function(found: Any) -> Callable[..., Any]:
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if isinstance(found, property) and found.fget:
        found = found.fget
    function: Callable[..., Any] = found
    return function


def _label(code: types.CodeType) -> str:
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def _counted(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls:,} calls"
