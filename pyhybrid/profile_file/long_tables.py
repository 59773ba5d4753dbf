"""The tables of a profile that grow with the program: whoever has made one need not read them."""

from dataclasses import dataclass

from pyhybrid.profile_file.exact_table import ExactTable
from pyhybrid.profile_file.tables import Frame, Nodes, Stacks


@dataclass(slots=True)
class LongTables:
    """As `Profile` has them."""

    nodes: Nodes
    stacks: Stacks
    exact: ExactTable
    frames: dict[int, Frame]
