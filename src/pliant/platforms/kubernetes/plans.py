"""What a ScalePlan asks for and reports, as models.

A person's ScalePlan states what is wanted (``roles``, ``remove``, ``migrate``) and is answered by the job's master:
Pending -> Succeeded | Refused. What follows from it, the master plans itself.

The master's own plans name nodes (``create``, ``remove``) and never what runs on them. A master cannot create a ScalePlan: RBAC
cannot limit ``create`` by name, so any master could make one for any job of the namespace. It writes its plans and its answers
into the ``Outbox`` in the status of its own ElasticJob, which it alone may write besides the operator. The operator records
each plan as a ScalePlan, once, and executes them in the order of their numbers: Pending -> Executing -> Succeeded | Failed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from pliant.spec.base import Count, Flag, Model, Seconds
from pliant.spec.roles import NodeCount, ResourcesSpec

PlanPhase = Literal["Pending", "Executing", "Succeeded", "Refused", "Failed"]
PLAN_ENDED = frozenset({"Succeeded", "Refused", "Failed"})
NodeName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]


class StatusModel(Model):
    """A part of the status of a custom resource: another version may know more than this one."""

    model_config = ConfigDict(extra="ignore")


class RoleTarget(Model):
    """What a role should have."""

    replicas: NodeCount | None = Field(default=None, description="Number of nodes. Default: unchanged.")
    resources: ResourcesSpec | None = Field(default=None, description="Resources of each node. Default: unchanged.")
    rollout: Literal["rolling", "new-nodes"] = Field(
        default="rolling",
        description="How new resources apply to running nodes: they are replaced one by one, or keep their current resources.",
    )


class PodToCreate(Model):
    """One node to start. What runs on it, and with which priority, the job's spec says."""

    node: NodeName = Field(description="The node's name, such as worker-3; used once in a job's life.")
    role: NodeName = Field(description="Its role.")
    resources: ResourcesSpec = Field(default=ResourcesSpec(), description="Its resources.")
    high_priority: Flag = Field(default=False, description="Whether it gets the job's high_priority_class.")
    avoid_hosts: tuple[str, ...] = Field(default=(), description="Machines that it must not run on.")


class PodToRemove(Model):
    node: NodeName = Field(description="The node's name.")
    grace: Seconds = Field(default=10.0, description="Grace period in seconds between SIGTERM and SIGKILL.")


class PodToMigrate(Model):
    """A node to replace by one with other resources."""

    node: NodeName = Field(description="The node's name.")
    resources: ResourcesSpec = Field(default=ResourcesSpec(), description="Resources of its successor.")


class ScalePlanSpec(Model):
    """A change of a job's nodes."""

    job: str = Field(min_length=1, max_length=63, description="The ElasticJob, in the same namespace.")
    sequence: Count = Field(
        default=0, description="Sequence number of the master's plans; they are executed in this order."
    )
    reason: str = Field(default="", description="Human-readable reason.")
    roles: dict[str, RoleTarget] = Field(default={}, description="Nodes and resources by role.")
    create: tuple[PodToCreate, ...] = Field(default=(), description="Nodes to start; only the master names them.")
    remove: tuple[PodToRemove, ...] = Field(default=(), description="Nodes to remove.")
    migrate: tuple[PodToMigrate, ...] = Field(default=(), description="Nodes to replace with larger or smaller ones.")
    ps_hosts: tuple[str, ...] = Field(default=(), description="Addresses of the parameter servers after this plan.")


class PlanRequest(Model):
    """A plan of the master, before it is recorded as a ScalePlan."""

    reason: str = Field(default="", description="Human-readable reason.")
    create: tuple[PodToCreate, ...] = Field(default=(), description="Nodes to start.")
    remove: tuple[PodToRemove, ...] = Field(default=(), description="Nodes to remove.")


class PlanAnswer(StatusModel):
    """The master's answer to a person's ScalePlan."""

    refusal: str | None = Field(default=None, description="Why it is refused. Default: it is accepted.")


class Outbox(StatusModel):
    """What the master asks of the operator; only these two may write the status of an ElasticJob."""

    plans: dict[str, PlanRequest] | None = Field(
        default=None, description="Plans that are not finished, by sequence number; written by the master."
    )
    answers: dict[str, PlanAnswer] | None = Field(
        default=None, description="Answers to manual ScalePlans, by their uids; written by the master."
    )
    recorded: int | None = Field(
        default=None, description="The last sequence number that became a ScalePlan; written by the operator."
    )


class PodProblem(StatusModel):
    node: str = Field(description="The node.")
    message: str = Field(description="Response of the cluster.")
    passing: bool = Field(
        default=False, description="Whether it may be accepted later (no capacity) or never (an error)."
    )


class ScalePlanStatus(StatusModel):
    phase: PlanPhase | None = Field(default=None, description="Phase of the plan.")
    message: str | None = Field(default=None, description="Why it is waiting, or its result.")
    started: str | None = Field(default=None, description="Start time of its execution, RFC 3339.")
    finished: str | None = Field(default=None, description="End time, RFC 3339.")
    created: int | None = Field(default=None, description="Pods created so far.")
    removed: int | None = Field(default=None, description="Pods removed so far.")
    attempts: int | None = Field(default=None, description="Number of attempts in which a Pod was refused.")
    refused: tuple[PodProblem, ...] | None = Field(default=None, description="Pods that the cluster did not accept.")


def status_of(resource: dict[str, Any]) -> dict[str, Any]:
    """The status of a custom resource; empty where there is none yet."""
    return resource.get("status") or {}
