"""Begins profiling as asked, or as far as it is to be had: the program runs in any case."""

from collections.abc import Iterator
from typing import Any

from pyhybrid.base.terminal_text import say
from pyhybrid.capture.profiling_run import Profiling
from pyhybrid.cli.without_profile import check_room
from pyhybrid.errors import OutputError, PyhybridError, UsageError
from pyhybrid.options.settings import CommandLineSettings
from pyhybrid.options.table import COUNTING, TORCH_KIND, Options


def _mode_alone(asked: dict[str, Any], mode: str) -> dict[str, Any]:
    """This mode, without the options that do not go with it."""
    others = (each for each in Options.options.values() if mode not in each.modes)
    less = {each.name: each.default for each in others}
    if mode not in COUNTING:
        less["torch"] = TORCH_KIND.without_counts(asked["torch"])
    return {"mode": mode, **less}


def begin(asked: dict[str, Any], argv: list[str]) -> Profiling | None:
    """Start profiling with the options asked, or with less; None where nothing is to be had.

    What is missing has been said then.  Raises UsageError; with the option `strict` PyhybridError
    for all that is missing.
    """
    try:
        return _attempt(asked, argv)
    except UsageError:
        raise
    except PyhybridError as error:
        if asked["strict"]:
            raise
        reason = str(error)
        nowhere = isinstance(error, OutputError)
    for changes, left in () if nowhere else _less(asked):
        try:
            profiling = _attempt({**asked, **changes}, argv)
        except PyhybridError:
            continue
        say(f"{reason}: {left}")
        return profiling
    say(f"{reason}: the program runs without a profile")
    return None


def _attempt(asked: dict[str, Any], argv: list[str]) -> Profiling:
    settings = CommandLineSettings(**asked)
    try:
        check_room()
        profiling = Profiling(settings, argv)
        profiling.start()
    except OSError as error:
        raise PyhybridError(f"cannot start: {error.strerror or error}") from None
    except MemoryError:
        raise PyhybridError("cannot start: no memory") from None
    return profiling


def _less(asked: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """What may be had where that is not."""
    if asked["engine"] != "auto":
        yield {"engine": "auto"}, "another engine drives the samples"
    if asked["mode"] == "hybrid":
        yield _mode_alone(asked, "trace"), "calls are counted, nothing is sampled"
        yield _mode_alone(asked, "sample"), "stacks are sampled, calls are not counted"
