"""A model that is trained, compiled, and again for another shape: its argument is the backend."""

import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
backend = sys.argv[1]
if backend == "inductor":
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.fc(x)) * 2 + x.sin()


def after():
    pass


net = torch.compile(Net(), backend=backend, dynamic=False)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
for step in range(6):
    net(torch.randn(4 if step < 3 else 60_000, 8)).sum().backward()
    optimizer.step()
    after()
end = time.thread_time() + (1 if backend == "inductor" else 0)
while time.thread_time() < end:
    net(torch.randn(60_000, 8)).sum().backward()
