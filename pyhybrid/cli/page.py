"""`pyhybrid page`: a profile as a page, in the browser."""

import argparse
import os
from pathlib import Path

from pyhybrid.base.files import damage_in
from pyhybrid.base.terminal_text import say
from pyhybrid.cli.selection_options import (
    add_compensate,
    add_debug_info,
    add_file,
    add_no_source,
    add_selection,
    choice_of,
    open_profile,
    with_debug_info,
)
from pyhybrid.views.selection.sample_selection import choose

# By one of these a browser has a window to show it in.
_SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


class Page:
    """Writes a profile as one page that needs nothing else, PREFIX.html, and opens it in the
    browser: threads over time, flame graph, call tree, source, and a table of functions.
    """

    name = "page"
    words = "[FILE]"
    help = "write and open a page: flame graph, threads, source"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_file(parser)
        parser.add_argument("-o", "--output", metavar="OUT", help="where to write it; -: stdout")
        parser.add_argument("--no-open", action="store_true", help="only write it")
        add_no_source(parser)
        parser.add_argument("--all-frames", action="store_true", help="with plumbing")
        add_compensate(parser)
        add_debug_info(parser)
        add_selection(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Write and open it; returns the exit code.  Raises PyhybridError."""
        from pyhybrid.exporters.destination import export_to, named
        from pyhybrid.exporters.html import Html
        from pyhybrid.views.calls.compensate import compensate

        with open_profile(args) as profile, damage_in(args.file):
            shown = profile
            if args.compensate:
                shown = compensate(shown)
            shown, notes = choose(shown, choice_of(args))
            shown, more = with_debug_info(shown, args)
            page = Html()
            page.notes, page.with_source = [*notes, *more], not args.no_source
            page.all_frames = args.all_frames
            prefix = args.file.removesuffix(".part").removesuffix(".pyhybrid")
            path = named(args.output) if args.output else prefix + page.suffix
            output = export_to(page, shown, path, in_place=bool(args.output))
        for line in [*page.notes, f"wrote {output.path}", *output.notes]:
            say(line)
        if not args.no_open:
            _open(path)
        return 0


def _open(path: str) -> None:
    import webbrowser

    is_file = os.path.isfile(path)  # and not /dev/stdout
    if is_file and not any(map(os.environ.get, _SCREENS)):
        say("there is no screen here: open it in a browser elsewhere")
    elif is_file:
        webbrowser.open(Path(path).absolute().as_uri())
