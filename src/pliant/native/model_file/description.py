"""The task of a worker of native training: one JSON file in the job's directory, written by the command, read by every worker.

It holds everything but where the job runs: the model file (copied beside it), the data, how to train, evaluate or predict.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pliant.core.errors import CorruptData
from pliant.files.atomic import write_text

Task = Literal["train", "evaluate", "predict"]
FILE = "native.json"
EVAL_SHARD_BATCHES = 4  # of an evaluation or prediction, in one shard, unless the user chooses
FOLDER = "model"  # of the model file and the modules that it imports


class Evaluation(BaseModel):
    """When versions are evaluated, and by which metric they are compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every_steps: int = Field(default=0, ge=0)
    every_seconds: float = Field(default=0.0, ge=0)
    every_epochs: int = Field(default=1, ge=0)
    shard_size: int = Field(default=0, ge=0)  # records; 0: a few batches
    monitor: str = ""  # empty: the first metric that is not the loss, else the loss
    mode: Literal["", "max", "min"] = ""  # empty: by the metric's name


class Description(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task = "train"
    model: str  # the file, relative to FOLDER beside this description
    model_class: str = ""  # empty: custom_model()
    model_params: dict[str, Any] = {}
    data: list[str]
    data_options: dict[str, Any] = {}  # of the reader
    eval_data: list[str] = []
    strategy: Literal["local", "allreduce", "ps-sync", "ps-async"] = "local"
    batch_size: int = Field(default=32, ge=1)  # records of one update, on every strategy
    virtual_workers: int = Field(default=1, ge=1)
    epochs: int = Field(default=1, ge=1)
    max_steps: int = Field(default=0, ge=0)  # 0: no limit
    seed: int = 0
    shuffle: bool = True
    deterministic: bool = True
    evaluation: Evaluation = Evaluation()
    output: str = ""  # a directory; of predictions a file
    output_format: str = ""
    trained: str = ""  # a model to begin from (train) or to use (evaluate, predict)
    shard_size: int = Field(default=0, ge=0)  # records of a shard, where data is leased; 0: a few batches
    strategy_options: dict[str, Any] = {}  # of the strategy, such as staleness

    @property
    def micro_batch(self) -> int:
        return -(-self.batch_size // self.virtual_workers)

    def save(self, folder: Path) -> Path:
        path = folder / FILE
        write_text(path, self.model_dump_json(indent=1))
        return path

    @classmethod
    def load(cls, path: Path) -> Description:
        try:
            return cls.model_validate(json.loads(path.read_text()))
        except (OSError, ValueError, ValidationError) as error:
            raise CorruptData(f"{path} is not a native training description: {error}") from error
