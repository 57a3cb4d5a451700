"""Plans and explanations between ``core.planning`` and the wire.

proto3 has no None: an absent message or optional field is None here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.explanation import CurvePoint, Explanation
from pliant.core.planning.history import StepParts
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.planning.proposal import Prediction, Proposal
from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.core.status import GrantStatus, PlannerStatus
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.enums import PLAN_OBJECTIVE, PLAN_OUTCOME, PLANNER_STATE

_FLAT = ("id", "time", "before_rate", "before_error", "base_version", "expires", "judgement", "rolls_back", "origin")
_LATER = ("accepted_at", "ended_at", "achieved_rate", "achieved_error")  # None until then


# --- to protobuf


def plans_message(found: JobPlans) -> pb.PlansReply:
    return pb.PlansReply(
        name=found.name,
        planner=planner_message(found.planner) if found.planner is not None else None,
        plans=[record_message(record) for record in found.plans],
    )


def explain_message(found: JobExplanation) -> pb.ExplainReply:
    return pb.ExplainReply(
        name=found.name,
        planner=planner_message(found.planner) if found.planner is not None else None,
        time=pb.StepParts(**asdict(found.time)) if found.time is not None else None,
        explanation=_explanation_message(found.explanation) if found.explanation is not None else None,
        plans=[record_message(record) for record in found.plans],
    )


def planner_message(status: PlannerStatus) -> pb.PlannerStatus:
    return pb.PlannerStatus(
        state=PLANNER_STATE.to_wire[status.state],
        until=status.until,
        reason=status.reason,
        plan=status.plan,
        dry_run=status.dry_run,
        brain=status.brain,
        grant=pb.QuotaGrant(**asdict(status.grant)) if status.grant is not None else None,
    )


def record_message(record: PlanRecord) -> pb.PlanRecord:
    return pb.PlanRecord(
        **{name: getattr(record, name) for name in (*_FLAT, *_LATER)},
        proposal=proposal_message(record.proposal),
        before=configuration_message(record.before),
        objective=PLAN_OBJECTIVE.to_wire[record.objective],
        outcome=PLAN_OUTCOME.to_wire[record.outcome],
    )


def proposal_message(proposal: Proposal) -> pb.PlanProposal:
    prediction = proposal.prediction
    return pb.PlanProposal(
        algorithm=proposal.algorithm,
        reason=proposal.reason,
        configuration=configuration_message(proposal.configuration),
        prediction=pb.PlanPrediction(**asdict(prediction)) if prediction is not None else None,
        replace=proposal.replace,
        seats=proposal.seats,
        moves=proposal.moves,
        urgent=proposal.urgent,
        at_next_restart=proposal.at_next_restart,
        advice=proposal.advice,
    )


def configuration_message(found: Configuration) -> pb.JobConfiguration:
    return pb.JobConfiguration(
        worker=pb.NodeShape(**asdict(found.worker)),
        server=pb.NodeShape(**asdict(found.server)) if found.server is not None else None,
        micro_batch=found.micro_batch,
    )


def _explanation_message(found: Explanation) -> pb.SpeedExplanation:
    return pb.SpeedExplanation(
        state=PLANNER_STATE.to_wire[found.state],
        rate=found.rate,
        parts=found.parts,
        terms=found.terms,
        bottleneck=found.bottleneck,
        curve=[pb.CurvePoint(**asdict(point)) for point in found.curve],
        identified=found.identified,
        next_plan=proposal_message(found.next_plan) if found.next_plan is not None else None,
        not_yet=found.not_yet,
        configuration=configuration_message(found.configuration),
    )


# --- from protobuf


def plans_from(message: pb.PlansReply) -> JobPlans:
    return JobPlans(message.name, _optional_planner(message), tuple(record_from(plan) for plan in message.plans))


def explain_from(message: pb.ExplainReply) -> JobExplanation:
    time = message.time
    return JobExplanation(
        message.name,
        _optional_planner(message),
        StepParts(time.data, time.compute, time.peers) if message.HasField("time") else None,
        _explanation_from(message.explanation) if message.HasField("explanation") else None,
        tuple(record_from(plan) for plan in message.plans),
    )


def planner_from(message: pb.PlannerStatus) -> PlannerStatus:
    grant = message.grant
    return PlannerStatus(
        PLANNER_STATE.from_wire(message.state),
        message.until,
        message.reason,
        message.plan,
        message.dry_run,
        message.brain,
        GrantStatus(grant.nodes, grant.cpu, grant.memory_mb, grant.reason) if message.HasField("grant") else None,
    )


def record_from(message: pb.PlanRecord) -> PlanRecord:
    later: dict[str, Any] = {name: _optional(message, name) for name in _LATER}
    flat: dict[str, Any] = {name: getattr(message, name) for name in _FLAT}
    return PlanRecord(
        **flat,
        **later,
        proposal=proposal_from(message.proposal),
        before=configuration_from(message.before),
        objective=PLAN_OBJECTIVE.from_wire(message.objective),
        outcome=PLAN_OUTCOME.from_wire(message.outcome),
    )


def _optional_planner(message: pb.PlansReply | pb.ExplainReply) -> PlannerStatus | None:
    return planner_from(message.planner) if message.HasField("planner") else None


def proposal_from(message: pb.PlanProposal) -> Proposal:
    p = message.prediction
    return Proposal(
        message.algorithm,
        message.reason,
        configuration_from(message.configuration),
        Prediction(p.rate, p.low, p.high, p.memory_mb, p.node_seconds, p.change_s)
        if message.HasField("prediction")
        else None,
        tuple(message.replace),
        dict(message.seats),
        dict(message.moves),
        message.urgent,
        message.at_next_restart,
        message.advice,
    )


def configuration_from(message: pb.JobConfiguration) -> Configuration:
    server = _shape(message.server) if message.HasField("server") else None
    return Configuration(_shape(message.worker), server, message.micro_batch)


def _shape(message: pb.NodeShape) -> Shape:
    return Shape(message.replicas, message.cpu, message.memory_mb, message.gpu)


def _explanation_from(message: pb.SpeedExplanation) -> Explanation:
    return Explanation(
        PLANNER_STATE.from_wire(message.state),
        _optional(message, "rate"),
        dict(message.parts),
        dict(message.terms),
        message.bottleneck,
        tuple(CurvePoint(p.workers, p.rate, p.low, p.high, _optional(p, "measured")) for p in message.curve),
        dict(message.identified),
        proposal_from(message.next_plan) if message.HasField("next_plan") else None,
        message.not_yet,
        configuration_from(message.configuration),
    )


def _optional(message: Any, name: str) -> float | None:
    return getattr(message, name) if message.HasField(name) else None
