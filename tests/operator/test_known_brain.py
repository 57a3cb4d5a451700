"""Jobs that the Brain plans for: what the operator gives them, and whom it refuses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.operator.builders import NOW, job, observed, pod

from pliant.core.errors import Unauthenticated
from pliant.operator import job_objects
from pliant.operator.actions import Action, CreateMaster, PatchJob, PatchStatus
from pliant.operator.edits import ineffective_fields
from pliant.operator.job_decisions import Memory, decide
from pliant.operator.job_spec import spec_of
from pliant.operator.journal_volume import durability, given_volume, resolved
from pliant.operator.known_brain import KnownBrain, with_brain
from pliant.operator.master_pod import master_pod
from pliant.platforms.kubernetes.kinds import CLAIMS, Object
from pliant.platforms.kubernetes.pod_policy import PodPolicy
from pliant.platforms.kubernetes.pods import kept_folder
from pliant.rpc.brain.access import BrainFolder
from pliant.rpc.brain.identity import job_token
from pliant.spec import JobSpec

TOKEN = "c" * 64
ADDRESS = "brain.pliant-system.svc:50051"


@pytest.fixture
def brain(tmp_path: Path) -> KnownBrain:
    folder = BrainFolder(tmp_path / "brain")
    folder.write(TOKEN, b"authority")
    return KnownBrain(ADDRESS, folder)


def done(owner: Object, brain: KnownBrain | None, memory: Memory, *pods: Object) -> list[Action]:
    return list(decide(observed(owner, pods=pods), memory, NOW, brain=brain).actions)


def status(actions: list[Action]) -> Any:
    return next(action.patch for action in actions if isinstance(action, PatchStatus))


def pod_of(owner: Object, spec: JobSpec) -> Any:
    return master_pod(owner, spec, "10.0.0.7", "pliant:1")["spec"]


@pytest.mark.parametrize("optimize", [{"mode": "cluster"}, {"mode": "cluster", "brain": ADDRESS}, {"brain": ADDRESS}])
def test_a_job_that_needs_the_brain_gets_its_address_and_a_token(brain: KnownBrain, optimize: Any) -> None:
    owner, memory = job(optimize=optimize), Memory()
    assert CreateMaster() in done(owner, brain, memory)
    spec = memory.last_spec
    assert spec is not None
    assert spec.optimize.brain == ADDRESS
    container = pod_of(owner, spec)["containers"][0]
    at = container["command"].index("--brain-dir")
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "brain"]
    assert container["command"][at + 1] == mount["mountPath"]
    assert mount["readOnly"] is True
    [volume] = [each for each in pod_of(owner, spec)["volumes"] if each["name"] == "brain"]
    assert volume["secret"]["secretName"] == job_objects.brain_secret(owner, brain.access())["metadata"]["name"]


def test_a_job_without_a_brain_has_nothing_of_it(brain: KnownBrain) -> None:
    for optimize in ({}, {"mode": "single-job"}):
        owner, memory = job(optimize=optimize), Memory()
        done(owner, brain, memory)
        assert memory.last_spec is not None
        assert memory.last_spec.optimize.brain is None
        assert "brain" not in json.dumps(pod_of(owner, memory.last_spec))


def test_the_secret_of_a_job_has_its_own_token_and_not_the_clusters(brain: KnownBrain) -> None:
    secret = job_objects.brain_secret(job(), brain.access())
    content = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert content == {"token": job_token(TOKEN, "team", "digits"), "ca.crt": "authority"}
    assert secret["immutable"] is True
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "job-1"


def test_without_a_brain_a_job_of_mode_cluster_is_invalid_and_learns_what_to_do() -> None:
    actions = done(job(optimize={"mode": "cluster"}), None, Memory())
    assert CreateMaster() not in actions
    assert status(actions)["phase"] == "Invalid"
    assert "knows of no Brain" in status(actions)["message"]
    assert "brain.enabled" in status(actions)["message"]


def test_another_brain_than_the_operators_is_refused(brain: KnownBrain) -> None:
    actions = done(job(optimize={"mode": "cluster", "brain": "elsewhere:1"}), brain, Memory())
    assert status(actions)["phase"] == "Invalid"
    assert "elsewhere:1" in status(actions)["message"]
    assert ADDRESS in status(actions)["message"]


@pytest.mark.parametrize("optimize", [{"mode": "cluster"}, {"mode": "cluster", "brain": "before:1"}])
def test_a_job_that_runs_goes_on_where_its_brain_is_known_no_more(optimize: Any) -> None:
    owner = job(optimize=optimize, status={"phase": "Running"})
    memory = Memory()
    assert CreateMaster() in done(owner, None, memory)
    assert memory.last_spec is not None
    [volume] = [each for each in pod_of(owner, memory.last_spec)["volumes"] if each["name"] == "brain"]
    assert volume["secret"]["optional"] is True


def test_by_default_the_mode_of_a_job_is_left_alone(brain: KnownBrain) -> None:
    assert not [action for action in done(job(), brain, Memory()) if isinstance(action, PatchJob)]


def test_a_new_job_that_says_nothing_is_planned_by_the_brain_where_that_is_the_default(brain: KnownBrain) -> None:
    default = KnownBrain(ADDRESS, brain.folder, plans_by_default=True)
    patch = PatchJob({"spec": {"optimize": {"mode": "cluster"}}})
    assert done(job(), default, Memory()) == [patch]
    silent = job()
    silent["spec"]["optimize"] = patch.patch["spec"]["optimize"]
    assert CreateMaster() in done(silent, default, Memory())


@pytest.mark.parametrize(
    "owner",
    [
        job(optimize={"mode": "manual"}),
        job(optimize={}),
        job(status={"phase": "Running"}),
        job(roles={"ps": {"command": ["x"]}}),
    ],
    ids=["says manual", "says something", "runs already", "could not be planned"],
)
def test_the_default_changes_no_job_that_decided_otherwise_or_could_not_be_planned(
    brain: KnownBrain, owner: Object
) -> None:
    default = KnownBrain(ADDRESS, brain.folder, plans_by_default=True)
    patches = [action.patch["spec"] for action in done(owner, default, Memory()) if isinstance(action, PatchJob)]
    assert not [patch for patch in patches if "optimize" in patch]


def test_a_job_whose_master_is_there_already_is_not_changed(brain: KnownBrain) -> None:
    default, owner = KnownBrain(ADDRESS, brain.folder, plans_by_default=True), job()
    assert not [action for action in done(owner, default, Memory(), pod(owner)) if isinstance(action, PatchJob)]


def test_a_journal_in_the_database_needs_no_claim_and_outlives_the_masters_pod(brain: KnownBrain) -> None:
    kubernetes = {"journal": {"volume": "claim"}, "shared_claim": "models"}
    owner = job(optimize={"mode": "cluster"}, journal={"store": "database"}, platform={"kubernetes": kubernetes})
    asked = with_brain(owner, spec_of(owner), brain)
    volume = given_volume(asked)
    assert volume is not None
    assert (volume.volume, volume.is_durable) == ("emptyDir", True)
    spec = resolved(asked, volume)
    assert CLAIMS not in [kind for kind, _ in job_objects.supporting_objects(owner, spec)]
    inside = pod_of(owner, spec)
    assert {"name": "job", "emptyDir": {}} in inside["volumes"]
    assert {toleration["tolerationSeconds"] for toleration in inside["tolerations"]} == {10}
    assert kept_folder(owner, spec, "another life") == "/pliant/shared/digits/job-1"
    assert durability(spec, volume, None).reason == "Database"
    assert ineffective_fields(spec, asked) == ""


def test_a_master_whose_journal_is_in_the_database_is_replaced_without_starting_over(brain: KnownBrain) -> None:
    owner = job(
        optimize={"mode": "cluster"},
        journal={"store": "database"},
        status={"phase": "Running"},
        datasets=[{"name": "train", "size": 10, "shard_size": 1}],
    )
    assert CreateMaster() in done(owner, brain, Memory(), pod(owner, "worker-0"))


def test_a_template_cannot_mount_what_another_job_has_for_the_brain() -> None:
    volume = {"name": "x", "secret": {"secretName": "other-brain"}}
    owner = job(roles={"worker": {"command": ["x"], "template": {"spec": {"volumes": [volume]}}}})
    [violation] = PodPolicy().violations(spec_of(owner))
    assert "other-brain" in str(violation)


def test_a_folder_that_others_can_read_is_no_access(brain: KnownBrain) -> None:
    brain.folder.token.chmod(0o644)
    with pytest.raises(Unauthenticated):
        brain.access()
