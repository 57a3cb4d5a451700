from __future__ import annotations

import pytest

from pliant.core.shards.audit import MAX_FINDINGS, AuditRow, PartitionAudit, audit_dataset
from pliant.core.shards.datasets import DatasetSpec, FilePart, StreamPartition
from pliant.core.shards.queue import EpochShard, ShardQueue


def queue_of(**changes: object) -> ShardQueue:
    fields = {"name": "train", "shard_size": 4, "size": 10, "epochs": 2, "shuffle": True, **changes}
    return ShardQueue(DatasetSpec(**fields))  # type: ignore[arg-type]


def row(queue: ShardQueue, epoch: int, ordinal: int, begin: int = 0, end: int | None = None) -> AuditRow:
    extent = queue.extent(EpochShard(epoch, ordinal))
    upto = extent.end - extent.start if end is None else end
    name, start, shard_end = extent.name, extent.start, extent.end
    return AuditRow(queue.spec.name, epoch, ordinal, name, start, shard_end, begin, upto, "worker-0", "s", 1)


def all_rows(queue: ShardQueue) -> list[AuditRow]:
    return [row(queue, e, o) for e in range(queue.spec.epochs) for o in range(queue.shards_per_epoch)]


@pytest.mark.parametrize(
    "queue",
    [
        queue_of(),
        queue_of(shuffle=False),
        queue_of(size=None, files=(FilePart("a", 0, 5), FilePart("b", 3, 9))),
        queue_of(size=None, files=(FilePart("a", 0, 5), FilePart("a", 0, 5))),
        queue_of(size=None, indices=tuple(range(0, 30, 3))),
        queue_of(size=0),
    ],
)
def test_each_shard_once_in_any_order_is_exact(queue: ShardQueue) -> None:
    audit = audit_dataset(queue, reversed(all_rows(queue)))
    assert audit.exact
    assert audit.records_accepted == audit.records_expected


def test_a_shard_accepted_in_parts_is_exact() -> None:
    queue = queue_of(shuffle=False, epochs=1)
    rows = [row(queue, 0, 0, 0, 1), row(queue, 0, 0, 1, 4), row(queue, 0, 1), row(queue, 0, 2)]
    assert audit_dataset(queue, rows).exact


def test_a_shard_that_is_not_there_is_named() -> None:
    queue = queue_of(shuffle=False)
    rows = [r for r in all_rows(queue) if (r.epoch, r.ordinal) != (1, 2)]
    audit = audit_dataset(queue, rows)
    assert (audit.missing, audit.doubled) == (2, 0)
    (gap,) = audit.gaps
    assert (gap.epoch, gap.start, gap.shard_end) == (1, 8, 10)


def test_a_hole_inside_a_shard_is_named_by_its_positions() -> None:
    queue = queue_of(shuffle=False, epochs=1)
    rows = [row(queue, 0, 0, 0, 1), row(queue, 0, 0, 3, 4), row(queue, 0, 1, 0, 3), row(queue, 0, 2)]
    audit = audit_dataset(queue, rows)
    assert audit.missing == 3
    assert [(g.start, g.begin, g.end) for g in audit.gaps] == [(0, 1, 3), (4, 3, 4)]


def test_what_was_accepted_twice_is_named_with_who_did_it() -> None:
    queue = queue_of(shuffle=False, epochs=1)
    audit = audit_dataset(queue, [*all_rows(queue), row(queue, 0, 1, 1, 3)])
    assert (audit.missing, audit.doubled) == (0, 2)
    (double,) = audit.doubles
    assert (double.begin, double.end) == (1, 3)
    assert "worker-0" in double.why


def test_a_row_that_fits_no_shard_is_not_taken_for_one() -> None:
    queue = queue_of(shuffle=False, epochs=1)
    stranger = AuditRow("train", 3, 0, "train", 0, 4, 0, 4, "worker-0", "s", 9)
    audit = audit_dataset(queue, [*all_rows(queue), stranger])
    assert not audit.exact
    assert (audit.strange, audit.missing) == (1, 0)


def test_a_shard_that_was_given_up_says_why_it_is_missing() -> None:
    queue = queue_of(shuffle=False, epochs=1, max_failures=1)
    piece = queue.take()
    assert piece is not None
    queue.fail(piece, "ValueError: bad record")
    audit = audit_dataset(queue, [row(queue, 0, 1), row(queue, 0, 2)])
    assert audit.missing == 4
    assert "bad record" in audit.gaps[0].why


def test_a_huge_dataset_that_was_hardly_begun_is_audited_at_once() -> None:
    queue = queue_of(size=10**12, shard_size=1000, epochs=1000)
    audit = audit_dataset(queue, [row(queue, 0, 0)])
    assert audit.missing == 10**15 - 1000
    assert len(audit.gaps) == MAX_FINDINGS


def test_a_stream_is_audited_by_partition() -> None:
    parts = (StreamPartition("0", 1), StreamPartition("1"))
    queue = queue_of(size=None, stream=True, partitions=parts, epochs=1, shuffle=False)
    queue.grow(0, partition="0", end=7, close=True)
    queue.grow(8, partition="1", close=True)
    shards = [shard for _ in range(4) if (shard := queue.take()) is not None]
    rows = [row(queue, 0, shard.ordinal) for shard in shards]
    assert [(r.name, r.start, r.shard_end) for r in rows] == [("0", 1, 5), ("1", 0, 4), ("0", 5, 7), ("1", 4, 8)]
    whole = audit_dataset(queue, rows)
    assert whole.exact
    assert whole.partitions == [PartitionAudit("0", 6, 6, 6), PartitionAudit("1", 8, 8, 8)]
    damaged = audit_dataset(queue, [rows[0], rows[0], rows[1], rows[2]])
    assert (damaged.missing, damaged.doubled) == (4, 4)
    assert damaged.partitions == [PartitionAudit("0", 6, 6, 10), PartitionAudit("1", 8, 4, 4)]
    [gap] = damaged.gaps
    assert (gap.name, gap.start, gap.shard_end) == ("1", 4, 8)
