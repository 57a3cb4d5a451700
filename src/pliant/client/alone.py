"""No master: the same shards, in the same order, from a ``ShardBook`` in this process."""

from __future__ import annotations

import base64
import threading
import time

from pliant.client.shards import Shard
from pliant.core.datasets import DatasetSpec
from pliant.core.errors import JobFailed
from pliant.core.leases import Supply
from pliant.core.shards import ShardBook

SESSION = "alone"


class Alone:
    """The shard book of a program that runs by itself."""

    def __init__(self) -> None:
        self.book = ShardBook()
        self.book.open_session(time.time(), session=SESSION, node=SESSION, incarnation=0)
        self.requests = 0
        self.changed = threading.Condition()  # a loop may read ahead in a thread while it reports from another

    def create(self, spec: DatasetSpec) -> None:
        self.book.create(time.time(), dataset=spec.to_json())

    def grow(self, dataset: str, records: int, close: bool) -> int:
        return self.book.grow(time.time(), dataset=dataset, records=records, close=close)

    def source(self, spec: DatasetSpec) -> AloneSource:
        return AloneSource(self, spec)


class AloneSource:
    def __init__(self, alone: Alone, spec: DatasetSpec) -> None:
        self._alone = alone
        self._spec = spec
        self._closed = False

    def take(self) -> Shard | None:
        with self._alone.changed:
            answer = self._exchange(want=1)
            while not answer.leases and answer.supply is Supply.WAIT and self._alone.book.queue(self._spec.name).out:
                self._alone.changed.wait()  # until this program reports on what it holds
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
                epoch=lease.piece.epoch,
                offset=lease.piece.offset,
                indices=lease.indices,
                shuffle_key=record_key(self._spec, lease.piece.epoch, lease.piece.ordinal),
            )
        if answer.supply is Supply.END:
            parked = self._alone.book.queue(self._spec.name).parked
            if parked and not self._spec.skip_parked:
                raise JobFailed(f"shard {parked[0].extent} could not be done: {parked[0].message}")
        return None  # what others would bring or finish, nobody will: this program is alone

    def poll(self) -> Shard | None:
        with self._alone.changed:
            waits = self._alone.book.supply(self._spec.name) is not Supply.MORE
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
        with self._alone.changed:
            self._closed = True
            self._alone.changed.notify_all()

    def _exchange(self, want: int = 0, **reports: list):  # type: ignore[no-untyped-def, type-arg]
        with self._alone.changed:
            self._alone.requests += 1
            if reports:
                self._alone.changed.notify_all()
            return self._alone.book.exchange(
                time.time(),
                session=SESSION,
                request=self._alone.requests,
                dataset=self._spec.name,
                want=want,
                **reports,
            )


def record_key(spec: DatasetSpec, epoch: int, ordinal: int) -> tuple[int | str, ...] | None:
    """What the order of the records inside a shard depends on; None: they are in order."""
    return (spec.seed, "records", epoch, ordinal) if spec.shuffle_records else None
