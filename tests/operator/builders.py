"""Objects as the operator sees them, for tests without a cluster."""

from __future__ import annotations

import copy
from typing import Any

from pliant.operator.observed import ObservedJob
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import (
    MADE_BY_LABEL,
    labels_of,
    master_name,
    owner_reference,
    plan_name,
    pod_name,
)
from pliant.platforms.kubernetes.timestamps import rfc3339

NOW = 1_700_000_000.0
KEY = ("team", "digits")


def job(*, uid: str = "job-1", status: Object | None = None, **spec: Any) -> Object:
    worker = {"command": ["python", "train.py"], "replicas": {"min": 1, "max": 4, "wanted": 4}}
    return {
        "apiVersion": "pliant.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "digits", "namespace": "team", "uid": uid, "resourceVersion": "5", "generation": 1},
        "spec": {"roles": {"worker": worker}, **spec},
        "status": status or {},
    }


def claimed(**rest: Any) -> Object:
    """A job whose journal outlives its master's Pod."""
    return job(platform={"kubernetes": {"journal": {"volume": "claim"}}}, **rest)


def pod(owner: Object, node: str = "", *, phase: str = "Running", ready: bool = True, **changes: Any) -> Object:
    """A node's Pod, or without a node the master's."""
    name = pod_name("digits", node) if node else master_name("digits")
    role = node.partition("-")[0] or "master"
    made: Object = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "creationTimestamp": rfc3339(NOW - 10),
            "labels": labels_of("digits", role=role, node=node),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"nodeName": "machine-1", "containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }
    return made | changes


def deleted(item: Object, since: float) -> Object:
    """Asked to go, and due to be gone ``since`` seconds ago."""
    gone = copy.deepcopy(item)
    gone["metadata"]["deletionTimestamp"] = rfc3339(NOW - since)
    return gone


def ended(item: Object, code: int, message: str = "", phase: str = "Failed") -> Object:
    over = copy.deepcopy(item)
    terminated = {"exitCode": code, "reason": "Error", "message": message}
    over["status"] = {"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}
    return over


def plan(owner: Object, sequence: int, phase: str = "", **spec: Any) -> Object:
    return {
        "metadata": {
            "name": plan_name("digits", sequence),
            "namespace": "team",
            "uid": f"plan-{sequence}",
            "resourceVersion": str(sequence),
            "creationTimestamp": rfc3339(NOW - 5),
            "labels": {**labels_of("digits"), MADE_BY_LABEL: "master"},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"job": "digits", "sequence": sequence, **spec},
        "status": {"phase": phase} if phase else {},
    }


def requesting(owner: Object, *plans: Object, recorded: int | None = None) -> Object:
    """The job whose master requested these plans; by default all of them are recorded."""
    numbers = [int(each["spec"]["sequence"]) for each in plans]
    requests = {
        str(number): {key: value for key, value in each["spec"].items() if key not in ("job", "sequence")}
        for number, each in zip(numbers, plans, strict=True)
    }
    outbox = {"plans": requests, "recorded": max(numbers, default=0) if recorded is None else recorded}
    return {**owner, "status": {**owner["status"], "outbox": outbox}}


def observed(owner: Object | None, *, pods: tuple[Object, ...] = (), plans: tuple[Object, ...] = ()) -> ObservedJob:
    return ObservedJob(KEY, owner, plans, pods)
