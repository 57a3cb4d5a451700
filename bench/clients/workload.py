"""What both kinds of worker train: a multi-layer perceptron on made-up data, sized by the environment."""

from __future__ import annotations

import os

import torch


def option(name: str, default: int) -> int:
    return int(os.environ.get(f"BENCH_{name}", default))


def make_model() -> torch.nn.Module:
    """About ``2 * 1000 * width + (layers - 1) * width ** 2`` parameters."""
    width, layers = option("WIDTH", 256), option("LAYERS", 2)
    parts: list[torch.nn.Module] = [torch.nn.Linear(64, width), torch.nn.ReLU()]
    for _ in range(layers - 1):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 10))


def dataset() -> torch.utils.data.TensorDataset:
    made = torch.Generator().manual_seed(1)
    x = torch.randn(20_000, 64, generator=made)
    return torch.utils.data.TensorDataset(x, x[:, :10].argmax(1))
