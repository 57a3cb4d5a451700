"""The status of an ElasticJob: its models, and the way from and to ``core.status.JobStatus``.

It has two writers: the job's master reports phase ``Running``, progress, roles and how the job ended; the operator reports the
phase while there is no master, and alone writes ``conditions`` (``operator/job_status.py``). It says less than a master:
nodes only as counts per role, records only as sums. ``outbox`` is no report: by it the master asks the operator
for Pods (``plans``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from pliant.core.job import FINAL_PHASES, Phase
from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.planning.planner_state import PlannerState
from pliant.core.progress import LOSS
from pliant.core.status import (
    CheckpointStatus,
    Condition,
    DatasetStatus,
    GrantStatus,
    JobStatus,
    PlannerStatus,
    PlanStatus,
    Progress,
    RoleStatus,
)
from pliant.core.takeover import JOURNAL_LOST
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import worker_selector
from pliant.platforms.kubernetes.plans import Outbox, StatusModel, status_of
from pliant.platforms.kubernetes.timestamps import rfc3339, seconds_of

PHASES = [phase.value for phase in Phase if phase is not Phase.INTERRUPTED]  # that is a matter of one machine
JobPhase = Annotated[Phase, WithJsonSchema({"type": "string", "enum": PHASES})]
WORKER, PS = "worker", "ps"  # the roles that have columns of their own
_OPTIONAL_OF_PLANNER = ("reason", "plan", "until", "brain", "grant")  # null takes them away
ALL_RECORDS = "all datasets"  # the one dataset of a status that was read from an ElasticJob


class ConditionModel(StatusModel):
    type: str = Field(description="Condition type.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str = Field(default="", description="Machine-readable reason.")
    message: str = Field(default="", description="Human-readable explanation.")
    lastTransitionTime: str = Field(default="", description="Time of the last transition, RFC 3339.")


class RoleModel(StatusModel):
    """Nodes of one role, by state."""

    wanted: int | None = Field(default=None, description="Desired number of nodes.")
    ready: int | None = Field(default=None, description="Nodes that are running and registered.")
    pending: int | None = Field(default=None, description="Nodes that are starting or Pending.")
    succeeded: int | None = Field(default=None, description="Nodes that succeeded.")
    failed: int | None = Field(default=None, description="Nodes that failed since the job started.")


class ProgressModel(StatusModel):
    percent: float | None = Field(default=None, description="Share of the steps or records done, 0 to 100.")
    records: int | None = Field(default=None, description="Records done.")
    total: int | None = Field(default=None, description="Records in total.")
    step: int | None = Field(default=None, description="The training step.")
    total_steps: int | None = Field(default=None, description="Total number of training steps; 0 if unknown.")
    loss: float | None = Field(default=None, description="The last reported loss.")
    records_per_second: float | None = Field(default=None, description="Records finished per second.")
    epoch: int | None = Field(default=None, description="The epoch.")
    eta: str | None = Field(default=None, description="Estimated time left, such as 4m30s.")


class PlanModel(StatusModel):
    name: str | None = Field(default=None, description="The ScalePlan, or the plan of the job's planner.")
    reason: str | None = Field(default=None, description="Reason for the plan.")
    time: str | None = Field(default=None, description="Creation time, RFC 3339.")
    algorithm: str | None = Field(default=None, description="The algorithm that made it; none if a person did.")
    outcome: str | None = Field(default=None, description="What became of it, such as kept or rolled back.")
    judgement: str | None = Field(default=None, description="What it achieved.")


class GrantModel(StatusModel):
    nodes: int | None = Field(default=None, description="Nodes; 0 if the job is suspended until a later grant.")
    cpu: float | None = Field(default=None, description="Cores over all nodes.")
    memory_mb: float | None = Field(default=None, description="MB of memory over all nodes; 0 if not limited.")
    reason: str | None = Field(default=None, description="Why it is so much.")


class PlannerModel(StatusModel):
    """Of a job with ``optimize: single-job`` or ``cluster``."""

    state: str | None = Field(default=None, description="State of the planner, such as observing or settling.")
    reason: str | None = Field(default=None, description="Reason for a pause, or for the plan that is under way.")
    plan: str | None = Field(default=None, description="The plan that is under way.")
    until: str | None = Field(default=None, description="End of the pause or the cool-down, RFC 3339.")
    dry_run: bool | None = Field(default=None, description="Whether plans are only shown.")
    brain: str | None = Field(default=None, description="Whether the Brain leads or is away; none without a Brain.")
    grant: GrantModel | None = Field(default=None, description="The most that the quota grants to the job.")


class MasterModel(StatusModel):
    """The master's Pod, as the operator sees it."""

    pod: str | None = Field(default=None, description="The Pod.")
    ready: bool | None = Field(default=None, description="Whether the master is serving.")
    restarts: int | None = Field(default=None, description="Number of times its Pod was recreated.")


class WaitingModel(StatusModel):
    reason: str | None = Field(default=None, description="Machine-readable reason.")
    message: str | None = Field(default=None, description="Human-readable explanation.")


class MachineModel(StatusModel):
    """What one Pod can be given if it is alone there."""

    cpu: float | None = Field(default=None, description="Cores.")
    memory_mb: int | None = Field(default=None, description="MB of memory.")
    gpu: int | None = Field(default=None, description="GPUs.")


class CheckpointModel(StatusModel):
    """What became of the checkpoints for one destination; the condition ``CheckpointsFailing`` says if the last one failed."""

    directory: str | None = Field(default=None, description="The checkpoint directory.")
    last_step: int | None = Field(default=None, description="Step of the newest complete checkpoint.")
    last_time: str | None = Field(default=None, description="Time of the newest complete checkpoint, RFC 3339.")
    failures: int | None = Field(default=None, description="Checkpoints that could not be written.")
    failures_in_a_row: int | None = Field(default=None, description="Failures since the last complete checkpoint.")
    failing_since: str | None = Field(default=None, description="Time of the first of these failures, RFC 3339.")
    message: str | None = Field(default=None, description="Why the last one could not be written, and what to do.")


class RecoveryModel(StatusModel):
    """What became of the job when the journal of its master was lost; the condition ``JournalLost`` says the same."""

    outcome: str | None = Field(default=None, description="TakenOver or StartedOver.")
    message: str | None = Field(default=None, description="Human-readable explanation.")
    time: str | None = Field(default=None, description="Time, RFC 3339.")


class ElasticJobStatus(StatusModel):
    phase: JobPhase | None = Field(default=None, description="Phase of the job.")
    message: str | None = Field(default=None, description="Human-readable explanation.")
    waiting: WaitingModel | None = Field(
        default=None, description="What the job waits for, set by its master; becomes the condition WaitingForNodes."
    )
    machines: tuple[MachineModel, ...] | None = Field(
        default=None, description="Sizes of the machines that the job may run on, set by the operator."
    )
    conditions: tuple[ConditionModel, ...] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        description="Conditions of the job, written only by the operator.",
    )
    observed_generation: int | None = Field(
        default=None, description="The most recent generation of the spec that was observed."
    )
    roles: dict[str, RoleModel] | None = Field(default=None, description="Nodes by role.")
    workers: str | None = Field(default=None, description="Workers, running or succeeded/desired.")
    ps: str | None = Field(default=None, description="Parameter servers, ready/desired.")
    replicas: int | None = Field(default=None, description="Current number of workers, for the scale subresource.")
    selector: str | None = Field(default=None, description="Label selector of the workers, for the scale subresource.")
    progress: ProgressModel | None = Field(default=None, description="Training progress.")
    goodput: float | None = Field(default=None, description="Useful time of the workers, percent.")
    last_plan: PlanModel | None = Field(default=None, description="The latest plan and its reason.")
    planner: PlannerModel | None = Field(default=None, description="The planner of a job that plans its own resources.")
    master: MasterModel | None = Field(default=None, description="The master's Pod.")
    datasets: tuple[str, ...] | None = Field(
        default=None, description="Datasets whose progress is only in the master's journal."
    )
    checkpoints: tuple[CheckpointModel, ...] | None = Field(default=None, description="Checkpoints, by destination.")
    recovery: RecoveryModel | None = Field(default=None, description="The last loss of the journal.")
    outbox: Outbox | None = Field(default=None, description="What the master asks of the operator.")
    started: str | None = Field(default=None, description="Time when the master first served, RFC 3339.")
    suspended: str | None = Field(default=None, description="Time of suspension, RFC 3339.")
    finished: str | None = Field(default=None, description="End time, RFC 3339.")


# --- to the resource


def status_patch(status: JobStatus, *, generation: int, last_plan: PlanStatus | None) -> Object:
    """What the master writes into the status of its ElasticJob. ``generation``: of the newest edit that was answered."""
    progress, workers = status.progress, status.role(WORKER)
    model = ElasticJobStatus(
        phase=status.phase,
        message=status.message,
        observed_generation=generation or None,
        roles={role.name: _role_model(role) for role in status.roles},
        workers=_ratio_of(status, WORKER),
        ps=_ratio_of(status, PS),
        replicas=workers.ready + workers.pending if workers else 0,
        selector=worker_selector(status.name),
        progress=ProgressModel(
            percent=round(progress.percent, 1) if progress.percent is not None else None,
            records=progress.records_done,
            total=progress.records_total,
            step=progress.step,
            total_steps=progress.total_steps,
            loss=progress.loss,
            records_per_second=round(status.records_per_second, 1),
            epoch=progress.epoch,
            eta=duration(status.eta) if status.eta is not None else None,
        ),
        goodput=round(status.goodput, 1) if status.goodput is not None else None,
        last_plan=_plan_model(last_plan) if last_plan is not None else None,
        planner=_planner_model(status.planner) if status.planner is not None else None,
        datasets=status.journaled_datasets,
        checkpoints=tuple(map(_checkpoint_model, status.checkpoints)) or None,
        recovery=next(map(_recovery_model, filter(_is_recovery, status.conditions)), None),
        started=_moment(status.started_at),
        finished=_moment(status.ended_at),
    )
    patch = model.to_json()
    patch["suspended"] = _moment(status.suspended_at)  # null takes it away
    waiting = status.waiting
    patch["waiting"] = {"reason": waiting.reason, "message": waiting.message} if waiting is not None else None
    if last_plan is not None:
        patch["last_plan"] = {"algorithm": None, "outcome": None, "judgement": None, **patch["last_plan"]}
    if status.planner is not None:
        patch["planner"] = {**dict.fromkeys(_OPTIONAL_OF_PLANNER), **patch["planner"]}
    patch["progress"] = {"eta": None, "loss": None, **patch["progress"]}  # likewise
    return patch


def _role_model(role: RoleStatus) -> RoleModel:
    return RoleModel(
        wanted=role.wanted, ready=role.ready, pending=role.pending, succeeded=role.succeeded, failed=role.failed
    )


def _plan_model(plan: PlanStatus) -> PlanModel:
    return PlanModel(
        name=plan.name,
        reason=plan.reason or None,
        time=plan.time or None,
        algorithm=plan.algorithm or None,
        outcome=plan.outcome or None,
        judgement=plan.judgement or None,
    )


def _planner_model(planner: PlannerStatus) -> PlannerModel:
    return PlannerModel(
        state=planner.state.value,
        reason=planner.reason or None,
        plan=planner.plan or None,
        until=_moment(planner.until),
        dry_run=planner.dry_run,
        brain=planner.brain or None,
        grant=GrantModel(**asdict(planner.grant)) if planner.grant is not None else None,
    )


def _checkpoint_model(found: CheckpointStatus) -> CheckpointModel:
    message = f"{found.reason}; what to do: {found.hint}" if found.hint else found.reason
    return CheckpointModel(
        directory=found.directory,
        last_step=found.last_step if found.last_time else None,
        last_time=_moment(found.last_time),
        failures=found.failures,
        failures_in_a_row=found.failures_in_a_row,
        failing_since=_moment(found.failing_since) if found.failures_in_a_row else None,
        message=message if found.failures_in_a_row else None,
    )


def _is_recovery(condition: Condition) -> bool:
    return condition.type == JOURNAL_LOST


def _recovery_model(condition: Condition) -> RecoveryModel:
    return RecoveryModel(outcome=condition.reason, message=condition.message, time=condition.since)


def _moment(seconds: float) -> str | None:
    return rfc3339(seconds) if seconds else None


def _ratio_of(status: JobStatus, role: str) -> str | None:
    found = status.role(role)
    return ratio(found.present, found.wanted) if found else None


def ratio(present: int, wanted: int) -> str:
    """As a column of ``kubectl get`` shows it."""
    return f"{present}/{wanted}"


def duration(seconds: float) -> str:
    """Such as ``4m30s``."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    parts = [f"{amount}{unit}" for amount, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if amount]
    return "".join([*parts, f"{whole % 60}s"][:2])


# --- from the resource


def _reported(job: Object) -> ElasticJobStatus:
    """All but the outbox, which may be large and is between master and operator."""
    return ElasticJobStatus.model_validate({key: value for key, value in status_of(job).items() if key != "outbox"})


def machines_of(job: Object) -> Capacity | None:
    """What the operator says of the machines of the cluster; None: it says nothing."""
    found = _reported(job).machines
    if found is None:
        return None
    return Capacity(tuple(Machine(machine.cpu, machine.memory_mb, machine.gpu) for machine in found))


def phase_of(job: Object) -> Phase:
    return Phase(status_of(job).get("phase") or Phase.PENDING)


def is_over(job: Object) -> bool:
    return phase_of(job) in FINAL_PHASES


def message_of(job: Object) -> str:
    return str(status_of(job).get("message") or "")


def status_of_resource(job: Object, now: float) -> JobStatus:
    """What the ElasticJob itself says."""
    found = _reported(job)
    progress = found.progress or ProgressModel()
    done, total = progress.records or 0, progress.total or 0
    all_records = DatasetStatus(ALL_RECORDS, records_done=done, records_total=total, complete=done == total)
    plan = found.last_plan
    return JobStatus(
        name=job["metadata"]["name"],
        phase=phase_of(job),
        reason=message_of(job),
        message=message_of(job),
        started_at=seconds_of(found.started),
        suspended_at=seconds_of(found.suspended),
        ended_at=seconds_of(found.finished),
        time=now,
        conditions=tuple(_condition(condition) for condition in found.conditions or ()),
        roles=tuple(
            _role(name, spec.get("replicas") or {}, (found.roles or {}).get(name) or RoleModel())
            for name, spec in (job["spec"].get("roles") or {}).items()
        ),
        datasets=(all_records,) if total else (),
        progress=Progress(
            done,
            total,
            progress.step or 0,
            progress.epoch or 0,
            progress.total_steps or 0,
            {LOSS: progress.loss} if progress.loss is not None else {},
        ),
        records_per_second=0.0 if is_over(job) else progress.records_per_second or 0.0,
        goodput=found.goodput,
        last_plan=_plan(plan) if plan is not None else None,
        planner=_planner(found.planner) if found.planner is not None else None,
        checkpoints=tuple(map(_checkpoint, found.checkpoints or ())),
    )


def _plan(model: PlanModel) -> PlanStatus:
    algorithm, outcome, judgement = model.algorithm or "", model.outcome or "", model.judgement or ""
    return PlanStatus(model.name or "", model.reason or "", model.time or "", algorithm, outcome, judgement)


def _planner(model: PlannerModel) -> PlannerStatus:
    return PlannerStatus(
        PlannerState(model.state or PlannerState.OBSERVING),
        seconds_of(model.until),
        model.reason or "",
        model.plan or "",
        bool(model.dry_run),
        model.brain or "",
        _grant(model.grant) if model.grant is not None else None,
    )


def _grant(model: GrantModel) -> GrantStatus:
    return GrantStatus(model.nodes or 0, model.cpu or 0.0, model.memory_mb or 0.0, model.reason or "")


def _checkpoint(model: CheckpointModel) -> CheckpointStatus:
    return CheckpointStatus(
        directory=model.directory or "",
        last_step=model.last_step or 0,
        last_time=seconds_of(model.last_time),
        failures=model.failures or 0,
        failures_in_a_row=model.failures_in_a_row or 0,
        failing_since=seconds_of(model.failing_since),
        reason=model.message or "",
    )


def _condition(model: ConditionModel) -> Condition:
    return Condition(model.type, model.status, model.reason, model.message, model.lastTransitionTime)


def _role(name: str, replicas: Mapping[str, Any], counts: RoleModel) -> RoleStatus:
    maximum = replicas.get("max", 1)
    wanted = (counts.wanted, replicas.get("wanted"), maximum)  # 0 is a number like any other
    return RoleStatus(
        name=name,
        min=replicas.get("min", 1),
        max=maximum,
        wanted=next(number for number in wanted if number is not None),
        ready=counts.ready or 0,
        pending=counts.pending or 0,
        succeeded=counts.succeeded or 0,
        failed=counts.failed or 0,
    )
