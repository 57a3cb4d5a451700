"""Proof that each record was accepted exactly once, from the rows that a master with ``audit`` keeps in its journal.

Per epoch, each shard must be there, and its accepted ranges must tile it: no gap, nothing twice. Ranges are counted in
a shard's own order, so a shard that is covered from its first position to its last has had all of its records accepted,
shuffled or not. What a saved position had when the dataset was restored from it was accepted before this job: it is expected, and
a row that has it again is a double. Pure: rows and a queue in, findings out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import groupby, islice
from typing import Any

from pliant.core.shards.datasets import Extent
from pliant.core.shards.queue import EpochShard, ShardQueue

MAX_FINDINGS = 20  # per dataset and kind, described; all are counted


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Records ``[begin, end)`` of one shard, in the shard's order, that were accepted."""

    dataset: str
    epoch: int
    ordinal: int
    name: str
    start: int
    shard_end: int
    begin: int
    end: int
    node: str
    session: str
    lease: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Positions ``[begin, end)`` of a shard, in its own order, and of what shard."""

    epoch: int
    name: str
    start: int
    shard_end: int
    begin: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """A partition of a stream: its records, and those of them that were accepted, each counted once and as often as it was."""

    name: str
    records_expected: int
    records_covered: int
    records_accepted: int


@dataclass(slots=True)
class DatasetAudit:
    dataset: str
    epochs: int
    records_expected: int
    records_accepted: int = 0  # each range counted as often as it was accepted
    missing: int = 0  # records
    doubled: int = 0  # records accepted again
    strange: int = 0  # shards that this dataset does not have
    restored: int = 0  # records that were done at the position it was restored from
    gaps: list[Finding] = field(default_factory=list)
    doubles: list[Finding] = field(default_factory=list)
    strangers: list[Finding] = field(default_factory=list)
    partitions: list[PartitionAudit] = field(default_factory=list)  # of a stream that has some

    @property
    def exact(self) -> bool:
        return not (self.missing or self.doubled or self.strange)


@dataclass(frozen=True, slots=True)
class JobAudit:
    name: str
    over: bool  # the job ended; else it is the audit of what was accepted so far
    datasets: tuple[DatasetAudit, ...]

    @property
    def exact(self) -> bool:
        return all(found.exact for found in self.datasets)

    def to_json(self) -> dict[str, Any]:
        """As ``pliant audit --json`` prints it."""
        datasets = [{**asdict(found), "exact": found.exact} for found in self.datasets]
        return {"name": self.name, "over": self.over, "exact": self.exact, "datasets": datasets}


def audit_dataset(queue: ShardQueue, rows: Iterable[AuditRow]) -> DatasetAudit:
    """``rows`` are those of this dataset, in any order."""
    audit = DatasetAudit(queue.spec.name, queue.spec.epochs, queue.records_per_epoch * queue.spec.epochs)
    given_up = {(p.shard.epoch, p.shard.ordinal): p.message for p in (*queue.parked, *queue.lost)}
    before = _Before(queue)
    audit.restored = before.records
    ordered = sorted(rows, key=lambda row: (row.epoch, row.ordinal, row.begin))
    seen: dict[int, list[int]] = {}
    covered = before.records
    tally: dict[str, tuple[int, int]] = {}  # partition -> records covered, and accepted
    for (epoch, ordinal), group in groupby(ordered, key=lambda row: (row.epoch, row.ordinal)):
        accepted = list(group)
        if not queue.has_shard(epoch, ordinal):
            audit.strange += 1
            _tell(
                audit.strangers, _finding(accepted[0], accepted[0].begin, accepted[0].end, "no shard of this dataset")
            )
            continue
        seen.setdefault(epoch, []).append(ordinal)
        extent = queue.extent(EpochShard(epoch, ordinal))
        done_before = before.done(epoch, ordinal, extent.end - extent.start)
        once = _check_shard(audit, extent, accepted, done_before, given_up.get((epoch, ordinal), ""))
        covered += once
        of_part = tally.get(extent.name, (0, 0))
        tally[extent.name] = (of_part[0] + once, of_part[1] + sum(row.end - row.begin for row in accepted))
    audit.missing = audit.records_expected - covered
    if covered < audit.records_expected:
        _name_lost_shards(audit, queue, before, seen, given_up)
    if queue.stream is not None and queue.stream.is_partitioned:
        audit.partitions = [
            PartitionAudit(
                part.name,
                part.end - part.start,
                before.records_of(part.name) + tally.get(part.name, (0, 0))[0],
                tally.get(part.name, (0, 0))[1],
            )
            for part in queue.stream.partitions
        ]
    return audit


class _Before:
    """What was done at the position that a dataset was restored from."""

    def __init__(self, queue: ShardQueue) -> None:
        self.at = ShardQueue(queue.spec)  # as it was then
        if queue.restored is not None:
            self.at.set_position(queue.restored.position)
        self.records = self.at.finished_records
        undone = [*self.at.returned, *(p.shard for p in self.at.parked)]
        self.begun = {(shard.epoch, shard.ordinal): shard.offset for shard in undone}  # -> records done, not all

    def done(self, epoch: int, ordinal: int, size: int) -> int:
        """Records of a shard."""
        return self.begun.get((epoch, ordinal), size) if self.at.is_handed_out(epoch, ordinal) else 0

    def records_of(self, partition: str) -> int:
        parts = self.at.stream.partitions if self.at.stream is not None else []
        return sum(part.finished for part in parts if part.name == partition)


def _check_shard(audit: DatasetAudit, extent: Extent, accepted: list[AuditRow], done_before: int, given_up: str) -> int:
    """How many of the shard's records were accepted here, each counted once."""
    upto, covered = done_before, 0
    for row in accepted:
        audit.records_accepted += row.end - row.begin
        if (row.name, row.start, row.shard_end) != (extent.name, extent.start, extent.end):
            audit.strange += 1
            _tell(audit.strangers, _finding(row, row.begin, row.end, f"the shard is {extent}"))
        if row.begin > upto:
            _tell(audit.gaps, _finding(row, upto, row.begin, "never accepted"))
        elif row.begin < upto:
            again = min(upto, row.end)
            audit.doubled += again - row.begin
            _tell(audit.doubles, _finding(row, row.begin, again, f"accepted again by {row.node}, lease {row.lease}"))
        covered += max(0, row.end - max(upto, row.begin))
        upto = max(upto, row.end)
    size = extent.end - extent.start
    if upto < size:
        _tell(audit.gaps, _finding(accepted[0], upto, size, _why_missing(given_up)))
    return covered


def _name_lost_shards(
    audit: DatasetAudit,
    queue: ShardQueue,
    before: _Before,
    seen: dict[int, list[int]],
    given_up: dict[tuple[int, int], str],
) -> None:
    """Shards that are not there at all; there may be a great many, so only the first few are looked at."""
    for epoch, ordinal in islice(_unseen(queue, before, seen), max(0, MAX_FINDINGS - len(audit.gaps))):
        extent = queue.extent(EpochShard(epoch, ordinal))
        why = _why_missing(given_up.get((epoch, ordinal), ""))
        size = extent.end - extent.start
        _tell(
            audit.gaps,
            Finding(epoch, extent.name, extent.start, extent.end, before.done(epoch, ordinal, size), size, why),
        )


def _unseen(queue: ShardQueue, before: _Before, seen: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Shards that were not all done before this job and have no row in it."""
    begun = {
        (epoch, ordinal) for epoch, ordinals in seen.items() for ordinal in ordinals if (epoch, ordinal) in before.begun
    }
    yield from sorted(set(before.begun) - begun)
    for epoch in range(before.at.epoch, queue.spec.epochs):
        behind = before.at.handed_out(epoch)
        ahead = [range(past.stop, known.stop) for past, known in zip(behind, queue.ordinals(), strict=True)]
        ordinals = [ordinal for ordinal in seen.get(epoch, []) if not before.at.is_handed_out(epoch, ordinal)]
        for hole in _holes(ordinals, ahead):
            yield from ((epoch, ordinal) for ordinal in hole)


def _why_missing(given_up: str) -> str:
    return f"gave up: {given_up}" if given_up else "never accepted"


def _holes(ordinals: list[int], known: list[range]) -> Iterator[range]:
    """What the sorted list leaves out of the ranges, which ascend."""
    position = 0
    for part in known:
        at = part.start
        while position < len(ordinals) and ordinals[position] < part.stop:
            if ordinals[position] > at:
                yield range(at, ordinals[position])
            at = ordinals[position] + 1
            position += 1
        if at < part.stop:
            yield range(at, part.stop)


def _finding(row: AuditRow, begin: int, end: int, why: str) -> Finding:
    return Finding(row.epoch, row.name, row.start, row.shard_end, begin, end, why)


def _tell(findings: list[Finding], finding: Finding) -> None:
    if len(findings) < MAX_FINDINGS:
        findings.append(finding)
