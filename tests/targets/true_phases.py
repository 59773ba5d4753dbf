"""Trainings of which each phase takes long, each on a thread of its own, with stamps of what it
took of CPU time.

Prints, by training and phase, what that took each time, in nanoseconds.
"""

import json
import os
import sys
import threading
import time
from collections import defaultdict

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

N_STEPS = 6
torch.set_num_threads(1)
stamps = defaultdict(lambda: defaultdict(list))
training = ""
last = 0


def begin(name):
    global training, last
    training, last = name, time.thread_time_ns()


def lap(phase):
    global last
    stamps[training][phase].append(time.thread_time_ns() - last)
    last = time.thread_time_ns()


def spin(ms):
    end = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < end:
        pass


class Transform(torch.nn.Module):
    def forward(self, x):
        spin(4)
        return x


class Rows(torch.utils.data.Dataset):
    transform = Transform()

    def __len__(self):
        return 2 * N_STEPS

    def __getitem__(self, i):
        return self.transform(torch.ones(4))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        spin(5 if self.training else 8)
        return self.inner(x)


def on_gradient(gradient):
    spin(3)


def step(optimizer, y):
    y.register_hook(on_gradient)
    y.sum().backward()
    lap("backward")
    optimizer.step()
    lap("optimizer")


def optimizer_of(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)


def transforms():
    net = Layer()
    optimizer = optimizer_of(net)
    begin("transforms")
    for x in torch.utils.data.DataLoader(Rows(), batch_size=2):
        lap("data")
        y = net(x)
        lap("forward")
        step(optimizer, y)


def evaluations():
    """Of a fixed batch, and of a loader, after each step."""
    net = Layer()
    optimizer = optimizer_of(net)
    begin("evaluations")
    for i in range(N_STEPS):
        if i:
            net.eval()
            with torch.no_grad():
                net(torch.ones(2, 4))
                for batch in torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2):
                    net(batch)
            net.train()
            lap("evaluation")
        y = net(torch.ones(2, 4))
        lap("forward")
        step(optimizer, y)


def layers():
    """Of a list, computed again, and once without."""
    net = torch.nn.ModuleList(Layer() for _ in range(2))
    optimizer = optimizer_of(net)
    begin("layers")
    for _ in range(N_STEPS):
        x = torch.ones(2, 4, requires_grad=True)
        for layer in net:
            x = checkpoint(layer, x, use_reentrant=False)
        lap("forward")
        step(optimizer, x)


def saves():
    net = Layer()
    optimizer = optimizer_of(net)
    begin("saves")
    for i in range(N_STEPS):
        if i:
            save(net)
            lap("checkpoint")
        y = net(torch.ones(2, 4))
        lap("forward")
        step(optimizer, y)


def save(net):
    with open(sys.argv[1], "wb") as file:
        torch.save(net.state_dict(), file)
        spin(6)
        os.fsync(file.fileno())


def watch(module, inputs, output):
    spin(4)


def hooks():
    net = torch.nn.Sequential(Layer(), torch.nn.Linear(4, 4))
    optimizer = optimizer_of(net)
    for each in net:
        each.register_forward_hook(watch)
    begin("hooks")
    for _ in range(N_STEPS):
        y = net(torch.ones(2, 4))
        lap("forward")
        torch.autograd.backward(y.sum())
        lap("backward")
        optimizer.step()
        lap("optimizer")


def exchanges():
    """With the one rank that there is."""
    net = Layer()
    optimizer = optimizer_of(net)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    large = torch.ones(1_000_000)
    begin("exchanges")
    for _ in range(N_STEPS):
        y = net(torch.ones(2, 4)).sum()
        lap("forward")
        torch.autograd.grad(y, list(net.parameters()))
        lap("backward")
        dist.all_reduce(large)
        dist.broadcast(large, 0)
        dist.all_gather([large], large)
        dist.gather_object(N_STEPS, [None])
        dist.reduce_scatter_tensor(large, large)
        lap("communication")
        optimizer.step()
        lap("optimizer")
    dist.destroy_process_group()


if __name__ == "__main__":
    for run in (transforms, evaluations, layers, saves, hooks, exchanges):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    print(json.dumps(stamps))
