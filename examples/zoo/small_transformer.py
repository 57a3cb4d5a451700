"""A small transformer that learns to tell whether the brackets of a text match.

    python small_transformer.py brackets
    pliant train --model small_transformer.py --model-class SmallTransformer --data brackets/train.jsonl \\
        --eval-data brackets/test.jsonl --strategy allreduce --max-workers 2 --batch-size 64 --num-epochs 8

A record has ``text``, brackets, and ``label``, 1 if they match. The first three epochs learn nothing that shows; after
eight nearly all texts of the test are told right.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.native import AUC, Accuracy

SYMBOLS = " ()[]"
LENGTH = 16


class SmallTransformer(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.symbols = nn.Embedding(len(SYMBOLS), width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        block = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        hidden = self.blocks(self.symbols(text) + self.places)
        logits: torch.Tensor = self.head(hidden.mean(1))
        return logits


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(predictions, labels)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.002)


def learning_rate_schedule(step: int) -> float:
    """Warm-up over 20 updates."""
    return 0.002 * min(1.0, (step + 1) / 20)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(record: dict[str, Any]) -> Any:
        text = torch.tensor([SYMBOLS.index(c) for c in record["text"].ljust(LENGTH)[:LENGTH]])
        return text if mode == "predict" else (text, int(record["label"]))

    return dataset.filter(lambda record: record["text"] != "").map(parse)


def eval_metrics_fn() -> dict[str, Any]:
    return {"accuracy": Accuracy(), "auc": AUC()}


def matches(text: str) -> bool:
    open_ones: list[str] = []
    for symbol in text:
        if symbol in "([":
            open_ones.append(symbol)
        elif not open_ones or open_ones.pop() + symbol not in ("()", "[]"):
            return False
    return not open_ones


def make_text(made: random.Random) -> str:
    """Brackets that match; every second time one of them is changed."""
    text = ""
    for _ in range(made.randint(2, LENGTH // 2)):
        pair, at = made.choice(["()", "[]"]), made.randint(0, len(text))
        text = text[:at] + pair + text[at:]
    if made.random() < 0.5:
        at = made.randrange(len(text))
        text = text[:at] + made.choice(SYMBOLS[1:]) + text[at + 1 :]
    return text


def make_data(folder: Path, train: int = 2000, test: int = 400) -> None:
    made = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train), ("test", test)):
        texts = [make_text(made) for _ in range(count)]
        lines = [json.dumps({"text": text, "label": int(matches(text))}) for text in texts]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    import sys

    make_data(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
