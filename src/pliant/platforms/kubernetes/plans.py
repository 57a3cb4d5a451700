"""What an ElasticJob tells in its status, and what a ScalePlan asks for: the two custom resources as models.

The spec of an ElasticJob is ``JobSpec``. Its status has two writers: the job's master tells phase ``Running``, progress,
roles and how it ended; the operator tells the phase while no master speaks, and alone writes ``conditions``.

A ScalePlan of the master names Pods (``create``, ``remove``), has a sequence number, and is executed by the operator:
Pending -> Executing -> Succeeded | Failed, in the order of the numbers, each once. A ScalePlan of a person states what is
wished (``roles``, ``remove``, ``migrate``) and is taken to the job's master: Pending -> Accepted -> Succeeded | Refused.
The master answers with plans of its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from pliant.spec.base import Count, Model, Seconds
from pliant.spec.roles import NodeCount, ResourcesSpec

JobPhase = Literal[
    "Pending", "Invalid", "Creating", "Running", "Suspending", "Suspended", "Succeeded", "Failed", "Stopped"
]
PlanPhase = Literal["Pending", "Executing", "Accepted", "Succeeded", "Refused", "Failed"]
ENDED = frozenset({"Succeeded", "Failed", "Stopped"})  # phases of a job that no other follows
PLAN_ENDED = frozenset({"Succeeded", "Refused", "Failed"})
NodeName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]


class Told(Model):
    """A part of a status: another version may know more than this one."""

    model_config = ConfigDict(extra="ignore")


# --- ScalePlan ---


class RoleWish(Model):
    """What a role should have."""

    replicas: NodeCount | None = Field(default=None, description="How many nodes. Default: as it is.")
    resources: ResourcesSpec | None = Field(default=None, description="What each new node is given. Default: as it is.")


class PodToCreate(Model):
    """One node to start. What is not given is as the job's spec says for the role."""

    node: NodeName = Field(description="The node's name, such as worker-3; used once in a job's life.")
    role: NodeName = Field(description="Its role.")
    resources: ResourcesSpec = Field(default=ResourcesSpec(), description="What it is given.")
    command: tuple[str, ...] | None = Field(default=None, description="The program. Default: the role's.")
    env: dict[str, str] = Field(default={}, description="Environment variables, over those of the role.")
    working_dir: str | None = Field(default=None, description="Where the program starts. Default: the job's.")
    priority_class: str | None = Field(default=None, description="Its priority class.")
    avoid_hosts: tuple[str, ...] = Field(default=(), description="Machines that it must not run on.")


class PodToRemove(Model):
    node: NodeName = Field(description="The node's name.")
    grace: Seconds = Field(default=10.0, description="Seconds between asking its program to end and forcing it.")


class PodToMigrate(Model):
    """A node to replace by one with other resources."""

    node: NodeName = Field(description="The node's name.")
    resources: ResourcesSpec = Field(default=ResourcesSpec(), description="What its successor is given.")


class ScalePlanSpec(Model):
    """A change of a job's nodes."""

    job: str = Field(min_length=1, max_length=63, description="The ElasticJob, in the same namespace.")
    sequence: Count = Field(default=0, description="Of the master's plans: they are executed in this order.")
    reason: str = Field(default="", description="Why, for people.")
    roles: dict[str, RoleWish] = Field(default={}, description="Nodes and resources by role.")
    create: tuple[PodToCreate, ...] = Field(default=(), description="Nodes to start; only the master names them.")
    remove: tuple[PodToRemove, ...] = Field(default=(), description="Nodes to end.")
    migrate: tuple[PodToMigrate, ...] = Field(default=(), description="Nodes to replace by larger or smaller ones.")
    ps_hosts: tuple[str, ...] = Field(default=(), description="Addresses of the parameter servers after this plan.")


class PodProblem(Told):
    node: str = Field(description="The node.")
    message: str = Field(description="What the cluster said.")
    passing: bool = Field(
        default=False, description="Whether it may be accepted later: no room, as opposed to an error."
    )


class ScalePlanStatus(Told):
    phase: PlanPhase | None = Field(default=None, description="How far it is.")
    message: str | None = Field(default=None, description="Why it waits, or how it ended.")
    started: str | None = Field(default=None, description="When its execution began, RFC 3339.")
    finished: str | None = Field(default=None, description="When it ended, RFC 3339.")
    created: int | None = Field(default=None, description="Pods created so far.")
    removed: int | None = Field(default=None, description="Pods removed so far.")
    attempts: int | None = Field(default=None, description="Rounds that some Pod was refused in.")
    refused: tuple[PodProblem, ...] | None = Field(default=None, description="Pods that the cluster does not accept.")


# --- ElasticJob ---


class Condition(Told):
    type: str = Field(description="What it is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(default="", description="Why, in one word.")
    message: str = Field(default="", description="Why, for people.")
    lastTransitionTime: str = Field(default="", description="Since when, RFC 3339.")


class RoleStatus(Told):
    """Nodes of one role, by state."""

    wanted: int | None = Field(default=None, description="How many there should be.")
    ready: int | None = Field(default=None, description="How many run and are registered.")
    pending: int | None = Field(default=None, description="How many wait for room or start.")
    succeeded: int | None = Field(default=None, description="How many are done.")
    failed: int | None = Field(default=None, description="How many ended otherwise, since the beginning.")


class ProgressStatus(Told):
    percent: float | None = Field(default=None, description="Of the records of all epochs, 0 to 100.")
    records: int | None = Field(default=None, description="Records done.")
    total: int | None = Field(default=None, description="Records in all.")
    step: int | None = Field(default=None, description="The training step.")
    epoch: int | None = Field(default=None, description="The epoch.")
    eta: str | None = Field(default=None, description="How long it still takes, such as 4m30s.")


class LastPlan(Told):
    name: str | None = Field(default=None, description="The ScalePlan.")
    reason: str | None = Field(default=None, description="Why it was made.")
    time: str | None = Field(default=None, description="When it was made, RFC 3339.")


class MasterStatus(Told):
    """The operator's word about the master's Pod."""

    pod: str | None = Field(default=None, description="The Pod.")
    ready: bool | None = Field(default=None, description="Whether it serves.")
    restarts: int | None = Field(default=None, description="How often its Pod was made anew.")


class ElasticJobStatus(Told):
    phase: JobPhase | None = Field(default=None, description="How the job is doing.")
    message: str | None = Field(default=None, description="Why, for people.")
    conditions: tuple[Condition, ...] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        description="What holds of the job; written by the operator alone.",
    )
    observed_generation: int | None = Field(default=None, description="The generation of the spec that was seen last.")
    roles: dict[str, RoleStatus] | None = Field(default=None, description="Nodes by role.")
    workers: str | None = Field(default=None, description="Workers, ready/wanted.")
    ps: str | None = Field(default=None, description="Parameter servers, ready/wanted.")
    replicas: int | None = Field(default=None, description="Workers that there are, for the scale subresource.")
    selector: str | None = Field(default=None, description="The label selector of the workers, for the same.")
    progress: ProgressStatus | None = Field(default=None, description="How far the training is.")
    goodput: float | None = Field(default=None, description="Useful time of the workers, percent.")
    last_plan: LastPlan | None = Field(default=None, description="The newest plan and its reason.")
    master: MasterStatus | None = Field(default=None, description="The master's Pod.")
    started: str | None = Field(default=None, description="When the master first served, RFC 3339.")
    suspended: str | None = Field(default=None, description="Since when it is suspended, RFC 3339.")
    finished: str | None = Field(default=None, description="When it ended, RFC 3339.")


def ratio(ready: int, wanted: int) -> str:
    """As a column of ``kubectl get`` shows it."""
    return f"{ready}/{wanted}"


def status_of(resource: dict[str, Any]) -> dict[str, Any]:
    """The status of a custom resource; empty where there is none yet."""
    return resource.get("status") or {}
