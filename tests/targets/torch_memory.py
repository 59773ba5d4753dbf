"""A model that trains: with `kept` a hook keeps the outputs of a layer.

With `counted` PyTorch's own profiler counts what its allocator gives out: how much that was, and
the most that lived, are printed.
"""

import sys

import torch
from torch import nn

BATCH, WIDTH, STEPS = 256, 128, 24


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, 8)

    def forward(self, x):
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


def keep_outputs(model):
    kept = []

    def keep(module, inputs, output):
        kept.append(output.detach())

    model.second.register_forward_hook(keep)


def main(keeps):
    model = Net()
    if keeps:
        keep_outputs(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = model(torch.randn(BATCH, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def counted(run):
    """Return all bytes that were given out, and the most that lived."""
    kinds = torch._C._profiler._EventType
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        run()
    sizes, todo = [], list(profiler.profiler.kineto_results.experimental_event_tree())
    while todo:
        event = todo.pop()
        todo += event.children
        if event.tag == kinds.Allocation:
            sizes.append((event.start_time_ns, event.extra_fields.alloc_size))
    alive = most = 0
    for _, size in sorted(sizes):
        alive += size
        most = max(most, alive)
    return sum(size for _, size in sizes if size > 0), most


if __name__ == "__main__":
    if "counted" in sys.argv:
        print(*counted(lambda: main("kept" in sys.argv)))
    else:
        main("kept" in sys.argv)
