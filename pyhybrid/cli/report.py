"""`pyhybrid report [VIEW] [FILE]`: which view is meant, and where there is none, why."""

import argparse
import os
from collections.abc import Iterator
from functools import cache

from pyhybrid.cli.parser import Parser
from pyhybrid.cli.report_views import VIEWS, Summary, View
from pyhybrid.errors import UsageError


class Report(Summary):
    """Prints a view of a profile on stdout: the summary, where none is named."""

    name = "report"
    words = "[VIEW] [FILE]"
    help = "print the summary of a profile, or a view of it"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Prepare the summary's; the help has all views."""
        super().prepare_parser(parser)
        parser.usage = "pyhybrid report [VIEW] [options] [FILE]"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        views = "\n".join(f"  {name:<10}{each.help}" for name, each in VIEWS.items())
        parser.epilog = f"views (each has a --help; without one, the summary):\n{views}"

    def view(self, words: list[str]) -> tuple[View, list[str]]:
        """Return the view that they ask for, and the words without its name.  Raises UsageError.

        The first word that is no option names it, or else a file: `./steps` is one.
        """
        named = list(_named(words))
        name = words[named[0]] if named else ""
        view = VIEWS[name]() if name in VIEWS else self
        if name in VIEWS:
            words = [*words[: named[0]], *words[named[0] + 1 :]]
        elif named:
            _check_file(name)
            if len(named) > 1 and words[named[1]] in VIEWS:
                raise UsageError(f"the view comes first: report {words[named[1]]} {name}")
        _check_options(view, words)
        return view, words


def _named(words: list[str]) -> Iterator[int]:
    """Yield where the words are that are no options, nor their values, nor behind `--`."""
    with_values = {
        flag for view in VIEWS for flag, action in _actions(view).items() if action.nargs != 0
    }
    is_value = False
    for at, each in enumerate(words):
        if each == "--":
            return
        if not is_value and not each.startswith("-"):
            yield at
        is_value = not is_value and each in with_values


@cache
def _actions(view: str) -> dict[str, argparse.Action]:
    parser = Parser(prog=view)
    VIEWS[view]().prepare_parser(parser)
    return parser._option_string_actions


def _check_file(name: str) -> None:
    """Refuse what is no file, and does not look like one: a view that is misspelled."""
    if os.sep in name or "." in name or os.path.lexists(name):
        return
    from difflib import get_close_matches

    near = "".join(f": {each}?" for each in get_close_matches(name, VIEWS, n=1))
    raise UsageError(f"there is no file and no view {name!r}{near} (views: {', '.join(VIEWS)})")


def _check_options(view: View, words: list[str]) -> None:
    """Raise UsageError for what is an option of other views, or was meant as a view."""
    own = _actions(view.name if view.name in VIEWS else Summary.name)
    for each in words[: words.index("--") if "--" in words else None]:
        flag = each.partition("=")[0]
        if flag in own or not flag.startswith("-"):
            continue
        if flag.removeprefix("--") in VIEWS:
            raise UsageError(f"a view is a word without dashes: report {flag.removeprefix('--')}")
        if others := [name for name in VIEWS if flag in _actions(name)]:
            raise UsageError(f"{flag} goes with report {', '.join(others)}")
