"""Training loops of all kinds, each on a thread of its own that has its name.

Prints, for each, its name and the thread's number.
"""

import io
import threading
import time

import torch
from torch.nn.functional import cross_entropy

N_BATCHES = 8
torch.set_num_threads(1)


def spin(ms):
    end = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < end:
        pass


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return N_BATCHES * 2

    def __getitem__(self, i):
        return torch.ones(4), i % 2


class Loop:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loader = torch.utils.data.DataLoader(Samples(), batch_size=2)

    def forward(self, batch):
        x, y = batch
        return cross_entropy(self.net(x), y)

    def train(self, batch):
        self.forward(batch).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def plain(loop):
    for batch in loop.loader:
        loop.train(batch)


def epochs(loop):
    """With evaluation after each."""
    for _ in range(3):
        plain(loop)
        with torch.no_grad():
            for batch in loop.loader:
                loop.forward(batch)
                spin(3)


def evaluated_first(loop):
    with torch.no_grad():
        for batch in loop.loader:
            loop.forward(batch)
    plain(loop)


def accumulating(loop):
    for i, batch in enumerate(loop.loader):
        loop.forward(batch).backward()
        if i % 4 == 3:
            loop.optimizer.step()
            loop.optimizer.zero_grad()


def several_optimizers(loop):
    second = torch.optim.SGD(loop.net.parameters(), lr=0.1)
    for batch in loop.loader:
        second.zero_grad()
        loop.forward(batch).backward()
        loop.optimizer.step()
        second.step()


def adversaries(loop):
    """As GANs: one batch, two backward passes, each with its optimizer."""
    second = torch.optim.SGD(loop.net.parameters(), lr=0.1)
    for batch in loop.loader:
        for optimizer in (loop.optimizer, second):
            loop.forward(batch).backward()
            optimizer.step()


def closure(loop):
    """As Lightning does it: all of a step runs within the optimizer."""
    for batch in loop.loader:

        def run(batch=batch):
            loop.optimizer.zero_grad()
            loss = loop.forward(batch)
            loss.backward()
            spin(4)
            return loss

        loop.optimizer.step(run)


def same_batch(loop):
    batch = next(iter(loop.loader))
    for _ in range(20):
        loop.train(batch)


def one_ahead(loop):
    """As accelerate does it: the next batch comes before this one is trained with."""
    for _ in range(2):
        batches = iter(loop.loader)
        following = next(batches)
        while following is not None:
            batch, following = following, next(batches, None)
            loop.train(batch)


def two_batches(loop):
    """A step compares two, each forward on its own."""
    batches = iter(loop.loader)
    for first, second in zip(batches, batches, strict=True):
        (loop.forward(first) + loop.forward(second)).backward()
        loop.optimizer.step()


def recomputing(loop):
    from torch.utils.checkpoint import checkpoint

    for batch in loop.loader:
        checkpoint(loop.forward, batch, use_reentrant=False).backward()
        loop.optimizer.step()


def saving(loop):
    for i, batch in enumerate(loop.loader):
        loop.train(batch)
        if i == 4:
            torch.save(loop.net.state_dict(), io.BytesIO())


LOOPS = [
    plain,
    epochs,
    evaluated_first,
    accumulating,
    several_optimizers,
    adversaries,
    closure,
    same_batch,
    one_ahead,
    two_batches,
    recomputing,
    saving,
]

if __name__ == "__main__":
    for loop in LOOPS:
        thread = threading.Thread(target=loop, args=(Loop(),), name=loop.__name__)
        thread.start()
        thread.join()
        print(loop.__name__, thread.native_id)
