"""Evaluating records with one model: the states of its metrics, shard by shard; the same for rounds and ``pliant evaluate``."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pliant.client.shards import Shard
from pliant.core.shards.datasets import DatasetSpec, FilePart, ShardType
from pliant.data import DataReader
from pliant.native.evaluation.user_metrics import user_metrics
from pliant.native.metrics import Mean, Metric, State, merge_states
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.feed import Feed, Mode
from pliant.native.model_file.models import as_arrays, loss_of, predict

DATASET = "eval"
LOSS = "loss"


class Evaluator:
    def __init__(self, file: ModelFile, reader: DataReader, batch_size: int) -> None:
        self._file = file
        self._reader = reader
        self._batch = batch_size
        self._feed = Feed(file, reader, Mode.EVALUATION)
        self.metrics: dict[str, Metric] = user_metrics(file)
        self._loss = Mean() if file.get("loss") is not None and LOSS not in self.metrics else None

    def all_metrics(self) -> dict[str, Metric]:
        return {**self.metrics, **({LOSS: self._loss} if self._loss is not None else {})}

    def states(self, model: nn.Module, shard: Shard) -> dict[str, State]:
        """Of one shard. Batches that ``dataset_fn`` empties count for nothing."""
        total: dict[str, State] = {}
        positions = list(self._reader.positions(shard))
        random_state = torch.get_rng_state()
        model.eval()
        with torch.no_grad():
            for at in range(0, len(positions), self._batch):
                some = positions[at : at + self._batch]
                batch = self._feed.batch_of(some)
                if batch is not None:
                    predictions = predict(model, batch.features)
                    total = merge_states(self.all_metrics(), total, self._of(batch.labels, predictions, batch.size))
        torch.set_rng_state(random_state)
        return total

    def values(self, states: dict[str, State]) -> dict[str, float]:
        return {name: metric.value(states[name]) for name, metric in self.all_metrics().items() if name in states}

    def spec(self, shard_size: int) -> DatasetSpec:
        parts = tuple(FilePart(name, 0, size) for name, size in self._reader.create_shards().items())
        return DatasetSpec(DATASET, shard_size, files=parts, type=ShardType.EVAL)

    def _of(self, labels: Any, predictions: Any, size: int) -> dict[str, State]:
        arrays = as_arrays(labels), as_arrays(predictions)
        states = {name: metric.state(*arrays) for name, metric in self.metrics.items()}
        if self._loss is not None:
            one = self._loss.state(None, [float(loss_of(self._file, labels, predictions))])
            states[LOSS] = {"sum": one["sum"] * size, "count": one["count"] * size}
        return states
