"""A small PyTorch program to compare profilers on: run_workload, train_step, forward_pass.

    python workload.py [STEPS]

Prints how long run_workload took, by a clock of its own.
"""

import sys
import time

import torch
from torch import Tensor, nn


class Training:
    """A model, what trains it, and its data."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [each for _ in range(8) for each in (nn.Linear(64, 64), nn.ReLU())]
        self.model = nn.Sequential(*layers, nn.Linear(64, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch, self.target = torch.randn(32, 64), torch.randn(32, 1)


def forward_pass(training: Training) -> Tensor:
    """What the model makes of the batch."""
    return training.model(training.batch)


def train_step(training: Training) -> float:
    """One step; returns the loss."""
    training.optimizer.zero_grad()
    loss = nn.functional.mse_loss(forward_pass(training), training.target)
    loss.backward()
    training.optimizer.step()
    return loss.item()


def run_workload(training: Training, steps: int) -> float:
    """Returns the last loss."""
    loss = 0.0
    for _ in range(steps):
        loss = train_step(training)
    return loss


def main() -> None:
    """Train, and say how long that took."""
    training = Training()  # the first optimizer imports a thousand modules
    began = time.perf_counter()
    run_workload(training, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    print(f"run_workload took {time.perf_counter() - began:.4f} s")


if __name__ == "__main__":
    main()
