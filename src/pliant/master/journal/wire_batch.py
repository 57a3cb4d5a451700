"""A batch as it travels to the Brain's database and back: two texts of JSON, compressed if they are long.

*Operations*, which the next snapshot replaces: who wrote the batch, how many events and rows of the audit there are with it, the
snapshot if it has one, and the operations. What is *lasting*: events, audit, and the definitions that are new with this batch.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.core.errors import CorruptData
from pliant.core.events import EventRecord, event_from_facts
from pliant.core.job_state import JobSnapshot, Operation
from pliant.core.shards.audit import AuditRow
from pliant.master.journal.lineage import Lineage
from pliant.master.journal.store import DAMAGE, Batch, audit_values

MIN_COMPRESSED_BYTES = 2048
LEVEL = 1  # four times as fast as the default, a tenth larger
MAX_EXPANDED_BYTES = 4 << 30
Definitions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class BatchHeader:
    writer: str
    events: int  # number of the last event, with this batch
    audit: int  # rows of the audit, with this batch
    lineage: Lineage | None = None  # with a snapshot, and with the first batch of a writer


@dataclass(frozen=True, slots=True)
class WireBatch:
    number: int
    is_snapshot: bool  # it replaces all operations before it; its snapshot is None if its operations begin with the job
    header: BatchHeader | None  # None: a later snapshot has replaced the operations, and with them this
    batch: Batch
    definitions: Definitions = field(default_factory=dict)


def encode(found: WireBatch) -> tuple[bytes, bytes]:
    """Operations and lasting."""
    header, batch = found.header, found.batch
    assert header is not None
    first: dict[str, Any] = {"writer": header.writer, "events": header.events, "audit": header.audit}
    if header.lineage is not None:
        first["writers"] = header.lineage.to_json()
    if batch.snapshot is not None:
        first["snapshot"] = batch.snapshot.state
    first["operations"] = [[o.machine, o.method, o.now, o.arguments] for o in batch.operations]
    lasting = {
        "events": [[e.number, e.time, e.kind.value, e.facts] for e in batch.events],
        "audit": [audit_values(row) for row in batch.audit],
        "definitions": found.definitions,
    }
    lasting = {name: value for name, value in lasting.items() if value}
    return _packed(first), _packed(lasting) if lasting else b""


def decode(number: int, is_snapshot: bool, operations: bytes, lasting: bytes) -> WireBatch:
    """Raises ``CorruptData``."""
    try:
        first = _unpacked(operations) if operations else None
        more = _unpacked(lasting) if lasting else {}
        batch = Batch(
            events=[
                EventRecord(int(n), float(t), event_from_facts(kind, facts))
                for n, t, kind, facts in _of(more, "events")
            ],
            audit=[AuditRow(*row) for row in _of(more, "audit")],
        )
        header = None
        if first is not None:
            writers = first.get("writers")
            lineage = Lineage.from_json(writers) if writers is not None else None
            header = BatchHeader(str(first["writer"]), int(first["events"]), int(first["audit"]), lineage)
            batch.operations = [
                Operation(str(m), str(f), float(now), dict(args)) for m, f, now, args in first["operations"]
            ]
            if "snapshot" in first:
                batch.snapshot = JobSnapshot(dict(first["snapshot"]), {})
        return WireBatch(number, is_snapshot, header, batch, dict(more.get("definitions", {})))
    except (*DAMAGE, zlib.error, CorruptData) as error:
        raise CorruptData(
            f"batch {number} of the journal in the Brain's database is corrupt: {error!r:.200}"
        ) from error


def _of(found: dict[str, Any], name: str) -> list[Any]:
    return list(found.get(name, ()))


def _packed(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return text if len(text) < MIN_COMPRESSED_BYTES else zlib.compress(text, LEVEL)


def _unpacked(data: bytes) -> dict[str, Any]:
    text = data
    if not data.startswith(b"{"):
        expander = zlib.decompressobj()
        text = expander.decompress(data, MAX_EXPANDED_BYTES)
        if not expander.eof:
            raise ValueError("it is cut off, or absurdly long")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value
