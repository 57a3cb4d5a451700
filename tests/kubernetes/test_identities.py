"""What a job's master can do to other jobs of its namespace with its own token: nothing. On a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import Kube, Space
from tests.kubernetes.operators import (
    OperatorProcess,
    a_job,
    kubeconfig_of,
    node_pods,
    running_operator,
    wait_for_master,
    wait_for_plan,
)

from pliant.core.errors import PliantError
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, ELASTIC_JOBS, EVENTS, PODS, SCALE_PLANS, SECRETS, Object
from pliant.platforms.kubernetes.names import MADE_BY_LABEL, files_name, labels_of, owner_reference, plan_name
from pliant.platforms.kubernetes.plans import status_of

NODE = {"node": "worker-0", "role": "worker"}


class Attacker:
    """Has the token of the master of the job ``own``, and wants something of the job ``other``."""

    def __init__(self, space: Space, kube: Kube, other: Object) -> None:
        self.space, self.other = space, other
        self._kube = kube

    def create(self, kind: Any, body: Object) -> Object:
        return self._kube.create(kind, body, self.space.name)

    def patch(self, kind: Any, name: str, patch: Object, subresource: str = "") -> Object:
        return self._kube.patch(kind, name, patch, self.space.name, subresource=subresource)

    def read(self, kind: Any, name: str) -> Object:
        return self._kube.get(kind, name, self.space.name)

    def forged_plan(self, **entry: Any) -> Object:
        """As the other job's master would have made it, with a command of the attacker's."""
        metadata = {
            "name": plan_name("other", 1),
            "labels": {**labels_of("other"), MADE_BY_LABEL: "master"},
            "ownerReferences": [owner_reference(self.other)],
        }
        return {"metadata": metadata, "spec": {"job": "other", "sequence": 1, "create": [{**NODE, **entry}]}}


@pytest.fixture
def operator(space: Space, tmp_path: Path) -> Iterator[OperatorProcess]:
    with running_operator(space, tmp_path / "operator.log") as operator:
        yield operator


@pytest.fixture
def attacker(space: Space, operator: OperatorProcess, kubelet: FakeKubelet, tmp_path: Path) -> Iterator[Attacker]:
    other = a_job(space, "other")
    a_job(space, "own")
    for name in ("own", "other"):
        kubelet.run(wait_for_master(space, name))
    kube = Kube(kubeconfig_of(space, tmp_path, "own-master"))
    yield Attacker(space, kube, other)
    kube.close()


def test_a_master_can_neither_create_nor_change_anything_of_another_job(attacker: Attacker) -> None:
    space = attacker.space
    manual = space.create(SCALE_PLANS, {"metadata": {"name": "manual"}, "spec": {"job": "other"}})
    answer = {"outbox": {"answers": {manual["metadata"]["uid"]: {}}, "plans": {"1": {"create": [NODE]}}}}
    attempts: dict[str, Callable[[], object]] = {
        "a plan with copied label, owner and a command": lambda: attacker.create(
            SCALE_PLANS, attacker.forged_plan(command=["sh", "-c", "id"], env={"A": "1"}, priority_class="high")
        ),
        "a plan as a person writes it": lambda: attacker.create(
            SCALE_PLANS, {"metadata": {"name": "x"}, "spec": {"job": "other", "roles": {"worker": {"replicas": 1}}}}
        ),
        "another's plan": lambda: attacker.patch(SCALE_PLANS, "manual", {"spec": {"reason": "x"}}),
        "the answer to another's plan": lambda: attacker.patch(
            SCALE_PLANS, "manual", {"status": {"phase": "Refused"}}, "status"
        ),
        "another's outbox": lambda: attacker.patch(ELASTIC_JOBS, "other", {"status": answer}, "status"),
        "another's size": lambda: attacker.patch(ELASTIC_JOBS, "other", {"spec": {"replicas": 1}}, "scale"),
        "its own spec": lambda: attacker.patch(ELASTIC_JOBS, "own", {"spec": {"suspend": True}}),
        "files that the other's programs start from": lambda: attacker.create(
            CONFIG_MAPS, {"metadata": {"name": files_name("other")}, "data": {"sitecustomize.py": "evil"}}
        ),
        "another's summary": lambda: attacker.patch(CONFIG_MAPS, "other-summary", {"data": {"summary.json": "{}"}}),
        "an Event": lambda: attacker.create(EVENTS, {"metadata": {"name": "x"}, "involvedObject": {}}),
        "a Pod": lambda: attacker.create(PODS, {"metadata": {"name": "x"}, "spec": {"containers": []}}),
        "another's token": lambda: attacker.read(SECRETS, "other-node"),
        "its own token": lambda: attacker.read(SECRETS, "own-node"),
    }
    assert [what for what, attempt in attempts.items() if not is_forbidden(attempt)] == []
    logs = space.kubectl("auth", "can-i", "get", "pods", "--subresource=log", f"--as={account(space)}", check=False)
    assert logs.stdout.startswith("no"), "what other Pods write is not the master's to read"
    assert node_pods(space) == set()


def test_a_master_that_answers_and_plans_for_another_job_in_its_own_outbox_changes_nothing_there(
    attacker: Attacker,
) -> None:
    space = attacker.space
    manual = space.create(
        SCALE_PLANS, {"metadata": {"name": "manual"}, "spec": {"job": "other", "roles": {"worker": {"replicas": 1}}}}
    )
    uid = manual["metadata"]["uid"]
    nodes = [{**NODE, "command": ["sh", "-c", "id"]}, {"node": "other-worker-0", "role": "worker"}]
    outbox = {"answers": {uid: {"refusal": "no"}}, "plans": {"1": {"create": nodes, "job": "other"}}}
    attacker.patch(ELASTIC_JOBS, "own", {"status": {"outbox": outbox}}, "status")
    plan = {"metadata": {"name": plan_name("own", 1)}}
    status = status_of(wait_for_plan(space, plan, "Failed"))
    assert [problem["node"] for problem in status["refused"]] == ["other-worker-0"]
    assert node_pods(space) == {"own-worker-0"}
    command = space.get(PODS, "own-worker-0")["spec"]["containers"][0]["command"]
    assert command[-2:] == ["python", "train.py"], "what runs is what the job says"
    assert "phase" not in status_of(space.get(SCALE_PLANS, "manual"))


def test_a_plan_with_copied_label_and_owner_is_refused_whoever_wrote_it(attacker: Attacker) -> None:
    space = attacker.space
    forged = space.create(SCALE_PLANS, attacker.forged_plan())  # by a person who may write ScalePlans
    status = status_of(wait_for_plan(space, forged, "Refused"))
    assert "did not request it" in status["message"]
    assert node_pods(space) == set()


def is_forbidden(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Forbidden:
        return True
    except PliantError:  # refused for another reason: it may, if it asks better
        return False
    return False


def account(space: Space) -> str:
    return f"system:serviceaccount:{space.name}:own-master"
