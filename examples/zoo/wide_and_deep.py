"""Wide and deep: a linear model that remembers ids beside a deep one that generalizes over them, for clicks.

    python wide_and_deep.py clicks
    pliant train --model wide_and_deep.py --model-class WideAndDeep --data clicks/train.parquet --eval-data clicks/test.parquet \\
        --strategy ps-async --num-ps 2 --max-workers 2 --batch-size 64 --num-epochs 2 --output trained

The tables have rows for millions of ids, on the parameter servers; with --strategy local they are in the one process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.native import AUC
from pliant.native.click_log import MAX_TAGS, write_click_log
from pliant.ps.specs import OptimizerSpec
from pliant.torch import Embedding, EmbeddingBag

PAD = -1  # in tags: nothing


class WideAndDeep(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        remember = OptimizerSpec("ftrl", learning_rate=0.1, l1=0.001)  # few weights that are not zero
        self.wide_user = Embedding("wide_user", 1, initializer="zeros", optimizer=remember, feature="user")
        self.wide_item = Embedding("wide_item", 1, initializer="zeros", optimizer=remember, feature="item")
        self.user = Embedding("user", dim, feature="user")
        self.item = Embedding("item", dim, feature="item")
        self.tags = EmbeddingBag("tags", dim, mode="sqrtn", padding_idx=PAD, feature="tags")
        self.hour = nn.Embedding(24, dim)
        self.deep = nn.Sequential(nn.Linear(4 * dim + 1, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        wide = self.wide_user(features["user"]) + self.wide_item(features["item"])
        parts = [self.user(features["user"]), self.item(features["item"]), self.tags(features["tags"])]
        parts += [self.hour(features["hour"]), features["age"].unsqueeze(1)]
        logit: torch.Tensor = self.deep(torch.cat(parts, dim=1)) + wide
        return logit.squeeze(1)


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(predictions, labels.float())


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(model.parameters(), lr=0.05)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(record: dict[str, Any]) -> Any:
        tags = [*record["tags"], *[PAD] * MAX_TAGS][:MAX_TAGS]
        features = {name: torch.tensor(int(record[name])) for name in ("user", "item", "hour")}
        features |= {"tags": torch.tensor(tags), "age": torch.tensor(float(record["age"]))}
        return features if mode == "predict" else (features, int(record["click"]))

    return dataset.map(parse)


def eval_metrics_fn() -> dict[str, Any]:
    return {"auc": AUC()}


def make_data(folder: Path) -> None:
    """A synthetic click log."""
    write_click_log(folder)


if __name__ == "__main__":
    import sys

    make_data(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
