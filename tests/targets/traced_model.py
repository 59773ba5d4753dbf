"""Steps under torch.profiler, whose trace gets kernels made up of the operators of the CPU: also of
those that add to gradients that are there."""

import json
import sys
import time

import torch
from torch import nn

N_STEPS = 5
KERNELS = ("aten::addmm", "aten::mm", "aten::gelu", "aten::gelu_backward")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


torch.set_num_threads(1)
time.sleep(0.5)  # what importing it has logged is drained meanwhile
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(2, 4, requires_grad=True)
for leaf in (x, *net.parameters()):
    leaf.grad = torch.zeros_like(leaf)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    for _ in range(N_STEPS):
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
profiler.export_chrome_trace(sys.argv[1])

with open(sys.argv[1]) as file:
    trace = json.load(file)
events = trace["traceEvents"]
all_operators = [e for e in events if e.get("cat") == "cpu_op"]
accumulate = [e for e in all_operators if e["name"] == "torch::autograd::AccumulateGrad"]


def is_within(e, outer):
    return outer["tid"] == e["tid"] and outer["ts"] <= e["ts"] < outer["ts"] + outer["dur"]


operators = [
    e
    for e in all_operators
    if e["name"] in KERNELS
    or (e["name"] == "aten::add_" and any(is_within(e, outer) for outer in accumulate))
]


def launch(number, of, name="cudaLaunchKernel", ts=None):
    host = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": of["pid"], "tid": of["tid"]}
    middle = of["ts"] + of["dur"] / 2
    return {**host, "ts": ts or middle, "dur": 1.0, "args": {"correlation": number}}


def work(number, of, cat="kernel"):
    args = {"correlation": number, "device": 0, "stream": 7}
    name = of["name"].removeprefix("aten::")
    begin = of["ts"] + of["dur"] + 100
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": begin,
        "dur": 2,
        "args": args,
    }


for number, of in enumerate(operators):
    events += launch(number, of), work(number, of)
first = operators[0]
events += [work(9001, first, "gpu_memcpy")]  # its launch is not there
events += [launch(9002, first, "cudaGraphLaunch"), work(9002, first), work(9002, first)]
events += [launch(9003, first, ts=first["ts"] - 3.6e9), work(9003, first, "gpu_memset")]
waits = launch(9004, first, "cudaStreamSynchronize")
events += [{**waits, "dur": first["dur"] / 4}]
with open(sys.argv[1], "w") as file:
    json.dump(trace, file)
