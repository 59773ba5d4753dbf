"""Code objects that die, and whose memory is reused, between sample and resolution."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support import Run, check_invariants, long_enough, paths

pytestmark = pytest.mark.version

PROGRAM = """
import sys, threading, time

def generations(seconds, first):
    i, end = first, time.thread_time() + seconds
    while time.thread_time() < end:
        # f_i calls g_i calls h_i; the next generation takes their memory.
        space = {}
        exec(f'''
def h_{i}():
    n = 0
    for _ in range(6000): n += 1
def g_{i}():
    h_{i}()
    return 0
def f_{i}():
    g_{i}()
    return 0
''', space)
        space[f"f_{i}"]()
        i += 2

seconds = float(sys.argv[1])
t = threading.Thread(target=generations, args=(seconds, 1))
t.start()
generations(seconds, 0)
t.join()
"""


def test_no_sample_has_the_name_of_another_generation(pyhybrid: Callable[..., Run]) -> None:
    options = ("--hz", 10_000, "--format", "folded")
    profile = pyhybrid(*options, "-c", PROGRAM, long_enough(0.5, 6)).profile()
    check_invariants(profile)
    seen, deep = set(), 0
    for samples, _, names in paths(profile):
        generation = [name for name in names if re.fullmatch(r"[fgh]_\d+", name)]
        if not generation:
            continue
        assert "[unknown python]" not in names
        numbers = {name[2:] for name in generation}
        assert len(numbers) == 1, names
        assert [name[0] for name in generation] == list("fgh")[: len(generation)], names
        seen |= numbers
        deep += samples
    assert deep > 200
    assert len(seen) > 100
