"""Two trainings, while profilers start and stop: one on the thread that does that, one beside it.

python profilers_in_turn.py N PREFIX: N profilers, of which the first half is one thread's and the
other half another one's; their profiles are PREFIX0.pyhybrid and so on.  Prints how many steps
each training had, and what came of it.
python profilers_in_turn.py alone N N: what comes of so many steps.
"""

import json
import sys
import threading

import torch
from torch import nn

DEPTH = 30
torch.set_num_threads(1)


def makes_cos(x):
    return x.cos()


def makes_sin(x):
    return x.sin()


def makes_sum(x):
    return x.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x = self.fc(x)
        for _ in range(DEPTH):
            x = makes_sin(makes_cos(x))
        return x


class Training:
    """Step for step the same whenever it runs, on whatever thread."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.net, self.x = Net(), torch.randn(3, 4)
        self.n_steps = 0
        self.loss = makes_sum(self.net(self.x))

    def step(self):
        self.loss.backward()  # of what was made in the step before
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.sub_(parameter.grad, alpha=0.01)
                parameter.grad = None
        self.loss = makes_sum(self.net(self.x))
        self.n_steps += 1

    def result(self):
        return [self.n_steps, [parameter.tolist() for parameter in self.net.parameters()]]


trainings = [Training(seed) for seed in range(2)]


def train_until(ended):
    while not ended.is_set():
        trainings[0].step()


def profile(numbers):
    from pyhybrid import Profiler

    for number in numbers:
        profiler = Profiler(mode="trace", output=f"{sys.argv[2]}{number}", formats=[])
        profiler.start()
        for _ in range(1 + number % 2):
            trainings[1].step()
        profiler.stop()


def beside(work, *arguments):
    """On another thread; an event that says that it has ended."""
    ended = threading.Event()

    def run():
        try:
            work(*arguments)
        finally:
            ended.set()

    threading.Thread(target=run).start()
    return ended


if sys.argv[1] == "alone":
    for training, n in zip(trainings, sys.argv[2:], strict=True):
        for _ in range(int(n)):
            training.step()
else:
    n = int(sys.argv[1])
    is_enough = threading.Event()
    stopped = beside(train_until, is_enough)
    profile(range(n // 2))
    is_enough.set()
    stopped.wait()
    train_until(beside(profile, range(n // 2, n)))
print(json.dumps([training.result() for training in trainings]))
