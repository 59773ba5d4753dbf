"""Forward and backward passes of all kinds.

With `truth` it prints what each autograd node that ran was made by, as PyTorch's own hooks see it:
[[function, node, times], ...].  `compiled` adds a compiled region.
"""

import contextlib
import json
import sys
import threading
from collections import Counter

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return twice(x) * gradient


def twice(x):
    return 2 * x


class Leaf(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.act = nn.GELU()

    def forward(self, x):
        x = self.act(self.fc(x))
        return Square.apply(x).tanh() + x.relu().exp().log1p()


class Net(nn.Module):
    def __init__(self, d, reentrant):
        super().__init__()
        self.first = Leaf(d)
        self.middle = nn.Sequential(Leaf(d), Leaf(d))
        self.last = Leaf(d)
        self.reentrant = reentrant

    def forward(self, x):
        x = checkpoint(self.middle, self.first(x), use_reentrant=self.reentrant)
        return sum(self.parts(self.last(x)))

    def parts(self, x):
        for part in x.split(4):
            yield part.sum()


def batch():
    return torch.randn(8, 16, requires_grad=True)


def usual(net):
    for _ in range(3):
        net(batch()).backward()


def kept_graph(net):
    loss = net.first(batch()).mean()
    loss.backward(retain_graph=True)
    loss.backward()


def penalty(net):
    """Double backward."""
    x = batch()
    (gradient,) = torch.autograd.grad(net.last(x).sum(), x, create_graph=True)
    norm(gradient).backward()


def norm(gradient):
    return gradient.square().sum()


def hooked(net):
    x = batch() * 2
    x.register_hook(lambda gradient: gradient + 1)
    net.last.fc(x).sum().backward()


def raised(net):
    class Failed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError

    with contextlib.suppress(ValueError):
        Failed.apply(batch()).exp().sum().backward()


def forward_elsewhere(net):
    losses = []

    def forward():
        with noting():
            losses.append(loss_of(net.middle))

    threads = [threading.Thread(target=forward) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    for loss in losses:
        loss.backward()


def loss_of(module):
    return module(batch()).sum()


def backward_elsewhere(net):
    loss = loss_of(net.first)
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()


def compiled(net):
    step = torch.compile(net.first.fc, backend="aot_eager")
    for _ in range(2):
        step(batch()).sum().backward()


def run():
    for net in (Net(16, False), Net(16, True)):
        usual(net)
        kept_graph(net)
        penalty(net)
        hooked(net)
        raised(net)
        forward_elsewhere(net)
        backward_elsewhere(net)
        if "compiled" in sys.argv:
            compiled(net)


ran = Counter()


def made(node):
    by = sys._getframe(1).f_code.co_qualname, node.name()
    if "AccumulateGrad" not in by[1]:
        node.register_prehook(lambda _: ran.update([by]))


def noting():
    """On the calling thread."""
    if "truth" not in sys.argv:
        return contextlib.nullcontext()
    return torch.autograd.graph.node_creation_hook(made)


with noting():
    run()
if "truth" in sys.argv:
    print(json.dumps([[*by, n] for by, n in ran.items()]))
