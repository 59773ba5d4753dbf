"""PyTorch's ranges of NVTX, by name and of its operators, as `emit_nvtx` tells them to NVTX.

`emit_nvtx` itself waits for a GPU first, which may be absent: what it calls then is called here.
"""

import torch
from torch.autograd import _disable_profiler, _enable_profiler
from torch.autograd.profiler import ProfilerConfig, ProfilerState
from torch.profiler import _ExperimentalConfig

model = torch.nn.Linear(8, 8)
x = torch.ones(4, 8)


def train(steps):
    for _ in range(steps):
        with torch.cuda.nvtx.range("step"):
            model(x).sum().backward()
        print(torch.cuda.nvtx.range_push("alone"), torch.cuda.nvtx.range_pop())


_enable_profiler(
    ProfilerConfig(ProfilerState.NVTX, True, False, False, False, False, _ExperimentalConfig()),
    set(),
)
train(7)
_disable_profiler()
