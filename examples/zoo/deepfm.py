"""DeepFM: factorization machine and deep net on the same embeddings, for clicks.

    python deepfm.py clicks
    pliant train --model deepfm.py --model-class DeepFM --data clicks/train.parquet --eval-data clicks/test.parquet \\
        --strategy ps-sync --num-ps 2 --max-workers 2 --batch-size 128 --num-epochs 2 --output trained

All fields share two tables, one with a weight and one with a vector for each id of each field. An id is made of the field and
the value in it, so the tables have rows for millions of values, on the parameter servers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pliant.native import AUC
from pliant.native.click_log import MAX_TAGS, write_click_log
from pliant.torch import Embedding

FIELDS = 3 + MAX_TAGS  # user, item, hour, tags
FIELD = 2**40  # ids of one field
PAD = -1


class DeepFM(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.weights = Embedding("weights", 1, initializer="zeros", padding_idx=PAD, feature="ids")
        self.vectors = Embedding("vectors", dim, padding_idx=PAD, feature="ids")
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * dim + 1, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1)
        )

    def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        vectors = self.vectors(features["ids"])  # (batch, fields, dim)
        first = self.weights(features["ids"]).sum(dim=(1, 2))
        second = 0.5 * (vectors.sum(dim=1) ** 2 - (vectors**2).sum(dim=1)).sum(dim=1)  # all pairs of fields
        deep = self.deep(torch.cat([vectors.flatten(1), features["age"].unsqueeze(1)], dim=1)).squeeze(1)
        logit: torch.Tensor = self.bias + first + second + deep
        return logit


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(predictions, labels.float())


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(records: dict[str, Any]) -> Any:
        """Of many records at once: an array for each column, and lists of tags."""
        tags = records["tags"].padded(MAX_TAGS, fill=PAD)
        values = [records["user"], records["item"] + FIELD, records["hour"] + 2 * FIELD]
        ids = np.column_stack([*values, np.where(tags == PAD, PAD, tags + 3 * FIELD)])
        features = {"ids": ids, "age": records["age"]}
        return features if mode == "predict" else (features, records["click"])

    return dataset.map_batches(parse)


def eval_metrics_fn() -> dict[str, Any]:
    return {"auc": AUC()}


def make_data(folder: Path) -> None:
    """A synthetic click log."""
    write_click_log(folder)


if __name__ == "__main__":
    import sys

    make_data(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
