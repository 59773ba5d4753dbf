"""PyTorch's operators and ranges as ITT's tasks."""

import torch

model = torch.nn.Linear(8, 8)
x = torch.ones(4, 8)


def train(steps):
    for _ in range(steps):
        with torch.profiler.itt.range("step"):
            model(x).sum().backward()
        torch.profiler.itt.range_push("alone")
        torch.profiler.itt.range_pop()


with torch.autograd.profiler.emit_itt():
    train(7)
