"""What workers wrote down, held against what the master's audit says was accepted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pliant.master.journal_store import AuditRow

Record: TypeAlias = tuple[str, int, str, int]  # dataset, epoch, file (or dataset), index


class Seen(NamedTuple):
    """One shard that a worker did, or what was left of it from ``offset`` on."""

    node: str
    session: str
    lease: int
    dataset: str
    epoch: int
    name: str
    offset: int
    indices: list[int]


def read_traces(folder: Path) -> list[Seen]:
    """All whole lines; the last one of a killed worker may be cut."""
    lines = (line for file in sorted(folder.iterdir()) for line in file.read_text().split("\n")[:-1])
    return [Seen(*json.loads(line)) for line in lines]


def accepted_records(seen: Iterable[Seen], rows: Iterable[AuditRow]) -> Counter[Record]:
    """How often each record was accepted, by the word of the worker that had that lease.

    Fails if a range was accepted from a worker that never wrote it down.
    """
    by_lease = {(one.session, one.lease): one for one in seen}
    counts: Counter[Record] = Counter()
    for row in rows:
        worker = by_lease.get((row.session, row.lease))
        assert worker is not None, f"{row} was accepted, and its worker never wrote it down"
        assert (worker.node, worker.dataset, worker.epoch, worker.name) == (row.node, row.dataset, row.epoch, row.name)
        records = worker.indices[row.begin - worker.offset : row.end - worker.offset]
        assert row.begin >= worker.offset and len(records) == row.end - row.begin, f"{row} is not what {worker} did"
        counts.update((row.dataset, row.epoch, row.name, record) for record in records)
    return counts
