"""Garbage collections: each with the function that it happened in; in the steps of a training."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from support import Run, check_invariants

from pyhybrid.views.garbage import freed, garbage_of, generation

COLLECTS = """
import gc, json, time
gc.disable()
times, own = [], [0]
def callback(phase, info):
    if phase == "start": own.append(time.perf_counter_ns())
    else: times.append(time.perf_counter_ns() - own.pop())
def cycles(n):
    for _ in range(n):
        made = []
        made.append(made)
def young(): gc.collect(0)
def old():
    cycles(500)
    gc.collect()
keep = [[i] for i in range(300_000)]
gc.collect()
gc.callbacks.insert(0, callback)  # ours is within it
for _ in range(3): old()
for _ in range(5): young()
gc.callbacks.remove(callback)
print(json.dumps([len(gc.callbacks), sum(times)]))
"""


def test_each_is_where_it_happened(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", COLLECTS)
    n_callbacks, all_ns = json.loads(run.result.stdout)
    assert n_callbacks == 1  # ours
    profile = run.profile()
    check_invariants(profile)
    frame_of = profile.nodes.frame
    where = Counter(
        (profile.frames[frame_of[row.node]].name, generation(row)) for row in profile.collections
    )
    assert where["old", 2] == 3
    assert set(where) >= {("old", 2), ("<module>", 2)}
    rows = [r for r in profile.collections if profile.frames[frame_of[r.node]].name == "old"]
    assert all(freed(row) == 500 for row in rows)
    exact_ns = sum(row.end_ns - row.begin_ns for row in rows)
    assert 0.9 * all_ns < exact_ns < 1.02 * all_ns
    counts = [n for n, _ in profile.meta["collections"]]
    assert counts[0] >= 5
    assert counts[2] >= 4


def test_without_counts_the_program_has_no_callback(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--mode", "sample", "-c", "import gc\nprint(len(gc.callbacks))")
    assert run.result.stdout == "0\n"
    assert not run.profile().collections


TRAINS = """
import gc
import torch
gc.collect()
gc.freeze()
class Record:
    def __init__(self, i): self.fields = {"i": i, "all": [i]}
def load(n): return [Record(i) for i in range(n)]
def train():
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(12):
        if step == 7: gc.collect()
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
rows = load(300_000)
gc.disable()
train()
"""


@pytest.mark.needs("torch")
def test_a_slow_step_is_a_collections(pyhybrid: Callable[..., Run]) -> None:
    """Its reason has the generation, and who made what the collector went through."""
    run = pyhybrid("-c", TRAINS)
    profile = run.profile()
    maker = garbage_of(profile).maker()
    assert maker
    assert maker.function.startswith(("Record.__init__", "load"))
    assert 0.5 < maker.objects / 900_000 < 2
    report = json.loads(pyhybrid("report", "steps", "--json").result.stdout)
    (slow, *_) = report["slowest"]
    assert (slow["number"], slow["generation"]) == (7, 2)
    assert slow["maker"] == maker.function
    assert slow["gc_ns"] == max(step["gc_ns"] for step in report["steps"]) > 0.5 * slow["more_ns"]
    text = pyhybrid("report", "steps").result.stdout
    assert "of it garbage collection (generation 2, about" in text
    assert "(gc)" in text
