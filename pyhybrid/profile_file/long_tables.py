"""The tables of a profile that grow with the program: whoever has made one need not read them."""

from dataclasses import dataclass
from typing import Any

from pyhybrid.profile_file.exact_table import ExactTable
from pyhybrid.profile_file.tables import Frame, Module, Nodes, Stacks


@dataclass(slots=True)
class LongTables:
    """As `Profile` has them."""

    nodes: Nodes
    stacks: Stacks
    exact: ExactTable
    frames: dict[int, Frame]


@dataclass(slots=True)
class MadeTables(LongTables):
    """With what else tells where native code lies: known to who makes the file, before it is
    written."""

    meta: dict[str, Any]
    modules: dict[int, Module]
    recorded_stacks: frozenset[int]
