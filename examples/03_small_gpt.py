"""Elastic training of a small GPT on text that is generated on the spot.

    python examples/03_small_gpt.py
    pliant run -n 2 -- python examples/03_small_gpt.py --steps 100

The text is sums ("17+25=42;"), so that one can see whether the model has learned something. Shown besides: AdamW, a
learning-rate schedule with warm-up, gradient clipping, and two virtual workers' worth of accumulation.
"""

from __future__ import annotations

import argparse
import random

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import Dataset

import pliant.torch as elastic

LETTERS = "0123456789+=;"
CONTEXT = 32


class Sums(Dataset[torch.Tensor]):
    """Windows of one long text of sums, the same in every process."""

    def __init__(self, count: int) -> None:
        chance = random.Random(0)
        pairs = ((chance.randrange(10), chance.randrange(10)) for _ in range(count))
        text = "".join(f"{a}+{b}={a + b};" for a, b in pairs)
        self._text = torch.tensor([LETTERS.index(letter) for letter in text])

    def __len__(self) -> int:
        return (len(self._text) - CONTEXT - 1) // 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._text[4 * index : 4 * index + CONTEXT + 1]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.05))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.before_attention(x)).split(width, dim=2)
        query, key, value = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class SmallGPT(nn.Module):
    def __init__(self, width: int = 48, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(LETTERS)))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.places(torch.arange(text.shape[1], device=text.device))
        out: torch.Tensor = self.head(self.blocks(x))
        return out


@torch.no_grad()
def complete(model: SmallGPT, start: str, length: int) -> str:
    model.eval()
    text = [LETTERS.index(letter) for letter in start]
    for _ in range(length):
        text.append(int(model(torch.tensor([text[-CONTEXT:]]))[0, -1].argmax()))
    return "".join(LETTERS[i] for i in text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small GPT on sums, elastically.")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--virtual-workers", type=int, default=4)
    parser.add_argument("--micro-batch", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = SmallGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    trainer = elastic.Trainer(
        model,
        optimizer,
        virtual_workers=options.virtual_workers,
        accumulate=2,
        scheduler=schedule,
        clip_grad_norm=1.0,
    )
    text = Sums(20_000)
    for step in trainer.steps(text, micro_batch=options.micro_batch, epochs=10, max_steps=options.steps):
        for window in step:
            guess = model(window[:, :-1])
            step.backward(cross_entropy(guess.flatten(0, 1), window[:, 1:].flatten()))
        if trainer.rank == 0 and (step.index % 25 == 0 or step.index == options.steps - 1):
            print(f"step {step.index}: loss {step.loss:.4f}, {trainer.world_size} workers", flush=True)
    if trainer.rank == 0:
        print(f"the model goes on from 3+4=7;2+5= like this: {complete(model, '3+4=7;2+5=', 12)}", flush=True)


if __name__ == "__main__":
    main()
