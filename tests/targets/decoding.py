"""Decode loops of a small model, with a cache and without, and what they took, as JSON.

Each is two generations of argv[1] tokens; what chooses a token takes some time of its own.  The
times are from the model's first call, or the end of the last one before, to the end of the last.
"""

import json
import sys
import time

import torch


class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 64)
        self.layer = torch.nn.Linear(64, 100)

    def forward(self, mask, ids):
        time.sleep(0.002)
        return self.layer(self.embedding(ids)[:, -1])


ENDS = []  # of the model's calls


def choose(logits):
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    return logits.argmax(-1, keepdim=True)


@torch.no_grad()
def decode(net, n, is_cached):
    given = ids = torch.ones(2, 16, dtype=torch.long)
    for _ in range(n):
        logits = net(torch.ones(2), ids=given)
        ENDS.append(time.perf_counter_ns())
        token = choose(logits)
        ids = torch.cat([ids, token], 1)
        given = token if is_cached else ids


class Heard(torch.overrides.TorchFunctionMode):
    """Counts what is done with tensors: nothing may be that the program does not do."""

    n = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.n += 1
        return function(*args, **(kwargs or {}))


def main():
    net, n, took = Lm().eval(), int(sys.argv[1]), {}
    for is_cached in (True, False):
        begin = ENDS[-1] if ENDS else time.perf_counter_ns()
        for _ in range(2):
            decode(net, n, is_cached)
        took["cached" if is_cached else "again"] = ENDS[-1] - begin
    with Heard() as heard:
        net(torch.ones(2), torch.ones(2, 3, dtype=torch.long))
    print(json.dumps(took | {"heard": heard.n}))


main()
