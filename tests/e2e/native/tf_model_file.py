"""A model file whose input is a pipeline of TensorFlow; the model is one of torch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import torch
from torch import nn

from pliant.native import Accuracy

DATASET = "tensorflow"


def custom_model() -> nn.Module:
    return nn.Linear(1, 2)


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(predictions, labels)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.5)


def dataset_fn(dataset: Any, mode: str, metadata: Any) -> Any:
    assert isinstance(dataset, tf.data.Dataset)

    def parse(row: dict[str, Any]) -> Any:
        features = tf.reshape(tf.strings.to_number(row["x"]), (1,))
        return features if mode == "predict" else (features, tf.strings.to_number(row["label"], tf.int64))

    if mode == "train":
        dataset = dataset.filter(lambda row: tf.strings.to_number(row["id"]) >= 8).shuffle(16)
    return dataset.map(parse).prefetch(2)


def eval_metrics_fn() -> dict[str, Any]:
    return {"accuracy": Accuracy(), "count": lambda labels, predictions: float(len(labels))}
