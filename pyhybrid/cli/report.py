"""`pyhybrid report`: the summary of a profile, again, or its lines."""

import argparse
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

from pyhybrid.capture.option_kinds import Number
from pyhybrid.cli.parser import DURATION, word
from pyhybrid.cli.selection_options import (
    add_debug_info,
    add_file,
    add_no_source,
    add_selection,
    choice_of,
    open_profile,
    with_debug_info,
)
from pyhybrid.damage import damage_in
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.profile_file.profile import Profile
from pyhybrid.report.calls import calls_json, calls_lines
from pyhybrid.report.compile_listing import compile_lines
from pyhybrid.report.line_listing import print_lines
from pyhybrid.report.model_listing import model_lines
from pyhybrid.report.operator_listing import operator_lines
from pyhybrid.report.quality import quality_lines, quality_report
from pyhybrid.report.screen import print_report
from pyhybrid.report.step_listing import step_lines, step_report
from pyhybrid.report.summary import as_json, summarize
from pyhybrid.report.terminal import MIN_HEIGHT
from pyhybrid.report.tree import CallTree, tree_lines
from pyhybrid.terminal_text import say, write_lines
from pyhybrid.views.calls.compensate import compensate
from pyhybrid.views.labels import Labels
from pyhybrid.views.selection.sample_selection import choose
from pyhybrid.views.training.compiles import compiles_of
from pyhybrid.views.training.model import model_figures
from pyhybrid.views.training.operators import operators_of


class Report:
    """Prints the summary, the tree, the lines, the steps and the like, or the quality on stdout."""

    name = "report"
    words = "[VIEW] [FILE]"
    help = "print the summary of a profile"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_file(parser)
        parser.add_argument("--json", action="store_true", help="as JSON; not --tree")
        view = parser.add_mutually_exclusive_group()
        view.add_argument(
            "--tree", action="store_true", help="the call tree instead: calls, times and samples"
        )
        view.add_argument(
            "--quality",
            action="store_true",
            help="instead: what was lost, stacks, names by library, the handler, the clock; --json",
        )
        view.add_argument(
            "--lines",
            action="store_true",
            help="the lines that a run with --lines recorded, and the hottest ones of native code "
            "with debug information",
        )
        view.add_argument(
            "--calls",
            action="store_true",
            help="the functions and regions whose single calls were kept (--keep, -t), with sums "
            "and percentiles; --json: each call",
        )
        view.add_argument(
            "--html",
            action="store_true",
            help="write a page for a browser instead (PREFIX.html; -o)",
        )
        view.add_argument(
            "--modules",
            action="store_true",
            help="instead: a PyTorch model's modules: calls, time of the forward pass, samples; "
            "--json",
        )
        view.add_argument(
            "--ops",
            action="store_true",
            help="instead: PyTorch's operators: samples by phase, module and line; --json",
        )
        view.add_argument(
            "--steps",
            action="store_true",
            help="instead: the steps of a training with PyTorch: what their phases took, and why "
            "the slowest were slow; --json: each step",
        )
        view.add_argument(
            "--compiles",
            action="store_true",
            help="instead: what torch.compile compiled, how long that took, and why again; --json",
        )
        parser.add_argument(
            "--by-class", action="store_true", help="--modules: all of a class as one"
        )
        parser.add_argument(
            "--match",
            type=_expression,
            metavar="REGEX",
            help="--ops: only operators whose names match, each by module and line",
        )
        parser.add_argument(
            "--slowest",
            type=word(Number(1, 1 << 31)),
            metavar="N",
            help="--calls: show the N slowest calls of each function; --json: these alone; "
            "--steps: the N slowest steps",
        )
        parser.add_argument("-o", "--output", metavar="OUT", help="--html: where to write")
        parser.add_argument("--open", action="store_true", help="--html: open it in the browser")
        add_no_source(parser)
        parser.add_argument(
            "--all-frames", action="store_true", help="show plumbing and nameless functions, too"
        )
        parser.add_argument(
            "--full-names",
            action="store_true",
            help="--tree: native names with parameters and generic arguments",
        )
        parser.add_argument(
            "--imports", action="store_true", help="what import statements run, too; --json has it"
        )
        parser.add_argument(
            "--height",
            type=word(Number(MIN_HEIGHT, 10_000)),
            metavar="LINES",
            help="how long it may be (default: as high as the terminal, 23 to 50)",
        )
        add_selection(parser)
        add_debug_info(parser)
        parser.add_argument(
            "--compensate",
            action="store_true",
            help="exact times less the estimated cost of counting",
        )
        parser.add_argument(
            "--min-time",
            type=DURATION,
            default=0,
            metavar="TIME",
            help="leave out functions whose total is less, like 1ms or 500us",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        if args.by_class and not args.modules:
            raise UsageError("--by-class goes with --modules")
        if args.tree and args.json:
            raise UsageError("the call tree is not given as JSON: --tree goes without --json")
        if args.html and (args.json or args.full_names or args.min_time):
            raise UsageError("--html goes without --json, --full-names, --min-time")
        if (args.output or args.open or args.no_source) and not args.html:
            raise UsageError("-o, --open and --no-source are for --html")
        if args.match and not args.ops:
            raise UsageError("--match goes with --ops")
        of_training = args.modules, args.ops, args.steps, args.compiles
        others = args.tree, args.quality, args.lines, args.calls, *of_training
        if args.height and (args.json or any(others)):
            raise UsageError("--height is for the summary")
        if args.slowest and not (args.calls or args.steps):
            raise UsageError("--slowest is for --calls and --steps")
        with open_profile(args) as profile, damage_in(args.file):
            _print(profile, args)
        return 0


def _expression(text: str) -> str:
    """A regular expression.  Raises ArgumentTypeError."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def _print(profile: Profile, args: argparse.Namespace) -> None:
    if args.compensate:
        compensate(profile)
    selected, notes = choose(profile, choice_of(args))
    if args.quality:
        report = quality_report(selected)
        if args.json:
            print(json.dumps(asdict(report), indent=2))
        else:
            write_lines([*notes, *quality_lines(report)], sys.stdout)
        return
    if args.calls:
        if args.json:
            sys.stdout.writelines(calls_json(selected, args.slowest))
        else:
            write_lines([*notes, *calls_lines(selected, args.slowest)], sys.stdout)
        return
    if args.compiles:
        found = compiles_of(selected)
        if not found:
            raise PyhybridError(f"{profile.path}: nothing was compiled by torch.compile")
        if args.json:
            print(json.dumps(asdict(found), indent=2))
        else:
            write_lines([*notes, *compile_lines(found)], sys.stdout)
        return
    if args.modules:
        model = model_figures(selected, args.by_class)
        if args.json:
            print(json.dumps(asdict(model), indent=2))
        else:
            if chosen := selected.meta.get("functions"):
                of = ", ".join(chosen)
                notes = [*notes, f"calls and times are those of what -t chose alone: {of}"]
            write_lines([*notes, *model_lines(model, args.by_class)], sys.stdout)
        return
    if args.ops:
        operators = operators_of(selected, args.match or "")
        if args.json:
            print(json.dumps(asdict(operators), indent=2))
        else:
            write_lines([*notes, *operator_lines(operators, bool(args.match))], sys.stdout)
        return
    if args.steps:
        steps = step_report(selected, args.slowest)
        if args.json:
            print(json.dumps(asdict(steps), indent=2))
        else:
            write_lines([*notes, *step_lines(steps)], sys.stdout)
        return
    selected, more = with_debug_info(selected, args)
    notes += more
    if args.html:
        _write_page(selected, notes, args)
    elif args.lines and not args.json:
        if selected.is_part and not selected.places:
            raise UsageError("lines are not kept by time: --lines goes with --thread only")
        if selected.is_part and profile.lines:
            notes.append("Python lines are not kept by time: left out")
        write_lines(notes, sys.stdout)
        print_lines(selected, sys.stdout)
    elif args.tree:
        how = args.min_time, args.all_frames, args.full_names, args.imports
        write_lines([*notes, *tree_lines(selected, *how)], sys.stdout)
    else:
        imports = args.imports or args.all_frames
        summary = summarize(
            selected, [], notes, args.min_time, args.all_frames, args.json or imports
        )
        if args.json:
            json.dump(as_json(summary), sys.stdout, indent=2)
            print()
        else:
            labels = Labels(selected, False, args.all_frames).of_frame
            tree = CallTree(selected, labels, args.min_time, args.all_frames, imports)
            print_report(summary, tree, sys.stdout, args.height)


def _write_page(profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
    import webbrowser

    from pyhybrid.exporters.destination import export_to
    from pyhybrid.exporters.html import Html

    page = Html()
    page.notes, page.with_source = notes, not args.no_source
    page.all_frames = args.all_frames
    prefix = args.file.removesuffix(".part").removesuffix(".pyhybrid")
    path = args.output or prefix + page.suffix
    output = export_to(page, profile, path, in_place=bool(args.output))
    for line in [*notes, f"wrote {output.path}", *output.notes]:
        say(line)
    if args.open:
        webbrowser.open(Path(path).absolute().as_uri())
