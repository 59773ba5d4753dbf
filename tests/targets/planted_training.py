"""A training in which something is planted that a finding should name: argv[1]."""

import sys

import torch
from training_loops import Loop, Samples, spin

N_STEPS = 20


class Slow(Samples):
    def __len__(self):
        return 2 * N_STEPS

    def __getitem__(self, i):
        if what == "loader":
            decode()
        return super().__getitem__(i)


def decode():
    spin(40)


def on_gradient(gradient):
    spin(80)


def count_right(values):
    item = values[0].item
    for _ in range(25_000):
        item(), item(), item(), item(), item(), item(), item(), item()


if __name__ == "__main__":
    what = sys.argv[1]
    loop = Loop()
    loop.loader = torch.utils.data.DataLoader(Slow(), batch_size=2)
    if what == "optimizer":
        many = [torch.nn.Parameter(torch.zeros(1)) for _ in range(3000)]
        for each in many:
            each.grad = torch.ones(1)
        loop.optimizer.step = torch.optim.AdamW(many).step
    for batch in loop.loader:
        loss = loop.forward(batch)
        if what == "hook":
            loss.register_hook(on_gradient)
        loss.backward()
        loop.optimizer.step()
        if what == "metric":
            spin(80)
        if what == "syncs":
            count_right(batch[1])
