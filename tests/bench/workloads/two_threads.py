"""A PyTorch training of two compute threads and nothing else, with and without samples.

python two_threads.py ROUNDS HZ LIBRARY: its last line is a list of rounds, {side: [CPU s, wall s]}.

A multilayer perceptron: nearly all its time is matrix products, which vary by a twentieth where
Python code on a shared processor varies by a seventh.  Noise is slow here (ten times longer pieces
do not vary less), so pieces are short, and there are many.  The order of the sides rotates.

LIBRARY is empty_handler.c.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping

import torch
from sides import (
    INTERRUPTS,
    N_THREADS,
    PERF_EVENT,
    PERF_EVENT_EMPTY,
    SIGTRAP,
    SIGTRAP_EMPTY,
    TIMER,
    threads_alive,
)
from torch import nn

WARM_UP, STEPS = 20, 10  # the collector gets quiet after 100 ms, and caches fill

torch.manual_seed(0)
torch.set_num_threads(2)
model = nn.Sequential(
    nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs, labels = torch.rand(256, 512), torch.randint(0, 10, (256,))

Sides = Mapping[str, Callable[[], contextlib.AbstractContextManager[None]]]
FEW: Sides = {
    "off": contextlib.nullcontext,
    "sigtrap": SIGTRAP,
    "sigtrap, empty handler": SIGTRAP_EMPTY,
    "interrupts": INTERRUPTS,
    "perf_event": PERF_EVENT,
    "perf_event, empty handler": PERF_EVENT_EMPTY,
    "timer": TIMER,
}
MANY: Sides = {f"{side}, {N_THREADS} threads": each for side, each in FEW.items()}


def train(steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def take(side: contextlib.AbstractContextManager[None]) -> list[float]:
    with side:
        train(WARM_UP)
        wall, cpu = time.monotonic(), time.process_time()
        train(STEPS)
        return [time.process_time() - cpu, time.monotonic() - wall]


def take_all(sides: Sides, number: int) -> dict[str, list[float]]:
    names = list(sides)
    first = number % len(names)
    taken = {name: take(sides[name]()) for name in names[first:] + names[:first]}
    return {name: taken[name] for name in names}


train(WARM_UP)
result = []
for number in range(int(sys.argv[1])):
    few = take_all(FEW, number)
    with threads_alive():
        result.append({**few, **take_all(MANY, number)})
print(json.dumps(result), flush=True)
os._exit(0)
