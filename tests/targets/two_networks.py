"""A generator and a discriminator of one class, trained in turns.

Prints how often the gradient of a parameter of each module was accumulated, as PyTorch's own hooks
see it: {module: times}.
"""

import json
import threading
from collections import Counter

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
N_STEPS = 4
ran = Counter()


class Network(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.first = nn.Linear(n_in, 8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.middle = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8))
        self.scale = nn.Parameter(torch.ones(8))
        self.last = nn.Linear(8, n_out)

    def forward(self, x):
        x = self.first(x)
        x = self.attention(x, x, x)[0] * self.scale
        if self.last.out_features == 1:
            x = checkpoint(self.middle, x, use_reentrant=False)
        else:
            x = self.middle(x)
        return self.last(x.relu())


def watch(network, name):
    for path, parameter in network.named_parameters():
        module = ".".join([name, *path.split(".")[:-1]])
        # Its weight is no module's that is called.
        module = module.removesuffix(".out_proj")
        parameter.register_post_accumulate_grad_hook(lambda _, by=module: ran.update([by]))


generator, discriminator = Network(4, 6), Network(6, 1)
watch(generator, "Network")
watch(discriminator, "Network#2")
optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (generator, discriminator)]


def step():
    fake = generator(torch.randn(3, 4))
    optimizers[1].zero_grad()
    real = discriminator(torch.randn(3, 6)).mean()
    (discriminator(fake.detach()).mean() - real).backward()
    optimizers[1].step()
    optimizers[0].zero_grad()
    (-discriminator(fake).mean()).backward()
    optimizers[0].step()


for i in range(N_STEPS):
    if i % 2:
        step()
    else:
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
print(json.dumps(ran))
