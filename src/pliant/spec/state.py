"""The state that a job begins with, as its spec says: which state machines there are, and how each is set up."""

from __future__ import annotations

from dataclasses import replace

from pliant.core.changes import DesiredState
from pliant.core.checkpoints.book import CheckpointBook
from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.states import RoleSpec
from pliant.core.parameters.book import ParameterBook
from pliant.core.planning.periods import PeriodBook
from pliant.core.planning.planner import Planner, PlannerSettings
from pliant.core.planning.usage_book import UsageBook
from pliant.core.rendezvous.book import RendezvousBook
from pliant.core.rendezvous.groups import GroupBook
from pliant.core.shards.book import ShardBook
from pliant.core.training import TrainingBook
from pliant.spec.job import JobSpec

LOCAL_INTERVAL_S, CLUSTER_INTERVAL_S = 1.0, 5.0


def initial_state(spec: JobSpec) -> JobState:
    wanted = spec.components()
    is_planned = spec.optimize.is_automatic and wanted.nodes
    return JobState(
        job=JobBook(keeps_serving=wanted.keeps_serving),
        checkpoints=CheckpointBook(spec.checkpoint.policy()),
        nodes=_nodes(spec) if wanted.nodes else None,
        groups=GroupBook() if wanted.nodes else None,
        changes=DesiredState(spec.desired()),
        shards=ShardBook() if wanted.shards else None,
        parameters=_parameters(spec) if wanted.parameters else None,
        rendezvous=RendezvousBook(spec.rendezvous_limits()) if wanted.rendezvous else None,
        training=_training(spec) if wanted.training else None,
        periods=PeriodBook() if is_planned else None,
        planner=Planner(planner_settings(spec)) if is_planned else None,
        usage=UsageBook() if is_planned else None,
    )


def sample_interval(spec: JobSpec) -> float:
    """Seconds between two measurements of a job that plans its own resources."""
    return spec.optimize.interval or (CLUSTER_INTERVAL_S if spec.platform.kind == "kubernetes" else LOCAL_INTERVAL_S)


def planner_settings(spec: JobSpec) -> PlannerSettings:
    """Times are in proportion to the time between two measurements."""
    unit = sample_interval(spec) / CLUSTER_INTERVAL_S
    defaults = PlannerSettings()
    return replace(
        defaults,
        dry_run=spec.optimize.dry_run,
        algorithms=spec.optimize.algorithms,
        cool_down_s=defaults.cool_down_s * unit,
        judge_s=defaults.judge_s * unit,
    )


def _nodes(spec: JobSpec) -> NodeBook:
    high_share = spec.platform.kubernetes.high_priority_share
    roles = {
        name: RoleSpec(
            name,
            role.replicas.min,
            role.replicas.max,
            role.replicas.target,
            role.resources.to_core(),
            role.min_resources.to_core(),
            bool(role.critical),
            reports_progress=name not in SERVICE_ROLES,
            high_share=high_share if name == "worker" else 0.0,
        )
        for name, role in spec.roles.items()
        if role.command
    }
    return NodeBook(
        roles,
        spec.fault_policy(),
        policies={name: spec.fault_policy(name) for name in roles},
        suspended="set in the job spec" if spec.suspend else "",
    )


def _parameters(spec: JobSpec) -> ParameterBook:
    servers = spec.roles.get("ps")
    seats = servers.replicas.target if servers else 1
    return ParameterBook(spec.parameters.to_core(spec.strategy), seats)


def _training(spec: JobSpec) -> TrainingBook:
    evaluation = spec.evaluation_dataset()
    return TrainingBook(eval_dataset=evaluation.name if evaluation else "", every_steps=spec.checkpoint.every_steps)
