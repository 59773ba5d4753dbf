"""`pyhybrid attach PID`: a profile of a process that runs already, from now on."""

import argparse
import glob
import os
import select
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from pyhybrid.attach.matching import go_on_by_matching, is_matching
from pyhybrid.attach.processes import Process, below, n_filters, while_it_lives
from pyhybrid.attach.session import Attachment, ask_for_end, ends_in_order
from pyhybrid.base.system_calls import pidfd_open
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.children import Parts, folder_beside
from pyhybrid.capture.output_lock import Claim, check_folder, prefix_of
from pyhybrid.cli.parser import add_options, seconds, word
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.options.config_file import of_command_line
from pyhybrid.options.kinds import Number
from pyhybrid.options.settings import CommandLineSettings
from pyhybrid.options.table import LIVE, NO_CHILDREN, Options

MOST = 1 << 22  # a process's number (proc_sys_kernel(5), pid_max)
AT_ONCE = 8  # of its children
# What is of no use there: of the program's start, children that it makes, or what it would load.
NOT_HERE = frozenset(
    {"paused", "perf_trampoline", "no_children", "ranks", "max_children_disk"}
    | {"leave_part", "strict", "regions", "keep_last", "snapshot_when"}
    | {name for name, each in Options.options.items() if each.group == LIVE}
)
PID = word(Number(1, MOST))


class Attach:
    """Profiles a process that runs already, for a time, and prints its summary; the files are as
    of a run.  Options of a run hold but for those of its start and live outputs; with `--children
    all`, or patterns, its children that run by then are in the profile, too.
    The process need have neither pyhybrid nor its environment; afterwards it is as it was.
    """

    name = "attach"
    words = "PID"
    help = "profile a process that runs already"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = "pyhybrid attach [options, as of a run] PID"
        parser.add_argument("pid", type=PID, metavar="PID", help="the process: see `pyhybrid ps`")
        parser.add_argument(
            "--duration",
            type=seconds,
            default=10.0,
            metavar="TIME",
            help="for how long, in seconds, or 500ms (default: 10); Ctrl-C, SIGTERM end it sooner",
        )
        parser.add_argument(
            "--every",
            type=seconds,
            metavar="TIME",
            help="profile it again each so long (10m), until it ends or Ctrl-C comes; the names of "
            "the files have the time: PREFIX-DATE-TIME.pyhybrid",
        )
        parser.add_argument(
            "--keep-profiles",
            type=word(Number(1, 1_000_000)),
            default=20,
            metavar="N",
            help="with --every: of these the newest stay (default: 20)",
        )
        parser.add_argument(
            "--stop",
            action="store_true",
            help="end what `pyhybrid attach` has begun there, instead: its files are made",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="attach to a process that filters its system calls (seccomp), too: one that it "
            "forbids may kill it",
        )
        add_options(parser, Options.options.values(), defaults=False)

    def run(self, args: argparse.Namespace) -> int:
        """Profile; returns the exit code.  Raises PyhybridError."""
        given = {name: value for name, value in vars(args).items() if name in Options.options}
        if args.every is not None and args.every < args.duration:
            raise UsageError("--every is shorter than --duration")
        with while_it_lives(args.pid):
            if args.stop:
                Process(args.pid)
                ask_for_end(args.pid)
                return 0
            ends_in_order()
            if args.every is None:
                return _once(args.pid, given, args)[0]
            return _again_and_again(args, given)


class Prepared(NamedTuple):
    """Hold a profile that may begin: the options that were asked for, by name, and as settings;
    `children`: which of those that run are in it."""

    process: Process
    asked: dict[str, Any]
    settings: CommandLineSettings
    claim: Claim
    children: str

    @contextmanager
    def begun(self, duration_s: float) -> Iterator[list[Attachment]]:
        """Profile it, and its children, for so long at most, until the context ends; its own
        attachment is the first.

        Raises UsageError, PyhybridError."""
        options = {**self.asked, "formats": ()}
        first = Attachment(self.process, options, self.claim)
        with ExitStack() as stack:
            stack.callback(first.close)
            first.begin(duration_s)
            others = []
            for each in self._children(options):
                stack.callback(each.close)
                others.append(each)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                begun = [each for each in pool.map(partial(_begins, duration_s), others) if each]
            yield [first, *begun]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for remarks in pool.map(Attachment.end, [first, *begun]):
                    for remark in remarks:
                        say(remark)

    def _children(self, options: dict[str, Any]) -> Iterator[Attachment]:
        if self.children == NO_CHILDREN:
            return
        wanted = CommandLineSettings(**{**self.asked, "children": self.children})
        parts = Parts(self.claim.spool, 0)
        for process in below(self.process.pid, wanted.wants_child):
            if process.is_profiled:
                say(f"process {process.pid} is profiled already")
            elif not is_matching(process):
                say(f"process {process.pid} runs Python {process.shown_version}: it is left out")
            else:
                yield Attachment(process, options, parts.claim(process.pid))


def _begins(duration_s: float, each: Attachment) -> Attachment | None:
    """Begin, if it can be; else its spool is removed."""
    try:
        each.begin(duration_s)
    except PyhybridError as error:
        say(f"{error}: it is left out")
        each.give_up()
        return None
    return each


def prepared(pid: int, given: dict[str, Any], *, force: bool) -> Prepared:
    """Return what profiles the process with the options `given`.  Raises PyhybridError."""
    if pid == os.getpid():
        raise UsageError("a process cannot attach to itself: pyhybrid.Profiler profiles it")
    for name in NOT_HERE.intersection(given):
        raise UsageError(f"{Options.options[name].flag} is not for a program that runs already")
    process = Process(pid)
    if process.is_profiled:
        raise UsageError(f"process {pid}: it is profiled already")
    go_on_by_matching(process)
    if not force and n_filters(pid) > n_filters(os.getpid()):
        raise UsageError(
            f"process {pid} filters its system calls (seccomp): those that profile it "
            "might kill it; --force tries it (containers only refuse some)"
        )
    children = given.get("children", NO_CHILDREN)
    asked = {**_in_force(given), "children": NO_CHILDREN}
    settings = CommandLineSettings(**asked)
    if not settings.counts:
        raise UsageError("the mode none makes no profile")
    prefix = os.path.abspath(prefix_of(asked["output"]))
    check_folder(prefix)
    return Prepared(process, asked, settings, Claim(prefix, pid), children)


def _in_force(given: dict[str, Any]) -> dict[str, Any]:
    files = of_command_line(given)
    usual = {each.name: each.at_command_line for each in Options.options.values()}
    values = {name: value for name, value in files.values.items() if name not in NOT_HERE}
    return {**usual, **values, **given, "config": files.files}


def _once(pid: int, given: dict[str, Any], args: argparse.Namespace) -> tuple[int, bool]:
    """Profile it once; returns the exit code, and whether a signal has ended that."""
    profile = prepared(pid, given, force=args.force)
    has_begun = was_interrupted = False
    try:
        with profile.begun(args.duration) as (attachment, *others):
            try:
                has_begun = True
                _say_begun(profile, args.duration, attachment, len(others))
                attachment.wait(args.duration)
            except KeyboardInterrupt:
                was_interrupted = True
    except KeyboardInterrupt:
        if has_begun:
            where = os.path.relpath(profile.claim.spool)
            raise PyhybridError(f"interrupted: what was recorded is in {where}") from None
        profile.claim.give_up()
        raise PyhybridError("interrupted before it has begun") from None
    except BaseException:
        profile.claim.give_up()
        raise
    return files_of(profile), was_interrupted


def _again_and_again(args: argparse.Namespace, given: dict[str, Any]) -> int:
    """Profile it each so long, until it ends; the files of the newest profiles stay."""
    Process(args.pid)
    prefix = prefix_of(_in_force(given)["output"])
    made: list[str] = []
    life = pidfd_open(args.pid)
    try:
        while True:
            next_s = time.monotonic() + args.every
            made.append(os.path.abspath(f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"))
            code, was_interrupted = _once(args.pid, {**given, "output": made[-1]}, args)
            for old in made[: -args.keep_profiles]:
                for path in glob.glob(f"{glob.escape(old)}.*"):
                    os.unlink(path)
            del made[: -args.keep_profiles]
            if was_interrupted:
                return code
            left = max(next_s - time.monotonic(), 0)
            if select.select([life], [], [], left)[0]:
                say(f"process {args.pid} has ended")
                return code
    except KeyboardInterrupt:
        return 0
    finally:
        os.close(life)


def _say_begun(profile: Prepared, duration_s: float, first: Attachment, n_others: int) -> None:
    if profile.settings.summary:
        what = f"process {profile.process.pid} is"
        if profile.children != NO_CHILDREN:
            what = f"process {profile.process.pid} and {n_others} below it are"
        say(f"{what} profiled for {duration_s:g} s (by {first.way})")


def files_of(profile: Prepared) -> int:
    """Make the files of what was recorded; returns the exit code."""
    from pyhybrid.finish import finish

    settings, claim = profile.settings, profile.claim
    formats = [word for name in settings.formats for word in ("--format", name)]
    summary = ["--summary"] if settings.summary else []
    children = ["--children", folder_beside(claim.spool)] if profile.children != NO_CHILDREN else []
    return finish.main([*formats, *summary, *children, claim.spool, claim.prefix])
