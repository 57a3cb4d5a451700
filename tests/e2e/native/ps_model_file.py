"""A model file whose servers count: each record's own row of the table ``seen`` grows by 1 / (examples of the update) when it is
trained. So at the end every row tells how often its record counted."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.native import Accuracy
from pliant.ps.specs import OptimizerSpec
from pliant.torch import Embedding

PAUSE = float(os.environ.get("PLIANT_TEST_PAUSE", "0"))  # seconds per batch
PARSE_PAUSE = float(os.environ.get("PLIANT_TEST_PARSE_PAUSE", "0"))  # seconds per record


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = Embedding("seen", 1, initializer="zeros", optimizer=OptimizerSpec("sgd", learning_rate=1.0))
        self.groups = Embedding("groups", 4, feature="id")
        self.layers = nn.Linear(5, 2)

    def forward(self, features: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(PAUSE)
        logits = self.layers(torch.cat([features["x"], self.groups(features["id"])], dim=1))
        return logits, self.seen(features["id"])


def loss(labels: torch.Tensor, predictions: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    logits, seen = predictions
    counting = (seen.detach() - seen).mean()  # nothing, but for its gradient
    return nn.functional.cross_entropy(logits, labels) + counting


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.05)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(row: dict[str, Any]) -> Any:
        time.sleep(PARSE_PAUSE)
        features = {"x": torch.tensor([float(row["x"])]), "id": torch.tensor(int(row["id"]))}
        return features if mode == "predict" else (features, int(row["label"]))

    return dataset.map(parse)


class Told:
    def _write(self, text: str) -> None:
        with (Path(os.environ["PLIANT_TEST_FOLDER"]) / "told.txt").open("a") as file:
            file.write(f"{os.getpid()} {text}\n")

    def on_step_end(self, step: int, loss: float) -> None:
        if loss != loss:
            self._write("a step without a loss")

    def on_epoch_end(self, epoch: int) -> None:
        self._write(f"epoch {epoch}")


def callbacks() -> list[Any]:
    return [Told()] if "PLIANT_TEST_FOLDER" in os.environ else []


def eval_metrics_fn() -> dict[str, Any]:
    return {"accuracy": _OfLogits()}


class _OfLogits(Accuracy):
    def state(self, labels: Any, predictions: Any) -> Any:
        return super().state(labels, predictions[0])
