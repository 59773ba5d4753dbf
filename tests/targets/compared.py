"""The same work in each run, to be compared: argv[1] steps; argv[2]: how much more `augment` works.

With a third word, `torch`, each step trains a small network, too.
"""

import json
import sys

FACTOR = float(sys.argv[2])


def augment(number):
    value = number
    for at in range(int(20_000 * FACTOR)):
        value += at * at
    return value


def encode(number):
    return json.dumps([{"id": at, "name": f"n{at}", "v": [at / 3] * 5} for at in range(600)])


def tokenize(text):
    total = 0
    for word in text.split():
        for letter in word:
            total = (total * 31 + ord(letter)) & 0xFFFFFFFF
    return total


def step(number, train):
    tokenize(encode(number)[:12_000])
    augment(number)
    train()


def training():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def train():
        loss = net(torch.randn(64, 128)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return train


def extra():
    pass


def main():
    train = training() if "torch" in sys.argv else int
    for number in range(int(sys.argv[1])):
        step(number, train)
    if FACTOR > 1:
        extra()


main()
