"""The finishing process: spool -> profile file, the exports, the summary.

The profiled process spawns `pyhybrid.finish.finish … SPOOL PREFIX` when it stops, so
that SQLite and the symbol readers never enter the program.
"""

import json
import os
import select
import sqlite3
import struct
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from getopt import GetoptError, getopt
from typing import Any

from pyhybrid.assemble.assemble import Assembled, assembled, assembled_of, read_spool
from pyhybrid.assemble.run_part import Marks
from pyhybrid.assemble.writer import Made
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.finisher import BECOMES, EXPORT_FAILED, KILLED, SNAPSHOT, UNTIL_END
from pyhybrid.capture.output_lock import RANKS
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters import AS_RECORDED, EXPORTERS, FOLDING
from pyhybrid.exporters.destination import export_to, replacing
from pyhybrid.finish.all_processes import ChildSpools, wait_for_end, wait_for_lives
from pyhybrid.finish.forked_work import ForkedWork
from pyhybrid.finish.name_prefetch import NamePrefetch
from pyhybrid.symbols.resolve import Loader
from pyhybrid.symbols.source_positions import Demangle
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.inlined import with_inlined

SUFFIX = ".pyhybrid"
DEFAULT_LIMIT_BYTES = 64 << 20  # what one export may take that nobody asked for
# A library's debug information may have so much for the end of a run to wait for it: libpython's
# has 16 MB.
LARGE_DEBUG_INFO_BYTES = 64 << 20
PATIENCE_S = 0.5  # of the summary, for exports
WAITED_FOR_BYTES = (
    8 << 20
)  # a file with more has exports that wait where nobody makes them beside it
# A file with less is made before other processes would have saved what they cost: each of them a
# tenth of it.
WORTH_A_PROCESS_BYTES = 16 << 20
BYTES_OF_ROW = 64  # of the file, for each row of the spool's trees

LOOK_S = 0.1  # how often it is looked whether the profiled process is still there, and runs
PATIENT_LOOKS = 15
_END_NS = struct.Struct("<Q")

_WORDS = (
    "format=",
    "summary",
    "keep",
    "mark=",
    "children=",
    f"{SNAPSHOT[2:]}=",
    f"{KILLED[2:]}=",
    f"{BECOMES[2:]}=",
)  # those of the command line

InSource = tuple[Profile, list[str]]  # what with_inlined() returns


class Ending:
    """Follow the profiled process, which ends while its profile is made (exit_wait.c)."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._clock = ~self._parent << 3 | 2  # of its CPU time: clock_getcpuclockid(3)

    @cached_property
    def cpu_ns(self) -> int | None:
        """Return what CPU time it has taken for that, once it waits for this process.

        None: it has not sent it.  It was killed; or it hangs, perhaps since it waits for all of its
        children, of which this is one; or this process is interrupted.
        """
        sent, seen, idle = b"", 0, 0
        with suppress(OSError, KeyboardInterrupt):
            while os.getppid() == self._parent and idle < PATIENT_LOOKS:
                if select.select([0], [], [], LOOK_S)[0]:
                    sent = os.read(0, _END_NS.size)
                    break
                used = time.clock_gettime_ns(self._clock)
                seen, idle = used, 0 if used > seen else idle + 1
        return int(_END_NS.unpack(sent)[0]) if len(sent) == _END_NS.size else None

    def note(self, path: str) -> None:
        """Enter it into the profile file, if it is known."""
        if self.cpu_ns is not None:
            row = "end_cpu_ns", json.dumps(self.cpu_ns)
            with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database, database:
                database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)


def finish(spool_path: str, prefix: str, symbols: tuple[Loader, Demangle] | None = None) -> str:
    """Write `PREFIX.pyhybrid` from the spool, and return its path: see `make`."""
    return make(spool_path, prefix, symbols)[0]


def make(
    spool_path: str,
    prefix: str,
    symbols: tuple[Loader, Demangle] | None = None,
    marks: Marks = (),
) -> tuple[str, Made]:
    """Write `PREFIX.pyhybrid` from the spool, and return its path and what is known of it, which
    need not be read again; the spool stays.

    An existing file is replaced only by a whole one.  Raises PyhybridError.
    """
    made, path = assembled(spool_path, symbols, marks), prefix + SUFFIX
    _write(made, spool_path, path, os.getpid())
    return path, made.parts


def _write(made: Assembled, spool_path: str, path: str, process: int) -> None:
    """Write the file, in the name of the process, of which this may be a fork."""
    with replacing(path, process) as temporary:
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as database:
                made.write(database)
        except sqlite3.Error as error:
            raise PyhybridError(f"cannot write {path}: {error}") from error
        except OverflowError as error:  # 64 bits, of which a table's integers have 63
            raise PyhybridError(f"{spool_path}: damaged: {error}") from error


def make_of_all(spool_path: str, parts: ChildSpools, prefix: str) -> str:
    """Write `PREFIX.pyhybrid` from the spool and those of the children, and return its path."""
    # (A flight recorder's is empty for a moment.)
    spools = [spool_path] if os.path.getsize(spool_path) or not parts.paths else []
    return make_of_spools([*spools, *parts.paths], prefix, parts.failed, parts.metadata)


def make_of_spools(
    spools: list[str],
    prefix: str,
    failed: list[tuple[str, str]],
    facts: Callable[[], dict[str, Any]],
) -> str:
    """Write `PREFIX.pyhybrid` from these, and return its path.

    Those that cannot be read are left out, and put into `failed`; the `facts` are those of the
    profile's meta data then.  Raises PyhybridError.
    """
    from pyhybrid.merge.joined import join_windows
    from pyhybrid.merge.merge import merge

    path = prefix + SUFFIX
    with replacing(path, os.getpid()) as temporary:
        merge(spools, temporary, failed=failed)
        more = [(key, json.dumps(value)) for key, value in facts().items()]
        with closing(sqlite3.connect(temporary)) as database, database:
            database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", more)
            join_windows(database)
    return path


def make_with_inlined(
    spool_path: str, prefix: str, marks: Marks = (), imports: bool = True
) -> tuple[Made, InSource]:
    """Do as `make`; names are sought, debug information is read, and the file is written beside the
    rest.  `imports` as of with_inlined()."""
    path, process = prefix + SUFFIX, os.getpid()
    recorded, limit = read_spool(spool_path, marks), LARGE_DEBUG_INFO_BYTES
    is_long = len(recorded.forest.word) * BYTES_OF_ROW >= WORTH_A_PROCESS_BYTES
    with NamePrefetch(recorded.spool, recorded.forest, limit, is_long, imports) as prefetch:
        made = assembled_of(recorded, prefetch.symbols, prefetch.kernel)
        parts, kept = made.parts, [made]
        del made, recorded

        def write() -> None:
            again = kept.pop() if kept else assembled(spool_path, marks=marks)
            _write(again, spool_path, path, process)

        with ForkedWork(write, is_long) as written:
            kept.clear()  # the spool: it is the fork's now
            profile = Profile.being_written(path, written.value, **parts)
            in_source = with_inlined(
                profile, reader=prefetch.reader, limit_bytes=limit, imports=imports
            )
            written.value()
    return parts, in_source


# Of some exports: the files, notes, and the messages of those that failed, with exit codes.
_Exported = tuple[list[str], list[str], list[tuple[str, int]]]


def export(
    path: str,
    prefix: str,
    formats: list[str],
    summary: bool,
    parts: Made | None = None,
    in_source: InSource | None = None,
    ending: Ending | None = None,
) -> int:
    """Write the exports of the profile at `path`, and print the summary on stderr if asked to.

    `parts` are what is known of it, and `in_source` is it with inlined functions, if that is known;
    `ending` is asked before the summary is printed.
    An export that fails is a line on stderr; the others are still made.  Those that need no debug
    information, the others, and the summary are made beside each other; the summary does not wait
    for long ones.  Returns the exit code.
    """
    with ExitStack() as stack:
        if in_source is None:
            opened = stack.enter_context(Profile.open(path, **parts or {}))
            in_source = opened, []
            if _needs_debug_info(formats, summary):
                in_source = with_inlined(opened, limit_bytes=LARGE_DEBUG_INFO_BYTES)
        return _export_beside(path, prefix, formats, summary, parts, in_source, ending)


def _is_long(path: str) -> bool:
    return os.path.getsize(path) >= WORTH_A_PROCESS_BYTES


def _needs_debug_info(formats: list[str], summary: bool) -> bool:
    return summary or not AS_RECORDED.issuperset(formats)


def _export_beside(
    path: str,
    prefix: str,
    formats: list[str],
    summary: bool,
    parts: Made | None,
    in_source: InSource,
    ending: Ending | None,
) -> int:
    profile, source_notes = in_source
    as_recorded = [name for name in formats if name in AS_RECORDED]
    others = [name for name in formats if name not in AS_RECORDED]
    if summary:  # what shows it takes a third of the time to import
        from pyhybrid.report.screen import print_summary, print_written
        from pyhybrid.report.summary import Summary, summarize
    shown: Summary | None = None
    is_long, can_wait = _is_long(path), os.path.getsize(path) >= WAITED_FOR_BYTES

    def first() -> _Exported:
        with Profile.open(path, **parts or {}) as recorded_alone:
            return _export(recorded_alone, prefix, as_recorded)

    def second() -> _Exported:
        with profile.opened_anew() as anew:
            return _export(anew, prefix, others)

    if others and summary:
        FoldedTree.of(profile)  # once for both
    with (
        ForkedWork(
            first, is_long and bool(as_recorded and (others or summary)), can_wait
        ) as recorded,
        ForkedWork(second, is_long and bool(others and summary), can_wait) as rest,
    ):
        if summary:
            shown = summarize(profile, [path], source_notes, imports=False)
            if not all(each.is_done_within(PATIENCE_S) for each in (recorded, rest)):
                end_cpu_ns = ending.cpu_ns if ending else None
                print_summary(shown.ended(end_cpu_ns, [], []), sys.stderr)
                shown = None
        paths, notes, failures = recorded.value()
        more_paths, more_notes, more_failures = rest.value()
    failures += more_failures
    paths, notes = paths + more_paths, notes + more_notes
    for message, _ in failures:
        say(message)
    if shown:
        end_cpu_ns = ending.cpu_ns if ending else None
        print_summary(shown.ended(end_cpu_ns, paths, notes), sys.stderr)
    elif summary:
        print_written(paths, notes, sys.stderr)
    return failures[-1][1] if failures else 0


def _export(profile: Profile, prefix: str, formats: list[str]) -> _Exported:
    paths: list[str] = []
    notes: list[str] = []
    failures: list[tuple[str, int]] = []
    for name in formats:
        exporter = EXPORTERS[name]()
        try:
            target = exporter.default_path(profile, prefix)
            output = export_to(exporter, profile, target, DEFAULT_LIMIT_BYTES)
            notes += output.notes
            paths += [output.path] if output.path else []
        except PyhybridError as error:
            failures.append((str(error), error.exit_code))
    if "perf-map" in formats:
        from pyhybrid.exporters.perf.old_maps import remove_old

        remove_old()
    return paths, notes, failures


def _asked(argv: list[str]) -> tuple[list[str], dict[str, str], Marks, str, str]:
    """Return formats, options with their values, marks, spool and prefix.  Raises UsageError."""
    try:
        given, names = getopt(argv, "f:", [*_WORDS, UNTIL_END[2:]])
    except GetoptError as error:
        raise UsageError(str(error)) from None
    formats = [value for option, value in given if option in ("-f", "--format")]
    if len(names) != 2 or not set(formats) <= set(EXPORTERS):
        raise UsageError(f"cannot finish {' '.join(argv)}: not formats, a spool and a prefix")
    marks = [value.split(":", 1) for option, value in given if option == "--mark"]
    times = [(int(time_ns), path) for time_ns, path in marks]
    return formats, dict(given), times, names[0], names[1]


def main(argv: list[str] | None = None) -> int:
    """Run `python -m pyhybrid.finish.finish [-f FORMAT]... [OPTION]... SPOOL PREFIX`.

    Makes the files PREFIX.* of the spool, the formats that are asked for, too, and prints the
    summary on stderr if asked to.  The spool is removed once all files are made, unless --keep.
    With `--killed PID:TICKS` that process is waited for, which mostly has ended; with `--becomes`
    for as long as it records what it has become.
    With --until-end standard input has what the profiled process's end took (Ending).
    With `--snapshot WHY` the profile alone is made, of what is recorded so far.
    With `--mark TIME:SPOOL`, begins and ends in turn, of what was between them (run_part.py).
    Returns the exit code; with EXPORT_FAILED the profile is whole, but an export is missing.
    """
    kept = ""  # the spool, as long as there is nothing else
    run = os.getppid()
    try:
        formats, options, marks, spool, prefix = _asked(sys.argv[1:] if argv is None else argv)
        summary, keep = "--summary" in options, "--keep" in options
        if killed := options.get(KILLED, ""):
            wait_for_end(killed)
            if not os.path.lexists(spool):  # it has ended in order after all
                return 0
            reports, summary = summary, False
            run = int(killed.partition(":")[0])
        if why := options.get(SNAPSHOT, ""):
            from pyhybrid.finish.snapshot import make_snapshot

            make_snapshot(spool, prefix, why)
            return 0
        ending = Ending() if UNTIL_END in options else None
        path, kept = prefix + SUFFIX, spool
        in_source: InSource | None = None
        parts: Made | None
        folder = options.get("--children", "")
        if becomes := options.get(BECOMES, ""):
            run = wait_for_lives(becomes, folder)
        children = ChildSpools(folder, run) if folder else None
        if children and (children.paths or children.metadata()):
            path, parts = make_of_all(spool, children, prefix), None
        elif _needs_debug_info(formats, summary):
            imports = not FOLDING.issuperset(formats)
            parts, in_source = make_with_inlined(spool, prefix, marks, imports)
        else:
            _, parts = make(spool, prefix, marks=marks)
        kept = ""
        try:
            failed = export(path, prefix, formats, summary, parts, in_source, ending)
            if ending:
                ending.note(path)
        except KeyboardInterrupt:
            keep = True
            raise
        finally:  # not before: while it is there no other run takes these names
            if in_source:
                in_source[0].close()
            if not keep:
                os.unlink(spool)
                if children:
                    children.remove()
        if os.path.dirname(prefix).endswith(RANKS):
            from pyhybrid.ranks.store import write_beside

            write_beside(path, parts)
        if killed and reports:
            say(f"the program was killed: {path} is made of what was recorded until then")
        return EXPORT_FAILED if failed else 0
    except PyhybridError as error:
        rest = f"; `python -m pyhybrid report {kept}` still reads what was recorded"
        say(f"{error}{rest if kept and kept not in str(error) else ''}")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
