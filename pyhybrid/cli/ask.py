"""`pyhybrid ask`: what a profile has to say as one line of JSON, for a script or an agent."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import TYPE_CHECKING

from pyhybrid.cli.page import Page
from pyhybrid.cli.parser import word
from pyhybrid.cli.report_views import VIEWS, View
from pyhybrid.options.kinds import Number
from pyhybrid.report.table import plain
from pyhybrid.tables.profile import Profile

if TYPE_CHECKING:
    from pyhybrid.report.answers import Answers, More


class Ask(View):
    """Prints what a profile has to say as one line of JSON: how it was measured, what stands out,
    the first rows of each view, and the commands that show more.
    """

    name = "ask"
    words = "[FILE]"
    help = "print what stands out as JSON, with rows of each view"
    has_exact_times = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        parser.add_argument(
            "-n",
            dest="rows",
            type=word(Number(1, 1000)),
            default=8,
            metavar="N",
            help="rows of each view (default: %(default)s)",
        )

    def figures(self, profile: Profile, args: argparse.Namespace) -> Answers:
        """See View."""
        from pyhybrid.report.answers import answers

        found = answers(profile, args.rows)
        return found._replace(more=_more(profile, found))

    def print_json(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View; the notes describe which part of the profile it is about."""
        found = self.figures(profile, args)
        json.dump(
            plain(found._replace(notes=[*notes, *found.notes])), sys.stdout, separators=(",", ":")
        )
        print()

    print_text = print_json


def _more(profile: Profile, found: Answers) -> list[More]:
    """Return the commands that show what is not all here, if the profile has it."""
    from pyhybrid.report.answers import More
    from pyhybrid.views.serving.requests import kept
    from pyhybrid.views.training.memory import memory_of

    has = {
        "lines": profile.meta.get("lines"),
        "calls": profile.calls,
        "modules": found.modules,
        "ops": found.operators,
        "steps": found.steps,
        "compiles": found.compiles,
        "memory": memory_of(profile),
        "requests": kept(profile),
        "processes": len(profile.processes) > 1,
        "findings": (),  # all are here
    }
    shown = [
        (f"report {name} --json", each.help) for name, each in VIEWS.items() if has.get(name, True)
    ]
    file = shlex.quote(found.file)
    return [
        More(f"python -m pyhybrid {words} {file}", shows)
        for words, shows in (*shown, (Page.name, Page.help))
    ]
