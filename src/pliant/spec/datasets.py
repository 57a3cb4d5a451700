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

    name: str = Field(min_length=1, description="The file, as the program's reader knows it.")
    start: Count = Field(default=0, description="Its first record.")
    end: Count = Field(description="The record after its last.")

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 3:
            return dict(zip(("name", "start", "end"), value, strict=True))
        return value


class PartitionSpec(Model):
    """One partition of a stream: ``{name, start}`` or ``[name, start]``."""

    name: Text = Field(min_length=1, description="The partition, as the program's reader knows it.")
    start: Count = Field(default=0, description="The offset of its first record.")

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 2:
            return dict(zip(("name", "start"), value, strict=True))
        return value


class DatasetSpec(Model):
    """One dataset: one of ``size``, ``files``, ``indices`` and ``stream``, and how it is cut into shards."""

    name: str = Field(min_length=1, max_length=200, description="The name by which programs ask for its shards.")
    shard_size: Positive = Field(description="Records in a shard.")
    size: Count | None = Field(default=None, description="A number of records: 0 to size - 1.")
    files: tuple[Annotated[FileSpec, ShortForms(({"type": "array", "minItems": 3, "maxItems": 3},))], ...] = Field(
        default=(), description="Parts of files: {name, start, end}; in a file also [name, start, end]."
    )
    indices: tuple[Count, ...] = Field(default=(), description="An explicit list of record indices.")
    stream: Flag = Field(default=False, description="A length that grows until the stream is closed.")
    partitions: tuple[Annotated[PartitionSpec, ShortForms(({"type": "array", "minItems": 2, "maxItems": 2},))], ...] = (
        Field(
            default=(),
            description="Of a stream: {name, start}; in a file also [name, start]. Default: one, from offset 0.",
        )
    )
    type: Literal["train", "eval", "predict", "train_end"] = Field(
        default="train", description="What the shards are for."
    )
    epochs: Tries = Field(default=1, description="How often every record is given out.")
    shuffle: Flag = Field(default=False, description="Shuffle the order of shards, differently in each epoch.")
    shuffle_records: Flag = Field(default=False, description="Shuffle the records inside a shard.")
    seed: Count = Field(default=0, description="Of both shuffles.")
    epoch_barrier: Flag = Field(default=False, description="An epoch starts only when the one before is all done.")
    max_failures: Tries = Field(default=3, description="Failures of the program before a shard is parked.")
    max_timeouts: Tries = Field(default=10, description="Time-outs of its lease before a shard is parked.")
    skip_parked: Flag = Field(default=False, description="A parked shard does not fail the job.")
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
