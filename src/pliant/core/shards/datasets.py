"""What a dataset is to the master: a way to cut record indices into shards. Records themselves are never seen here.

Four forms, one ``DatasetSpec``: a number of records (``size``), parts of named files (``files``), an explicit list
(``indices``), or a stream whose length grows until it is closed (``stream``, perhaps in ``partitions``: ``streams``). Shard
number ``n`` of an epoch is a pure function of the spec, so nothing is stored per shard.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from pliant.core.errors import InvalidRequest

MAX_RECORDS = 1 << 62  # so that no index overflows 64 bits anywhere
MAX_COUNT = (1 << 31) - 1  # epochs, failures: 32 bits on the wire
MAX_PARTITIONS = 4096  # of a stream; each has a line in status, summary and checkpoints


class ShardType(StrEnum):
    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "predict"
    TRAIN_END = "train_end"


@dataclass(frozen=True, slots=True)
class FilePart:
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StreamPartition:
    name: str
    start: int = 0  # offset of its first record


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    name: str
    shard_size: int
    size: int | None = None
    files: tuple[FilePart, ...] = ()
    indices: tuple[int, ...] = ()
    stream: bool = False
    partitions: tuple[StreamPartition, ...] = ()  # of a stream; none: one that is called as the dataset, from 0
    type: ShardType = ShardType.TRAIN
    epochs: int = 1
    shuffle: bool = False  # the order of shards, anew in each epoch
    shuffle_records: bool = False  # the order of records inside a shard
    seed: int = 0
    epoch_barrier: bool = False  # an epoch starts only when the one before is all done
    max_failures: int = 3  # failures of the program before a shard is parked
    max_timeouts: int = 10  # time-outs of a lease before a shard is parked
    skip_parked: bool = False  # a parked shard does not fail the job
    lease_floor: float = 300.0  # seconds without any report before a lease is taken back, at the least

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["files"] = [[f.name, f.start, f.end] for f in self.files]
        value["indices"] = list(self.indices)
        value["partitions"] = [[p.name, p.start] for p in self.partitions]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DatasetSpec:
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise InvalidRequest(f"unknown field of a dataset: {', '.join(unknown)}", hint=f"known: {sorted(known)}")
        plain = dict(value)
        _check_types(plain)
        plain["files"] = tuple(FilePart(*part) for part in plain.get("files", ()))
        plain["indices"] = tuple(plain.get("indices", ()))
        plain["partitions"] = tuple(StreamPartition(*part) for part in plain.get("partitions", ()))
        if 0 < plain.get("lease_floor", 0) <= 1e9:  # 300 and 300.0 are one definition
            plain["lease_floor"] = float(plain["lease_floor"])
        try:
            plain["type"] = ShardType(plain.get("type", "train"))
        except ValueError:
            raise InvalidRequest(
                f"dataset type {plain['type']!r} is not one of {', '.join(t.value for t in ShardType)}"
            ) from None
        return cls(**plain)

    def check(self) -> None:
        """Refuse what cannot be a dataset, saying which field and why."""
        where = f"dataset {self.name!r}"
        if not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise InvalidRequest(f"{where}: the name must have 1 to 200 printable characters")
        forms = [self.size is not None, bool(self.files), bool(self.indices), self.stream]
        if sum(forms) != 1:
            raise InvalidRequest(f"{where}: give one of size, files, indices, or stream; got {sum(forms)} of them")
        _in_range(where, "shard_size", self.shard_size, 1, MAX_RECORDS)
        _in_range(where, "epochs", self.epochs, 1, MAX_COUNT)
        _in_range(where, "max_failures", self.max_failures, 1, MAX_COUNT)
        _in_range(where, "max_timeouts", self.max_timeouts, 1, MAX_COUNT)
        _in_range(where, "seed", self.seed, -(1 << 63), (1 << 63) - 1)
        if self.size is not None:
            _in_range(where, "size", self.size, 0, MAX_RECORDS)
        if not 0 < self.lease_floor <= 1e9:
            raise InvalidRequest(f"{where}: lease_floor is {self.lease_floor}; allowed: more than 0 seconds")
        for part in self.files:
            if not part.name or not 0 <= part.start <= part.end <= MAX_RECORDS:
                raise InvalidRequest(f"{where}: file part {part} is not a range of records")
        records = self.size or len(self.indices) or sum(part.end - part.start for part in self.files)
        if records * self.epochs > MAX_RECORDS:
            raise InvalidRequest(f"{where}: {self.epochs} epochs of {records} records; together at most {MAX_RECORDS}")
        if self.indices and not all(0 <= i < MAX_RECORDS for i in self.indices):
            raise InvalidRequest(f"{where}: indices must be 0 or more")
        if self.stream and (self.epochs != 1 or self.shuffle):
            raise InvalidRequest(f"{where}: a stream has one epoch and no shuffled shards, since its end is unknown")
        self._check_partitions(where)

    def _check_partitions(self, where: str) -> None:
        if self.partitions and not self.stream:
            raise InvalidRequest(f"{where}: only a stream has partitions; for parts of files give files")
        if len(self.partitions) > MAX_PARTITIONS:
            raise InvalidRequest(f"{where}: {len(self.partitions)} partitions; allowed: at most {MAX_PARTITIONS}")
        seen: set[str] = set()
        for part in self.partitions:
            if not 0 < len(part.name) <= 200 or not part.name.isprintable():
                raise InvalidRequest(f"{where}: a partition's name must have 1 to 200 printable characters")
            if part.name in seen:
                raise InvalidRequest(f"{where}: partition {part.name!r} is given twice")
            seen.add(part.name)
            _in_range(where, f"the start of partition {part.name!r}", part.start, 0, MAX_RECORDS)

    def layout_fields(self) -> dict[str, str]:
        """What gives a position its meaning, as short texts by field: which records each shard has, and in what order.

        Two definitions with the same fields hand out the same shards, so a position of one is a position of the other. How often
        it is read, for what, and what becomes of failures is no part of it.
        """
        shuffled = self.shuffle or self.shuffle_records
        parts = [[f.name, f.start, f.end] for f in self.files]
        records = sum(f.end - f.start for f in self.files)
        partitions = [[p.name, p.start] for p in self.partitions]
        return {
            "shard_size": str(self.shard_size),
            "size": "none" if self.size is None else str(self.size),
            "files": f"{len(parts)} files, {records} records ({_digest(parts)})" if parts else "none",
            "indices": f"{len(self.indices)} indices ({_digest(list(self.indices))})" if self.indices else "none",
            "stream": str(self.stream),
            "partitions": f"{len(partitions)} partitions ({_digest(partitions)})" if partitions else "none",
            "shuffle": str(self.shuffle),
            "shuffle_records": str(self.shuffle_records),
            "seed": str(self.seed) if shuffled else "none",
        }

    def described_fields(self) -> dict[str, str]:
        """Every field as a short text; two definitions are equal if these are."""
        plain = {
            field: "none" if value is None else str(value)
            for field, value in self.to_json().items()
            if field not in ("files", "indices", "partitions")
        }
        layout = self.layout_fields()
        return plain | {field: layout[field] for field in ("files", "indices", "partitions")}


def _digest(value: Any) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()


_TYPES: dict[str, tuple[type, ...]] = {  # exactly these, so that no flag passes for a number; int where nothing is said
    "name": (str,),
    "type": (str, ShardType),
    "size": (int, type(None)),
    "files": (list, tuple),
    "indices": (list, tuple),
    "partitions": (list, tuple),
    "lease_floor": (int, float),
} | dict.fromkeys(("stream", "shuffle", "shuffle_records", "epoch_barrier", "skip_parked"), (bool,))


def _check_types(value: Mapping[str, Any]) -> None:
    """Refuse what is of the wrong type: these values come from a file or over a wire."""
    if missing := sorted({"name", "shard_size"} - set(value)):
        raise InvalidRequest(f"a dataset lacks {', '.join(missing)}")
    where = f"dataset {value['name']!r:.200}"
    for field, given in value.items():
        if type(given) not in _TYPES.get(field, (int,)):
            raise InvalidRequest(f"{where}: {field} is {given!r:.60}, which has the wrong type")
    for part in value.get("files", ()):
        if not isinstance(part, list | tuple) or [type(x) for x in part] != [str, int, int]:
            raise InvalidRequest(f"{where}: file part {part!r:.60} is not [name, start, end]")
    for part in value.get("partitions", ()):
        if not isinstance(part, list | tuple) or [type(x) for x in part] != [str, int]:
            raise InvalidRequest(f"{where}: partition {part!r:.60} is not [name, start]")
    if any(type(index) is not int for index in value.get("indices", ())):
        raise InvalidRequest(f"{where}: indices must be integers")


def _in_range(where: str, field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidRequest(f"{where}: {field} is {value}; allowed: {low} to {high}")


@dataclass(frozen=True, slots=True)
class Extent:
    """One shard's records: ``[start, end)`` of the file or partition ``name``, or of the dataset where there are none."""

    name: str
    start: int
    end: int


class Layout:
    """Number of shards, and the extent of each, for datasets of known length."""

    def __init__(self, spec: DatasetSpec) -> None:
        self._spec = spec
        self._files: Sequence[FilePart] = [f for f in spec.files if f.end > f.start]
        if self._files:
            counts = [-(-(f.end - f.start) // spec.shard_size) for f in self._files]
            self._first = [0, *accumulate(counts)]
            self.records = sum(f.end - f.start for f in self._files)
            self.shards = self._first[-1]
        else:
            self.records = len(spec.indices) if spec.indices else spec.size or 0
            self.shards = -(-self.records // spec.shard_size)

    def extent(self, number: int) -> Extent:
        size = self._spec.shard_size
        if not self._files:
            start = number * size
            return Extent(self._spec.name, start, min(start + size, self.records))
        at = bisect_right(self._first, number) - 1
        part = self._files[at]
        start = part.start + (number - self._first[at]) * size
        return Extent(part.name, start, min(start + size, part.end))

    def indices(self, extent: Extent) -> tuple[int, ...]:
        """The explicit indices of a shard; empty where the extent itself says them."""
        return self._spec.indices[extent.start : extent.end] if self._spec.indices else ()
