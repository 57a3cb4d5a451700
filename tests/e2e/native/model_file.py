"""A model file for tests: slow enough to be killed, with a trace of what was evaluated."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pliant.checkpoint.storage import Bytes, LocalStorage
from pliant.native import AUC, Accuracy

PAUSE = float(os.environ.get("PLIANT_TEST_PAUSE", "0"))  # seconds per batch
FOLDER = Path(os.environ.get("PLIANT_TEST_FOLDER", ""))
HOLDS = "PLIANT_TEST_HOLDS" in os.environ and "PLIANT_NODE" in os.environ  # in workers only


def hold(place: str) -> None:
    """The first that comes to a place stays there until it is killed."""
    came = FOLDER / place
    with came.open("a") as file:
        file.write(f"{os.environ['PLIANT_NODE']} {os.getpid()}\n")
    if len(came.read_text().splitlines()) == 1:
        time.sleep(600)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(PAUSE)
        logits: torch.Tensor = self.layers(x)
        return logits


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(predictions, labels)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.2)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(row: dict[str, Any]) -> Any:
        x = torch.tensor([float(row["x"])])
        return x if mode == "predict" else (x, int(row["label"]))

    return dataset.map(parse)


def count(labels: Any, predictions: Any) -> float:
    """Of all records of the evaluation: any metric is computed over all of them."""
    if HOLDS:
        hold("scoring")
    return float(len(labels))


def eval_metrics_fn() -> dict[str, Any]:
    return {"accuracy": Accuracy(), "auc": AUC(), "count": count}


class Exported:
    def on_train_end(self, directory: str) -> None:
        with (FOLDER / "exports.txt").open("a") as file:
            file.write(f"{directory}\n")


def callbacks() -> list[Any]:
    return [Exported()] if "PLIANT_TEST_FOLDER" in os.environ else []


def put_by_halves(self: LocalStorage, path: str, chunks: Iterable[Bytes], size: int) -> None:
    """As ``LocalStorage.put``, but for a halt in the middle of the exported model."""

    def halves() -> Iterator[Bytes]:
        data = b"".join(bytes(chunk) for chunk in chunks)
        yield data[: size // 2]
        if self.url == str(FOLDER / "out"):
            hold("exporting")
        yield data[size // 2 :]

    put_whole(self, path, halves(), size)


put_whole = LocalStorage.put
if HOLDS:
    LocalStorage.put = put_by_halves  # type: ignore[method-assign]
