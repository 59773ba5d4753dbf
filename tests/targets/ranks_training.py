"""A training of several ranks on gloo, of which one has a fault.

`ranks_training.py FAULT STEPS RANK [ddp] [workers]`; FAULT: none, sleep (a function waits),
garbage (it makes cycles), loader (a sample takes long), sequence (its batches are longer).
"""

import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import pyhybrid

fault, n_steps, slow_rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
is_slow = rank == slow_rank
WIDTH, LENGTH = 192, 40
WORKERS = 2 if "workers" in sys.argv[4:] else 0


class Samples(Dataset):
    def __len__(self):
        return 8 * n_steps

    def __getitem__(self, index):
        if is_slow and fault == "loader":
            decode()
        length = LENGTH * 2 if is_slow and fault == "sequence" else LENGTH
        return torch.full((length, WIDTH), 1 / (index + 1))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def decode():
    time.sleep(0.1 if WORKERS else 0.002)


def log_metrics():
    if is_slow and fault == "sleep":
        time.sleep(0.015)


def collate_labels():
    """What it makes lives for a while, in cycles."""
    if is_slow and fault == "garbage":
        for _ in range(9000):
            one = []
            kept.append([one])
            one.append(one)
        if len(kept) > 150_000:
            kept.clear()


def step(model, batch, optimizer):
    optimizer.zero_grad()
    pyhybrid.step(tokens=batch.shape[0] * batch.shape[1], batch=len(batch))
    loss = model(batch).square().mean()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    log_metrics()
    collate_labels()


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(4)))
    if "ddp" in sys.argv[4:]:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in DataLoader(Samples(), batch_size=8, num_workers=WORKERS):
        step(model, batch, optimizer)
    dist.barrier()
    dist.destroy_process_group()


kept = []
main()
