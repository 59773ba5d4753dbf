"""What modules, steps and backward links cost a training: sides in turn, each in a fork of its own.

python modules.py ROUNDS EMPTY: prints {"rounds": [{side: {figure: value}}], "files": {steps: ...}}.
EMPTY is empty_record.c as a library: the side `callback` has its callback, and no profiler.

A fork has PyTorch imported, and nothing of a side before it: a callback that one session gave to
PyTorch stays.  Times are CPU time, nanoseconds, of short loops the best: a busy machine has such
moments, too.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from best_call import best_ns
from torch import nn
from torch.nn import functional

from pyhybrid import Profiler

N_MODULES, N_NODES, N_LAYERS = 200, 500, 12
LOOPS = 40
STEPS, BLOCKS = 3, 12  # of the training: a block is one loop
FILES = 100, 1000  # steps of a run whose file is measured
EMPTY = os.path.abspath(sys.argv[2])

torch.set_num_threads(1)


class Empty(nn.Module):
    def forward(self, x):
        return x


class Calls(nn.Module):
    """A module that does nothing but call others."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Empty() for _ in range(N_MODULES))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    """Of so little work that what the processor does is to launch it."""

    def __init__(self, d=32, n_words=64):
        super().__init__()
        self.words = nn.Embedding(n_words, d)
        self.layers = nn.ModuleList(Layer(d) for _ in range(N_LAYERS))
        self.head = nn.Linear(d, n_words)

    def forward(self, words):
        x = self.words(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True)
        self.words = torch.randint(64, (2, 16))

    def steps(self, n):
        for _ in range(n):
            self.optimizer.zero_grad()
            logits = self.model(self.words)
            functional.cross_entropy(logits.flatten(0, 1), self.words.flatten()).backward()
            self.optimizer.step()


def best(loop, clock=time.thread_time_ns, loops=LOOPS):
    """CPU time of the fastest of some loops, after a first one: its code is instrumented then."""
    loop()
    times = []
    for _ in range(loops):
        began = clock()
        loop()
        times.append(clock() - began)
    return min(times)


def backward_ns():
    times = []
    for _ in range(LOOPS + 1):
        x = torch.ones(1, requires_grad=True)
        for _ in range(N_NODES):
            x = x.sin()
        began = time.thread_time_ns()
        x.backward()
        times.append(time.thread_time_ns() - began)
    return min(times[1:]) / N_NODES


def figures():
    calls, training, x = Calls(), Training(), torch.ones(1)
    return {
        "module": best(lambda: calls(x)) / N_MODULES,
        "call": min(best_ns() for _ in range(3)),
        "node": backward_ns(),
        "step": best(lambda: training.steps(STEPS), time.process_time_ns, BLOCKS) / STEPS,
    }


SIDES = {
    "bare": None,
    "callback": None,
    "hybrid": {"torch": "no-modules,no-steps"},
    "all": {},
}


def add_empty_callback():
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    assert not ctypes.CDLL(EMPTY).add_empty_callback(path.encode())


def taken(side):
    if side == "callback":
        add_empty_callback()
    elif SIDES[side] is not None:
        Profiler(mode="hybrid", output="out", formats=[], **SIDES[side]).start()
    return figures()


def file(n):
    training = Training()
    with Profiler(mode="hybrid", output=f"file{n}", formats=[]) as profiler:
        training.steps(n)
    profile = profiler.profile
    return {
        "bytes": Path(f"file{n}.pyhybrid").stat().st_size,
        "nodes": len(profile.nodes.frame),
        "counted": len({row.node for row in profile.exact}),
    }


def in_fork(function, *arguments):
    """What it returns there; nothing of the fork's ends as a program does."""
    source, target = os.pipe()
    child = os.fork()
    if not child:
        os.write(target, json.dumps(function(*arguments)).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(target)
    with os.fdopen(source) as answers:
        text = answers.read()
    os.waitpid(child, 0)
    return json.loads(text)


rounds, names = [], list(SIDES)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    Training().steps(1)  # what is imported and made at first use
    for number in range(int(sys.argv[1])):
        order = [names[(number + i) % len(names)] for i in range(len(names))]
        found = {side: in_fork(taken, side) for side in order}
        rounds.append({side: found[side] for side in names})
    files = {n: in_fork(file, n) for n in FILES}
    os.chdir("/")
print(json.dumps({"rounds": rounds, "files": files}))
