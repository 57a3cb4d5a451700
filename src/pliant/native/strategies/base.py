"""What a strategy of native training must provide.

A strategy is made once per worker with a ``StrategyContext``: the checked model file, the description, the opened training
data, the job, and the *hooks* that it calls. It provides

- ``train()``: the training loop, from wherever the job stands to its end. After each committed step (or update, as this worker
  sees it) it calls ``hooks.after_step(version, loss, ends_epoch=…)``, which runs callbacks, evaluates a shard of an open round,
  and says whether a version is due; it ends early once ``hooks.stop_reason`` is set. It must report progress to the master,
  so that the dataset ``train`` of the job is complete when training is (by leases, or by ``hooks.commit(steps)``), and it must
  make sure that the model of the last version can be loaded *before* the dataset is complete: workers that start later export it.
- ``model_at(version)``: a module in evaluation mode with the state of exactly this version, for evaluation; None if this worker
  cannot get it. Called in the thread of ``train``.
- ``export(version, directory)``: write the model of a version for users (``models.save_model``). May be called more than once, by
  several workers one after the other, if one dies.
- ``keep_only(versions, upto)``: forget what is stored of versions older than ``upto``, but for these.

A strategy whose workers go in step leaves it to one of them to save and report a due version: see ``steps.StepStrategy``. One with
parameter servers has a version saved by the servers (a dump) and reports it with ``hooks.report(version, evaluate=True)``.

A new strategy is a module here, a class, and a line in ``strategies.STRATEGIES``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from pliant.client.job import Job
from pliant.data import DataReader
from pliant.native.evaluation.versions import VersionStore
from pliant.native.hooks import Hooks
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import Description
from pliant.native.model_file.feed import Batch

TRAIN = "train"  # the dataset of training, in the job's status and audit


@dataclass
class StrategyContext:
    """What a strategy works on."""

    description: Description
    file: ModelFile
    reader: DataReader
    job: Job
    versions: VersionStore
    sample: Batch | None  # of the first records, for models that are built by their input
    hooks: Hooks


class Strategy(ABC):
    def __init__(self, context: StrategyContext) -> None:
        self.context = context

    @abstractmethod
    def train(self) -> None: ...

    @abstractmethod
    def model_at(self, version: int) -> nn.Module | None: ...

    @abstractmethod
    def export(self, version: int, directory: Path) -> None: ...

    def finish(self) -> None:  # noqa: B027  (where the last version is saved before training is over)
        """For a worker that starts when all records are done: make sure that the last version is there."""

    def keep_only(self, versions: Iterable[int], upto: int) -> None:
        self.context.versions.keep_only(versions, upto)

    def close(self) -> None:  # noqa: B027  (most have nothing to close)
        """Release resources."""
