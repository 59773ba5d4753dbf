"""Trains on a GPU that is made up: torch.profiler's CUDA events are those of the CPU's operators.

Arguments: words that choose what happens: `steps=N`, `infer` (nothing is trained), `unused` (no GPU
is), `own=A,B` (the program's own profiler runs in these steps), `closure` (the optimizer runs the
step, as Lightning's does), `accumulate` (two forward passes a step).
Says how many kernels the profiler gave, window by window.
"""

import sys
import threading
import time

import torch
from torch import nn
from torch.autograd import profiler as real

KERNELS = ("aten::addmm", "aten::mm", "aten::gelu", "aten::gelu_backward")
DURATION_NS = 2000
options = dict(word.partition("=")[::2] for word in sys.argv[1:])


class Event:
    def __init__(self, name, device, number, resource, begin_ns):
        self._name, self._device, self._number = name, device, number
        self._resource, self._begin_ns = resource, begin_ns

    def name(self):
        return self._name

    def device_type(self):
        return getattr(torch.autograd.DeviceType, self._device)

    def device_index(self):
        return 0

    def device_resource_id(self):
        return self._resource

    def correlation_id(self):
        return self._number

    def start_ns(self):
        return self._begin_ns

    def duration_ns(self):
        return DURATION_NS


class Results:
    def __init__(self, results, handle):
        self._results, self._handle = results, handle

    def events(self):
        made = []
        for number, each in enumerate(self._results.events(), 1):
            if each.name() in KERNELS:
                middle = each.start_ns() + each.duration_ns() // 2
                made.append(Event("cudaLaunchKernel", "CPU", number, self._handle, middle))
                name = each.name().removeprefix("aten::")
                made.append(Event(name, "CUDA", number, 7, middle + 10 * DURATION_NS))
        made.append(Event("late", "CUDA", 999_999, 7, made[-1].start_ns()))  # no launch is there
        print("window:", (len(made) - 1) // 2)
        return made


class Profile:
    """In the place of torch.autograd.profiler.profile."""

    def __init__(self, *, use_cpu, use_kineto, use_device):
        assert (use_cpu, use_kineto, use_device) == (False, True, "cuda")
        self._real = own(use_kineto=True)

    def __enter__(self):
        self._real.__enter__()

    def __exit__(self, *unused):
        self._real.__exit__(None, None, None)
        # As CUPTI has it: the lower bits of pthread_self(), with a sign.
        handle = threading.get_ident() & 0xFFFFFFFF
        handle -= (handle >> 31) << 32
        self.kineto_results = Results(self._real.kineto_results, handle)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


own = real.profile
real.profile = Profile
torch.cuda.is_initialized = lambda: "unused" not in options
torch.cuda.is_current_stream_capturing = lambda: False
torch.set_num_threads(1)
time.sleep(0.5)  # what importing it has logged is drained meanwhile
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(2, 4, requires_grad=True)


def losses():
    optimizer.zero_grad()
    for _ in range(2 if "accumulate" in options else 1):
        net(x).sum().backward()


first, last = map(int, options.get("own", "-1,-1").split(","))
for step in range(int(options.get("steps", 12))):
    if step == first:
        theirs = own(use_kineto=True)
        theirs.__enter__()
    if "infer" in options:
        with torch.no_grad():
            net(x)
    elif "closure" in options:
        optimizer.step(losses)
    else:
        losses()
        optimizer.step()
    if step == last:
        theirs.__exit__(None, None, None)
        print("own:", sum(each.name in KERNELS for each in theirs.function_events))
