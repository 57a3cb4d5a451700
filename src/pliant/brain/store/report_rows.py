"""A report as rows of tables, without the ids that only the database knows. Pure; everything is checked and made to fit here.

Raises ``InvalidRequest`` for a report that no table can have as it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pliant.brain.store import bounded
from pliant.core.job import FINAL_PHASES
from pliant.core.planning.cluster.report import JobDescription, JobReport, NodeFacts, NodeSample, NumberedPeriod
from pliant.core.planning.history_json import history_to_json
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.core.planning.plan_record import PlanRecord

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportRows:
    report: JobReport
    phase: str
    is_final: bool
    sample: Row  # of job_samples, without ``accepted``
    description: Row | None
    nodes: list[Row]
    node_samples: list[tuple[str, Row]]  # by the node's name
    periods: list[Row]
    plans: list[Row]  # as ``plan_row`` makes them
    history: str | None
    started_at: float  # 0: not said
    taught: Row | None


def rows_of(report: JobReport) -> ReportRows:
    job, sample = report.job, report.sample
    for value, what in ((job.namespace, "namespace"), (job.name, "job"), (job.uid, "job")):
        bounded.checked_name(value, what)
    bounded.measure(report.time)
    for each in (report.session, report.sequence, report.granted, report.lost):
        bounded.tally(each)
    return ReportRows(
        report,
        bounded.word(report.phase),
        report.phase in FINAL_PHASES,
        {
            "time": bounded.measure(sample.time),
            "records": bounded.tally(sample.records),
            "step": bounded.tally(sample.step),
            "rate": bounded.measure(sample.rate),
            "running": bounded.tally(sample.running),
            "waiting": bounded.tally(sample.waiting),
        },
        _description(report.description) if report.description is not None else None,
        [_node(node) for node in report.nodes],
        [_node_sample(each) for each in report.samples],
        [_period(each) for each in report.periods],
        [plan_row(record) for record in report.plans],
        to_text(history_to_json(report.history)) if report.history is not None else None,
        bounded.measure(report.history.started) if report.history is not None else 0.0,
        _taught(report.taught) if report.taught is not None else None,
    )


def to_text(value: object) -> str:
    """JSON, in ASCII: what is in it cannot disagree with a database about characters."""
    return json.dumps(value, separators=(",", ":"))


def fingerprint_row(mark: Fingerprint) -> Row:
    return {
        "strategy": bounded.word(mark.strategy),
        "command": bounded.label(mark.command),
        "program": bounded.label(mark.program),
        "stem": bounded.label(mark.stem),
        "dataset_records": bounded.tally(mark.records),
    }


def plan_row(record: PlanRecord) -> Row:
    """What the master says of its plan."""
    proposal, prediction = record.proposal, record.proposal.prediction
    return {
        "offer": bounded.name_or_none(record.origin, "offer") or None,
        "plan": bounded.checked_name(record.id, "plan"),
        "algorithm": bounded.label(proposal.algorithm),
        "reason": bounded.sentence(proposal.reason),
        "proposal": to_text(proposal.to_json()),
        "predicted_rate": bounded.number(prediction.rate) if prediction is not None else None,
        "predicted_low": bounded.number(prediction.low) if prediction is not None else None,
        "predicted_high": bounded.number(prediction.high) if prediction is not None else None,
        "base_version": bounded.count(record.base_version),
        "planned_at": bounded.number(record.time),
        "plan_expires_at": bounded.number(record.expires),
        "outcome": record.outcome.value,
        "before_configuration": to_text(record.before.to_json()),
        "before_rate": bounded.number(record.before_rate),
        "before_error": bounded.number(record.before_error),
        "objective": record.objective.value,
        "accepted_at": bounded.maybe_number(record.accepted_at),
        "ended_at": bounded.maybe_number(record.ended_at),
        "achieved_rate": bounded.maybe_number(record.achieved_rate),
        "achieved_error": bounded.maybe_number(record.achieved_error),
        "judgement": bounded.sentence(record.judgement),
        "rolls_back": bounded.label(record.rolls_back),
    }


def _description(found: JobDescription) -> Row:
    return {
        "owner": bounded.name_or_none(found.owner, "owner"),
        "quota": bounded.name_or_none(found.quota, "quota"),
        "priority": bounded.count(found.priority),
        "is_preemptible": found.is_preemptible,
        "mode": bounded.word(found.mode),
        "platform": bounded.word(found.platform),
        "algorithms": to_text(list(found.algorithms)),
        **fingerprint_row(found.fingerprint),
    }


def _node(node: NodeFacts) -> Row:
    return {
        "name": bounded.checked_name(node.name, "node"),
        "role": bounded.word(node.role),
        "state": bounded.word(node.state),
        "cpu": bounded.measure(node.cpu),
        "memory_mb": bounded.tally(node.memory_mb),
        "gpu": bounded.tally(node.gpu),
        "host": bounded.label(node.host),
        "created_at": bounded.measure(node.created_at),
        "started_at": bounded.measure(node.started_at),
        "ended_at": bounded.measure(node.ended_at),
        "exit_reason": bounded.sentence(node.exit_reason),
    }


def _node_sample(sample: NodeSample) -> tuple[str, Row]:
    return bounded.checked_name(sample.node, "node"), {
        "time": bounded.measure(sample.time),
        "cpu": bounded.measure(sample.cpu),
        "throttled": bounded.measure(sample.throttled),
        "memory_mb": bounded.measure(sample.memory_mb),
        "records": bounded.tally(sample.records),
    }


def _period(numbered: NumberedPeriod) -> Row:
    period = numbered.period
    return {
        "number": bounded.tally(numbered.number),
        "configuration": to_text(period.configuration.to_json()),
        "began": bounded.measure(period.began),
        "ended": bounded.measure(period.ended),
        "rate": bounded.measure(period.rate),
        "error": bounded.measure(period.error),
        "samples": bounded.tally(period.samples),
        "data": bounded.measure(period.parts.data),
        "compute": bounded.measure(period.parts.compute),
        "peers": bounded.measure(period.parts.peers),
    }


def _taught(taught: PastJob) -> Row:
    return {
        **fingerprint_row(taught.fingerprint),
        "taught_configuration": to_text(taught.configuration.to_json()),
        "taught_ended": bounded.measure(taught.ended),
        "taught_succeeded": taught.succeeded,
        "taught_rate": bounded.measure(taught.rate),
        "taught_worker_memory_mb": bounded.measure(taught.worker_memory_mb),
        "taught_server_memory_mb": bounded.measure(taught.server_memory_mb),
    }
