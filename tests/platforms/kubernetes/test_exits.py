"""What a Pod's status says of its node. The statuses are as kubelets and controllers write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.nodes.fault_policy import ExitReason
from pliant.platforms.kubernetes.exits import MAX_CREATION_RETRY_S, pod_state
from pliant.platforms.kubernetes.names import labels_of
from pliant.platforms.kubernetes.timestamps import seconds_of

CREATED = "2026-01-01T00:00:00Z"
NOW = seconds_of(CREATED, 0.0) + 1.0


def pod(phase: str = "Running", *, deleted: bool = False, containers: list[Any] | None = None, **status: Any) -> Any:
    metadata: dict[str, Any] = {"name": "j-worker-0", "labels": labels_of("j", role="worker", node="worker-0")}
    metadata |= {"creationTimestamp": CREATED, **({"deletionTimestamp": CREATED} if deleted else {})}
    statuses = {"containerStatuses": containers} if containers is not None else {}
    return {"metadata": metadata, "spec": {"nodeName": "m1"}, "status": {"phase": phase, **statuses, **status}}


def ended(code: int, reason: str = "Error", message: str = "", name: str = "main") -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}}}


def failed(*containers: dict[str, Any], **status: Any) -> Any:
    return pod("Failed", containers=list(containers), **status)


LAST_WORDS = json.dumps({"exit_reason": "Error", "message": "exit code 3: ValueError: x"})
LOW = "The node was low on resource: memory. Container main was using 200Mi, which exceeds its request of 100Mi. "
VOLUME = 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '
STORAGE = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
BY_SCHEDULER = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "higher"}


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (pod("Succeeded", containers=[ended(0, "Completed")]), ExitReason.COMPLETED, "finished"),
        (failed(ended(137, "OOMKilled")), ExitReason.OOM, "out of memory"),
        (failed(ended(137)), ExitReason.KILLED, "SIGKILL"),
        (failed(ended(143)), ExitReason.PREEMPTED, "SIGTERM"),
        (failed(ended(1, message="a\nboom")), ExitReason.ERROR, "exit code 1: a\nboom"),
        (failed(ended(128, "StartError", "no such file")), ExitReason.ERROR, "StartError"),
        (failed(ended(1, message=LAST_WORDS)), ExitReason.ERROR, "exit code 3: ValueError: x"),
        (failed(ended(137), conditions=[BY_SCHEDULER]), ExitReason.PREEMPTED, "higher"),
        (failed(reason="Evicted", message=LOW), ExitReason.OOM, "exceeds its request"),
        (failed(reason="Evicted", message="The node had condition: [DiskPressure]. "), ExitReason.PREEMPTED, "Disk"),
        (failed(reason="Evicted", message=STORAGE), ExitReason.ERROR, "storage"),
        (failed(reason="Evicted", message=VOLUME), ExitReason.ERROR, "EmptyDir"),
        (failed(reason="Preempting", message="to admit critical pod"), ExitReason.PREEMPTED, "critical"),
        (failed(reason="Shutdown", message="Node is shutting, evicting pods"), ExitReason.PREEMPTED, "shutting"),
        (failed(reason="OutOfcpu", message="Node didn't have enough resource: cpu"), ExitReason.PREEMPTED, "cpu"),
        (pod(reason="NodeLost", message="Node m1 is unresponsive"), ExitReason.PREEMPTED, "m1"),
        (failed(reason="DeadlineExceeded", message="too long"), ExitReason.ERROR, "too long"),
        (failed(), ExitReason.UNKNOWN, "for an unknown reason"),
        (
            pod("Failed", initContainerStatuses=[ended(2, message="no data", name="fetch")]),
            ExitReason.ERROR,
            "exit code 2: no data",
        ),
    ],
)
def test_an_ended_pod_tells_why(status: Any, kind: ExitReason, words: str) -> None:
    event = pod_state(status, now=NOW).event
    assert (event.node, event.alive, event.exit_reason, event.host) == ("worker-0", False, kind, "m1")
    assert words in event.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (pod(deleted=True), ExitReason.PREEMPTED),
        (pod(), ExitReason.PREEMPTED),  # deleted by force: the last that was seen
        (failed(ended(137), deleted=True), ExitReason.PREEMPTED),
        (failed(ended(137, "OOMKilled"), deleted=True), ExitReason.OOM),
        (pod("Succeeded", deleted=True, containers=[ended(0, "Completed")]), ExitReason.COMPLETED),
        (failed(ended(1, message=LAST_WORDS), deleted=True), ExitReason.ERROR),
    ],
)
def test_a_deleted_pod_was_preempted_unless_it_ended_by_itself(status: Any, kind: ExitReason) -> None:
    event = pod_state(status, now=NOW, gone=True).event
    assert (event.alive, event.exit_reason) == (False, kind)


def test_a_pod_that_is_being_deleted_is_still_there() -> None:
    running = {"name": "main", "state": {"running": {"startedAt": CREATED}}}
    assert pod_state(pod(deleted=True, containers=[running]), now=NOW).event.alive


def test_a_pod_without_room_is_alive_and_says_what_it_waits_for() -> None:
    why = "0/2 nodes are available: 2 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    event = pod_state(pod("Pending", conditions=[condition]), now=NOW).event
    assert (event.alive, event.unschedulable) == (True, why)
    assert pod_state(pod("Pending"), now=NOW).event.unschedulable == ""


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"]
)
def test_a_container_that_cannot_be_made_is_given_up_after_a_while_with_what_the_registry_says(reason: str) -> None:
    container = {"name": "main", "state": {"waiting": {"reason": reason, "message": "manifest unknown"}}}
    status = pod("Pending", containers=[container])
    early, late = pod_state(status, now=NOW), pod_state(status, now=NOW + MAX_CREATION_RETRY_S)
    assert early.event.alive
    assert early.again_in == pytest.approx(MAX_CREATION_RETRY_S - 1.0)
    assert (late.event.alive, late.event.exit_reason, late.left_behind) == (False, ExitReason.ERROR, True)
    assert late.event.message == f"{reason}: manifest unknown"


def test_a_container_that_is_being_made_is_no_failure() -> None:
    container = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert pod_state(pod("Pending", containers=[container]), now=NOW + 3600).event.alive


def test_a_node_whose_sidecar_lives_on_has_ended_and_leaves_its_pod_behind() -> None:
    beside = {"name": "proxy", "state": {"running": {}}}
    state = pod_state(pod(containers=[beside, ended(0, "Completed")]), now=NOW)
    assert (state.event.alive, state.event.exit_reason, state.left_behind) == (False, ExitReason.COMPLETED, True)
