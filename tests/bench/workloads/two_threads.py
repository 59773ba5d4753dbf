"""A PyTorch training of two compute threads and nothing else, with and without samples.

python two_threads.py ROUNDS HZ LIBRARY: its last line is a list of rounds, {side: [CPU s, wall s]};
`SIDE, off` is what the pieces without a profiler before and after it took, their mean.

A multilayer perceptron: nearly all its time is matrix products, which vary by a twentieth where
Python code on a shared processor varies by a seventh.  Noise is slow here (ten times longer pieces
do not vary less), so pieces are short, and there are many.  The order of the sides rotates.

LIBRARY is empty_handler.c.
"""

import json
import os
import sys

import torch
from sides import SIDES, WITH_THREADS, beside, threads_alive, took
from torch import nn

STEPS = 6
AFTER_START, AFTER_STOP = 10, 3  # the collector gets quiet after 100 ms, and caches fill

torch.manual_seed(0)
torch.set_num_threads(2)
model = nn.Sequential(
    nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs, labels = torch.rand(256, 512), torch.randint(0, 10, (256,))


def train(steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def take(side: str) -> list[float]:
    with {**SIDES, **WITH_THREADS}[side]():
        train(AFTER_STOP if side.startswith("off") else AFTER_START)
        return took(lambda: train(STEPS))


train(10 * STEPS)
result = []
for number in range(int(sys.argv[1])):
    few = beside(SIDES, number, take)
    with threads_alive():
        result.append({**few, **beside(WITH_THREADS, number, take)})
print(json.dumps(result), flush=True)
os._exit(0)
