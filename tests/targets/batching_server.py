"""A server as those of language models are: a queue of requests, and an engine's thread that admits
them, runs a prefill of each, and decodes all that it has as one batch, with a cache of keys and
values.  Arguments: how many requests, and what is wrong: `lock`, which another thread holds while
it sleeps; `gil`: a thread splits texts all the time; `none`."""

import itertools
import queue
import sys
import threading
import time

import torch
from torch import nn

CLIENTS, WIDTH, WORDS, NEW, LONGEST, MOST = 4, 64, 500, 8, 64, 4
LOCK = threading.Lock()
done = threading.Event()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, cache, at):
        q, k, v = self.qkv(x).chunk(3, -1)
        n = x.shape[1]
        rows = torch.arange(len(x))[:, None]
        where = at[:, None] + torch.arange(n)
        cache[0][rows, where], cache[1][rows, where] = k, v
        mask = torch.arange(LONGEST)[None, None] <= where[:, :, None]
        return x + self.out(
            nn.functional.scaled_dot_product_attention(q, cache[0], cache[1], attn_mask=mask)
        )


class LM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, caches, at):
        x = self.embed(ids)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache, at)
        return self.head(x[:, -1]).argmax(-1)


class Request:
    def __init__(self, words) -> None:
        self.words, self.out, self.ended = words, [], threading.Event()
        self.cache = [torch.zeros(2, LONGEST, WIDTH) for _ in range(2)]


waiting: "queue.Queue[Request | None]" = queue.Queue()


def engine(model) -> None:
    active: list[Request] = []
    while True:
        while len(active) < MOST and (not active or not waiting.empty()):
            request = waiting.get()
            if request is None:
                return
            caches = [each[:, None] for each in request.cache]
            first = model(torch.tensor([request.words]), caches, torch.zeros(1, dtype=torch.int64))
            request.out.append(int(first))
            active.append(request)
        caches = [torch.stack([r.cache[i] for r in active], 1) for i in range(2)]
        at = torch.tensor([len(r.words) + len(r.out) - 1 for r in active])
        words = model(torch.tensor([[r.out[-1]] for r in active]), caches, at)
        for i, request in enumerate(active):
            request.cache = [cache[:, i] for cache in caches]
            request.out.append(int(words[i]))
            if len(request.out) == NEW:
                request.ended.set()
        active = [r for r in active if not r.ended.is_set()]


def split(text: str) -> list[int]:
    return [sum(map(ord, word)) % WORDS for word in text.split()]


def look_up(text: str) -> str:
    with LOCK:
        return text.upper()


def answer(request: Request) -> None:
    waiting.put(request)
    request.ended.wait()


def handle(text: str) -> int:
    request = Request(split(look_up(text)))
    answer(request)
    return len(request.out)


def refresh() -> None:
    """Holds the lock for long."""
    while not done.wait(0.05):
        with LOCK:
            time.sleep(0.15)


def index(text: str) -> None:
    """Splits texts all the time."""
    while not done.is_set():
        split(text)


def main() -> None:
    n, fault = int(sys.argv[1]), sys.argv[2]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model = LM()
    others = {"lock": (refresh, ()), "gil": (index, ("a few words of a text " * 4000,))}
    threads = [threading.Thread(target=engine, args=(model,), name="engine")]
    if fault in others:
        target, args = others[fault]
        threads.append(threading.Thread(target=target, args=args, name="other"))
    for each in threads:
        each.start()
    numbers = itertools.count()

    def client() -> None:
        while next(numbers) < n:
            handle("the words of a prompt of some length " * 3)
            time.sleep(0.005)

    clients = [threading.Thread(target=client, name=f"client-{i}") for i in range(CLIENTS)]
    with torch.inference_mode():
        for each in clients:
            each.start()
        for each in clients:
            each.join()
    done.set()
    waiting.put(None)
    for each in threads:
        each.join()


main()
