"""Modules of PyTorch, called in all ways; prints what must be the same without a profiler."""

import copy
import gc
import pickle
import sys
import time
import weakref

import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

torch.manual_seed(0)


def spin(ms):
    end = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < end:
        pass


class Linear(nn.Linear):
    slow = False

    def forward(self, x):
        if self.slow:
            spin(60)
        return super().forward(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Inherits(Block):
    def forward(self, x):
        return super().forward(x)


class Distributed(Block):
    pass


class Recomputed(Block):
    pass


class Sharded(Block):
    def __init__(self):
        super().__init__()
        self.fc = sharded(self.fc)


def sharded(module):
    strategy = ShardingStrategy.NO_SHARD  # there is one process
    return FullyShardedDataParallel(module, None, strategy, device_id=torch.device("cpu"))


class Closes(nn.Module):
    """Its `self` is a cell."""

    def forward(self, x):
        return (lambda: self.twice(x))()

    def twice(self, x):
        return 2 * x


class Raises(nn.Module):
    def forward(self, x):
        raise ValueError


class Yields(nn.Module):
    def forward(self, x):
        yield x
        yield x


class NoModule:
    def forward(self, x):
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))
        self.layers[2].fc.slow = True
        self.tied = self.layers[0]
        self.listed = [Block(), Block()]
        self.inherits, self.closes = Inherits(), Closes()
        self.raises, self.yields = Raises(), Yields()
        self.other = NoModule()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.tied(x)
        for block in self.listed:
            x = block(x)
        x = self.closes(self.inherits(x))
        try:
            self.raises(x)
        except ValueError:
            x = list(self.yields(x))[-1]
        x = self.layers[1].forward(self.other.forward(x))
        return nn.Softmax(dim=-1)(x)


def train(net, x, steps):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()


x = torch.ones(2, 4)
net = Net()
train(net, x, 5)
names = [name for name, _ in net.named_modules()]
twin = copy.deepcopy(net)
twin(x)
net.layers[3] = Block()  # later than the first call
net(x)
alone = Block()
alone.forward(x)
nn.DataParallel(Block())(x)  # without a GPU it calls what is within
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
nn.parallel.DistributedDataParallel(Distributed())(x).sum().backward()
sharded(Sharded())(x).sum().backward()
torch.distributed.destroy_process_group()
checkpoint_wrapper(Recomputed())(x)
for _ in range(300):  # objects die, and others have their addresses
    block = Block()
    block(x)
    seen = weakref.ref(block)
    del block
    gc.collect(0)
    assert seen() is None
for _ in range(20):
    nn.Tanh()(x)
restored = pickle.loads(pickle.dumps(net))
assert [name for name, _ in restored.named_modules()] == [name for name, _ in net.named_modules()]
print(names, net(x).tolist(), [p.sum().item() for p in net.parameters()])
print(sorted(vars(net)), sys.getrefcount(net), len(gc.get_referrers(net)))
