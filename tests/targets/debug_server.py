"""Two ranks with PyTorch's debug server; what they and its page answer is printed as JSON.

`debug_server.py PORT`: rank 0's page is there; 0: only the ranks answer.
"""

import json
import sys
import time
import urllib.request

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _WorkerServer

import pyhybrid.torch_debug

port = int(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()


def train_slowly(steps):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        time.sleep(0.005 * rank)


def asked(url, data=None):
    with urllib.request.urlopen(url, data) as answer:
        return answer.read().decode()


told = {}
if port:
    from torch.distributed.debug import start_debug_server, stop_debug_server

    start_debug_server(port=port, handlers=pyhybrid.torch_debug.handlers())
else:
    pyhybrid.torch_debug.register()
    server = _WorkerServer("::", 0)
train_slowly(12)
if port and rank == 0:
    while "page" not in told:
        try:
            told["page"] = asked(f"http://localhost:{port}/pyhybrid")
        except OSError:
            time.sleep(0.1)
elif not port:
    told["rank"] = asked(f"http://localhost:{server.port}/handler/pyhybrid", b"")
    server.shutdown()
with open(f"told-{rank}.json", "w") as file:
    json.dump(told, file)
dist.barrier()
if port and rank == 0:
    stop_debug_server()
dist.destroy_process_group()
