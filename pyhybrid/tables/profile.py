"""A profile: the tables that the room declares, of a file, or made from those of another profile.

`Profile.open` opens a finished file (`.pyhybrid`); `open_profile` of assemble also the
spool of a killed run (`.pyhybrid.part`), which it finishes in memory.  Tables are read when first
asked for, each whole: those that are small as rows, those that are long (nodes, stacks, samples) as
columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, Self

from pyhybrid._columns import nearest
from pyhybrid.base.files import damage_in
from pyhybrid.base.pseudo_frames import OWN_WORK
from pyhybrid.tables import (
    COLLECTION,
    Backward,
    Call,
    CallTime,
    Chunk,
    ClockPair,
    Code,
    Event,
    EventLog,
    Exact,
    Frame,
    GpuActivity,
    GpuWait,
    GpuWindow,
    GpuWork,
    Line,
    Loss,
    Meta,
    Module,
    Node,
    Nodes,
    Place,
    Process,
    Sampled,
    Segment,
    Stack,
    StackColumns,
    Stacks,
    Thread,
    Turn,
    Usage,
    WatchedCall,
    stacks_of,
)
from pyhybrid.tables.database import File, open_file
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.schema import Record, Row
from pyhybrid.tables.timeline import GAP, KINDS, events_of, parts, times

_FRAMES_MAX = 1 << 28  # far more than there are functions


class View(Record):
    """Describe what a profile shows of what was recorded.

    by_time: it has of its samples those of some times or states alone: figures that are sums of
    whole threads are not known of these.  compensated: the cost of counting is subtracted from its
    exact times.  all_frames: the profile with the same samples and all their frames, where this one
    has Python frames or native ones alone.
    """

    by_time: bool = False
    compensated: bool = False
    all_frames: Profile | None = None


type Narrow = Callable[[type[Row], Sequence[Any]], Sequence[Any]]


def _part[Made](read: Callable[[Profile], Made]) -> cached_property[Made]:
    """Make a part of a profile that its file has: of a profile made from another one, that one's.

    What the file's rows should not make possible is damage.
    """

    @wraps(read)
    def made(profile: Profile) -> Made:
        if profile._base is not None:
            of_base: Made = getattr(profile._base, read.__name__)
            return of_base
        with damage_in(profile.path):
            return read(profile)

    return cached_property(made)


def _rows[R: Row](row: type[R], doc: str) -> cached_property[Sequence[R]]:
    """Return the rows of a table, as an attribute."""

    def rows(profile: Profile) -> Sequence[R]:
        return profile[row]

    rows.__doc__ = doc
    return cached_property(rows)


class Profile:
    """A profile never changes.  Every method raises PyhybridError where its file is damaged.

    Any thread may use it.  `profile[Turn]` are the rows of a table, of the class that declares it
    (__init__.py); what is asked for most is an attribute, too.
    """

    path: str  # as it was opened: for messages
    view: View

    def __init__(self, path: str, file: File, **made: Any) -> None:
        """Take what `Profile.open` gives; `made`: known attributes, which need not be read."""
        self.__dict__.update(path=path, view=View(), _file=file, _base=None, _narrow=None)
        self.__dict__.update(_chunks=None, _read={}, _parts={}, **made)

    _file: File
    _base: Profile | None
    _narrow: Narrow | None
    _chunks: Callable[[], Iterator[Chunk]] | None
    _read: dict[type[Row], Sequence[Any]]
    _parts: dict[Callable[[Profile], Any], Any]

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError: see `replaced`."""
        raise AttributeError("a profile cannot be changed")

    @classmethod
    def open(cls, path: str, **made: Any) -> Self:
        """Open a profile file.  (`pyhybrid.load` also reads what a killed run left.)

        `made` are attributes, where they are known: it was just written.
        Raises PyhybridError, in one line, where the file is missing, not ours, damaged, or of
        another version than this program's.
        """
        return cls(path, File(path, open_file(path, is_new=bool(made))), **made)

    @classmethod
    def being_written(cls, path: str, wait: Callable[[], object], **made: Any) -> Self:
        """Return the profile of a file that is not whole yet; what is asked of it but what is
        `made` is known after `wait()`, which raises PyhybridError where no file comes."""

        def written() -> Any:
            wait()
            return open_file(path, is_new=True)

        return cls(path, File(path, written), **made)

    def opened_anew(self) -> Self:
        """Return the same by a database of its own, for a fork of the process."""
        return self._of_file(File(self.path, open_file(self.path, is_new=True)))

    def _of_file(self, file: File) -> Self:
        anew = object.__new__(type(self))
        base = self._base and self._base._of_file(file)
        anew.__dict__.update(self.__dict__ | {"_file": file, "_base": base})
        return anew

    def replaced(
        self,
        rows: Mapping[type[Row], Sequence[Any]] | None = None,
        narrow: Narrow | None = None,
        view: View | None = None,
        chunks: Callable[[], Iterator[Chunk]] | None = None,
        **made: Any,
    ) -> Self:
        """Return a profile with other `rows` of some tables, and other attributes that are no rows
        (`frames`, `nodes`, `stacks`, `exact`, `meta`, ...); all else is this one's.

        `narrow` gives what is left of the rows of a table, `chunks` the timeline.
        """
        new = type(self)(self.path, self._file, **made)
        new.__dict__.update(_base=self, _narrow=narrow, _chunks=chunks, view=view or self.view)
        new._read.update(rows or {})
        return new

    def once[Made](self, make: Callable[[Profile], Made]) -> Made:
        """Return what `make` makes of this profile, made once."""
        if make not in self._parts:
            self._parts[make] = make(self)
        made: Made = self._parts[make]
        return made

    def __getitem__[R: Row](self, row: type[R]) -> Sequence[R]:
        """Return the rows of a table, in its order; none where the file is older than the table."""
        if row not in self._read:
            if self._base is not None:
                of_base = self._base[row]
                self._read[row] = self._narrow(row, of_base) if self._narrow else of_base
            else:
                with damage_in(self.path):
                    self._read[row] = list(self._rows_of(row))
        return self._read[row]

    def _rows_of[R: Row](self, row: type[R]) -> Iterator[R]:
        sql = self._file.select(row)
        texts, json = row.table.of_kind("Json"), self._file.json
        lacks = tuple(map(row._defaults.get, row._fields[len(row.table.stored) :]))
        for values in self._file.rows(sql) if sql else ():
            if texts:
                known = list(values)
                for at in texts:
                    known[at] = None if known[at] is None else json(known[at])
                values = tuple(known)
            yield row._make(values + lacks)

    def __repr__(self) -> str:
        return f"<profile {self.path}>"

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._file.close()

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def columns(self, row: type[Row]) -> tuple[memoryview, ...]:
        """Return the rows of a table of numbers (Table.kinds), as the file has them, in columns."""
        return self._file.columns(row.table.select_columns, row.table.kinds)

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of an SQL query of the file."""
        return self._file.rows(sql)

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return all rows of an SQL query: of the file, whatever was chosen of it."""
        return list(self._file.rows(sql, *arguments))

    @_part
    def meta(self) -> dict[str, Any]:
        """Return what the profiled process recorded of itself, and finishing added (Meta)."""
        return {row.key: row.value for row in self._rows_of(Meta)}

    @property
    def period_ns(self) -> int:
        """Return the weight of one sample that stands for one period."""
        with damage_in(self.path):
            return int(self.meta.get("period_ns", 0)) or self._file.damaged("no period")

    @cached_property
    def processes(self) -> dict[int, Process]:
        """Return the processes by id: one, unless the file was merged of several."""
        rows = (row if row.argv is not None else row._replace(argv=[]) for row in self[Process])
        return {row.id: row for row in rows} or self._file.damaged("no process")

    @cached_property
    def process(self) -> Process:
        """Return the process; where there are several the first, with the times and sums of all."""
        first, *others = self.processes.values()
        return first.with_(others) if others else first

    @cached_property
    def threads(self) -> dict[int, Thread]:
        """Return the threads by id, in the order in which they were seen."""
        return {row.id: row for row in self[Thread]}

    def pid_of(self, thread: int) -> int:
        """Return the process that this thread is of."""
        return self.processes[self.threads[thread].process].pid

    def thread_name(self, thread: int) -> str:
        """Return its name, with its process where there are several."""
        name = self.threads[thread].name
        return name if len(self.processes) == 1 else f"{name} of {self.pid_of(thread)}"

    losses = _rows(Loss, "Signals that were not recorded.")

    @_part
    def modules(self) -> dict[int, Module]:
        """Return the loaded ELF files by id."""
        sql = self._file.select(Module)
        modules = {row[0]: Module._make((*row, [])) for row in self._file.rows(sql)}
        for number, *segment in self[Segment]:
            if number not in modules:
                self._file.damaged("a segment of no module")
            modules[number].segments.append(tuple(segment))
        return modules

    @_part
    def frames(self) -> dict[int, Frame]:
        """Return the functions by id."""
        frames = {row.id: row for row in self._rows_of(Frame)}
        if max(frames, default=0) > _FRAMES_MAX:  # views have a byte for each number
            self._file.damaged("a function's number")
        return frames

    @_part
    def nodes(self) -> Nodes:
        """Return the call tree, function by function."""
        columns = self._file.columns("SELECT parent, frame FROM node ORDER BY id", "II")
        nodes = Nodes(*(array("I", [0]) for _ in columns))
        for column, values in zip(nodes, columns, strict=True):
            column.frombytes(values.cast("B"))
        self._check_tree(Node, nodes.parent)
        return nodes

    @_part
    def stack_columns(self) -> StackColumns:
        """Return the call paths of the file, address by address, whatever was chosen of it."""
        sql = f"{Stack.table.select_columns} ORDER BY id"
        _, *columns = self._file.columns(sql, Stack.table.kinds)
        stacks = StackColumns(*(array(values.format, [0]) for values in columns))
        for column, values in zip(stacks, columns, strict=True):
            column.frombytes(values.cast("B"))
        self._check_tree(Stack, stacks.parent)
        return stacks

    @_part
    def stacks(self) -> Stacks:
        """Return the call paths, address by address."""
        return self.stack_columns.lists()

    @_part
    def places(self) -> Mapping[int, list[Place]]:
        """Return for native rows of `stacks` the function and the calls inlined into it, outermost
        first, where debug information is used (inlined.with_inlined)."""
        return {}

    recorded = _rows(Sampled, "Self samples and weight by thread, stack and its state.")

    @cached_property
    def recorded_stacks(self) -> frozenset[int]:
        """Return the rows of `stacks` that samples ended in."""
        if self._base is not None and not self._narrow and Sampled not in self._read:
            return self._base.recorded_stacks
        return frozenset(row.stack for row in self.recorded)

    @cached_property
    def own_stacks(self) -> frozenset[int]:
        """Return those that are the profiler's own work, which is outside all shares."""
        own = {f.id for f in self.frames.values() if f.kind == "pseudo" and f.symbol == OWN_WORK}
        node_of, frame_of = self.stacks.node, self.nodes.frame
        with damage_in(self.path):  # a sample of no stack, or a stack of no node
            return frozenset(
                each for each in self.recorded_stacks if frame_of[node_of[each]] in own
            )

    @cached_property
    def sampled(self) -> list[Sampled]:
        """Return what is `recorded` of the program: what views and exports show."""
        return [row for row in self.recorded if row.stack not in self.own_stacks]

    @cached_property
    def sampled_stacks(self) -> frozenset[int]:
        """Return the rows of `stacks` that samples of the program ended in."""
        return self.recorded_stacks - self.own_stacks

    @property
    def own_weight_ns(self) -> int:
        """Return the weight of the profiler's own work."""
        return sum(row.weight_ns for row in self.recorded if row.stack in self.own_stacks)

    @_part
    def exact(self) -> ExactTable:
        """Return calls and times by thread and node, from events; empty if there were none."""
        table = ExactTable()
        table.add(list(self._file.columns(self._file.select(Exact), "IIqqqqqq")))
        return table

    backward = _rows(Backward, "Calls and times of autograd nodes, by the path that made them.")
    calls = _rows(Call, "Single calls of chosen functions and of regions, by begin.")

    @cached_property
    def watched_calls(self) -> Sequence[WatchedCall]:
        """Return single calls of a framework's functions."""
        return [each for each in self[WatchedCall] if each.raised < COLLECTION]

    @cached_property
    def collections(self) -> Sequence[WatchedCall]:
        """Return garbage collections that took long."""
        return [each for each in self[WatchedCall] if each.raised >= COLLECTION]

    gpu = _rows(GpuWork, "Work of a GPU below the calls that launched it; node 0: below none.")
    gpu_activities = _rows(GpuActivity, "Single kernels and copies, by begin.")
    gpu_waits = _rows(GpuWait, "Waits for a GPU below the calls that waited.")
    gpu_windows = _rows(GpuWindow, "When the GPU's work was recorded, in order of time.")
    turns = _rows(Turn, "The turns of those calls that have several.")
    call_times = _rows(CallTime, "How long the calls of these paths took.")
    lines = _rows(Line, "Hits and times of chosen functions' lines (--lines).")

    @cached_property
    def clock_pairs(self) -> list[tuple[int, int]]:
        """Return moments by the profile's time and that of the day, in order: one a second, where
        single events were recorded; else the begin and the end, as far as they are known."""
        ends = (("start_ns", "start_unix_ns"), ("stop_ns", "stop_unix_ns"))
        known = [(self.meta[a], self.meta[b]) for a, b in ends if a in self.meta and b in self.meta]
        with damage_in(self.path):
            return [(int(a), int(b)) for a, b in self[ClockPair] or known]

    @cached_property
    def codes(self) -> dict[int, Code]:
        """Return what is known of the functions whose calls are kept, by frame."""
        return {row.frame: row for row in self[Code]}

    @cached_property
    def usage(self) -> dict[int, Usage]:
        """Return what kept calls used (--usage), by call."""
        return {row.call: row for row in self[Usage]}

    @_part
    def c_names(self) -> dict[int, str]:
        """Return the names by which Python calls C functions, by frame, of calls that were counted.

        Functions that share their code have none.
        """
        sql = "SELECT frame, min(name) FROM c_function GROUP BY frame HAVING count(*) = 1"
        return dict(self.query(sql)) if self.meta.get("c_calls") else {}

    def events(self) -> Iterator[Event]:
        """Yield every begin and end of a Python function (--events), thread by thread, by time."""
        sql = "SELECT thread, node FROM event_node"
        nodes = {thread: array("I", blob) for thread, blob in self._file.rows(sql)}
        order = f"SELECT rowid, thread FROM event_log ORDER BY {EventLog.table.ordered_by}"
        sql = "SELECT first_ns, tick_ns, n_dropped, events FROM event_log WHERE rowid = ?"
        for part, thread in self.query(order):  # one at a time: they are long
            if thread not in self.threads:
                continue
            with damage_in(self.path):
                ((first_ns, tick_ns, n_dropped, blob),) = self._file.rows(sql, part)
                yield from events_of(array("Q", blob), thread, first_ns, tick_ns, nodes[thread])
            if n_dropped:
                yield Event(thread, first_ns, KINDS[GAP], n_dropped)

    def timeline(self) -> Iterator[Chunk]:
        """Yield every sample, the profiler's own work, too, in chunks by thread and time."""
        if self._chunks is not None:
            yield from self._chunks()
            return
        if self._base is not None:
            yield from self._base.timeline()
            return
        columns = "thread, first_ns, dt_ns, place, weight, cpu"
        sql = f"SELECT {columns} FROM timeline ORDER BY thread, first_ns, rowid"
        for thread, first_ns, *blobs in self._file.rows(sql):
            with damage_in(self.path):
                dt_ns, place, *pairs = (array("I", blob) for blob in blobs)
                weights, cpus = (dict(zip(each[::2], each[1::2], strict=True)) for each in pairs)
                known = self.recorded_stacks.issuperset(stacks_of(set(place)))
                if not known or max((*weights, *cpus), default=-1) >= len(place):
                    self._file.damaged("a sample that is not there")
            yield Chunk(thread, first_ns, dt_ns, place, weights, cpus)

    def program_timeline(self) -> Iterator[Chunk]:
        """Yield the samples of the program."""
        own = self.own_stacks
        for chunk in self.timeline():
            at = [i for i, stack in enumerate(stacks_of(chunk.place)) if stack not in own]
            yield from parts(chunk, times(chunk) if len(at) < len(chunk.place) else at, at)

    def _check_tree(self, row: type[Row], parents: Sequence[int]) -> None:
        """Check that rows are numbered from 1 on, after their parents; row 0 is the root."""
        table = row.table.name
        (ids,) = self.query(f"SELECT count(id), min(id), max(id) FROM {table}")
        last = len(parents) - 1
        try:
            is_tree = ids == ((last, 1, last) if last else (0, None, None))
            nearest(array("I", parents), bytes(len(parents)))
        except (ValueError, OverflowError):
            is_tree = False
        if not is_tree:
            self._file.damaged(f"the table {table} is no tree")


def made_once[Made](make: Callable[[Profile], Made]) -> Callable[[Profile], Made]:
    """Return the function, of which each profile keeps what it made."""

    @wraps(make)
    def of(profile: Profile) -> Made:
        return profile.once(make)

    return of
