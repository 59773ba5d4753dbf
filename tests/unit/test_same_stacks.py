"""Which stacks are alike, and how that is told."""

from itertools import pairwise

from pyhybrid.attach.same_stacks import line_of, listing
from pyhybrid.attach.stacks import ProcessStacks, StackFrame, ThreadStack

MAIN = StackFrame("<module>", "/srv/train.py", 30)
REDUCE = StackFrame("all_reduce", "/v/lib/python3.12/site-packages/torch/c10d.py", 2501)
ITEM = StackFrame("Dataset.__getitem__", "/srv/data.py", 41)
CALL = StackFrame("PyObject_Vectorcall", "libpython3.12.so", is_python=False, is_plumbing=True)
WAIT = StackFrame("pthread_cond_wait", "libc.so.6", is_python=False)


def process(rank: int, innermost: StackFrame) -> ProcessStacks:
    main = ThreadStack(100 + rank, True, "python", "asleep", "", (WAIT, CALL, innermost, MAIN))
    pool = ThreadStack(200 + rank, False, "pool", "asleep", "", (WAIT,))
    return ProcessStacks(100 + rank, rank, "python train.py", "3.12.1", (main, pool))


def test_who_is_elsewhere_is_told_last() -> None:
    lines = list(listing([process(rank, ITEM if rank == 3 else REDUCE) for rank in range(8)]))
    assert lines[8:11] == [
        "",
        "7 of 8 in all_reduce (torch/c10d.py:2501): ranks 0-2, 4-7",
        "rank 3 in Dataset.__getitem__ (/srv/data.py:41)",
    ]
    heads = [line for before, line in pairwise(lines) if not before][1:]
    assert heads == [
        "7 main threads of ranks 0-2, 4-7, asleep",
        "main thread of rank 3, asleep",
        "8 threads: 'pool' of ranks 0-7, asleep",
    ]


def test_plumbing_is_shown_where_asked() -> None:
    one = [process(0, REDUCE)]
    assert not any("Vectorcall" in line for line in listing(one))
    assert "    PyObject_Vectorcall [libpython3.12.so]" in list(listing(one, full=True))


def test_what_a_terminal_would_obey_is_shown() -> None:
    assert line_of(StackFrame("f\x1b[2J", "a\n.py", 1)) == r"f\x1b[2J (a\n.py:1)"
