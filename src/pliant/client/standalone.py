"""No master: the same shards, in the same order, from a ``ShardBook`` in this process."""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from pliant.client.shards import Shard
from pliant.core.errors import JobFailed
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec
from pliant.core.shards.leases import Answer, Availability

SESSION = "standalone"


class StandaloneBook:
    """The shard book of a program that runs without a master."""

    def __init__(self) -> None:
        self.book = ShardBook()
        self.book.open_session(time.time(), session=SESSION, node=SESSION, incarnation=0)
        self.requests = 0
        self.changed = threading.Condition()  # a loop may prefetch in one thread while it reports from another

    def create(self, spec: DatasetSpec) -> None:
        with self.changed:
            self.book.create(time.time(), dataset=spec.to_json(), origin=uuid.uuid4().hex)

    def grow(
        self, dataset: str, records: int, close: bool, partition: str | None = None, end: int | None = None
    ) -> int:
        with self.changed:
            length = self.book.grow(
                time.time(), dataset=dataset, records=records, close=close, partition=partition, end=end
            )
            self.changed.notify_all()
            return length

    def checkpoint(self) -> dict[str, Any]:
        with self.changed:
            return self.book.checkpoint()

    def restore(self, checkpoint: Mapping[str, Any]) -> list[str]:
        with self.changed:
            return self.book.restore_checkpoint(time.time(), checkpoint=dict(checkpoint))

    def source(self, spec: DatasetSpec) -> StandaloneSource:
        return StandaloneSource(self, spec)


class StandaloneSource:
    def __init__(self, book: StandaloneBook, spec: DatasetSpec) -> None:
        self._standalone = book
        self._spec = spec
        self._closed = False

    def take(self) -> Shard | None:
        with self._standalone.changed:
            answer = self._exchange(want=1)
            while (
                not answer.leases
                and answer.availability is Availability.WAIT
                and self._standalone.book.queue(self._spec.name).out
            ):
                self._standalone.changed.wait()  # until this program reports on what it holds
                if self._closed:
                    return None
                answer = self._exchange(want=1)
        if answer.leases:
            lease = answer.leases[0]
            return Shard(
                self,
                lease.number,
                self._spec.name,
                lease.extent.name,
                lease.extent.start,
                lease.extent.end,
                epoch=lease.shard.epoch,
                offset=lease.shard.offset,
                indices=lease.indices,
                shuffle_key=record_key(self._spec, lease.shard.epoch, lease.shard.ordinal),
                partition=lease.extent.name if self._spec.partitions else None,
            )
        if answer.availability is Availability.END:
            parked = self._standalone.book.queue(self._spec.name).parked
            if parked and not self._spec.skip_parked:
                raise JobFailed(f"shard {parked[0].extent} could not be processed: {parked[0].message}")
        return None  # no other worker will bring or finish anything

    def poll(self) -> Shard | None:
        with self._standalone.changed:
            waits = self._standalone.book.availability(self._spec.name) is not Availability.MORE
        return None if waits else self.take()

    def done(self, shard: Shard, note: bytes | None = None) -> None:
        notes = [[shard.lease, base64.b64encode(note).decode()]] if note is not None else []
        self._exchange(done=[shard.lease], notes=notes)

    def progress(self, shard: Shard, records: int) -> None:
        self._exchange(progress=[[shard.lease, records]])

    def failed(self, shard: Shard, message: str) -> None:
        self._exchange(failed=[[shard.lease, message]])

    def released(self, shard: Shard) -> None:
        self._exchange(released=[shard.lease])

    def flush(self, shard: Shard | None = None) -> bool:
        return True

    def settled(self, shard: Shard) -> None:
        self.done(shard)

    def abandon(self, shard: Shard | None) -> None:
        if shard is not None:
            shard.release()

    def close(self) -> None:
        with self._standalone.changed:
            self._closed = True
            self._standalone.changed.notify_all()

    def _exchange(self, want: int = 0, **reports: Any) -> Answer:
        with self._standalone.changed:
            self._standalone.requests += 1
            if reports:
                self._standalone.changed.notify_all()
            return self._standalone.book.exchange(
                time.time(),
                session=SESSION,
                request=self._standalone.requests,
                dataset=self._spec.name,
                want=want,
                **reports,
            )


def record_key(spec: DatasetSpec, epoch: int, ordinal: int) -> tuple[int | str, ...] | None:
    """What the order of the records inside a shard is computed from; None: they are in order."""
    return (spec.seed, "records", epoch, ordinal) if spec.shuffle_records else None
