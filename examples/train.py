"""Train a small model on synthetic server logs: a program that is worth profiling.

    python -m pyhybrid examples/train.py

It learns to tell from the requests of one session whether it will end in a complaint.  As in most
real training programs, two things happen at once:

  * a background thread makes the batches in pure Python: it invents sessions, splits each request
    into tokens, sorts the sessions by length so that a batch needs little padding, and drops tokens
    at random;
  * the main thread runs the model, whose matrix products use PyTorch's own threads.

Three places in it are hard for profilers, because Python and C++ call each other there: the key
function that `sorted` calls, the autograd function whose `backward` the engine calls, and the hook
on a gradient.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

METHODS = ["GET", "PUT", "POST", "DELETE"]
PLACES = ["user", "cart", "order", "image", "search", "login", "invoice", "report"]
AGENTS = ["Firefox/115.0 (Linux)", "Chrome/120.0 (Windows)", "Safari/17.1 (iPhone)", "curl/8.4.0"]
VOCABULARY = 4096
PADDING = 0


# --- the data path: pure Python ------------------------------------------------------------------


class Session(NamedTuple):
    requests: list[list[int]]  # the tokens of each request
    complaint: bool


class Batch(NamedTuple):
    tokens: Tensor  # session, request, token
    complaints: Tensor  # session


def invent_session(rng: random.Random) -> Session:
    lines, slow = [], 0
    for _ in range(rng.randint(4, 24)):
        method = rng.choice(METHODS)
        places = rng.choices(PLACES, k=rng.randint(2, 7))
        size = rng.randint(1, 64)
        path = "/".join(f"{place}-{rng.randint(0, 99)}" for place in places)
        lines.append(f"{method} /{path} {size}kB by {rng.choice(AGENTS)}")
        slow += size > 48 or (method == "POST" and "report" in places)
    return Session([tokenize(line) for line in lines], complaint=slow * 3 > len(lines))


def tokenize(line: str) -> list[int]:
    words = line.replace("/", " ").replace("-", " ").split()
    pairs = [first[:2] + second[:2] for first, second in pairwise(words)]
    return [hash_word(word) for word in words + pairs]


def hash_word(word: str) -> int:
    """FNV-1a, because Python's own `hash` differs from run to run."""
    value = 0x811C9DC5
    for character in word:
        value = (value ^ ord(character)) * 0x01000193 & 0xFFFFFFFF
    return 1 + value % (VOCABULARY - 1)


def number_of_requests(session: Session) -> int:
    return len(session.requests)


def augment(tokens: list[int], rng: random.Random) -> list[int]:
    """Now and then a token is missing."""
    return [token for token in tokens if rng.random() > 0.05]


def pad(sessions: list[Session], rng: random.Random) -> Batch:
    rows = [[augment(request, rng) for request in session.requests] for session in sessions]
    length = max(map(len, rows))
    width = max(len(request) for row in rows for request in row)
    padded = [
        [request + [PADDING] * (width - len(request)) for request in row]
        + [[PADDING] * width] * (length - len(row))
        for row in rows
    ]
    return Batch(torch.tensor(padded), torch.tensor([float(s.complaint) for s in sessions]))


def make_batches(seed: int, size: int) -> Iterator[Batch]:
    """Batches of sessions of similar length: a slice of a few batches' worth of sorted ones."""
    rng = random.Random(seed)
    sessions = [invent_session(rng) for _ in range(4 * size)]
    while True:
        sessions += [invent_session(rng) for _ in range(size)]
        sessions = sorted(sessions, key=number_of_requests)
        start = rng.randrange(len(sessions) - size)
        yield pad(sessions[start : start + size], rng)
        del sessions[start : start + size]


# --- the model -----------------------------------------------------------------------------------


class SquaredReLU(torch.autograd.Function):
    """max(x, 0) squared, with a derivative of our own in Python."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        positive = x.clamp(min=0)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return gradient * positive * 2


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + self.down(SquaredReLU.apply(self.up(self.norm2(x))))


class Classifier(nn.Module):
    """A request is the mean of its tokens' vectors; a transformer reads the requests."""

    def __init__(self, width: int = 128, blocks: int = 3) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCABULARY, width, padding_idx=PADDING)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        padding = (tokens == PADDING).all(dim=2)
        x = self.embedding(tokens.flatten(0, 1)).unflatten(0, padding.shape)
        for block in self.blocks:
            x = block(x, padding)
        return self.head(x.mean(dim=1)).squeeze(1)


def clip(gradient: Tensor) -> Tensor:
    """Hook on the embedding's gradient: rare words must not move by much at once."""
    return gradient.clamp(-0.1, 0.1)


# --- training ------------------------------------------------------------------------------------


def train(epochs: int, steps: int, batch_size: int, seed: int) -> None:
    torch.manual_seed(seed)
    model = Classifier()
    model.embedding.weight.register_hook(clip)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.BCEWithLogitsLoss()
    batches = make_batches(seed, batch_size)

    with ThreadPoolExecutor(1, thread_name_prefix="data") as background:
        upcoming = background.submit(next, batches)
        for epoch in range(1, epochs + 1):
            started = time.perf_counter()
            total = 0.0
            for _ in range(steps):
                batch = upcoming.result()
                loss = loss_of(model(batch.tokens), batch.complaints)
                # The next batch is made while the autograd engine computes, which needs no GIL.
                upcoming = background.submit(next, batches)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item()
            speed = steps / (time.perf_counter() - started)
            print(f"epoch {epoch}: loss {total / steps:.4f}, {speed:.1f} steps/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="train a small model on synthetic server logs")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30, help="batches in an epoch")
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    train(options.epochs, options.steps, options.batch_size, options.seed)


if __name__ == "__main__":
    main()
