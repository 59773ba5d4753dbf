"""Where a GPU's work belongs, by what its launch's thread did then."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from pyhybrid.gpu import GpuTrace, Launch, Operator, Piece, Work, place
from pyhybrid.tables import Event

MAIN, ENGINE = 7, 8  # tids
LOSS, MLP, HOOK = 1, 2, 3  # nodes


PIECES = [Piece(ENGINE, 200, 300, MLP), Piece(ENGINE, 240, 260, LOSS), Piece(ENGINE, 400, 500, 0)]
# What torch.profiler tells of it: a forward pass of two layers, and their backward pass.
OPERATORS = [
    Operator(MAIN, 120, 130, 5, False, False),
    Operator(MAIN, 160, 170, 6, False, False),
    Operator(ENGINE, 200, 210, -1, False, True),  # of a leaf, before any other
    Operator(ENGINE, 220, 300, 6, True, False),
    Operator(ENGINE, 230, 240, -1, False, True),  # the first one in it
    Operator(ENGINE, 250, 270, 5, True, False),
    Operator(ENGINE, 280, 290, -1, False, True),
    Operator(ENGINE, 310, 320, -1, False, True),
    Operator(ENGINE, 312, 318, -1, False, True),
    Operator(ENGINE, 313, 317, -1, False, False),
    Operator(ENGINE, 330, 340, -1, False, False),
    Operator(ENGINE, 350, 360, -1, False, True),
]


def launched(
    *moments: tuple[int, int], operators: Iterable[Operator] = ()
) -> list[tuple[int, int]]:
    """By (tid, time): (node, is it backward work?) of a kernel that was launched then."""
    profile: Any = SimpleNamespace(
        path="out.pyhybrid",
        process=SimpleNamespace(pid=1),
        threads={1: SimpleNamespace(tid=MAIN), 2: SimpleNamespace(tid=ENGINE)},
        clock_pairs=[(0, 0), (1000, 1000)],
    )
    trace = GpuTrace()
    trace.operators = list(operators)
    if not operators:
        trace.pieces = PIECES
    for number, (tid, at) in enumerate(moments):
        launch = Launch(tid, at)
        trace.work.append(Work(f"kernel {number}", 0, 7, at + 1000, at + 1010, launch))
    events = [
        Event(1, 100, "call", LOSS),
        Event(1, 150, "call", MLP),
        Event(1, 180, "return", MLP),
        Event(1, 900, "return", LOSS),
        Event(2, 320, "call", HOOK),
        Event(2, 340, "return", HOOK),
    ]
    work = place(profile, trace, events).work
    return [(each.node, each.backward) for each in sorted(work, key=lambda each: each.name)]


def test_a_launch_belongs_to_the_call_that_runs() -> None:
    assert launched((MAIN, 190), (MAIN, 950), (ENGINE, 330)) == [(LOSS, 0), (0, 0), (HOOK, 0)]


def test_backward_work_belongs_to_the_call_that_made_it() -> None:
    assert launched((ENGINE, 210), (ENGINE, 250), (ENGINE, 450)) == [(MLP, 1), (LOSS, 1), (0, 1)]


def test_between_pieces_the_engine_ends_the_first() -> None:
    """It sums up gradients for what comes next, and casts them; before the first piece nothing
    tells for whom."""
    assert launched((ENGINE, 310), (ENGINE, 390), (ENGINE, 600), (ENGINE, 150)) == [
        *((MLP, 1), (MLP, 1), (0, 1), (0, 0)),
    ]


def test_what_sums_up_a_gradient_is_of_what_ran_before_it() -> None:
    """Also one after the other, within another one, and around further operators."""
    at = 225, 260, 285, 315, 355
    assert launched(*((ENGINE, each) for each in at), operators=OPERATORS) == [
        *((MLP, 1), (LOSS, 1), (LOSS, 1), (MLP, 1), (MLP, 1)),
    ]
    assert launched((ENGINE, 205), (ENGINE, 335), operators=OPERATORS) == [(0, 0), (HOOK, 0)]
    assert launched((ENGINE, 235), operators=OPERATORS) == [(MLP, 1)]
