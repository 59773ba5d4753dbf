"""A profile, opened: the tables of schema.sql as dataclasses and columns.

`Profile.open` takes a finished file (`.pyhybrid`) or a spool (`.pyhybrid.part`), which it finishes
in memory.  Tables are read when first asked for, each whole: those that are small as dataclasses,
those that are long (nodes, stacks, samples) as columns.  Times are CLOCK_MONOTONIC nanoseconds,
weights nanoseconds of the sampling clock.
"""

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields
from functools import cached_property, wraps
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from pyhybrid._profile import nearest, read_columns
from pyhybrid.damage import damage_in, one_line
from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file.database import DAMAGED, Database, OpenedLater, open_file
from pyhybrid.profile_file.dataframe import data_frame
from pyhybrid.profile_file.event_log import events
from pyhybrid.profile_file.exact_table import ExactTable
from pyhybrid.profile_file.fork_guard import in_sqlite
from pyhybrid.profile_file.long_tables import LongTables, MadeTables
from pyhybrid.profile_file.tables import (
    Backward,
    Call,
    CallTime,
    Chunk,
    Code,
    Event,
    Exact,
    Frame,
    GpuActivity,
    GpuWait,
    GpuWindow,
    GpuWork,
    Line,
    Loss,
    Module,
    Nodes,
    Place,
    Process,
    Sampled,
    Stacks,
    Thread,
    Turn,
    Usage,
    WatchedCall,
    stacks_of,
)
from pyhybrid.profile_file.timeline import parts, times
from pyhybrid.pseudo import OWN_WORK

_BATCH = 1000  # rows: they are still in the processor's cache when they become columns
_FRAMES_MAX = 1 << 28  # far more than functions are told apart

_T = TypeVar("_T")


def _table(read: "Callable[[Profile], _T]") -> "cached_property[_T]":
    """A table, read once.  What its rows should not make possible is damage."""

    @wraps(read)
    def checked(profile: "Profile") -> _T:
        with damage_in(profile.path):
            return read(profile)

    return cached_property(checked)


def _names(row: type, *not_stored: str) -> str:
    """The columns of a table, in the order of its dataclass: files of an older schema have more."""
    return ", ".join(each.name for each in fields(row) if each.name not in not_stored)


class Profile:
    """One profile file.  Every method raises PyhybridError where the file is damaged.

    Any thread may use it.
    """

    compensated = False  # `exact` is what compensate.compensate made of it
    is_part = False  # only some of the threads' samples are in it (choose.Selection)
    # Of native stack rows the function and the calls inlined into it, outermost first, where debug
    # information is used (inlined.with_inlined).
    places: Mapping[int, list[Place]] = MappingProxyType({})

    @property
    def with_all_frames(self) -> "Profile":
        """The same samples, where a view leaves out frames (choose.Selection)."""
        return self

    def __init__(
        self, path: str, database: Database | OpenedLater, long: LongTables | None = None
    ) -> None:
        """Use `Profile.open`."""
        self.path = path
        self._database = database
        if long:
            self.nodes, self.stacks, self.exact = long.nodes, long.stacks, long.exact
            self.frames = long.frames
        if isinstance(long, MadeTables):
            self.meta, self.modules = long.meta, long.modules
            self.recorded_stacks = long.recorded_stacks

    @classmethod
    def open(cls, path: str, long: LongTables | None = None) -> "Profile":
        """Open a profile file.  (`pyhybrid.open` also reads what a killed run left.)

        `long` are tables of the file, where they are known: it was just written.
        Raises PyhybridError, in one line, where the file is missing, not ours, damaged, or of
        another version than this program's.
        """
        return cls(path, open_file(path, is_new=long is not None), long)

    @classmethod
    def being_written(cls, path: str, made: MadeTables, wait: Callable[[], object]) -> "Profile":
        """The profile of a file that is not whole yet; what is asked of it but the tables `made` is
        known after `wait()`, which raises PyhybridError where no file comes.
        """

        def written() -> Database:
            wait()
            return open_file(path, is_new=True)

        return cls(path, OpenedLater(written), made)

    def opened_anew(self) -> "Profile":
        """The same by a database of its own, for a fork of the process."""
        anew = copy(self)
        anew._database = open_file(self.path, is_new=True)
        return anew

    def __repr__(self) -> str:
        return f"<profile {self.path}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the page."""
        # By its name: it is above this room.
        shown: str = import_module("pyhybrid.notebook.page").html_of(self)
        return shown

    def close(self) -> None:
        """Close the file; what was read stays."""
        with in_sqlite:
            self._database.close()

    def __enter__(self) -> "Profile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """All rows of an SQL query."""
        return [row for rows in self._batches(sql, *arguments) for row in rows]

    def _batches(self, sql: str, *arguments: Any) -> Iterator[list[tuple[Any, ...]]]:
        """The same, some rows at a time."""
        try:
            with in_sqlite:
                cursor = self._database.execute(sql, arguments)
                rows = cursor.fetchmany(_BATCH)
            while rows:
                yield rows
                with in_sqlite:
                    rows = cursor.fetchmany(_BATCH)
        except DAMAGED as error:
            raise PyhybridError(f"{self.path}: damaged: {one_line(error)}") from error

    @_table
    def meta(self) -> dict[str, Any]:
        """What the profiled process said of itself, and finishing added (schema.sql, `meta`)."""
        return {key: self._json(value) for key, value in self.query("SELECT key, value FROM meta")}

    @property
    def period_ns(self) -> int:
        """The weight of one sample that stands for one period."""
        with damage_in(self.path):
            return int(self.meta.get("period_ns", 0)) or self._damaged("no period")

    @_table
    def processes(self) -> dict[int, Process]:
        """The processes by id: one, unless the file was merged of several."""
        processes = {}
        for number, pid, executable, argv, *rest in self.query("SELECT * FROM process ORDER BY id"):
            row = Process(number, pid, executable, self._json(argv or "[]"), *rest)
            processes[number] = row
        return processes or self._damaged("no process")

    @_table
    def process(self) -> Process:
        """The process; where there are several the first, with the times and sums of all."""
        first, *others = self.processes.values()
        return first.with_(others) if others else first

    @_table
    def threads(self) -> dict[int, Thread]:
        """The threads by id, in the order in which they were seen."""
        threads = {}
        for row in self.query("SELECT * FROM thread ORDER BY id"):
            columns: list[Any] = [row[0], *row[2:-1], self._json(row[-1]), row[1]]
            threads[row[0]] = Thread(*columns)
        return threads

    def pid_of(self, thread: int) -> int:
        """The process that this thread is of."""
        return self.processes[self.threads[thread].process].pid

    def thread_name(self, thread: int) -> str:
        """Its name, with its process where there are several."""
        name = self.threads[thread].name
        return name if len(self.processes) == 1 else f"{name} of {self.pid_of(thread)}"

    @_table
    def losses(self) -> list[Loss]:
        """Signals that were not recorded."""
        sql = "SELECT thread, reason, samples, weight_ns FROM loss ORDER BY thread, reason"
        return [Loss(*row) for row in self.query(sql)]

    @_table
    def modules(self) -> dict[int, Module]:
        """The loaded ELF files by id."""
        modules = {}
        for row in self.query(f"SELECT {_names(Module, 'segments')} FROM module ORDER BY id"):
            columns: list[Any] = [*row, []]
            modules[row[0]] = Module(*columns)
        sql = "SELECT module, start, size, file_offset, flags FROM segment ORDER BY module, start"
        for number, *segment in self.query(sql):
            start, size, file_offset, flags = segment
            if number not in modules:
                self._damaged("a segment of no module")
            modules[number].segments.append((start, size, file_offset, flags))
        return modules

    @_table
    def frames(self) -> dict[int, Frame]:
        """The functions by id."""
        rows = self.query(f"SELECT {_names(Frame, 'inlined')} FROM frame ORDER BY id")
        frames = {row[0]: Frame(*row) for row in rows}
        if max(frames, default=0) > _FRAMES_MAX:  # views have a byte for each number
            self._damaged("a function's number")
        return frames

    @_table
    def nodes(self) -> Nodes:
        """The call tree, function by function."""
        columns = self._columns("SELECT parent, frame FROM node ORDER BY id", "II")
        nodes = Nodes(*(array("I", [0]) for _ in columns))
        for column, values in zip((nodes.parent, nodes.frame), columns, strict=True):
            column.frombytes(values.cast("B"))
        self._check_tree("node", nodes.parent)
        return nodes

    @_table
    def stacks(self) -> Stacks:
        """The call paths, address by address."""
        return Stacks(*self._tree("stack", "parent", "node", "address", "offset", "line"))

    @_table
    def recorded(self) -> list[Sampled]:
        """Self samples and weight by thread, stack and what the thread was about."""
        columns = "thread, stack, gil, waits, samples, weight_ns"
        rows = self.query(f"SELECT {columns} FROM sampled ORDER BY thread, stack, gil, waits")
        return [Sampled(*row) for row in rows]

    @cached_property
    def recorded_stacks(self) -> frozenset[int]:
        """The rows of `stacks` that samples ended in."""
        return frozenset(row.stack for row in self.recorded)

    @cached_property
    def own_stacks(self) -> frozenset[int]:
        """Those that are the profiler's own work, which is outside all shares."""
        own = {f.id for f in self.frames.values() if f.kind == "pseudo" and f.symbol == OWN_WORK}
        node_of, frame_of = self.stacks.node, self.nodes.frame
        with damage_in(self.path):  # a sample of no stack, or a stack of no node
            return frozenset(
                each for each in self.recorded_stacks if frame_of[node_of[each]] in own
            )

    @cached_property
    def sampled(self) -> list[Sampled]:
        """What is `recorded` of the program: what views and exports show."""
        return [row for row in self.recorded if row.stack not in self.own_stacks]

    @cached_property
    def sampled_stacks(self) -> frozenset[int]:
        """The rows of `stacks` that samples of the program ended in."""
        return self.recorded_stacks - self.own_stacks

    @property
    def own_weight_ns(self) -> int:
        """The weight of the profiler's own work."""
        return sum(row.weight_ns for row in self.recorded if row.stack in self.own_stacks)

    @_table
    def exact(self) -> ExactTable:
        """Calls and times by thread and node, from events; empty if there were none."""
        table = ExactTable()
        sql = f"SELECT {', '.join(Exact._fields)} FROM exact ORDER BY process, thread, node"
        table.add(list(self._columns(sql, "IIqqqqqq")))
        return table

    @_table
    def backward(self) -> list[Backward]:
        """Calls and times of autograd nodes, by the call path that made them."""
        columns = ", ".join(Backward._fields)
        sql = f"SELECT {columns} FROM backward ORDER BY thread, node, name"
        return [Backward(*row) for row in self.query(sql)] if self._has("backward") else []

    def _has(self, table: str) -> bool:
        """Is it in the file?  Tables of schema.OLDEST always are."""
        return bool(self.query("SELECT 1 FROM sqlite_schema WHERE name = ?", table))

    @_table
    def calls(self) -> list[Call]:
        """Single calls of the functions chosen with -t and --keep, and of regions, by begin."""
        columns = ", ".join(Call._fields)
        if not self._has("code"):
            columns = columns.replace("parent, weight", "NULL, 1")
        return [Call(*row) for row in self.query(f"SELECT {columns} FROM call ORDER BY begin_ns")]

    @_table
    def watched_calls(self) -> list[WatchedCall]:
        """Single calls of a framework's functions, of which training/steps.py makes steps."""
        columns = ", ".join(WatchedCall._fields)
        sql = f"SELECT {columns} FROM watched_call ORDER BY thread, begin_ns, end_ns DESC"
        return [WatchedCall(*row) for row in self.query(sql)] if self._has("watched_call") else []

    @_table
    def gpu(self) -> list[GpuWork]:
        """Work of a GPU below the calls that launched it, if it is known; node 0: below none."""
        columns = ", ".join(("rowid", *GpuWork._fields[1:]))
        sql = f"SELECT {columns} FROM gpu ORDER BY rowid"
        return [GpuWork(*row) for row in self.query(sql)] if self._has("gpu") else []

    @_table
    def gpu_activities(self) -> list[GpuActivity]:
        """Single kernels and copies, by begin: the longest ones, if there are very many."""
        sql = "SELECT work, begin_ns, end_ns, launch_ns FROM gpu_activity ORDER BY begin_ns, rowid"
        return [GpuActivity(*row) for row in self.query(sql)] if self._has("gpu_activity") else []

    @_table
    def gpu_waits(self) -> list[GpuWait]:
        """Waits for a GPU below the calls that waited."""
        sql = "SELECT node, name, calls, ns FROM gpu_wait"
        return [GpuWait(*row) for row in self.query(sql)] if self._has("gpu_wait") else []

    @_table
    def clock_pairs(self) -> list[tuple[int, int]]:
        """Moments by the profile's time and that of the day, in order: one a second, where single
        events were told of; else the begin and the end, as far as they are known."""
        sql = "SELECT time_ns, unix_ns FROM clock_pair ORDER BY time_ns"
        pairs = self.query(sql) if self._has("clock_pair") else []
        ends = (("start_ns", "start_unix_ns"), ("stop_ns", "stop_unix_ns"))
        known = [(self.meta[a], self.meta[b]) for a, b in ends if a in self.meta and b in self.meta]
        return [(int(a), int(b)) for a, b in pairs or known]

    @_table
    def gpu_windows(self) -> list[GpuWindow]:
        """When the GPU's work was recorded, in order of time."""
        sql = "SELECT begin_ns, end_ns FROM gpu_window ORDER BY begin_ns"
        return [GpuWindow(*row) for row in self.query(sql)] if self._has("gpu_window") else []

    @_table
    def codes(self) -> dict[int, Code]:
        """What is told of the functions whose calls are kept, by frame."""
        codes = {}
        rows = self.query(f"SELECT {_names(Code)} FROM code") if self._has("code") else ()
        for *facts, arguments, other_locals, stack_size in rows:
            names = self._json(arguments), self._json(other_locals)
            columns: list[Any] = [*facts, *names, stack_size]
            codes[facts[0]] = Code(*columns)
        return codes

    @_table
    def usage(self) -> dict[int, Usage]:
        """What kept calls used (--usage), by call."""
        columns = ", ".join(Usage._fields)
        if not self.query("SELECT 1 FROM pragma_table_info('usage') WHERE name = 'cpu_ns'"):
            columns = columns.replace("cpu_ns", "user_ns + system_ns")
        rows = self.query(f"SELECT {columns} FROM usage") if self._has("usage") else ()
        return {row[0]: Usage(*row) for row in rows}

    @_table
    def turns(self) -> list[Turn]:
        """The turns of those calls that have several."""
        sql = "SELECT call, thread, begin_ns, end_ns FROM turn ORDER BY begin_ns"
        return [Turn(*row) for row in self.query(sql)]

    @_table
    def call_times(self) -> list[CallTime]:
        """How long the calls of these paths took; durations.function_durations adds them up."""
        sql = "SELECT thread, node, calls, total_ns, max_ns, histogram FROM call_time"
        rows = []
        for row in self.query(sql):
            columns: list[Any] = [*row[:-1], list(map(tuple, self._json(row[-1])))]
            rows.append(CallTime(*columns))
        return rows

    def events(self) -> Iterator[Event]:
        """Every begin and end of a Python function (--events), thread by thread, by time."""
        return events(self)

    @_table
    def lines(self) -> list[Line]:
        """Hits and times of chosen functions' lines; empty where none were recorded (--lines)."""
        if not self.meta.get("lines"):
            return []
        columns = "thread, node, line, hits, total_ns"
        return [Line(*row) for row in self.query(f"SELECT {columns} FROM line ORDER BY 1, 2, 3")]

    @_table
    def c_names(self) -> dict[int, str]:
        """The names by which Python calls C functions, by frame, of calls that were counted.

        Functions that share their code have none.
        """
        sql = "SELECT frame, min(name) FROM c_function GROUP BY frame HAVING count(*) = 1"
        return dict(self.query(sql)) if self.meta.get("c_calls") else {}

    def to_pandas(self) -> Any:
        """The tree as a pandas DataFrame: a row per call path (index: node id), of all threads.

        Columns: parent, kind, name, file, line, module; of samples: samples, weight_ns (self
        figures); of events: calls, resumes, raised, exact_total_ns, exact_self_ns (NA where nothing
        was counted).  Raises PyhybridError where pandas is not installed.
        """
        return data_frame(self)

    def timeline(self) -> Iterator[Chunk]:
        """Every sample, the profiler's own work, too, in chunks by thread and time."""
        columns = "thread, first_ns, dt_ns, place, weight, cpu"
        sql = f"SELECT {columns} FROM timeline ORDER BY thread, first_ns, rowid"
        for thread, first_ns, *blobs in (row for rows in self._batches(sql) for row in rows):
            with damage_in(self.path):
                dt_ns, place, *pairs = (array("I", blob) for blob in blobs)
                weights, cpus = (dict(zip(each[::2], each[1::2], strict=True)) for each in pairs)
                known = self.recorded_stacks.issuperset(stacks_of(set(place)))
                if not known or max((*weights, *cpus), default=-1) >= len(place):
                    self._damaged("a sample that is not there")
            yield Chunk(thread, first_ns, dt_ns, place, weights, cpus)

    def program_timeline(self) -> Iterator[Chunk]:
        """The samples of the program."""
        own = self.own_stacks
        for chunk in self.timeline():
            at = [i for i, stack in enumerate(stacks_of(chunk.place)) if stack not in own]
            yield from parts(chunk, times(chunk) if len(at) < len(chunk.place) else at, at)

    def _tree(self, table: str, *columns: str) -> list[list[Any]]:
        lists: list[list[Any]] = [[] for _ in columns]
        for rows in self._batches(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id"):
            for column, values in zip(lists, zip(*rows, strict=True), strict=True):
                column += values
        types = set().union(*(map(type, column) for column in lists))
        if not types <= {int, type(None)} or None in lists[0] or min(lists[0], default=0) < 0:
            self._damaged(f"the table {table} is no tree")
        for column in lists:
            column.insert(0, 0)
        self._check_tree(table, lists[0])
        return lists

    def _check_tree(self, table: str, parents: Sequence[int]) -> None:
        """Rows are numbered from 1 on, and come after their parents; row 0 is the root."""
        (ids,) = self.query(f"SELECT count(id), min(id), max(id) FROM {table}")
        last = len(parents) - 1
        try:
            is_tree = ids == ((last, 1, last) if last else (0, None, None))
            nearest(array("I", parents), bytes(len(parents)))
        except (ValueError, OverflowError):
            is_tree = False
        if not is_tree:
            self._damaged(f"the table {table} is no tree")

    def _columns(self, sql: str, kinds: str) -> tuple[memoryview, ...]:
        """All rows of an SQL query, as columns (_profile.read_columns)."""
        try:
            with in_sqlite:
                return read_columns(self._database.columns, sql, kinds, self._database.most_steps)
        except (OSError, ValueError) as error:
            raise PyhybridError(f"{self.path}: damaged: {one_line(error)}") from error

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError):
            self._damaged("broken JSON")

    def _damaged(self, what: str) -> Any:
        raise PyhybridError(f"{self.path}: damaged: {what}")
