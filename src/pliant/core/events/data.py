"""Datasets, sessions and leases."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind
from pliant.core.plurals import counted


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
        parts = f" of {counted(self.partitions, 'partition')}" if self.partitions else ""
        size = (
            f"a stream{parts}" if self.stream else f"{counted(self.records, 'record')}, {counted(self.shards, 'shard')}"
        )
        return f"dataset {self.dataset}: {size}, {counted(self.epochs, 'epoch')}, {self.type}"


@dataclass(frozen=True, kw_only=True)
class DatasetEnded(Event, kind=EventKind.DATASET_ENDED):
    dataset: str
    records_done: int
    records_total: int

    def _sentence(self) -> str:
        return f"dataset {self.dataset} ended after {self.records_done:,} of {self.records_total:,} records"


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
        return f"no message from the program of {self.node} for {self.seconds:.0f} s; its shards are requeued"


@dataclass(frozen=True, kw_only=True)
class LeaseTimedOut(Event, kind=EventKind.LEASE):
    node: str
    dataset: str
    seconds: float

    def _sentence(self) -> str:
        silence = f"no report on a shard of {self.dataset} from {self.node} for {self.seconds:.0f} s"
        return f"{silence}; its shards are requeued"
