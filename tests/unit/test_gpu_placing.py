"""Where a GPU's work belongs, by what its launch's thread did then."""

from types import SimpleNamespace
from typing import Any

from pyhybrid.assemble.gpu_placing import place
from pyhybrid.assemble.gpu_trace import GpuTrace, Launch, Piece, Work
from pyhybrid.profile_file.tables import Event

MAIN, ENGINE = 7, 8  # tids
LOSS, MLP, HOOK = 1, 2, 3  # nodes


def launched(*moments: tuple[int, int]) -> list[tuple[int, int]]:
    """By (tid, time): (node, is it backward work?) of a kernel that was launched then."""
    profile: Any = SimpleNamespace(
        path="out.pyhybrid",
        process=SimpleNamespace(pid=1),
        threads={1: SimpleNamespace(tid=MAIN), 2: SimpleNamespace(tid=ENGINE)},
        clock_pairs=[(0, 0), (1000, 1000)],
    )
    trace = GpuTrace()
    trace.pieces = [
        Piece(ENGINE, 200, 300, MLP),
        Piece(ENGINE, 240, 260, LOSS),
        Piece(ENGINE, 400, 500, 0),
    ]
    for number, (tid, at) in enumerate(moments):
        launch = Launch(tid, at)
        trace.work.append(Work(f"kernel {number}", 0, 7, at + 1000, at + 1010, launch))
    events = [
        Event(1, 100, "call", LOSS),
        Event(1, 900, "return", LOSS),
        Event(2, 320, "call", HOOK),
        Event(2, 340, "return", HOOK),
    ]
    work = place(profile, trace, events).work
    return [(each.node, each.backward) for each in sorted(work, key=lambda each: each.name)]


def test_a_launch_belongs_to_the_call_that_runs() -> None:
    assert launched((MAIN, 150), (MAIN, 950), (ENGINE, 330)) == [(LOSS, 0), (0, 0), (HOOK, 0)]


def test_backward_work_belongs_to_the_call_that_made_it() -> None:
    assert launched((ENGINE, 210), (ENGINE, 250), (ENGINE, 450)) == [(MLP, 1), (LOSS, 1), (0, 1)]


def test_between_pieces_the_engine_ends_the_first() -> None:
    """It sums up gradients for what comes next, and casts them; before the first piece nothing
    tells for whom."""
    assert launched((ENGINE, 310), (ENGINE, 390), (ENGINE, 600), (ENGINE, 150)) == [
        *((MLP, 1), (MLP, 1), (0, 1), (0, 0)),
    ]
