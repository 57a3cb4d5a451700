"""Datasets, sessions and leases."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind


@dataclass(frozen=True, kw_only=True)
class DatasetCreated(Event, kind=EventKind.DATASET):
    dataset: str
    type: str
    stream: bool
    records: int  # of one epoch; 0 for a stream
    shards: int
    epochs: int
    partitions: int = 0  # of a stream that has some

    def _sentence(self) -> str:
        parts = f" of {self.partitions:,} partition(s)" if self.partitions else ""
        size = f"a stream{parts}" if self.stream else f"{self.records:,} records, {self.shards:,} shards"
        return f"dataset {self.dataset}: {size}, {self.epochs} epoch(s), {self.type}"


@dataclass(frozen=True, kw_only=True)
class DatasetEnded(Event, kind=EventKind.DATASET_ENDED):
    dataset: str
    records_done: int
    records_total: int

    def _sentence(self) -> str:
        return f"dataset {self.dataset} ends after {self.records_done:,} of {self.records_total:,} records"


@dataclass(frozen=True, kw_only=True)
class DatasetsRestored(Event, kind=EventKind.DATASET_RESTORED):
    datasets: tuple[str, ...]

    def _sentence(self) -> str:
        return f"resumed from a checkpoint: {', '.join(self.datasets)}"


@dataclass(frozen=True, kw_only=True)
class SessionTimedOut(Event, kind=EventKind.SESSION):
    node: str
    seconds: float

    def _sentence(self) -> str:
        return f"the program of {self.node} was silent for {self.seconds:.0f} s; its shards go to others"


@dataclass(frozen=True, kw_only=True)
class LeaseTimedOut(Event, kind=EventKind.LEASE):
    node: str
    dataset: str
    seconds: float

    def _sentence(self) -> str:
        silence = f"no report on a shard of {self.dataset} from {self.node} for {self.seconds:.0f} s"
        return f"{silence}; its shards go to others"
