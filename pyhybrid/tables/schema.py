"""How the tables of a profile file are declared: a class for each, in __init__.py, a field for each
column.  SQL, reading, merging, selecting and the page of the schema follow from that.

A field's annotation is its kind: what SQLite has there, and what it refers to.  Rows are tuples,
whose classes are made without `exec`: the end of every run imports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

from pyhybrid._columns import NO_NUMBER as NO_NUMBER  # in columns: null
from pyhybrid.base.files import text_beside

try:  # what collections.namedtuple uses: twice as fast as a property
    from _collections import _tuplegetter as _field  # type: ignore[import-not-found]
except ImportError:

    def _field(at: int, doc: str) -> Any:
        return property(itemgetter(at), doc=doc)


APPLICATION_ID = 0x50594842  # "PYHB"
VERSION = 5
OLDEST = 3  # that is read: what its tables lack is declared with them

# Kinds of columns that are integers and refer to a row of a table: of another one or, as `Id`, to
# their own.  ...OrZero: 0 is no row.
type Id = int
type ProcessId = int
type ThreadId = int
type ThreadOrZero = int
type ModuleId = int
type FrameId = int
type NodeId = int
type NodeOrZero = int
type StackId = int
type StackOrZero = int
type CallId = int
type WorkId = int
type Time = int  # when: nanoseconds of CLOCK_MONOTONIC
type Json[Value] = Value  # as text
type NodeIds = bytes  # uint32 each
type Places = bytes  # of samples: uint32 each, with a stack's id (STACK_MASK)

_REFERS = {
    "ProcessId": "process",
    "ThreadId": "thread",
    "ThreadOrZero": "thread",
    "ModuleId": "module",
    "FrameId": "frame",
    "NodeId": "node",
    "NodeOrZero": "node",
    "NodeIds": "node",
    "StackId": "stack",
    "StackOrZero": "stack",
    "Places": "stack",
    "CallId": "call",
    "WorkId": "gpu",
}
_SQL = {"str": "TEXT", "Json": "TEXT", "float": "REAL"} | dict.fromkeys(
    ("bytes", "NodeIds", "Places"), "BLOB"
)
_WIDTH = 100


class Column(NamedTuple):
    """A column's `kind` is a name above or a type's, `refers` the table of the rows it means."""

    name: str
    kind: str
    may_be_null: bool
    refers: str | None

    @property
    def sql(self) -> str:
        """Return its declaration."""
        words = [self.name, _SQL.get(self.kind, "INTEGER")]
        if self.kind == "Id":
            words.append("PRIMARY KEY")
        elif not self.may_be_null:
            words.append("NOT NULL")
        if self.kind.endswith("Id") and self.refers and self.kind != "Id":
            words.append(f"REFERENCES {self.refers}")
        return " ".join(words)


class Table(NamedTuple):
    """A table's `fields` are those of its rows in Python, `columns` all in the file.

    `key`: the columns that distinguish rows, unless that is an id.  `ordered_by`: how rows are
    read.  `describes`: its rows are what something is, whoever does it; those of others are figures
    of processes, threads or times.  `absent`: what stands for columns that older files lack.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    fields: tuple[str, ...]
    key: tuple[str, ...]
    ordered_by: str
    describes: bool
    absent: Mapping[str, str]
    indexed_by: str

    @property
    def create(self) -> str:
        """Return the SQL statement that makes it."""
        parts = [column.sql for column in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        lines = [f"CREATE TABLE {self.name} ("]
        for number, part in enumerate(parts):
            text = part + (")" if number == len(parts) - 1 else ",")
            if number and len(lines[-1]) + len(text) < _WIDTH:
                lines[-1] += " " + text
            else:
                lines.append("    " + text)
        text = "\n".join(lines) + " WITHOUT ROWID" * bool(self.key) + ";"
        if self.indexed_by:
            index = f"{self.name}_in_order ON {self.name} ({self.indexed_by})"
            text += f"\nCREATE INDEX {index};"
        return text

    @property
    def stored(self) -> tuple[str, ...]:
        """Return those of the rows' fields that are columns."""
        names = {column.name for column in self.columns}
        return tuple(field for field in self.fields if field in names)

    def insert(self, process: int) -> tuple[str, str]:
        """Return the `INSERT` of rows in the order of `fields`: what stands before the values of a
        row, and these, as parameters, `process` in between where a table has it and rows do not."""
        of_rows = set(self.stored)
        values = ("?" if each.name in of_rows else str(process) for each in self.columns)
        return f"INSERT INTO {self.name} VALUES ", f"({','.join(values)})"

    @property
    def is_numbers(self) -> bool:
        """Has it whole numbers alone, so that its rows can be columns?"""
        return all(column.kind not in _SQL for column in self.columns)

    @property
    def kinds(self) -> str:
        """Return those of its columns where it `is_numbers`: I (uint32), or q (int64)."""
        return "".join(
            "I" if column.refers and not column.may_be_null else "q" for column in self.columns
        )

    @property
    def select_columns(self) -> str:
        """Return the query for its rows as `kinds`, with NO_NUMBER for null."""
        names = (
            f"ifnull({column.name}, {NO_NUMBER})" if column.may_be_null else column.name
            for column in self.columns
        )
        return f"SELECT {', '.join(names)} FROM {self.name}"

    @property
    def insert_columns(self) -> tuple[str, str]:
        """Return the `INSERT` of such columns, as `insert` does."""
        nullable = (column.may_be_null for column in self.columns)
        values = (f"nullif(?,{NO_NUMBER})" if each else "?" for each in nullable)
        return f"INSERT INTO {self.name} VALUES ", f"({','.join(values)})"

    def of_kind(self, *kinds: str) -> list[int]:
        """Return where in a row fields of these kinds are."""
        known = {column.name: column.kind for column in self.columns}
        return [at for at, name in enumerate(self.fields) if known.get(name) in kinds]

    def that_refer(self, to: str) -> list[int]:
        """Return where in a row fields are that refer to rows of the table `to`, one each."""
        known = {column.name: column for column in self.columns}
        return [
            at
            for at, name in enumerate(self.fields)
            if name in known
            and known[name].refers == to
            and known[name].kind.endswith(("Id", "OrZero"))
        ]


TABLES: dict[str, type[Row]] = {}  # by name, in the order of the file


def _column(table: str, name: str, annotation: str) -> Column:
    kind, _, null = annotation.partition(" | ")
    kind = kind.partition("[")[0]
    return Column(name, kind, null == "None", table if kind == "Id" else _REFERS.get(kind))


@dataclass_transform(frozen_default=True)
class _Fields(type):
    """Make the class of a record: its fields are in the tuple."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **how: Any
    ) -> _Fields:
        """Make it; `how` is of Row's subclasses."""
        kinds: dict[str, str] = {} if bases == (tuple,) else space.get("__annotations__", {})
        space["_defaults"] = {field: space.pop(field) for field in kinds if field in space}
        space["_fields"] = tuple(kinds)
        space |= {field: _field(at, kind) for at, (field, kind) in enumerate(kinds.items())}
        return super().__new__(cls, name, bases, space | {"__slots__": ()}, **how)

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, space)


class Record(tuple[Any, ...], metaclass=_Fields):
    """A record is a tuple of the fields that a subclass names with their kinds."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Make one of its fields, in order or by name.  Raises TypeError."""
        if len(values) != len(cls._fields):
            rest = cls._fields[len(values) :]
            known = cls._defaults | named
            if not rest or not named.keys() <= set(rest) or not known.keys() >= set(rest):
                raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}")
            values += tuple(known[field] for field in rest)
        return tuple.__new__(cls, values)

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        """Make one of all fields."""
        return tuple.__new__(cls, values)

    def _replace(self, **changed: Any) -> Self:
        """Return one that differs in these fields."""
        fields = zip(self._fields, self, strict=True)
        made = tuple.__new__(type(self), [changed.pop(field, value) for field, value in fields])
        if changed:
            raise TypeError(f"{type(self).__name__} has no {', '.join(changed)}")
        return made

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        fields = (f"{field}={value!r}" for field, value in self._asdict().items())
        return f"{type(self).__name__}({', '.join(fields)})"


class Row(Record):
    """A row of a table is declared by a subclass; so is the rest:

    table: the table's name, unless it is the class's.  key: the columns of its primary key.
    ordered_by: the order of rows that are read.  of_process: the file has a column `process`, which
    the row's thread or call gives.  describes, absent: see Table.  not_stored: fields that are no
    columns.  indexed_by: the columns of an index.
    """

    table: ClassVar[Table]

    def __init_subclass__(
        cls,
        table: str = "",
        key: str = "",
        ordered_by: str = "",
        of_process: bool = False,
        describes: bool = False,
        absent: Mapping[str, str] | None = None,
        not_stored: tuple[str, ...] = (),
        indexed_by: str = "",
    ) -> None:
        """Declare the table."""
        words = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__)
        name = table or words[1:]
        kinds = cls.__annotations__
        columns = [_column(name, f, kind) for f, kind in kinds.items() if f not in not_stored]
        if of_process:
            at = 1 if columns[0].kind == "Id" else 0
            columns.insert(at, _column(name, "process", "ProcessId"))
        cls.table = Table(
            *(name, cls.__doc__ or "", tuple(columns), cls._fields, tuple(key.split())),
            *(ordered_by, describes, absent or {}, indexed_by),
        )
        TABLES[name] = cls


def views() -> str:
    """Return the SQL of the views: the questions that come first."""
    return text_beside(__file__, "views.sql")


def create_all() -> str:
    """Return the SQL statements that make an empty file's tables and views."""
    from pyhybrid import tables  # which declares them

    pragmas = f"PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {VERSION};"
    made = (row.table.create for row in tables.TABLES.values())
    return "\n".join([pragmas, *made, views()])
