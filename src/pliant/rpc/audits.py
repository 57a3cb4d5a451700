"""The audit of a job between ``core`` and the wire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from pliant.core.shards.audit import DatasetAudit, Finding, JobAudit, PartitionAudit
from pliant.rpc import pliant_pb2 as pb

_COUNTS = ("dataset", "epochs", "records_expected", "records_accepted", "missing", "doubled", "strange", "restored")
_LISTS = ("gaps", "doubles", "strangers")


def audit_message(audit: JobAudit) -> pb.AuditReply:
    return pb.AuditReply(
        name=audit.name, over=audit.over, datasets=[_dataset_message(found) for found in audit.datasets]
    )


def audit_from(message: pb.AuditReply) -> JobAudit:
    return JobAudit(message.name, message.over, tuple(_dataset_from(found) for found in message.datasets))


def _dataset_message(audit: DatasetAudit) -> pb.DatasetAudit:
    message = pb.DatasetAudit(**{name: getattr(audit, name) for name in _COUNTS})
    for name in _LISTS:
        getattr(message, name).extend(pb.AuditFinding(**asdict(finding)) for finding in getattr(audit, name))
    message.partitions.extend(pb.PartitionAudit(**asdict(found)) for found in audit.partitions)
    return message


def _dataset_from(message: pb.DatasetAudit) -> DatasetAudit:
    counts = {name: getattr(message, name) for name in _COUNTS}
    return DatasetAudit(
        **counts,
        gaps=_findings(message.gaps),
        doubles=_findings(message.doubles),
        strangers=_findings(message.strangers),
        partitions=[
            PartitionAudit(p.name, p.records_expected, p.records_covered, p.records_accepted)
            for p in message.partitions
        ],
    )


def _findings(found: Iterable[pb.AuditFinding]) -> list[Finding]:
    return [Finding(f.epoch, f.name, f.start, f.shard_end, f.begin, f.end, f.why) for f in found]
