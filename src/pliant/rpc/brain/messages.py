"""Reports, offers and grants between ``core.planning.cluster`` and the wire.

What arrives is checked: sizes, finite numbers, names. A message that makes no sense is ``InvalidRequest`` and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import asdict, fields, is_dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, TypeVar, cast

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.core.job import Phase
from pliant.core.planning.cluster.offer import BrainMessage, Grant, NothingToDo, Offer
from pliant.core.planning.cluster.report import (
    MAX_NODES,
    MAX_PERIODS,
    MAX_PLANS,
    JobDescription,
    JobIdentity,
    JobReport,
    JobSample,
    NodeFacts,
    NodeSample,
    NumberedPeriod,
    PlannerFacts,
)
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import Period, StepParts
from pliant.core.planning.history_json import check_size, history_from_json, history_to_json
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.rpc import brain_pb2 as bp
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.brain.identity import PROTOCOL, check_name
from pliant.rpc.planning import (
    configuration_from,
    configuration_message,
    proposal_from,
    proposal_message,
    record_from,
    record_message,
)

MAX_TEXT = 1000  # characters of a name or a sentence
MAX_HISTORY_BYTES = 4 << 20
_LINE_BREAKS = str.maketrans("\n\t", "  ")

T = TypeVar("T")


def check_protocol(spoken: int) -> None:
    if spoken != PROTOCOL:
        raise InvalidRequest(
            f"version {spoken} of the protocol is not supported; this Brain speaks {PROTOCOL}",
            hint="use the same release of Pliant for the Brain and its jobs",
        )


# --- reports


def report_message(report: JobReport) -> bp.ReportRequest:
    taught, described = report.taught, report.description
    return bp.ReportRequest(
        protocol=PROTOCOL,
        job=bp.JobIdentity(**asdict(report.job)),
        session=report.session,
        sequence=report.sequence,
        time=report.time,
        phase=report.phase,
        sample=bp.JobSample(**asdict(report.sample)),
        description=_described(described) if described is not None else None,
        nodes=[bp.NodeFacts(**asdict(node)) for node in report.nodes],
        samples=[bp.NodeSample(**asdict(sample)) for sample in report.samples],
        periods=[_period_message(each) for each in report.periods],
        plans=[record_message(record) for record in report.plans],
        history=json.dumps(history_to_json(report.history), separators=(",", ":")).encode()
        if report.history is not None
        else b"",
        taught=_taught_message(taught) if taught is not None else None,
        planner=bp.PlannerFacts(**asdict(report.planner)),
        granted=report.granted,
        granted_limit=configuration_message(report.granted_limit) if report.granted_limit is not None else None,
        is_unlimited=report.is_unlimited,
        lost=report.lost,
    )


def report_from(message: bp.ReportRequest) -> JobReport:
    """Raises ``InvalidRequest``."""
    check_protocol(message.protocol)
    _check_count(message.nodes, MAX_NODES, "nodes")
    _check_count(message.samples, MAX_NODES, "samples")
    _check_count(message.periods, MAX_PERIODS, "periods")
    _check_count(message.plans, MAX_PLANS, "plans")
    if message.session < 1 or message.sequence < 1:
        raise InvalidRequest(f"report {message.sequence} of session {message.session}: both begin with 1")
    if message.phase not in set(Phase):
        raise InvalidRequest(f"{message.phase!r:.40} is not a phase of a job")
    report = JobReport(
        identity_from(message.job),
        message.session,
        message.sequence,
        message.time,
        message.phase,
        _flat(JobSample, message.sample),
        _description_from(message.description) if message.HasField("description") else None,
        tuple(_flat(NodeFacts, node) for node in message.nodes),
        tuple(_flat(NodeSample, sample) for sample in message.samples),
        tuple(_period_from(period) for period in message.periods),
        tuple(record_from(plan) for plan in message.plans),
        _history_from(message.history) if message.history else None,
        _taught_from(message.taught) if message.HasField("taught") else None,
        _flat(PlannerFacts, message.planner),
        message.granted,
        _configuration_from(message.granted_limit) if message.HasField("granted_limit") else None,
        message.is_unlimited,
        message.lost,
    )
    _check_values(report)
    return report


def identity_message(job: JobIdentity) -> bp.JobIdentity:
    return bp.JobIdentity(**asdict(job))


def identity_from(message: bp.JobIdentity) -> JobIdentity:
    return JobIdentity(
        check_name(message.namespace, "namespace"), check_name(message.name, "job"), check_name(message.uid, "job")
    )


def _described(found: JobDescription) -> bp.JobDescription:
    flat = {**asdict(found), "fingerprint": bp.Fingerprint(**asdict(found.fingerprint))}
    return bp.JobDescription(**flat)


def _description_from(message: bp.JobDescription) -> JobDescription:
    return JobDescription(
        message.owner,
        message.quota,
        message.priority,
        message.is_preemptible,
        message.mode,
        message.platform,
        tuple(message.algorithms),
        _flat(Fingerprint, message.fingerprint),
    )


def _period_message(numbered: NumberedPeriod) -> bp.Period:
    period = numbered.period
    return bp.Period(
        number=numbered.number,
        configuration=configuration_message(period.configuration),
        began=period.began,
        ended=period.ended,
        rate=period.rate,
        error=period.error,
        samples=period.samples,
        parts=pb.StepParts(**asdict(period.parts)),
    )


def _period_from(message: bp.Period) -> NumberedPeriod:
    parts = message.parts
    found = Period(
        _configuration_from(message.configuration),
        message.began,
        message.ended,
        message.rate,
        message.error,
        message.samples,
        StepParts(parts.data, parts.compute, parts.peers),
    )
    return NumberedPeriod(message.number, found)


def _configuration_from(message: pb.JobConfiguration) -> Configuration:
    """That some job can have."""
    found = configuration_from(message)
    try:
        check_size(found)
    except CorruptData as error:
        raise InvalidRequest(f"not the configuration of a job: {error.message}") from None
    return found


def _taught_message(taught: PastJob) -> bp.PastJob:
    return bp.PastJob(
        fingerprint=bp.Fingerprint(**asdict(taught.fingerprint)),
        ended=taught.ended,
        succeeded=taught.succeeded,
        configuration=configuration_message(taught.configuration),
        rate=taught.rate,
        worker_memory_mb=taught.worker_memory_mb,
        server_memory_mb=taught.server_memory_mb,
    )


def _taught_from(message: bp.PastJob) -> PastJob:
    return PastJob(
        _flat(Fingerprint, message.fingerprint),
        message.ended,
        message.succeeded,
        _configuration_from(message.configuration),
        message.rate,
        message.worker_memory_mb,
        message.server_memory_mb,
    )


def _history_from(content: bytes) -> Any:
    if len(content) > MAX_HISTORY_BYTES:
        raise InvalidRequest(f"a history of {len(content):,} bytes; allowed: {MAX_HISTORY_BYTES:,}")
    try:
        return history_from_json(json.loads(content))
    except (ValueError, RecursionError, CorruptData) as error:
        raise InvalidRequest(f"not the history of a job: {error!s:.200}") from None


# --- offers and grants


def brain_message(found: BrainMessage) -> bp.BrainMessage:
    match found.content:
        case Offer() as offer:
            sent = bp.Offer(
                id=offer.id,
                proposal=proposal_message(offer.proposal),
                base_version=offer.base_version,
                holds_s=offer.holds_s,
                event=offer.event,
            )
            return bp.BrainMessage(term=found.term, offer=sent)
        case Grant() as grant:
            limit = configuration_message(grant.limit) if grant.limit is not None else None
            flat = {field.name: getattr(grant, field.name) for field in fields(grant) if field.name != "limit"}
            return bp.BrainMessage(term=found.term, grant=bp.Grant(**flat, limit=limit))
        case NothingToDo(reason):
            return bp.BrainMessage(term=found.term, nothing=bp.NothingToDo(reason=reason))


def brain_message_from(message: bp.BrainMessage) -> BrainMessage | None:
    """None: of a kind that a later release added."""
    content: Offer | Grant | NothingToDo
    match message.WhichOneof("content"):
        case "offer":
            offer = message.offer
            content = Offer(offer.id, proposal_from(offer.proposal), offer.base_version, offer.holds_s, offer.event)
        case "grant":
            grant = message.grant
            limit = configuration_from(grant.limit) if grant.HasField("limit") else None
            content = Grant(grant.job, grant.number, limit, grant.reason, grant.grace_s, grant.is_unlimited)
        case "nothing":
            content = NothingToDo(message.nothing.reason)
        case _:
            return None
    _check_values(content)
    return BrainMessage(message.term, content)


# --- checks


def _flat(kind: type[T], message: Any) -> T:
    assert is_dataclass(kind)
    return kind(**{field.name: getattr(message, field.name) for field in fields(kind)})


def _check_count(found: Any, most: int, what: str) -> None:
    if len(found) > most:
        raise InvalidRequest(f"{len(found):,} {what} in one report; allowed: {most:,}")


def _check_values(found: Any) -> None:
    """Every number is finite, every text is of a sane length and has no control characters."""
    if isinstance(found, float):  # most of what is in a report
        if not isfinite(found):
            raise InvalidRequest(f"a number is {found}")
    elif isinstance(found, str):
        if len(found) > MAX_TEXT or not found.translate(_LINE_BREAKS).isprintable():
            raise InvalidRequest(f"a text is too long or has control characters: {found!r:.80}")
    elif isinstance(found, tuple | list):
        for item in found:
            _check_values(item)
    elif isinstance(found, dict):
        for key, item in found.items():
            _check_values(key)
            _check_values(item)
    elif is_dataclass(found):
        for name in _field_names(cast(Hashable, type(found))):
            _check_values(getattr(found, name))


@lru_cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
