"""`pyhybrid export`: a profile in another program's format."""

import argparse

from pyhybrid.base.files import damage_in
from pyhybrid.base.terminal_text import say
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
from pyhybrid.errors import UsageError
from pyhybrid.exporters import AS_RECORDED, EXPORTERS
from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.destination import Output, export_to, named
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.html import Html
from pyhybrid.exporters.lttng import Lttng
from pyhybrid.exporters.perf.bundle import write_bundle
from pyhybrid.exporters.perf.names_map import PerfMap, missing
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.exporters.pprof import Pprof
from pyhybrid.exporters.pstats import PStats
from pyhybrid.exporters.push import Pusher, label, parts_of
from pyhybrid.options.kinds import Number
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.compensate import COMPENSATED, compensate
from pyhybrid.views.selection.sample_selection import choose


class Export:
    """Writes one or more formats; each goes where its readers look for it, unless -o says."""

    name = "export"
    words = "-f NAME [FILE]"
    help = "write a profile in another format"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_file(parser)
        formats = "; ".join(f"{name}: {each.help}" for name, each in EXPORTERS.items())
        parser.add_argument(
            "-f",
            "--format",
            action="append",
            required=True,
            choices=EXPORTERS,
            help=f"may be repeated. {formats}",
        )
        parser.add_argument(
            "-o", "--output", metavar="OUT", help="where to write (one format only); -: stdout"
        )

        parser.add_argument(
            "--full-names",
            action="store_true",
            help="folded: native names with parameters and generic arguments",
        )
        parser.add_argument(
            "--all-frames",
            action="store_true",
            help="folded, html: with plumbing; folded: each nameless function by its address",
        )
        parser.add_argument(
            "--by-process", action="store_true", help="folded: with a frame for each process"
        )
        parser.add_argument(
            "--bundle",
            metavar="DIR",
            help="perf: a new folder with perf.data and all names, for another machine",
        )
        parser.add_argument(
            "--exact-times",
            action="store_true",
            help="the exact self time of each call path, too: perf: as a second event, pprof: as a "
            "further type of sample, with exact calls",
        )
        parser.add_argument(
            "--push",
            metavar="URL",
            help="pprof: send it to a server of Pyroscope's, http://host:4040, or of Parca's, "
            "parca+http://host:7070, by process, with the labels rank, host, run and pid; no file "
            "is written",
        )
        parser.add_argument(
            "--push-steps",
            type=word(Number(1, 10_000_000)),
            metavar="N",
            help="--push: of each N steps of a training a profile, with the label step",
        )
        parser.add_argument(
            "--label",
            type=_label,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="--push: a label more, or another value; may be repeated",
        )
        add_no_source(parser)
        add_selection(parser)
        add_debug_info(parser)
        parser.add_argument(
            "--compensate",
            action="store_true",
            help="pstats, callgrind: exact times less the estimated cost of counting",
        )
        parser.add_argument(
            "--min-time",
            type=DURATION,
            default=0,
            metavar="TIME",
            help="folded, pstats, callgrind: what took less in all, like 1ms, becomes part of what "
            "called it",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Write; returns the exit code.  Raises PyhybridError."""
        if args.output and len(args.format) > 1:
            raise UsageError("-o takes one format; without it each format has its own place")
        if args.output == "-" and not EXPORTERS[args.format[0]].is_text:
            raise UsageError(f"-o -: {args.format[0]} is binary: name a file")
        if args.bundle == "":
            raise UsageError("--bundle takes the name of a folder")
        if args.bundle is not None and (args.format != [Perf.name] or args.output):
            raise UsageError("--bundle is for perf, and takes the place of -o")
        if args.exact_times and not set(args.format) & {Perf.name, Pprof.name}:
            raise UsageError("--exact-times is for perf and pprof")
        if args.push is not None and (args.format != [Pprof.name] or args.output):
            raise UsageError("--push is for pprof, and takes the place of -o")
        if (args.push_steps or args.label) and args.push is None:
            raise UsageError("--push-steps and --label are for --push")
        if args.compensate and not set(args.format) <= {PStats.name, Callgrind.name}:
            raise UsageError("--compensate is for pstats and callgrind")
        if args.min_time and not set(args.format) <= {Folded.name, PStats.name, Callgrind.name}:
            raise UsageError("--min-time is for folded, pstats and callgrind")
        if args.output and Lttng.name in args.format:
            raise UsageError("lttng goes to LTTng's session: -o is for the other formats")
        if args.full_names and Folded.name not in args.format:
            raise UsageError("--full-names is for folded")
        if args.by_process and Folded.name not in args.format:
            raise UsageError("--by-process is for folded")
        if args.all_frames and not {Folded.name, Html.name} & set(args.format):
            raise UsageError("--all-frames is for folded and html")
        if (args.no_inlines or args.debuginfod) and AS_RECORDED.issuperset(args.format):
            others = ", ".join(name for name in EXPORTERS if name not in AS_RECORDED)
            raise UsageError(f"--no-inlines and --debuginfod are for {others}")
        if args.no_source and Html.name not in args.format:
            raise UsageError("--no-source is for html")
        self._write(args)
        return 0

    def _write(self, args: argparse.Namespace) -> None:
        with open_profile(args) as opened, damage_in(args.file):
            prefix = args.file.removesuffix(".part").removesuffix(".pyhybrid")
            if args.compensate:
                opened = compensate(opened)
                say(COMPENSATED)
            profile, notes = in_source, _ = choose(opened, choice_of(args))
            if not AS_RECORDED.issuperset(args.format):
                in_source, more = with_debug_info(profile, args)
                notes += more
            for note in notes:
                say(note)
            if args.bundle is not None:
                _say(write_bundle(profile, args.bundle, args.exact_times))
                return
            if args.push is not None:
                _push(in_source, args)
                return
            for name in args.format:
                exporter = EXPORTERS[name]()
                if isinstance(exporter, Folded):
                    exporter.full_names = args.full_names
                    exporter.by_process = args.by_process
                    exporter.all_frames = args.all_frames
                if isinstance(exporter, Html):
                    exporter.with_source, exporter.notes = not args.no_source, notes
                    exporter.all_frames = args.all_frames
                if isinstance(exporter, Perf | Pprof):
                    exporter.exact_times = args.exact_times
                if isinstance(exporter, Folded | PStats | Callgrind):
                    exporter.min_time_ns = args.min_time
                chosen = profile if name in AS_RECORDED else in_source
                path = exporter.default_path(profile, prefix)
                if path is not None and args.output:
                    path = named(args.output)
                _say(export_to(exporter, chosen, path, in_place=bool(args.output)))
            if Perf.name in args.format and PerfMap.name not in args.format:
                for note in missing(profile):
                    say(note)


def _push(profile: Profile, args: argparse.Namespace) -> None:
    """Send it, and report of it in one line.  Raises PyhybridError, once some was sent, too."""
    pusher, n, n_bytes = Pusher(args.push), 0, 0
    for part in parts_of(profile, dict(args.label), args.push_steps or 0):
        n_bytes += pusher.send(part, args.exact_times)
        n += 1
    say(f"sent {n:,} profile{'s' * (n != 1)}, {n_bytes:,} bytes, to {pusher.url}")


def _label(text: str) -> tuple[str, str]:
    try:
        return label(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _say(output: Output) -> None:
    written = [f"wrote {output.path}"] if output.path else []
    for line in [*written, *output.notes]:
        say(line)
