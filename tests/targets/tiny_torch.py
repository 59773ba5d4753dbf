"""A training loop in which PyTorch calls Python in all ways: argv[1] s of CPU, argv[2] steps.

At least both: where others use the processors, OpenMP's threads wait most of their CPU time.
"""

import sys
import time

import torch

torch.manual_seed(0)


def spin(us):
    end = time.thread_time_ns() + us * 1000
    while time.thread_time_ns() < end:
        pass


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        spin(300)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        spin(300)
        return gradient * 2


def on_gradient(gradient):
    spin(300)
    return gradient


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(256, 256)
        self.second = torch.nn.Linear(256, 1)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        hidden.register_hook(on_gradient)
        return self.second(Scale.apply(hidden))


def step(net, optimizer):
    loss = net(torch.randn(256, 256)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def between_steps(number):
    """Not always as long, or each step would meet the samples at the same place."""
    end = time.thread_time_ns() + number * 377 % 1000 * 1000
    while time.thread_time_ns() < end:
        pass


def main(seconds, steps):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    end = time.process_time() + seconds
    while time.process_time() < end or steps > 0:
        step(net, optimizer)
        between_steps(steps)
        steps -= 1


main(float(sys.argv[1]), int(sys.argv[2]))
