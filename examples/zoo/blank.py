"""A model file to start from: everything that the contract knows, with the parts that are not needed commented out.

    python blank.py data
    pliant train --model blank.py --model-class Net --data data/train.csv --eval-data data/test.csv --num-epochs 3 --output trained

Only the model, loss, optimizer and dataset_fn are needed to train.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.native import Accuracy

FEATURES = ("x0", "x1")


class Net(nn.Module):
    """Named by --model-class; --model-params are its arguments."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(len(FEATURES), hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(features)
        return logits


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(predictions, labels)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    """``dataset`` is a lazy stream of records with map, filter and shuffle. mode: train, eval or predict."""

    def parse(row: dict[str, Any]) -> Any:
        features = torch.tensor([float(row[name]) for name in FEATURES])
        return features if mode == "predict" else (features, int(row["label"]))

    return dataset.map(parse)


def eval_metrics_fn() -> dict[str, Any]:
    """Metrics over all records: of pliant.native, or functions of (labels, predictions)."""
    return {"accuracy": Accuracy()}


# def callbacks():
#     from pliant.native import EarlyStopping
#     return [EarlyStopping("accuracy", patience=3)]
#
# def learning_rate_schedule(step):
#     return 0.1 * 0.99 ** step
#
# class PredictionOutputsProcessor:
#     def process(self, predictions, worker_id):
#         return [{"label": int(row.argmax())} for row in predictions]
#
# def custom_data_reader(source, **options):
#     return MyReader(source)  # a pliant.data.DataReader


def make_data(folder: Path) -> None:
    """Points in the plane; the label says whether they lie within a circle."""
    made = torch.Generator().manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 512), ("test", 128)):
        points = torch.rand(count, 2, generator=made) * 2 - 1
        lines = [f"{x:.6f},{y:.6f},{int(x * x + y * y < 0.5)}" for x, y in points.tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["x0,x1,label", *lines]) + "\n")


if __name__ == "__main__":
    import sys

    make_data(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
