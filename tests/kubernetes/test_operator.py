"""The operator against a real API server; Pods only pretend to run."""

from __future__ import annotations

import base64
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import PATIENCE, Space, Testbed
from tests.kubernetes.operators import (
    OperatorProcess,
    a_job,
    holder,
    masters_plan,
    node_pods,
    nodes_to_create,
    running_operator,
    wait_for_master,
    wait_for_phase,
    wait_for_plan,
)

from pliant.core.errors import NotFound
from pliant.platforms.kubernetes.kinds import (
    CLAIMS,
    CONFIG_MAPS,
    ELASTIC_JOBS,
    EVENTS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_PLANS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
    Object,
)
from pliant.platforms.kubernetes.names import claim_name, master_name, node_secret_name
from pliant.spec import JobSpec

VOLUMES = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
MADE = (PODS, SERVICES, SECRETS, CONFIG_MAPS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES)
PLANNED = 200  # Pods: so many that an operator is killed before it has made the last of them


@pytest.fixture
def operator(space: Space, tmp_path: Path) -> Iterator[OperatorProcess]:
    with running_operator(space, tmp_path / "operator.log") as operator:
        yield operator
        text = operator.log.read_text()
        assert "a fault of the operator" not in text, text


def condition(job: Object, kind: str) -> Object:
    return next((entry for entry in (job.get("status") or {}).get("conditions") or () if entry["type"] == kind), {})


def reasons(space: Space) -> set[str]:
    return {event["reason"] for event in space.list(EVENTS)}


def test_a_job_gets_a_master_with_all_that_it_needs_and_tells_when_it_runs(
    space: Space, operator: OperatorProcess, kubelet: FakeKubelet
) -> None:
    a_job(space)
    pod = wait_for_master(space)
    for kind in MADE:
        found = space.get(kind, master_name("digits"))
        assert found["metadata"]["ownerReferences"][0]["name"] == "digits"
    for kind, name in ((NETWORK_POLICIES, "digits-node"), (CONFIG_MAPS, "digits-summary")):
        assert space.get(kind, name)["metadata"]["ownerReferences"][0]["name"] == "digits"
    assert wait_for_phase(space, "Creating")["spec"]["roles"]["worker"]["replicas"]["wanted"] == 4
    kubelet.run(pod)
    job = wait_for_phase(space, "Running")
    assert condition(job, "MasterReady")["status"] == "True"
    assert "MasterCreated" in reasons(space)


def test_nodes_get_the_token_and_their_certificate_but_not_the_masters_key(
    space: Space, operator: OperatorProcess
) -> None:
    a_job(space)
    wait_for_master(space)
    of_master, of_node = space.get(SECRETS, master_name("digits")), space.get(SECRETS, node_secret_name("digits"))
    assert set(of_node["data"]) == {"token", "ca.crt", "node.crt", "node.key"}
    assert "master.key" in of_master["data"]
    assert of_node["data"]["token"] == of_master["data"]["token"]
    assert of_node["immutable"]
    token = base64.b64decode(of_node["data"]["token"]).decode()
    assert token not in str(space.get(PODS, master_name("digits")))
    assert token not in operator.log.read_text()


def test_the_master_reads_the_spec_that_was_submitted(space: Space, operator: OperatorProcess) -> None:
    described = JobSpec.from_dict(
        {
            "name": "digits",
            "platform": {
                "kind": "kubernetes",
                "kubernetes": {"namespace": space.name, "image": "mine:1", "journal": {"volume": "emptyDir"}},
            },
            "strategy": "allreduce",
            "fault": {"error": {"limit": 7}, "grace": 3.5},
            "datasets": [{"name": "train", "size": 1000, "shard_size": 10}],
            "roles": {
                "worker": {
                    "replicas": {"min": 2, "max": 5, "wanted": 3},
                    "command": ["python", "-c", "print('ä')"],
                    "env": {"A": "1"},
                    "resources": {"cpu": 0.5, "memory": "1.5Gi"},
                    "template": {"spec": {"nodeSelector": {"disk": "ssd"}}},
                }
            },
        }
    )
    space.create(ELASTIC_JOBS, {"metadata": {"name": "digits"}, "spec": described.to_json()})
    wait_for_master(space)
    assert JobSpec.from_yaml(space.get(CONFIG_MAPS, master_name("digits"))["data"]["job.yaml"]) == described


def test_kubectl_scale_changes_what_is_wanted(space: Space, operator: OperatorProcess) -> None:
    a_job(space)
    wait_for_phase(space, "Creating")
    space.kubectl("scale", "elasticjob/digits", "--replicas=2")
    assert space.get(ELASTIC_JOBS, "digits")["spec"]["roles"]["worker"]["replicas"]["wanted"] == 2


def test_a_spec_whose_parts_disagree_is_told_and_an_edit_mends_it(space: Space, operator: OperatorProcess) -> None:
    a_job(space, strategy="ps-sync")
    job = wait_for_phase(space, "Invalid")
    assert "roles.ps" in job["status"]["message"]
    assert condition(job, "SpecValid")["status"] == "False"
    space.wait_for(lambda: "InvalidSpec" in reasons(space), "the event")
    assert space.list(PODS) == []
    space.patch(ELASTIC_JOBS, "digits", {"spec": {"strategy": "none"}})
    wait_for_master(space)


def test_plans_are_executed_in_order_and_told(space: Space, operator: OperatorProcess, kubelet: FakeKubelet) -> None:
    job = a_job(space)
    kubelet.run(wait_for_master(space))
    first = masters_plan(space, job, 1, create=nodes_to_create(0, 1, 2))
    second = masters_plan(space, job, 2, create=nodes_to_create(3), remove=[{"node": "worker-0", "grace": 1.0}])
    done = wait_for_plan(space, second, "Succeeded")["status"]
    assert (done["created"], done["removed"]) == (1, 1)
    status = wait_for_plan(space, first, "Succeeded")["status"]
    assert status["created"] == 3
    assert status["started"] <= status["finished"] <= done["finished"]
    left = {"digits-worker-1", "digits-worker-2", "digits-worker-3"}
    space.wait_for(lambda: node_pods(space) == left, "worker-0 to go")
    assert space.get(PODS, "digits-worker-1")["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_pods_follow_an_edit_of_where_they_run_and_not_of_what_runs_in_them_which_is_told(
    space: Space, operator: OperatorProcess
) -> None:
    job = a_job(space)
    wait_for_master(space)
    wait_for_phase(space, "Creating")
    worker = {"command": ["false"], "env": {"A": "2"}}
    options = {"image": "mine:2", "priority_class": "system-node-critical"}
    space.patch(ELASTIC_JOBS, "digits", {"spec": {"roles": {"worker": worker}, "platform": {"kubernetes": options}}})
    space.wait_for(lambda: "EditWithoutEffect" in reasons(space), "the event")
    wait_for_plan(space, masters_plan(space, job, 1, create=nodes_to_create(0)), "Succeeded")
    pod = space.get(PODS, "digits-worker-0")["spec"]
    main = pod["containers"][0]
    assert (main["image"], pod["priorityClassName"]) == ("mine:2", "system-node-critical")
    assert main["command"][-2:] == ["python", "train.py"]
    assert "A" not in {variable["name"] for variable in main["env"]}


def test_a_plan_is_executed_once_although_the_operator_is_killed_in_the_middle(
    space: Space, tmp_path: Path, kubelet: FakeKubelet
) -> None:
    with running_operator(space, tmp_path / "first.log") as first:
        job = a_job(space)
        wait_for_master(space)
        plan = masters_plan(space, job, 1, create=nodes_to_create(*range(PLANNED)))
        space.wait_for(lambda: len(node_pods(space)) >= 3, "the first Pods")
        first.end(signal.SIGKILL)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.list(PODS)}
    with running_operator(space, tmp_path / "second.log"):
        status = wait_for_plan(space, plan, "Succeeded")["status"]
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.list(PODS)}
    assert len(before) <= PLANNED, "the operator was killed too late for this test to say anything"
    assert before.items() <= after.items()
    assert len(after) == PLANNED + 1
    assert status["created"] == PLANNED


def test_two_operators_never_act_at_once_and_the_second_takes_over_from_a_frozen_one(
    space: Space, tmp_path: Path
) -> None:
    with (
        running_operator(space, tmp_path / "a.log") as first,
        running_operator(space, tmp_path / "b.log") as second,
    ):
        space.wait_for(lambda: first.leads() or second.leads(), "one to lead")
        leader, other = (first, second) if first.leads() else (second, first)
        before = holder(space)
        job = a_job(space)
        wait_for_master(space)
        space.wait_for(lambda: "MasterCreated" in reasons(space), "the event")
        assert not other.leads()
        leader.send(signal.SIGSTOP)
        plan = masters_plan(space, job, 1, create=nodes_to_create(0, 1))
        wait_for_plan(space, plan, "Succeeded")
        assert other.leads()
        assert holder(space) != before
        later = masters_plan(space, job, 2, create=nodes_to_create(2))
        leader.send(signal.SIGCONT)
        wait_for_plan(space, later, "Succeeded")
        space.wait_for(lambda: "this operator is standing by" in leader.log.read_text(), "the thawed one to stand by")
        assert holder(space) != before
        assert node_pods(space) == {f"digits-worker-{number}" for number in range(3)}
        created = [event for event in space.list(EVENTS) if event["reason"] == "MasterCreated"]
        assert len(created) == 1


def test_an_operator_that_is_told_to_end_hands_over_at_once(space: Space, tmp_path: Path) -> None:
    with running_operator(space, tmp_path / "a.log") as first:
        space.wait_for(first.leads, "it to lead")
        assert first.end(signal.SIGTERM) == 0
    assert holder(space) == ""


def test_nothing_is_left_of_a_deleted_job(space: Space, operator: OperatorProcess, kubelet: FakeKubelet) -> None:
    before = {kind: {item["metadata"]["name"] for item in space.list(kind)} for kind in (SECRETS, SERVICE_ACCOUNTS)}
    job = a_job(space, platform={"kubernetes": {"journal": {"volume": "claim"}}})
    kubelet.run(wait_for_master(space))
    wait_for_plan(space, masters_plan(space, job, 1, create=nodes_to_create(0)), "Succeeded")
    assert space.list(CLAIMS)
    space.delete(ELASTIC_JOBS, "digits")
    kinds = (*MADE, SCALE_PLANS)

    def left() -> list[str]:
        return [
            f"{kind.kind} {item['metadata']['name']}"
            for kind in kinds
            for item in space.list(kind)
            if item["metadata"]["name"].startswith("digits")
        ]

    space.wait_for(lambda: not left(), "all of the job to go", 2 * PATIENCE)
    after = {item["metadata"]["name"] for item in space.list(SECRETS)}
    assert before[SECRETS] <= after
    # the claim is kept from going by a Pod that uses it, which no kubelet ended; it is on its way
    assert all(claim["metadata"].get("deletionTimestamp") for claim in space.list(CLAIMS))


def test_a_job_of_the_same_name_does_not_take_what_is_left_of_the_old_one(
    space: Space, operator: OperatorProcess, kubelet: FakeKubelet
) -> None:
    a_job(space)
    wait_for_master(space)
    old = space.get(SECRETS, master_name("digits"))
    space.delete(ELASTIC_JOBS, "digits")
    job = a_job(space)

    def renewed() -> Object | None:
        found = space.find(PODS, master_name("digits"))
        mine = found and found["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        return found if mine else None

    space.wait_for(renewed, "a master of the new job", 2 * PATIENCE)
    assert space.get(SECRETS, master_name("digits"))["data"]["token"] != old["data"]["token"]


def test_suspend_ends_the_master_where_its_journal_outlives_it_and_resume_goes_on(
    space: Space, operator: OperatorProcess, kubelet: FakeKubelet
) -> None:
    a_job(space, platform={"kubernetes": {"journal": {"volume": "claim"}}})
    kubelet.run(wait_for_master(space))
    wait_for_phase(space, "Running")
    token = space.get(SECRETS, master_name("digits"))["data"]["token"]
    space.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": True}})
    wait_for_phase(space, "Suspended")
    space.wait_for(lambda: not space.list(PODS), "the master to go")
    space.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": False}})
    kubelet.run(wait_for_master(space))
    wait_for_phase(space, "Running")
    assert space.get(SECRETS, master_name("digits"))["data"]["token"] == token


def test_a_job_that_begins_suspended_has_nothing_but_its_status(space: Space, operator: OperatorProcess) -> None:
    a_job(space, suspend=True)
    job = wait_for_phase(space, "Suspended")
    assert job["status"]["workers"] == "0/4"
    assert space.list(PODS) == []


def test_a_master_whose_pod_is_lost_is_replaced(space: Space, operator: OperatorProcess, kubelet: FakeKubelet) -> None:
    a_job(space, platform={"kubernetes": {"journal": {"volume": "claim"}}})
    old = wait_for_master(space)
    kubelet.run(old)
    wait_for_phase(space, "Running")
    kubelet.evict(old)

    def renewed() -> Object | None:
        found = space.find(PODS, master_name("digits"))
        return found if found and found["metadata"]["uid"] != old["metadata"]["uid"] else None

    space.wait_for(renewed, "another master")
    assert "MasterLost" in reasons(space)
    assert space.get(ELASTIC_JOBS, "digits")["status"]["phase"] == "Running", "its nodes run on meanwhile"


def test_a_master_without_its_journal_begins_with_no_nodes_of_the_old_one(
    space: Space, operator: OperatorProcess, kubelet: FakeKubelet
) -> None:
    job = a_job(space)
    old = wait_for_master(space)
    kubelet.run(old)
    wait_for_plan(space, masters_plan(space, job, 1, create=nodes_to_create(0, 1)), "Succeeded")
    kubelet.remove(old)

    def renewed() -> Object | None:
        found = space.find(PODS, master_name("digits"))
        return found if found and found["metadata"]["uid"] != old["metadata"]["uid"] else None

    space.wait_for(renewed, "another master")
    assert node_pods(space) == set()
    assert space.list(SCALE_PLANS) == []
    assert "StartingOver" in reasons(space)


@pytest.fixture
def volume(space: Space) -> Iterator[None]:
    """For the claim of the job called digits."""
    name = f"v-{space.name}"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nothing"},
        "claimRef": {"namespace": space.name, "name": claim_name("digits")},
    }
    space.kube.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    yield
    space.kube.delete(VOLUMES, name)
    with contextlib.suppress(NotFound):  # nobody else takes its finalizer away once the cluster goes
        space.kube.patch(VOLUMES, name, {"metadata": {"finalizers": None}})


def test_a_master_on_a_lost_machine_is_replaced(
    space: Space, volume: None, operator: OperatorProcess, kubelet: FakeKubelet
) -> None:
    a_job(space, platform={"kubernetes": {"journal": {"volume": "claim"}}})
    old = wait_for_master(space)
    bound = space.wait_for(lambda: space.get(PODS, master_name("digits"))["spec"].get("nodeName"), "it to be bound")
    kubelet.run(old)
    wait_for_phase(space, "Running")
    kubelet.fall_silent(str(bound))

    def renewed() -> Object | None:
        found = space.find(PODS, master_name("digits"))
        return found if found and found["metadata"]["uid"] != old["metadata"]["uid"] else None

    space.wait_for(renewed, "another master", 2 * PATIENCE)
    assert "MachineLost" in reasons(space)


def test_a_hopeless_master_fails_the_job_with_its_last_words(
    space: Space, operator: OperatorProcess, kubelet: FakeKubelet
) -> None:
    job = a_job(space)
    pod = wait_for_master(space)
    kubelet.run(pod)
    wait_for_plan(space, masters_plan(space, job, 1, create=nodes_to_create(0)), "Succeeded")
    kubelet.fail(pod, 5, "the journal is of another job")
    failed = wait_for_phase(space, "Failed")
    assert "the journal is of another job" in failed["status"]["message"]
    space.wait_for(lambda: condition(space.get(ELASTIC_JOBS, "digits"), "Failed"), "the condition")
    assert condition(space.get(ELASTIC_JOBS, "digits"), "Failed")["reason"] == "MasterUnrecoverable"
    space.wait_for(lambda: not node_pods(space), "its nodes to go")
    assert space.find(PODS, master_name("digits")), "its Pod is kept for its log"


def test_pods_beyond_the_quota_are_told_and_created_when_there_is_room(
    space: Space, operator: OperatorProcess, control_plane: Testbed
) -> None:
    job = a_job(space)
    wait_for_master(space)
    quota: dict[str, Any] = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    control_plane.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", **quota, "metadata": {"name": "few", "namespace": space.name}}
    )
    space.wait_for(
        lambda: "used" in space.kubectl("get", "quota", "few", "-o", "jsonpath={.status}").stdout, "the quota to count"
    )
    plan = masters_plan(space, job, 1, create=nodes_to_create(0, 1))
    told = wait_for_plan(space, plan, "Executing")["status"]
    assert "exceeded quota" in told["message"]
    assert told["refused"][0]["passing"] is True
    assert "PodsNotAccepted" in reasons(space)
    space.kubectl("delete", "quota", "few")
    assert wait_for_plan(space, plan, "Succeeded")["status"]["created"] == 2


def test_a_pod_that_can_never_be_is_refused_before_the_job_starts_and_after_an_edit_with_its_plan(
    space: Space, operator: OperatorProcess
) -> None:
    def worker(port: int) -> Object:
        template = {"spec": {"containers": [{"name": "main", "ports": [{"name": "x", "containerPort": port}]}]}}
        return {"command": ["x"], "replicas": {"min": 1, "max": 2}, "template": template}

    job = a_job(space, roles={"worker": worker(99999)})
    invalid = wait_for_phase(space, "Invalid")
    assert "roles.worker.template" in invalid["status"]["message"]
    assert "99999" in invalid["status"]["message"]
    assert "99999" in condition(invalid, "SpecValid")["message"]
    space.patch(ELASTIC_JOBS, "digits", {"spec": {"roles": {"worker": worker(9999)}}})
    wait_for_master(space)
    wait_for_phase(space, "Creating")
    space.patch(ELASTIC_JOBS, "digits", {"spec": {"roles": {"worker": worker(99998)}}})
    generation = space.get(ELASTIC_JOBS, "digits")["metadata"]["generation"]
    space.wait_for(
        lambda: space.get(ELASTIC_JOBS, "digits")["status"].get("observed_generation") == generation, "the edit"
    )
    status = wait_for_plan(space, masters_plan(space, job, 1, create=nodes_to_create(0)), "Failed")["status"]
    assert status["refused"][0]["node"] == "worker-0"
    assert "99998" in status["refused"][0]["message"]
    assert not status["refused"][0].get("passing")
    old = wait_for_master(space)["metadata"]["uid"]
    space.delete(PODS, master_name("digits"), grace=0)
    space.wait_for(
        lambda: wait_for_master(space)["metadata"]["uid"] != old, "a master, which the edit does not prevent"
    )


def test_a_template_that_is_malformed_or_asks_for_too_much_is_told_in_the_status_and_makes_nothing(
    space: Space, operator: OperatorProcess
) -> None:
    main, volume = {"name": "main"}, {"name": "v", "hostPath": {"path": "/"}}
    cases: dict[str, Object] = {
        "containers[0].securityContext.privileged": {"containers": [{**main, "securityContext": {"privileged": True}}]},
        "spec.volumes[0].hostPath": {"volumes": [volume]},
        "spec.hostNetwork": {"hostNetwork": True},
        "spec.serviceAccountName": {"serviceAccountName": "digits-master"},
        "spec.containers: must be a list": {"containers": "main"},
        "spec.containers[0]: has no name": {"containers": [{"image": "x"}]},
    }
    for number, template in enumerate(cases.values()):
        worker = {"command": ["x"], "replicas": {"min": 1, "max": 2}, "template": {"spec": template}}
        a_job(space, f"job-{number}", roles={"worker": worker})
    for number, message in enumerate(cases):
        told = wait_for_phase(space, "Invalid", f"job-{number}")["status"]["message"]
        assert message in told
    assert space.list(PODS) == []
    log = operator.log.read_text()
    assert "Traceback" not in log, log


def test_old_plans_go_and_the_newest_stay(space: Space, operator: OperatorProcess) -> None:
    job = a_job(space)
    wait_for_master(space)
    for number in range(1, 26):
        masters_plan(space, job, number)

    def numbers() -> list[int]:
        return sorted(plan["spec"]["sequence"] for plan in space.list(SCALE_PLANS))

    space.wait_for(lambda: numbers() == list(range(6, 26)), "the first five to go")


def test_a_persons_plan_gets_an_owner_and_one_for_no_job_is_refused(space: Space, operator: OperatorProcess) -> None:
    job = a_job(space)
    space.create(
        SCALE_PLANS, {"metadata": {"name": "more"}, "spec": {"job": "digits", "roles": {"worker": {"replicas": 2}}}}
    )

    def owner() -> object:
        return (space.get(SCALE_PLANS, "more")["metadata"].get("ownerReferences") or [{}])[0].get("uid")

    space.wait_for(lambda: owner() == job["metadata"]["uid"], "an owner of the plan")
    nobody = space.create(SCALE_PLANS, {"metadata": {"name": "nobody"}, "spec": {"job": "nobody"}})
    assert "ElasticJob nobody not found" in wait_for_plan(space, nobody, "Refused")["status"]["message"]
