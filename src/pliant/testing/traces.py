"""What workers wrote down, held against what the master's audit says was accepted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pliant.core.shards.audit import AuditRow

Record: TypeAlias = tuple[str, int, str, int]  # dataset, epoch, file (or dataset), index


class TraceLine(NamedTuple):
    """Records that a worker did under one lease, from position ``offset`` of the shard on."""

    node: str
    session: str
    lease: int
    dataset: str
    epoch: int
    name: str
    offset: int
    indices: list[int]


def read_traces(folder: Path) -> list[TraceLine]:
    """All whole lines; the last one of a killed worker may be cut."""
    lines = (line for file in sorted(folder.iterdir()) for line in file.read_text().split("\n")[:-1])
    return [TraceLine(*json.loads(line)) for line in lines]


def accepted_records(seen: Iterable[TraceLine], rows: Iterable[AuditRow]) -> Counter[Record]:
    """How often each record was accepted, by the word of the worker that had that lease.

    Fails if a record was accepted from a worker that never wrote it down.
    """
    done: dict[tuple[str, str, int], dict[int, Record]] = {}  # node, session, lease -> position -> record
    for one in seen:
        records = done.setdefault((one.node, one.session, one.lease), {})
        for at, index in enumerate(one.indices, start=one.offset):
            records[at] = (one.dataset, one.epoch, one.name, index)
    counts: Counter[Record] = Counter()
    for row in rows:
        records = done.get((row.node, row.session, row.lease), {})
        undone = [at for at in range(row.begin, row.end) if at not in records]
        assert not undone, f"{row} was accepted, and its worker never wrote down {undone[:5]}"
        accepted = [records[at] for at in range(row.begin, row.end)]
        assert {record[:3] for record in accepted} == {(row.dataset, row.epoch, row.name)}
        counts.update(accepted)
    return counts
