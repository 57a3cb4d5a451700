"""Datasets that the master knows from the start; the fields are those of ``core.shards.datasets.DatasetSpec``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pliant.core.errors import InvalidRequest
from pliant.core.shards import datasets as core
from pliant.spec.base import Contradiction, Count, Flag, Model, Positive, Problem, ShortForms, Text

Tries = Annotated[int, Field(strict=True, ge=1, le=1 << 31)]


class FileSpec(Model):
    """Records of one file: ``{name, start, end}`` or ``[name, start, end]``."""

    name: str = Field(min_length=1, description="The file name, as passed to the program's reader.")
    start: Count = Field(default=0, description="Index of its first record.")
    end: Count = Field(description="Index after its last record.")

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 3:
            return dict(zip(("name", "start", "end"), value, strict=True))
        return value


class PartitionSpec(Model):
    """One partition of a stream: ``{name, start}`` or ``[name, start]``."""

    name: Text = Field(min_length=1, description="The partition name, as passed to the program's reader.")
    start: Count = Field(default=0, description="The offset of its first record.")

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 2:
            return dict(zip(("name", "start"), value, strict=True))
        return value


class DatasetSpec(Model):
    """One dataset: one of ``size``, ``files``, ``indices`` and ``stream``, and how it is cut into shards."""

    name: str = Field(min_length=1, max_length=200, description="The name that programs use to request its shards.")
    shard_size: Positive = Field(description="Records per shard.")
    size: Count | None = Field(default=None, description="Number of records; their indices are 0 to size - 1.")
    files: tuple[Annotated[FileSpec, ShortForms(({"type": "array", "minItems": 3, "maxItems": 3},))], ...] = Field(
        default=(), description="Parts of files: {name, start, end}; in YAML also [name, start, end]."
    )
    indices: tuple[Count, ...] = Field(default=(), description="An explicit list of record indices.")
    stream: Flag = Field(default=False, description="The dataset grows until the stream is closed.")
    partitions: tuple[Annotated[PartitionSpec, ShortForms(({"type": "array", "minItems": 2, "maxItems": 2},))], ...] = (
        Field(
            default=(),
            description="Partitions of a stream: {name, start}; in YAML also [name, start]. Default: one, from offset 0.",
        )
    )
    type: Literal["train", "eval", "predict", "train_end"] = Field(
        default="train", description="The purpose of the shards."
    )
    epochs: Tries = Field(default=1, description="Number of passes over all records.")
    shuffle: Flag = Field(default=False, description="Shuffle the order of shards, differently in each epoch.")
    shuffle_records: Flag = Field(default=False, description="Shuffle the records within a shard.")
    seed: Count = Field(default=0, description="Seed of both shuffles.")
    epoch_barrier: Flag = Field(default=False, description="Start an epoch only after the previous one is finished.")
    max_failures: Tries = Field(default=3, description="Number of program failures before a shard is parked.")
    max_timeouts: Tries = Field(default=10, description="Number of lease timeouts before a shard is parked.")
    skip_parked: Flag = Field(default=False, description="If true, a parked shard does not fail the job.")
    lease_floor: Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)] = Field(
        default=300.0,
        description="Minimum seconds without a report before a shard is leased to another worker.",
    )

    @model_validator(mode="after")
    def _can_be_cut(self) -> DatasetSpec:
        try:
            self.to_core().check()
        except InvalidRequest as refused:
            raise Contradiction([Problem((), None, refused.message)]) from None
        return self

    def to_core(self) -> core.DatasetSpec:
        fields = self.entries() | {
            "type": core.ShardType(self.type),
            "files": tuple(core.FilePart(part.name, part.start, part.end) for part in self.files),
            "partitions": tuple(core.StreamPartition(part.name, part.start) for part in self.partitions),
        }
        return core.DatasetSpec(**fields)
