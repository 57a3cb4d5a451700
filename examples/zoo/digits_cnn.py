"""A small convolutional net for handwritten digits.

    python digits_cnn.py digits
    pliant train --model digits_cnn.py --model-class DigitsCNN --data digits/train.parquet \\
        --eval-data digits/test.parquet --batch-size 64 --num-epochs 3 --output trained

A record has ``pixels``, 64 numbers from 0 to 16, and ``label``, 0 to 9.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.native import Accuracy


class DigitsCNN(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * 16, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(images)
        return logits


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(predictions, labels)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.003)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(record: dict[str, Any]) -> Any:
        image = torch.tensor(record["pixels"], dtype=torch.float32).reshape(1, 8, 8) / 16
        return image if mode == "predict" else (image, int(record["label"]))

    return dataset.map(parse)


def eval_metrics_fn() -> dict[str, Any]:
    return {"accuracy": Accuracy()}


class PredictionOutputsProcessor:
    def process(self, predictions: Any, worker_id: str) -> list[dict[str, Any]]:
        return [{"digit": int(row.argmax())} for row in predictions]


def make_data(folder: Path) -> None:
    """Scikit-learn's handwritten digits."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.datasets import load_digits

    digits = load_digits()
    table = pa.table({"pixels": [list(map(float, row)) for row in digits.data], "label": digits.target})
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.slice(0, 1437), folder / "train.parquet")
    pq.write_table(table.slice(1437), folder / "test.parquet")


if __name__ == "__main__":
    import sys

    make_data(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
