"""The training service: the shell around ``core.training.TrainingBook``.

It opens an evaluation round as a dataset of its own (a copy of the evaluation dataset, named ``NAME@VERSION``), closes
it when its shards are done, and gives out the one train-end shard once training is over.
"""

from __future__ import annotations

from dataclasses import replace

from pliant.core.datasets import DatasetSpec, ShardType
from pliant.core.training import Round, TrainingBook
from pliant.master.journal import Journal
from pliant.master.shards import DataShardManager

TRAIN_END = "train-end"


class TrainingService:
    def __init__(
        self, book: TrainingBook, journal: Journal, shards: DataShardManager, evaluation: DatasetSpec | None
    ) -> None:
        self.book = book
        self._journal = journal
        self._shards = shards
        self._evaluation = evaluation

    def start(self) -> None:
        self._shards.create_shards(DatasetSpec(TRAIN_END, 1, size=1, type=ShardType.TRAIN_END))

    def report_version(self, version: int) -> None:
        if version > self.book.version:
            self._opened(self._journal.do(self.book.report_version, version=version))

    def report_metrics(self, version: int, metrics: dict[str, float]) -> None:
        self._journal.do(self.book.report_metrics, version=version, metrics=metrics)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in sorted(metrics.items()))
        self._journal.event("evaluation", f"version {version}: {shown}")

    def tick(self) -> None:
        round = self.book.open_round
        if round is not None and self._shards.book.queue(round.dataset).complete:
            self._opened(self._journal.do(self.book.close_round, version=round.version))

    def _opened(self, round: Round | None) -> None:
        if round is None or self._evaluation is None:
            return
        self._shards.create_shards(replace(self._evaluation, name=round.dataset))
        self._journal.event("evaluation", f"evaluating version {round.version}")
