"""What is called in a compiler, and after it, in all ways."""

import sys
import threading
from pathlib import Path

import pyhybrid

sys.path.insert(0, str(Path(__file__).parent))

from torch._dynamo.convert_frame import _compile
from torch.nn.modules.module import Module


class Net(Module):
    def forward(self, x):
        return outside(x)


def outside(x):
    return x


def inside(x):
    return sorted([x, 1], key=lambda each: outside(each))


def numbers():
    yield inside(1)
    yield outside(2)


def work():
    with pyhybrid.region("in a compiler"):
        sum(len(str(each)) for each in numbers())
    _compile(inside.__code__, lambda: inside(3), "it is another kind")
    thread = threading.Thread(target=apart)
    thread.start()
    thread.join()
    net(4)


def apart():
    for _ in range(7):
        outside(5)


def fails():
    inside(6)
    raise ValueError


generator = numbers()


def suspends():
    return next(generator)


net = Net()
for each in (work, suspends):
    _compile(Net.forward.__code__, each)
    with pyhybrid.region("after"):
        net(7)
try:
    _compile(outside.__code__, fails)
except ValueError:
    outside(8)
next(generator)
