"""Which of the program's functions a training's phases are spent in, against stamps of the same
run."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run

pytestmark = pytest.mark.needs("torch")

PROGRAM = """
import copy, json, queue, threading, time
import torch
from torch.utils.data import DataLoader, Dataset

STAMPS = {}
def stamped(function):
    def run(*arguments):
        begin = time.perf_counter_ns()
        try: return function(*arguments)
        finally: STAMPS[function.__qualname__] = STAMPS.get(function.__qualname__, 0) + (
            time.perf_counter_ns() - begin)
    return run

def spin(ms):
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end: pass

class Rows(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        decode(i)
        return torch.ones(8)

@stamped
def decode(i): spin(9)

class Callbacks:
    @stamped
    def on_end(self, net):
        for _ in range(40): copy.deepcopy(net)

def prepare():
    for _ in range(20): spin(3)

@stamped
def wait(answers): answers.get()

def answer(asked, answers):
    while asked.get():
        time.sleep(0.05)
        answers.put(1)

def main():
    prepare()
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    asked, answers, callbacks = queue.Queue(), queue.Queue(), Callbacks()
    threading.Thread(target=answer, args=(asked, answers), daemon=True).start()
    for batch in DataLoader(Rows(), 1):
        net(batch).sum().backward()
        optimizer.step()
        callbacks.on_end(net)
        asked.put(1)
        wait(answers)

main()
print(json.dumps(STAMPS))
"""


def test_who_is_in_each_phase(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    run = pyhybrid("train.py")
    stamps = json.loads(run.result.stdout)
    report = json.loads(pyhybrid("report", "steps", "--json").result.stdout)
    rows = defaultdict[str, dict[str, dict[str, float]]](dict)
    for row in report["functions"]:
        rows[row["phase"]][row["function"].split(" (")[0]] = row
    spun = rows["data"]["spin"]
    # (What calls it may have lost the processor between the stamp and the call.)
    data_ns = sum(row["total_ns"] for row in rows["data"].values())
    assert spun["total_ns"] <= 1.02 * stamps["decode"] <= 1.04 * data_ns
    assert next(iter(rows["data"].values())) is spun
    assert not spun["waits_in"]
    # After the last step there is one call more of each: samples, some 4 of 150, tell how long.
    in_steps = {name: ns * 39 / 40 for name, ns in stamps.items()}
    called = rows["other"]["Callbacks.on_end"]
    assert called["total_ns"] == pytest.approx(in_steps["Callbacks.on_end"], rel=0.06, abs=2e6)
    waited = rows["other"]["wait"]
    assert waited["total_ns"] == pytest.approx(in_steps["wait"], rel=0.06, abs=2e6)
    # Where the thread had no processor for longer it is not known whether it waited.
    delay_ns = run.profile().meta.get("main_delay_ns") or 0
    is_known = waited["total_ns"] - waited["cpu_ns"] >= delay_ns
    assert waited["waits_in"].split(" (")[0] == ("Queue.get" if is_known else "")
    # What runs before the loop is in none of the phases.
    assert "prepare" not in rows["other"]
    assert rows["other"].get("spin", {"total_ns": 0})["total_ns"] < 0.2 * spun["total_ns"]
    text = pyhybrid("report", "steps").result.stdout
    (line,) = (each for each in text.splitlines() if " wait (" in each)
    assert ("did not run for" in line and "in Queue.get" in line) == is_known


def test_lines_and_tree_are_of_the_steps(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """What ran before is one row beside them."""
    (tmp_path / "train.py").write_text(PROGRAM)
    run = pyhybrid("train.py")
    shown = json.loads(pyhybrid("report", "--json").result.stdout)
    steps = shown["in_steps"]
    assert steps["n_steps"] == 40
    samples = shown["samples"]
    assert 0 < steps["weight_ns"] < 0.8 * samples["recorded_weight_ns"]
    assert sum(row["weight_ns"] for row in shown["program_lines"]) <= steps["weight_ns"]
    functions = {row["function"].split(" (")[0] for row in shown["program_lines"]}
    assert "prepare" not in {row["function"].split(" (")[0] for row in shown["tree"]}
    assert "spin" in functions
    first = max(shown["program_lines"], key=lambda row: row["weight_ns"])
    assert first["function"] in ("spin", "Callbacks.on_end")
    lines = run.result.stderr.splitlines()
    (title,) = (line for line in lines if "line of the program" in line)
    assert title.endswith("in 40 steps")
    (row,) = (line for line in lines if "not in steps" in line)
    outside_ns = samples["recorded_weight_ns"] - samples["own_weight_ns"] - steps["weight_ns"]
    assert f"{outside_ns / 1e9:.3f} s" in row


HELD = """
import queue, threading
import torch

def parse(text):
    return [float(field) * 0.5 for line in text.split() for field in line.split(",")]

def produce(batches, text):
    for _ in range(60): batches.put(torch.tensor(parse(text)).view(-1, 64))
    batches.put(None)

text, batches = " ".join(",".join(["0.125"] * 64) for _ in range(1500)), queue.Queue(2)
layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(8)]
net = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
threading.Thread(target=produce, args=(batches, text), daemon=True).start()
while (x := batches.get()) is not None:
    net(x[:64]).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.further
def test_a_thread_that_has_the_gil_is_found(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HELD)
    run = pyhybrid("--format", "folded", "train.py")
    found = json.loads(pyhybrid("report", "--json").result.stdout)["findings"]
    held = re.compile(r", while (parse|produce) \(train\.py:\d+\) did")
    texts = [each["text"] for each in found if held.search(each["text"])]
    # Where the thread had no processor for long it is not known what it waited for.
    delay_ns = run.profile().meta.get("main_delay_ns") or 0
    steps = json.loads(pyhybrid("report", "steps", "--json").result.stdout)["steps"]
    idle_ns = sum(sum(s["phases"].values()) - sum(s["phases_cpu"].values()) for s in steps)
    assert texts or delay_ns > idle_ns / 2
