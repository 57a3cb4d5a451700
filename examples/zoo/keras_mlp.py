"""A Keras 3 model on the torch back end: digits from scikit-learn, two dense layers.

    python keras_mlp.py digits
    pliant train --model keras_mlp.py --data digits/train.npz --eval-data digits/test.npz --batch-size 64 --num-epochs 3

The model comes from custom_model(), so no --model-class is needed. The optimizer is one of torch, as for every model.
"""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

from pathlib import Path
from typing import Any

import keras
import numpy as np
import torch

from pliant.native import Accuracy


def custom_model(width: int = 64) -> Any:
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(10),
        ]
    )


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(predictions, labels)


def optimizer(model: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.003)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    def parse(record: Any) -> Any:
        pixels = np.asarray(record["pixels"], np.float32) / 16
        return pixels if mode == "predict" else (pixels, int(record["label"]))

    return dataset.map(parse)


def eval_metrics_fn() -> dict[str, Any]:
    return {"accuracy": Accuracy()}


def make_data(folder: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "train.npz", pixels=digits.data[:1437], label=digits.target[:1437])
    np.savez(folder / "test.npz", pixels=digits.data[1437:], label=digits.target[1437:])


if __name__ == "__main__":
    import sys

    make_data(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
