"""What a real operator gives to jobs that the Brain plans for, and what it keeps to itself."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import Space
from tests.kubernetes.operators import (
    OperatorProcess,
    a_job,
    running_operator,
    wait_for_master,
    wait_for_phase,
)

from pliant.platforms.kubernetes.kinds import CLAIMS, CONFIG_MAPS, ELASTIC_JOBS, EVENTS, PODS, SECRETS, Object
from pliant.rpc.brain.access import BrainFolder
from pliant.rpc.brain.identity import job_token
from pliant.spec import JobSpec

ADDRESS = "10.96.0.77:50051"
TOKEN = secrets.token_hex(32)


@pytest.fixture
def operator(space: Space, tmp_path: Path) -> Iterator[OperatorProcess]:
    BrainFolder(tmp_path / "brain").write(TOKEN, b"an authority")
    flags = ["--brain", ADDRESS, "--brain-dir", str(tmp_path / "brain"), "--brain-default-mode", "cluster"]
    with running_operator(space, tmp_path / "operator.log", flags=flags) as running:
        yield running


def spec_of_master(space: Space, job: str) -> JobSpec:
    return JobSpec.from_yaml(space.get(CONFIG_MAPS, f"{job}-master")["data"]["job.yaml"])


def mounted(pod: Object, name: str) -> Object:
    return next((volume for volume in pod["spec"]["volumes"] if volume["name"] == name), {})


def test_a_job_of_mode_cluster_gets_its_own_token_and_the_clusters_stays_with_the_operator(
    space: Space, kubelet: FakeKubelet, operator: OperatorProcess
) -> None:
    a_job(space, optimize={"mode": "cluster"}, journal={"store": "database"})
    a_job(space, "alone", optimize={"mode": "single-job"})
    pod, other = wait_for_master(space), wait_for_master(space, "alone")
    kubelet.run(pod)
    wait_for_phase(space, "Running")
    data = {key: base64.b64decode(value).decode() for key, value in space.get(SECRETS, "digits-brain")["data"].items()}
    assert data == {"token": job_token(TOKEN, space.name, "digits"), "ca.crt": "an authority"}
    assert mounted(pod, "brain")["secret"]["secretName"] == "digits-brain"
    assert "emptyDir" in mounted(pod, "job")
    command = pod["spec"]["containers"][0]["command"]
    assert command[command.index("--brain-dir") + 1] == "/etc/pliant/brain"
    assert spec_of_master(space, "digits").optimize.brain == ADDRESS
    assert space.find(CLAIMS, "digits-journal") is None
    assert not mounted(other, "brain")
    assert space.find(SECRETS, "alone-brain") is None
    everything = [item for kind in (SECRETS, CONFIG_MAPS, PODS, ELASTIC_JOBS, EVENTS) for item in space.list(kind)]
    shown = json.dumps(everything)
    assert TOKEN not in shown
    assert base64.b64encode(TOKEN.encode()).decode() not in shown
    assert TOKEN not in operator.log.read_text()


def test_a_job_that_says_nothing_is_planned_by_the_brain_where_that_is_the_default(
    space: Space, kubelet: FakeKubelet, operator: OperatorProcess
) -> None:
    a_job(space)
    a_job(space, "mine", optimize={"mode": "manual"})
    wait_for_master(space)
    wait_for_master(space, "mine")
    assert space.get(ELASTIC_JOBS, "digits")["spec"]["optimize"]["mode"] == "cluster"
    assert spec_of_master(space, "digits").optimize.brain == ADDRESS
    assert space.get(ELASTIC_JOBS, "mine")["spec"]["optimize"]["mode"] == "manual"
    assert "wanted" not in space.get(ELASTIC_JOBS, "digits")["spec"]["roles"]["worker"]["replicas"]


def test_without_a_brain_a_job_of_mode_cluster_is_invalid_until_it_is_edited(space: Space, tmp_path: Path) -> None:
    with running_operator(space, tmp_path / "operator.log"):
        a_job(space, optimize={"mode": "cluster"})
        status = wait_for_phase(space, "Invalid")["status"]
        assert "knows of no Brain" in status["message"]
        assert space.find(PODS, "digits-master") is None
        space.patch(ELASTIC_JOBS, "digits", {"spec": {"optimize": {"mode": "single-job"}}})
        wait_for_master(space)


def test_an_operator_that_cannot_read_the_clusters_token_says_so_and_ends(space: Space, tmp_path: Path) -> None:
    flags = ["--brain", ADDRESS, "--brain-dir", str(tmp_path / "missing")]
    with running_operator(space, tmp_path / "operator.log", flags=flags) as operator:
        assert operator.process.wait(120) == 1
        assert "missing/token" in operator.log.read_text()
