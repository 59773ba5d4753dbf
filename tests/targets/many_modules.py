"""A model of 10,000 modules, of which half is made anew meanwhile: their memory has others then.

python many_modules.py LIBRARY: prints what a module takes, in bytes of memory, and how many
instructions a call takes of one that is made where it is called, in a small model and a large one.
The profile is many.pyhybrid.  LIBRARY is count_instructions.c's.
"""

import ctypes
import gc
import json
import sys

import torch
from torch import nn

import pyhybrid

N_BLOCKS, N_LAYERS, N_CALLS = 100, 99, 3
count_instructions = ctypes.PyDLL(sys.argv[1]).count_instructions
count_instructions.argtypes = [ctypes.py_object]


class Layer(nn.Module):
    def forward(self, x):
        return x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(N_LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return nn.Identity()(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(N_BLOCKS))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Makes(nn.Module):
    def __init__(self, within):
        super().__init__()
        self.within = within

    def forward(self, x):
        return nn.Identity()(x)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def instructions(module):
    for _ in range(10):  # until its code is specialized
        module(x)
    return min(count_instructions(lambda: module(x)) for _ in range(3))


x = torch.ones(1)
net = Net()
net(x)
with pyhybrid.Profiler(mode="trace", output="many", formats=[]):
    before = resident()
    net(x)
    a_module = (resident() - before) / (N_BLOCKS * (N_LAYERS + 1))
    for i in range(0, N_BLOCKS, 2):
        net.blocks[i] = Block()
    gc.collect()
    for _ in range(N_CALLS - 1):
        net(x)
    counted = {"small": instructions(Makes(Layer())), "large": instructions(Makes(net))}
print(json.dumps({"bytes": a_module, **counted}))
