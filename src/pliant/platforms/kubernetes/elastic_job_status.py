"""The status of an ElasticJob: its models, and the way from and to ``core.status.JobStatus``.

It has two writers: the job's master reports phase ``Running``, progress, roles and how the job ended; the operator reports the
phase while there is no master, and alone writes ``conditions`` (``operator/job_status.py``). It says less than a master:
nodes only as counts per role, records only as sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from pliant.core.job import FINAL_PHASES, Phase
from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.status import Condition, DatasetStatus, JobStatus, PlanStatus, Progress, RoleStatus
from pliant.core.takeover import JOURNAL_LOST
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import worker_selector
from pliant.platforms.kubernetes.plans import StatusModel, status_of
from pliant.platforms.kubernetes.timestamps import rfc3339, seconds_of

PHASES = [phase.value for phase in Phase if phase is not Phase.INTERRUPTED]  # that is a matter of one machine
JobPhase = Annotated[Phase, WithJsonSchema({"type": "string", "enum": PHASES})]
WORKER, PS = "worker", "ps"  # the roles that have columns of their own
ALL_RECORDS = "all datasets"  # the one dataset of a status that was read from an ElasticJob


class ConditionModel(StatusModel):
    type: str = Field(description="What it is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(default="", description="Why, in one word.")
    message: str = Field(default="", description="Why, for people.")
    lastTransitionTime: str = Field(default="", description="Since when, RFC 3339.")


class RoleModel(StatusModel):
    """Nodes of one role, by state."""

    wanted: int | None = Field(default=None, description="How many there should be.")
    ready: int | None = Field(default=None, description="How many run and are registered.")
    pending: int | None = Field(default=None, description="How many start or wait for room.")
    succeeded: int | None = Field(default=None, description="How many are done.")
    failed: int | None = Field(default=None, description="How many ended otherwise, since the beginning.")


class ProgressModel(StatusModel):
    percent: float | None = Field(default=None, description="Of the records of all epochs, 0 to 100.")
    records: int | None = Field(default=None, description="Records done.")
    total: int | None = Field(default=None, description="Records in all.")
    step: int | None = Field(default=None, description="The training step.")
    epoch: int | None = Field(default=None, description="The epoch.")
    eta: str | None = Field(default=None, description="How long it still takes, such as 4m30s.")


class PlanModel(StatusModel):
    name: str | None = Field(default=None, description="The ScalePlan.")
    reason: str | None = Field(default=None, description="Why it was made.")
    time: str | None = Field(default=None, description="When it was made, RFC 3339.")


class MasterModel(StatusModel):
    """The master's Pod, as the operator sees it."""

    pod: str | None = Field(default=None, description="The Pod.")
    ready: bool | None = Field(default=None, description="Whether it serves.")
    restarts: int | None = Field(default=None, description="How often its Pod was created again.")


class WaitingModel(StatusModel):
    reason: str | None = Field(default=None, description="Why, in one word.")
    message: str | None = Field(default=None, description="Why, for people.")


class MachineModel(StatusModel):
    """What one Pod can be given if it is alone there."""

    cpu: float | None = Field(default=None, description="Cores.")
    memory_mb: int | None = Field(default=None, description="MB of memory.")
    gpu: int | None = Field(default=None, description="GPUs.")


class RecoveryModel(StatusModel):
    """What became of the job when the journal of its master was lost; the condition ``JournalLost`` says the same."""

    outcome: str | None = Field(default=None, description="TakenOver or StartedOver.")
    message: str | None = Field(default=None, description="Why, for people.")
    time: str | None = Field(default=None, description="When, RFC 3339.")


class ElasticJobStatus(StatusModel):
    phase: JobPhase | None = Field(default=None, description="How the job is doing.")
    message: str | None = Field(default=None, description="Why, for people.")
    waiting: WaitingModel | None = Field(
        default=None, description="What the job waits for, by its master; becomes the condition WaitingForNodes."
    )
    machines: tuple[MachineModel, ...] | None = Field(
        default=None, description="Sizes of the machines that nodes of the job may run on, by the operator."
    )
    conditions: tuple[ConditionModel, ...] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        description="What holds of the job; written by the operator alone.",
    )
    observed_generation: int | None = Field(default=None, description="The generation of the spec that was seen last.")
    roles: dict[str, RoleModel] | None = Field(default=None, description="Nodes by role.")
    workers: str | None = Field(default=None, description="Workers, ready/wanted.")
    ps: str | None = Field(default=None, description="Parameter servers, ready/wanted.")
    replicas: int | None = Field(default=None, description="Workers that there are, for the scale subresource.")
    selector: str | None = Field(default=None, description="The label selector of the workers, for the same.")
    progress: ProgressModel | None = Field(default=None, description="How far the training is.")
    goodput: float | None = Field(default=None, description="Useful time of the workers, percent.")
    last_plan: PlanModel | None = Field(default=None, description="The newest plan and its reason.")
    master: MasterModel | None = Field(default=None, description="The master's Pod.")
    datasets: tuple[str, ...] | None = Field(
        default=None, description="Datasets of which the master's journal alone knows what is done."
    )
    recovery: RecoveryModel | None = Field(default=None, description="The last time that the journal was lost.")
    started: str | None = Field(default=None, description="When the master first served, RFC 3339.")
    suspended: str | None = Field(default=None, description="Since when it is suspended, RFC 3339.")
    finished: str | None = Field(default=None, description="When it ended, RFC 3339.")


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
            percent=round(100 * progress.records_done / progress.records_total, 1) if progress.records_total else None,
            records=progress.records_done,
            total=progress.records_total,
            step=progress.step,
            epoch=progress.epoch,
            eta=duration(status.eta) if status.eta is not None else None,
        ),
        goodput=round(status.goodput, 1) if status.goodput is not None else None,
        last_plan=_plan_model(last_plan) if last_plan is not None else None,
        datasets=status.journaled_datasets,
        recovery=next(map(_recovery_model, filter(_is_recovery, status.conditions)), None),
        started=_moment(status.started_at),
        finished=_moment(status.ended_at),
    )
    patch = model.to_json()
    patch["suspended"] = _moment(status.suspended_at)  # null takes it away
    waiting = status.waiting
    patch["waiting"] = {"reason": waiting.reason, "message": waiting.message} if waiting is not None else None
    if status.eta is None:
        patch["progress"]["eta"] = None
    return patch


def _role_model(role: RoleStatus) -> RoleModel:
    return RoleModel(
        wanted=role.wanted, ready=role.ready, pending=role.pending, succeeded=role.succeeded, failed=role.failed
    )


def _plan_model(plan: PlanStatus) -> PlanModel:
    return PlanModel(name=plan.name, reason=plan.reason or None, time=plan.time or None)


def _is_recovery(condition: Condition) -> bool:
    return condition.type == JOURNAL_LOST


def _recovery_model(condition: Condition) -> RecoveryModel:
    return RecoveryModel(outcome=condition.reason, message=condition.message, time=condition.since)


def _moment(seconds: float) -> str | None:
    return rfc3339(seconds) if seconds else None


def _ratio_of(status: JobStatus, role: str) -> str | None:
    found = status.role(role)
    return ratio(found.ready, found.wanted) if found else None


def ratio(ready: int, wanted: int) -> str:
    """As a column of ``kubectl get`` shows it."""
    return f"{ready}/{wanted}"


def duration(seconds: float) -> str:
    """Such as ``4m30s``."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    parts = [f"{amount}{unit}" for amount, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if amount]
    return "".join([*parts, f"{whole % 60}s"][:2])


# --- from the resource


def machines_of(job: Object) -> Capacity | None:
    """What the operator says of the machines of the cluster; None: it says nothing."""
    found = ElasticJobStatus.model_validate(status_of(job)).machines
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
    found = ElasticJobStatus.model_validate(status_of(job))
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
        progress=Progress(done, total, progress.step or 0, progress.epoch or 0),
        goodput=found.goodput,
        last_plan=PlanStatus(plan.name or "", plan.reason or "", plan.time or "") if plan is not None else None,
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
