"""What `report`, `page` and `export` share: the file, and which samples and frames of it."""

import argparse
import fcntl
import os

from pyhybrid import assemble
from pyhybrid.base.files import damage_in
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.children import folder_beside
from pyhybrid.capture.output_lock import PART, PROFILE, prefix_of
from pyhybrid.cli.parser import DURATION
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.options.table import FORMATS
from pyhybrid.symbols.source_positions import Debuginfod
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.inlined import with_inlined
from pyhybrid.views.selection.frames_of_kind import NATIVE_ONLY, PYTHON_ONLY
from pyhybrid.views.selection.sample_selection import Choice
from pyhybrid.views.selection.slow_calls import SlowerThan

# What a run left that was killed, or not finished: found where no file is named, and finished.
#
# What makes files is imported only then.


def usual_file() -> str:
    """Return the profile of the last run that was named as configuration files have it (`output`);
    if that run was killed its files are made first.

    Where they cannot be, or the run goes on, it is its .part.  All that is reported on stderr.
    Raises UsageError where a configuration file is wrong.
    """
    from pyhybrid.options.config_file import of_command_line

    prefix = prefix_of(of_command_line({}).values.get("output"))
    path, part = prefix + PROFILE, prefix + PART
    if not is_newer(part, path):
        return path
    from pyhybrid.exporters import EXPORTERS
    from pyhybrid.finish.all_processes import ChildSpools
    from pyhybrid.finish.finish import export, make, make_of_all

    try:
        with open(part, "rb") as spool:
            fcntl.flock(spool, fcntl.LOCK_EX | fcntl.LOCK_NB)
            children, known = ChildSpools(folder_beside(part), 0), None
            if children.paths:
                make_of_all(part, children, prefix)
            else:
                _, known = make(part, prefix)
            with Profile.open(path) as profile, damage_in(part):
                asked = set(profile.meta.get("formats", FORMATS))
            export(path, prefix, [name for name in EXPORTERS if name in asked], False, known)
            os.unlink(part)
            children.remove()
    except BlockingIOError:
        say(f"{part}: the run goes on, or is being finished; this is what it has written so far")
        return part
    except (OSError, PyhybridError) as error:
        say(f"{part} is of a run that was killed: its files cannot be made: {error}")
        return part
    say(f"{part} was of a run that was killed: {path} and its exports are made of it")
    return path


def is_newer(path: str, than: str) -> bool:
    """Was it written later, or is it the only one?"""
    return _written_ns(path) > _written_ns(than)


def _written_ns(path: str) -> int:
    """Return when it was written; 0: it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def slower_than(text: str) -> SlowerThan:
    """Parse `NAME=50ms`.  Raises ArgumentTypeError."""
    name, equals, least = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DURATION (train_step=50ms)")
    return SlowerThan(name, DURATION(least))


def add_file(parser: argparse.ArgumentParser) -> None:
    """Declare the profile to read."""
    parser.add_argument(
        "file",
        nargs="?",
        help="profile, or .part (default: out.pyhybrid, or what `output` in a configuration file "
        "names; made first of the .part of a later run that was killed)",
    )


def open_profile(args: argparse.Namespace) -> Profile:
    """Open the profile in `args.file`, which becomes that of the last run if none is named.

    It is reported on stderr if a later run has not ended in order.  Raises PyhybridError.
    """
    if args.file is None:
        args.file = usual_file()
    elif is_newer(args.file + ".part", args.file):
        whose = f"{args.file}.part is of a run that was killed, or goes on: name it to read it"
        if not os.path.exists(args.file):
            raise PyhybridError(f"there is no {args.file}, but {whose}")
        say(f"{args.file} is older: {whose}")
    return assemble.open_profile(args.file)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Declare the options that choose: read them with `choice_of`."""
    group = parser.add_argument_group("what to show of it (all of these may be combined)")
    group.add_argument(
        "--slower-than",
        action="append",
        type=slower_than,
        default=[],
        metavar="NAME=TIME",
        help="only samples within calls of this function (chosen with -t) or region that took so "
        "long (50ms); repeatable",
    )
    group.add_argument(
        "--any-thread",
        action="store_true",
        help="with --slower-than: samples of all threads at that time, not only of the call's",
    )
    group.add_argument(
        "--process",
        action="append",
        default=[],
        metavar="NAME",
        help="only this process of a merged profile: its pid, its script or module, its name in "
        "the kernel or its command line; `*` stands for anything; repeatable",
    )
    group.add_argument(
        "--thread",
        action="append",
        default=[],
        metavar="NAME",
        help="only this thread: its name, its name in the kernel or its tid; `*` stands for "
        "anything; repeatable",
    )
    group.add_argument(
        "--from",
        dest="begin_ns",
        type=DURATION,
        metavar="TIME",
        help="only samples from so long after the start on, like 2s",
    )
    group.add_argument(
        "--to",
        dest="end_ns",
        type=DURATION,
        metavar="TIME",
        help="only samples up to so long after the start",
    )
    group.add_argument(
        "--gil",
        choices=("held", "waiting", "neither"),
        help="only samples of threads that held the GIL, waited for it, or neither",
    )
    cpu = group.add_mutually_exclusive_group()
    cpu.add_argument(
        "--off-cpu",
        dest="off_cpu",
        action="store_true",
        default=None,
        help="with --clock wall: only samples of threads that waited",
    )
    cpu.add_argument(
        "--on-cpu",
        dest="off_cpu",
        action="store_false",
        help="with --clock wall: only samples of threads that ran",
    )
    frames = group.add_mutually_exclusive_group()
    frames.add_argument(
        "--python-only",
        dest="frames",
        action="store_const",
        const=PYTHON_ONLY,
        help="only Python functions; native code is part of the one that called it",
    )
    frames.add_argument(
        "--native-only",
        dest="frames",
        action="store_const",
        const=NATIVE_ONLY,
        help="only native code",
    )


def add_debug_info(parser: argparse.ArgumentParser) -> None:
    """Declare the options about debug information: `with_debug_info` uses them."""
    parser.add_argument(
        "--no-inlines",
        action="store_true",
        help="do not look for lines and inlined functions of native code in debug information",
    )
    parser.add_argument(
        "--debuginfod",
        action="store_true",
        help="ask the servers in $DEBUGINFOD_URLS for debug information that is not here",
    )


def with_debug_info(
    profile: Profile, args: argparse.Namespace, imports: bool = True
) -> tuple[Profile, list[str]]:
    """Return the profile with inlined functions and native lines, unless not wanted; and notes.

    `imports` as of with_inlined().
    """
    if args.no_inlines:
        if args.debuginfod:
            raise UsageError("--debuginfod is of no use with --no-inlines")
        return profile, []
    if not args.debuginfod:
        return with_inlined(profile, imports=imports)
    servers = Debuginfod()
    profile, notes = with_inlined(profile, servers.find)
    return profile, notes + servers.notes


def add_compensate(parser: argparse.ArgumentParser) -> None:
    """Declare the option of what shows exact times."""
    parser.add_argument(
        "--compensate",
        action="store_true",
        help="exact times less the estimated cost of counting",
    )


def add_no_source(parser: argparse.ArgumentParser) -> None:
    """Declare the option of the page."""
    parser.add_argument(
        "--no-source", action="store_true", help="a page without the program's source text"
    )


def choice_of(args: argparse.Namespace) -> Choice:
    """Return what these options ask for."""
    return Choice(
        slower_than=args.slower_than,
        any_thread=args.any_thread,
        processes=args.process,
        threads=args.thread,
        gil=args.gil,
        off_cpu=args.off_cpu,
        begin_ns=args.begin_ns,
        end_ns=args.end_ns,
        frames=args.frames,
    )
