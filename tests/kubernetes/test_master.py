"""A master whose platform is a real API server: what people say to it there, and what it says of the job.

The master is the process that runs in a Pod otherwise; its Pods are bound by the real scheduler to machines that pretend.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import PATIENCE, Space, Testbed
from tests.kubernetes.plan_executor import PlanExecutor

from pliant.core.events import EventKind
from pliant.master.journal.store import read_events
from pliant.master.supervisor import EXIT_RETRY_LATER
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.plans import status_of
from pliant.spec import JobSpec


class MasterProcess:
    def __init__(self, space: Space, folder: Path, kubeconfig: Path, machine: str) -> None:
        options = {"node_selector": {"kubernetes.io/hostname": machine}}
        worker = {"command": ["sleep", "3600"], "replicas": {"min": 1, "max": 4, "wanted": 2}, "resources": {"cpu": 1}}
        self.space, self.folder = space, folder
        self.spec = JobSpec.from_dict(
            {
                "name": "job",
                "platform": {"kind": "kubernetes", "kubernetes": options},
                "roles": {"worker": worker},
                "fault": {"grace": 1},
                "security": {"tls": False},
            }
        )
        self.job = space.create(ELASTIC_JOBS, {"metadata": {"name": "job"}, "spec": self.spec.to_json()})
        (folder / "given.yaml").write_text(self.spec.to_yaml())
        self.env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PLIANT_NAMESPACE": space.name}
        self.process: subprocess.Popen[bytes] | None = None
        self.journal = "journal"

    def start(self) -> None:
        command = [sys.executable, "-m", "pliant.master", "--job-dir", str(self.folder / self.journal)]
        command += ["--spec", str(self.folder / "given.yaml"), "--advertise", "192.0.2.1:7777"]
        with (self.folder / "master.log").open("ab") as output:
            self.process = subprocess.Popen(command, env=self.env, stdout=output, stderr=output)

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def status(self) -> dict[str, Any]:
        return status_of(self.space.get(ELASTIC_JOBS, "job"))

    def pods(self) -> set[str]:
        alive = [pod for pod in self.space.list(PODS) if not pod["metadata"].get("deletionTimestamp")]
        return {pod["metadata"]["labels"]["pliant.dev/node"] for pod in alive}

    def until_pods_are(self, *nodes: str) -> None:
        self.space.wait_for(lambda: self.pods() == set(nodes) or None, f"the Pods of {nodes}")

    def events(self, kind: EventKind) -> list[str]:
        found = read_events(self.folder / self.journal / "journal.db", after=0, limit=10_000)
        return [event.message for event in found if event.kind is kind]


@pytest.fixture
def master(control_plane: Testbed, space: Space, tmp_path: Path) -> Iterator[MasterProcess]:
    with FakeKubelet(control_plane.kube, cpu="8", prefix=f"fake-{space.name[-6:]}") as kubelet:
        kubelet.obey_deletions(space.name)
        made = MasterProcess(space, tmp_path, control_plane.kubeconfig, kubelet.nodes[0])
        with PlanExecutor(space, made.job):
            made.start()
            try:
                made.until_pods_are("worker-0", "worker-1")
                yield made
            finally:
                if made.process is not None:
                    made.process.kill()
                    made.process.wait()


def a_plan(space: Space, name: str, **spec: Any) -> Object:
    """As a person writes it, without labels."""
    space.create(SCALE_PLANS, {"metadata": {"name": name}, "spec": {"job": "job", **spec}})

    def ended() -> Object | None:
        plan = space.get(SCALE_PLANS, name)
        return plan if status_of(plan).get("phase") in ("Succeeded", "Refused") else None

    return space.wait_for(ended, f"the end of the plan {name}")


def test_people_scale_by_kubectl_by_edits_and_by_plans(master: MasterProcess) -> None:
    space = master.space
    space.wait_for(lambda: master.status().get("phase") == "Running" or None, "the master's word")
    space.kubectl("scale", "elasticjob/job", "--replicas=3")
    master.until_pods_are("worker-0", "worker-1", "worker-2")
    edit = {"spec": {"roles": {"worker": {"replicas": {"max": 5, "wanted": 4}}}}}
    space.patch(ELASTIC_JOBS, "job", edit)
    master.until_pods_are("worker-0", "worker-1", "worker-2", "worker-3")
    plan = a_plan(space, "fewer", roles={"worker": {"replicas": 2}}, reason="too many")
    assert status_of(plan)["phase"] == "Succeeded"
    master.until_pods_are("worker-0", "worker-1")
    larger = a_plan(space, "larger", migrate=[{"node": "worker-0", "resources": {"cpu": 2}}])
    assert status_of(larger)["phase"] == "Succeeded"
    master.until_pods_are("worker-1", "worker-4")
    pod = space.get(PODS, "job-worker-4")
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    space.wait_for(lambda: master.status().get("roles", {}).get("worker", {}).get("wanted") == 2 or None, "the status")
    space.wait_for(lambda: (master.status().get("last_plan") or {}).get("reason"), "the newest plan with its reason")


def test_after_plans_the_job_says_their_number_and_kubectl_scales_back_to_the_one_before(master: MasterProcess) -> None:
    space = master.space
    for name, replicas in (("more", 4), ("fewer", 1)):  # at once
        plan = {"job": "job", "roles": {"worker": {"replicas": replicas}}}
        space.create(SCALE_PLANS, {"metadata": {"name": name}, "spec": plan})

    def wanted() -> int:
        return int(space.get(ELASTIC_JOBS, "job")["spec"]["roles"]["worker"]["replicas"]["wanted"])

    space.wait_for(lambda: wanted() == 1, "the number of the last plan in the job")
    space.wait_for(lambda: len(master.pods()) == 1, "one worker")
    space.kubectl("scale", "elasticjob/job", "--replicas=2")  # what the job was begun with
    space.wait_for(lambda: len(master.pods()) == 2, "two workers")
    assert wanted() == 2
    asked = [text for text in master.events(EventKind.CHANGE) if "4 nodes" in text]
    assert len(asked) == 1, "what the master wrote down itself is no request"


def test_what_cannot_be_is_refused_and_said(master: MasterProcess) -> None:
    space = master.space
    assert "the plan is empty" in status_of(a_plan(space, "empty"))["message"]
    assert "unknown role" in status_of(a_plan(space, "wrong", roles={"chief": {"replicas": 1}}))["message"]
    refused = status_of(a_plan(space, "more", roles={"worker": {"replicas": 9}}))
    assert refused["phase"] == "Refused"
    assert "allowed: 1 to 4" in refused["message"]
    assert master.pods() == {"worker-0", "worker-1"}


def test_a_number_beyond_the_limits_is_brought_between_them_and_a_broken_edit_does_not_keep_a_job_from_being_suspended(
    master: MasterProcess,
) -> None:
    space = master.space
    space.kubectl("scale", "elasticjob/job", "--replicas=9")
    master.until_pods_are("worker-0", "worker-1", "worker-2", "worker-3")
    told = space.wait_for(lambda: master.status().get("message"), "what was made of it")
    assert told == "roles.worker.replicas.wanted is 9; allowed: 1 to 4; using 4"
    space.kubectl("scale", "elasticjob/job", "--replicas=0")
    master.until_pods_are("worker-0")
    space.patch(ELASTIC_JOBS, "job", {"spec": {"roles": {"worker": {"replicas": {"min": 7}}}}})
    space.wait_for(
        lambda: "replicas" in master.status().get("message", "") and "7" in master.status()["message"], "why"
    )
    assert master.pods() == {"worker-0"}
    space.patch(ELASTIC_JOBS, "job", {"spec": {"suspend": True}})
    master.until_pods_are()


def test_a_suspended_job_has_no_pods_and_goes_on_with_new_ones(master: MasterProcess) -> None:
    space = master.space
    space.patch(ELASTIC_JOBS, "job", {"spec": {"suspend": True}})
    master.until_pods_are()
    space.wait_for(lambda: master.status().get("phase") == "Suspended" or None, "the phase Suspended")
    space.patch(ELASTIC_JOBS, "job", {"spec": {"suspend": False}})
    master.until_pods_are("worker-2", "worker-3")
    space.wait_for(lambda: master.status().get("phase") == "Running" or None, "the phase Running")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_master_that_goes_leaves_its_job_to_the_next(master: MasterProcess, number: signal.Signals) -> None:
    master.end(number)
    if number is signal.SIGTERM:
        assert master.process is not None
        assert master.process.returncode == EXIT_RETRY_LATER, "the job is not stopped, another master goes on"
    master.space.kubectl("scale", "elasticjob/job", "--replicas=3")  # nobody is there to hear it
    assert master.pods() == {"worker-0", "worker-1"}
    master.start()
    master.until_pods_are("worker-0", "worker-1", "worker-2")
    assert any("the master restarted" in message for message in master.events(EventKind.MASTER))


def test_a_master_whose_journal_is_lost_starts_over_and_says_so(master: MasterProcess) -> None:
    master.end(signal.SIGKILL)
    master.journal = "another"
    master.start()
    master.until_pods_are("worker-2", "worker-3")
    assert any("restarts from scratch" in message for message in master.events(EventKind.JOURNAL_LOST))
