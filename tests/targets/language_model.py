"""A transformer that learns to say the next token: argv[1] seconds of CPU time, on one thread."""

import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

N_TOKENS, LENGTH, BATCH, WIDTH, HEADS = 1000, 64, 16, 256, 4
torch.manual_seed(0)
torch.set_num_threads(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(x).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        x = scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        return self.out(x.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = Attention(), MLP()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(N_TOKENS, WIDTH), nn.Linear(WIDTH, N_TOKENS)
        self.layers = nn.Sequential(*(Layer() for _ in range(4)))

    def forward(self, x):
        return self.head(self.layers(self.tokens(x)))


if __name__ == "__main__":
    model = LM()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    text = torch.randint(N_TOKENS, (BATCH, LENGTH + 1))
    end = time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        loss = cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
