"""Trainings whose loops are others': Lightning's, then accelerate's, with torch.compile.

Planted: in Lightning's a batch that takes long, and a layer that does; in accelerate's a step that
reads one number after the other from its batch.
"""

import os
import warnings

import torch
from torch.nn.functional import cross_entropy
from training_loops import spin

N_STEPS = 12  # of an epoch, of each
SLOW_BATCH, SLOW_ITEMS = 5, 7  # the steps, in their own loop
SLOW_MS, LAYER_MS = 900, 15


class Samples(torch.utils.data.Dataset):
    def __init__(self, slow=-1):
        self.slow = slow

    def __len__(self):
        return N_STEPS * 2

    def __getitem__(self, i):
        if i == self.slow:
            decode()
        return torch.ones(4), i % 2


def decode():
    spin(SLOW_MS)


class SlowLayer(torch.nn.Linear):
    def forward(self, x):
        spin(LAYER_MS)
        return super().forward(x)


class Net(torch.nn.Module):
    def __init__(self, middle=torch.nn.Linear):
        super().__init__()
        self.first, self.middle, self.head = (
            torch.nn.Linear(4, 4),
            middle(4, 4),
            torch.nn.Linear(4, 2),
        )

    def forward(self, x):
        return self.head(torch.relu(self.middle(torch.relu(self.first(x)))))


class Compiled(Net):
    pass


def loader(slow=-1):
    return torch.utils.data.DataLoader(Samples(slow), batch_size=2)


def lightning():
    import pytorch_lightning

    class Model(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net(SlowLayer)

        def training_step(self, batch, _):
            x, y = batch
            return cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = pytorch_lightning.Trainer(
        max_epochs=1, accelerator="cpu", **dict.fromkeys(quiet, False)
    )
    trainer.fit(Model(), loader(2 * SLOW_BATCH))


def accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = torch.compile(Compiled(), backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer, batches = accelerator.prepare(net, optimizer, loader())
    for step, (x, y) in enumerate(batches):
        loss = cross_entropy(net(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step == SLOW_ITEMS - 1:  # at the next one's begin
            count_right(y)


def count_right(labels):
    label = labels[0].item
    for _ in range(150_000):
        label(), label(), label(), label(), label(), label(), label(), label()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["TQDM_DISABLE"] = "1"
    lightning()
    accelerate()
