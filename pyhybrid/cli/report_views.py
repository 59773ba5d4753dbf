"""The views of `pyhybrid report`: each has its own options, and prints itself as text or as JSON.

What JSON has is on docs/reference/json.md, and stays so.  A view imports what makes it when it is
asked for: of all of them that takes longer than what one of them does with a small file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING, Any

from pyhybrid.base.files import damage_in
from pyhybrid.base.terminal_text import write_lines
from pyhybrid.cli.parser import DURATION, word
from pyhybrid.cli.selection_options import (
    add_compensate,
    add_debug_info,
    add_file,
    add_selection,
    choice_of,
    open_profile,
    with_debug_info,
)
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.options.kinds import Number
from pyhybrid.report.table import Listing, plain, shown
from pyhybrid.report.terminal import MIN_HEIGHT
from pyhybrid.tables.profile import Profile
from pyhybrid.views.processes import BY
from pyhybrid.views.selection.sample_selection import choose

if TYPE_CHECKING:
    from pyhybrid.report import summary, tree
    from pyhybrid.views.findings import Found


class View:
    """A view's docstring is what its --help prints first."""

    name: str
    words = "[FILE]"
    help: str
    selects = True  # has the options that choose samples
    has_exact_times = False  # which --compensate corrects
    has_native_lines = False  # by debug information
    folds_imports = False  # unless --imports or --all-frames is given

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_file(parser)
        parser.add_argument("--json", action="store_true", help="as JSON")
        self.add_options(parser)
        if self.has_exact_times:
            add_compensate(parser)
        if self.has_native_lines:
            add_debug_info(parser)
        if self.selects:
            add_selection(parser)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare those that it has alone."""

    def run(self, args: argparse.Namespace) -> int:
        """Print it; returns the exit code.  Raises PyhybridError."""
        with open_profile(args) as profile, damage_in(args.file):
            shown, notes = profile, list[str]()
            if self.has_exact_times and args.compensate:
                from pyhybrid.views.calls.compensate import compensate

                shown = compensate(shown)
            if self.selects:
                shown, notes = choose(shown, choice_of(args))
            imports = not self.folds_imports or args.imports or args.all_frames
            if self.has_native_lines:
                shown, more = with_debug_info(shown, args, imports or args.json)
                notes = [*notes, *more]
            if self.folds_imports and imports:
                from pyhybrid.views.call_tree.imports import note_of_sums

                notes = [*notes, *note_of_sums(shown)]
            if args.json:
                self.print_json(shown, notes, args)
            else:
                self.print_text(shown, notes, args)
        return 0

    def print_json(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """Print it on stdout; `notes` describe what of the profile is shown."""
        json.dump(plain(self.figures(profile, args)), sys.stdout, indent=2)
        print()

    def print_text(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """Print it on stdout, after the notes."""
        write_lines([*notes, *shown(self.listing(self.figures(profile, args), args))], sys.stdout)

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """Return what is shown, a dataclass.  Raises PyhybridError where there is nothing."""
        raise NotImplementedError

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """Return that as text."""
        raise NotImplementedError


class Summary(View):
    """Prints what was measured, how well, what stands out, and where the time went."""

    name = "summary"
    help = "what was measured, how well, and where the time went"
    has_exact_times = has_native_lines = folds_imports = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        add_frames(parser)
        parser.add_argument(
            "--height",
            type=word(Number(MIN_HEIGHT, 10_000)),
            metavar="LINES",
            help="how long it may be (default: as high as the terminal, 23 to 50)",
        )

    def run(self, args: argparse.Namespace) -> int:
        """See View."""
        if args.height and args.json:
            raise UsageError("--height is for text: not with --json")
        return super().run(args)

    def print_json(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View; what import statements run is there, too."""
        found = self._summary(profile, notes, args, imports=True)
        json.dump(plain(found), sys.stdout, indent=2)
        print()

    def print_text(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View; the notes are lines of it."""
        from pyhybrid.report import screen, tree
        from pyhybrid.views.labels import labels_of

        imports = args.imports or args.all_frames
        labels = labels_of(profile, False, args.all_frames)
        paths = tree.CallTree(profile, labels, args.min_time, args.all_frames, imports)
        found = self._summary(profile, notes, args, imports=imports)
        screen.print_report(found, paths, sys.stdout, args.height)

    def _summary(
        self, profile: Profile, notes: list[str], args: argparse.Namespace, *, imports: bool
    ) -> summary.Summary:
        from pyhybrid.report import summary

        return summary.summarize(profile, [], notes, args.min_time, args.all_frames, imports)


class Tree(View):
    """Prints the call tree: exact calls and times beside the samples, all threads together."""

    name = "tree"
    help = "the call tree: calls, times and samples"
    has_exact_times = has_native_lines = folds_imports = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        add_frames(parser)
        parser.add_argument(
            "--full-names",
            action="store_true",
            help="native names with parameters and generic arguments",
        )

    def figures(self, profile: Profile, args: argparse.Namespace) -> tree.TreeFigures:
        """See View."""
        from pyhybrid.report import tree

        return tree.tree_figures(profile, *self._how(args))

    def print_text(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View."""
        from pyhybrid.report import tree

        write_lines([*notes, *tree.tree_lines(profile, *self._how(args))], sys.stdout)

    def _how(self, args: argparse.Namespace) -> tuple[int, bool, bool, bool]:
        return args.min_time, args.all_frames, args.full_names, args.imports


class Lines(View):
    """Prints the lines that a run with --lines recorded, and the hottest ones of native code with
    debug information.
    """

    name = "lines"
    help = "lines that a run with --lines recorded, and hot ones of native code"
    has_native_lines = True

    def print_text(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View."""
        from pyhybrid.report.line_listing import print_lines

        notes = self._left_out(profile, notes)
        write_lines(notes, sys.stdout)
        print_lines(profile, sys.stdout)

    def print_json(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View."""
        self._left_out(profile, notes)
        super().print_json(profile, notes, args)

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.report.line_listing import line_figures

        return line_figures(profile)

    def _left_out(self, profile: Profile, notes: list[str]) -> list[str]:
        if not profile.view.by_time:
            return notes
        if not profile.places:
            raise UsageError("lines are not kept by time: only --thread chooses some of them")
        recorded = bool(profile.meta.get("lines"))
        return [*notes, *["Python lines are not kept by time: left out"] * recorded]


class Calls(View):
    """Prints the functions and regions whose single calls were kept (--keep, -t), with sums and
    percentiles; as JSON each call.
    """

    name = "calls"
    help = "functions whose single calls were kept: sums and percentiles; as JSON each call"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        add_slowest(parser, "the N slowest calls of each function, too; --json: these alone")

    def print_json(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View."""
        from pyhybrid.report.calls import calls_json

        sys.stdout.writelines(calls_json(profile, args.slowest))

    def print_text(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View."""
        from pyhybrid.report.calls import calls_listing

        write_lines([*notes, *shown(calls_listing(profile, args.slowest))], sys.stdout)


class RequestsView(View):
    """Prints what a server's requests waited for: the calls of a function that --keep, -t or a
    region chose, with what they ran, the GIL, locks, queues, and the model's calls meanwhile.
    """

    name = "requests"
    help = "a server's requests: what they waited for, and why some were slow"
    selects = False

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        parser.add_argument(
            "--of",
            default="",
            metavar="NAME",
            help="the function or region that is a request (default: the one with most time)",
        )
        add_slowest(parser, "so many of the slowest requests (default: 5)")

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.views.serving.requests import requests_of

        return requests_of(profile, args.of, args.slowest or 5)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.request_listing import request_listing

        return request_listing(figures)


class Modules(View):
    """Prints the modules of a PyTorch model: calls, time of the forward and the backward pass, and
    samples.
    """

    name = "modules"
    help = "a PyTorch model's modules: calls, time of both passes, samples"
    has_exact_times = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        parser.add_argument("--by-class", action="store_true", help="all of a class as one")

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.views.training.model import model_figures

        return model_figures(profile, args.by_class)

    def print_text(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View."""
        if chosen := profile.meta.get("functions"):
            notes = [
                *notes,
                f"calls and times are those of what -t chose alone: {', '.join(chosen)}",
            ]
        super().print_text(profile, notes, args)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.training import model_listing

        return model_listing(figures, args.by_class)


class Operators(View):
    """Prints PyTorch's operators: their samples by phase, module and line."""

    name = "ops"
    help = "PyTorch's operators: samples by phase, module and line"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        parser.add_argument(
            "--match",
            type=_expression,
            default="",
            metavar="REGEX",
            help="only operators whose names match, each by module and line",
        )

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.views.training.operators import operators_of

        return operators_of(profile, args.match)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.training import operator_listing

        return operator_listing(figures, bool(args.match))


class Steps(View):
    """Prints the steps of a training with PyTorch: what their phases took, and why the slowest were
    slow.
    """

    name = "steps"
    help = "a training's steps: what their phases took, and why the slowest were slow"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        add_slowest(parser, "so many of the slowest steps (default: 5)")

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.report.step_listing import step_report

        return step_report(profile, args.slowest)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.step_listing import step_listing

        return step_listing(figures)


class Compiles(View):
    """Prints what torch.compile compiled, how long that took, and why it was made again."""

    name = "compiles"
    help = "what torch.compile compiled, how long that took, and why again"
    has_exact_times = True

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.views.training.compiles import compiles_of

        found = compiles_of(profile)
        if not found:
            raise PyhybridError(f"{profile.path}: nothing was compiled by torch.compile")
        return found

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.training import compile_listing

        return compile_listing(figures)


class MemoryView(View):
    """Prints what PyTorch's CPU allocator gave out (--torch memory), by module and call: at the
    peak, for a backward pass, and what grows with the steps, with who holds it.  And of GPUs what a
    snapshot of their memory has.
    """

    name = "memory"
    help = "PyTorch's memory by module and call, and who holds what grows"
    selects = False

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.views.training.memory import memory_figures

        return memory_figures(profile)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.memory_listing import memory_listing

        return memory_listing(figures)


class Quality(View):
    """Prints how far the profile can be trusted: what was lost, stacks, names by library, the
    signal handler and the clock.
    """

    name = "quality"
    help = "how far to trust it: losses, stacks, names by library, the clock"

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.report.quality import quality_report

        return quality_report(profile)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.quality import quality_listing

        return quality_listing(figures)


class Findings(View):
    """Prints what stands out in the profile, at most five sentences, what is about most first, each
    with the command that shows more.
    """

    name = "findings"
    help = "what stands out, in words, each with the command that shows more"
    selects = False  # shares of a part of the samples mean something else
    has_exact_times = True

    def figures(self, profile: Profile, args: argparse.Namespace) -> Found:
        """See View."""
        from pyhybrid.views.findings import Found, findings

        return Found(findings(profile))

    def listing(self, figures: Found, args: argparse.Namespace) -> Listing:
        """See View."""
        if not figures.findings:
            yield "nothing stands out"
        for each in figures.findings:
            yield each.text
            yield f"    {each.command}"


class Processes(View):
    """Prints the processes of a profile: what each took, and those that are alike as one."""

    name = "processes"
    help = "the processes of a run: what each took, and groups of those that are alike"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        parser.add_argument("--by", choices=BY, default="name", help="what makes a group")
        parser.add_argument("--each", action="store_true", help="each process, too")

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.report.processes import processes_report

        return processes_report(profile, args.by)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.processes import processes_listing

        return processes_listing(figures, args.each)


class Waits(View):
    """Prints who waited, for the GIL, a lock or another thread, and what others ran meanwhile:
    lines with `--clock wall`, else functions of the one and lines of the other.
    """

    name = "waits"
    help = "who waited for other threads, and what these ran meanwhile"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        count = word(Number(1, 1 << 31))
        parser.add_argument("-n", type=count, default=20, metavar="N", help="so many pairs (20)")

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.views.wait_pairs import wait_pairs

        return wait_pairs(profile)

    def listing(self, figures: Any, args: argparse.Namespace) -> Listing:
        """See View."""
        from pyhybrid.report.wait_listing import wait_listing

        return wait_listing(figures, args.n)


def add_frames(parser: argparse.ArgumentParser) -> None:
    """Declare what of the call tree is shown."""
    parser.add_argument(
        "--all-frames", action="store_true", help="show plumbing and nameless functions, too"
    )
    parser.add_argument("--imports", action="store_true", help="what import statements run, too")
    parser.add_argument(
        "--min-time",
        type=DURATION,
        default=0,
        metavar="TIME",
        help="leave out functions whose total is less, like 1ms or 500us",
    )


def add_slowest(parser: argparse.ArgumentParser, help: str) -> None:
    """Declare how many of the slowest are shown."""
    parser.add_argument("--slowest", type=word(Number(1, 1 << 31)), metavar="N", help=help)


def _expression(text: str) -> str:
    """Return a regular expression.  Raises ArgumentTypeError."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


_ALL = (
    Summary,
    Tree,
    Lines,
    Calls,
    RequestsView,
    Modules,
    Operators,
    Steps,
    Compiles,
    MemoryView,
    Waits,
    Processes,
    Quality,
    Findings,
)
VIEWS: dict[str, type[View]] = {each.name: each for each in _ALL}
