"""A node as a Pod: what it runs, what it may do, and what a team's template can change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.operator.master_pod import master_pod
from pliant.platforms.kubernetes.plans import PodToCreate
from pliant.platforms.kubernetes.pods import node_pod
from pliant.spec import JobSpec

JOB = {"apiVersion": "pliant.dev/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "digits", "uid": "u-1"}}


def pod(*, role: dict[str, Any] | None = None, options: dict[str, Any] | None = None, **entry: Any) -> Any:
    worker = {"command": ["python", "train.py"], "env": {"A": "1"}, **(role or {})}
    platform = {"kind": "kubernetes", "kubernetes": options or {}}
    spec = JobSpec.from_dict({"name": "digits", "platform": platform, "roles": {"worker": worker}})
    wanted = PodToCreate.model_validate({"node": "worker-3", "role": "worker", **entry})
    return node_pod(JOB, spec, wanted, master_address="10.0.0.1:7777", image="pliant:1")


def test_a_pod_runs_the_agent_with_the_program_of_the_role() -> None:
    made = pod()
    main = made["spec"]["containers"][0]
    env = {item["name"]: item.get("value", "") for item in main["env"]}
    assert main["command"] == ["python", "-P", "-m", "pliant.agent", "--", "python", "train.py"]
    assert (env["A"], env["PLIANT_NODE"], env["PLIANT_MASTER_ADDR"]) == ("1", "worker-3", "10.0.0.1:7777")
    assert env["PLIANT_TLS_DIR"], "TLS is on by default on Kubernetes"
    assert made["metadata"]["name"] == "digits-worker-3"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u-1"


def test_the_environment_of_a_role_does_not_change_what_pliant_itself_tells_a_node() -> None:
    given = {"PLIANT_GRACE": "1", "PLIANT_MEMORY_MB": "77", "PLIANT_HOST": "elsewhere", "PLIANT_HOME": "/h"}
    env = pod(role={"env": given})["spec"]["containers"][0]["env"]
    names = [item["name"] for item in env]
    assert len(names) == len(set(names))
    told = {item["name"]: item["value"] for item in env if "value" in item}
    assert {name: told.get(name) for name in given} == {**dict.fromkeys(given), "PLIANT_HOME": "/h"}


def test_a_pod_has_no_rights_that_it_does_not_need_and_holds_no_secret_itself() -> None:
    inside = pod()["spec"]
    security = inside["containers"][0]["securityContext"]
    assert (inside["automountServiceAccountToken"], inside["securityContext"]["runAsNonRoot"]) == (False, True)
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    (secret,) = [volume for volume in inside["volumes"] if volume["name"] == "secret"]
    assert secret["secret"]["secretName"] == "digits-node", "the master's key is not among it"


def test_resources_are_asked_for_and_set_as_limits() -> None:
    amounts = {"cpu": "500m", "memory": "1024Mi", "nvidia.com/gpu": "2"}
    made = pod(resources={"cpu": "500m", "memory": "1Gi", "gpu": 2})
    assert made["spec"]["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
    assert {"name": "OMP_NUM_THREADS", "value": "1"} in made["spec"]["containers"][0]["env"]
    own = pod(resources={"cpu": 6}, role={"env": {"OMP_NUM_THREADS": "3"}})["spec"]["containers"][0]["env"]
    assert {"name": "OMP_NUM_THREADS", "value": "3"} in own
    assert pod()["spec"]["containers"][0]["resources"] == {}


def test_an_affinity_of_the_template_holds_together_with_the_machines_to_avoid() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []),
        ({"spec": {"affinity": {"nodeAffinity": required}}}, ["zone"]),
    ]
    for template, keys in cases:
        made = pod(role={"template": template}, avoid_hosts=["m2", "m1"])
        affinity = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = affinity["nodeSelectorTerms"]
        avoided, *others = term["matchExpressions"]
        assert (avoided["operator"], avoided["values"]) == ("NotIn", ["m1", "m2"])
        assert [other["key"] for other in others] == keys


@pytest.mark.parametrize(("given", "expected"), [({}, "low"), ({"high_priority": True}, "high")])
def test_a_plan_chooses_between_the_two_priorities_of_the_job(given: dict[str, Any], expected: str) -> None:
    classes = {"priority_class": "low", "high_priority_class": "high"}
    assert pod(options=classes, **given)["spec"]["priorityClassName"] == expected
    assert pod(options={"priority_class": "low"}, **given)["spec"]["priorityClassName"] == "low"


@pytest.mark.parametrize("field", ["command", "env", "working_dir", "priority_class", "image"])
def test_a_plan_cannot_say_what_runs_on_a_node(field: str) -> None:
    given: dict[str, Any] = {field: "x"}
    with pytest.raises(ValueError, match=field):
        pod(**given)


def test_a_template_adds_volumes_sidecars_labels_and_changes_the_main_container() -> None:
    template = {
        "metadata": {"labels": {"team": "a", "pliant.dev/node": "worker-9"}, "name": "other"},
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {"name": "main", "image": "mine:2", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                {"name": "proxy", "image": "proxy:1"},
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "tmp", "hostPath": {}}],
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
    }
    before = json.dumps(template)
    made = pod(role={"template": template}, options={"tolerations": [{"key": "gpu", "operator": "Exists"}]})
    main, proxy = made["spec"]["containers"]
    assert (main["image"], proxy["image"], main["command"][-1]) == ("mine:2", "proxy:1", "train.py")
    assert {mount["mountPath"] for mount in main["volumeMounts"]} >= {"/data", "/tmp"}
    volumes = {volume["name"]: volume for volume in made["spec"]["volumes"]}
    assert volumes["tmp"] == {"name": "tmp", "hostPath": {}}, "a volume is of one sort"
    assert [toleration["key"] for toleration in made["spec"]["tolerations"]] == ["gpu", "spot"]
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["labels"]["pliant.dev/node"] == "worker-3", "by this the master finds it"
    assert (made["metadata"]["name"], made["spec"]["restartPolicy"]) == ("digits-worker-3", "Never")
    assert json.dumps(template) == before


def test_what_is_to_outlive_pods_goes_to_the_shared_claim_of_master_and_nodes() -> None:
    roles = {"worker": {"command": ["python", "-m", "pliant.native"]}, "ps": {"command": ["python", "-m", "pliant.ps"]}}
    cases = [
        ("team", "claim", "/pliant/shared/digits/u-1"),
        ("team", "emptyDir", "/pliant/shared/digits/m-1"),
        (None, "emptyDir", "/var/lib/pliant"),
    ]
    for claim, journal, folder in cases:
        kubernetes = {"journal": {"volume": journal}, **({"shared_claim": claim} if claim else {})}
        options = {"kind": "kubernetes", "kubernetes": kubernetes}
        given = {"name": "digits", "strategy": "ps-async", "platform": options, "roles": roles}
        spec = JobSpec.from_dict({**given, "checkpoint": {"every_steps": 5}})
        entry = PodToCreate.model_validate({"node": "ps-0", "role": "ps"})
        node = node_pod(JOB, spec, entry, master_address="10.0.0.1:7777", image="pliant:1", life="m-1")["spec"]
        env = {item["name"]: item.get("value", "") for item in node["containers"][0]["env"]}
        assert env["PLIANT_PS_DIR"] == f"{folder}/parameters"
        assert json.loads(env["PLIANT_CHECKPOINT"])["directory"] == f"{folder}/checkpoints"
        master = master_pod(JOB, spec, "10.0.0.1", "pliant:1")["spec"]
        command = [word.replace("$(PLIANT_POD_UID)", "m-1") for word in master["containers"][0]["command"]]
        assert (f"{folder}/parameters" in command) is bool(claim)
        for inside in (node, master):
            volumes = [v["persistentVolumeClaim"]["claimName"] for v in inside["volumes"] if v["name"] == "shared"]
            mounts = [m["mountPath"] for m in inside["containers"][0]["volumeMounts"] if m["name"] == "shared"]
            assert (volumes, mounts) == (([claim], ["/pliant/shared"]) if claim else ([], []))


def test_where_and_how_pods_run_is_as_the_job_says() -> None:
    options = {
        "image_pull_policy": "Always",
        "image_pull_secrets": ["registry", "mirror"],
        "service_account": "trainer",
        "priority_class": "pliant-normal",
        "node_selector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    inside = pod(options=options)["spec"]
    assert inside["containers"][0]["imagePullPolicy"] == "Always"
    assert inside["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert (inside["serviceAccountName"], inside["automountServiceAccountToken"]) == ("trainer", False)
    assert inside["priorityClassName"] == "pliant-normal"
    assert (inside["nodeSelector"], inside["tolerations"]) == (options["node_selector"], options["tolerations"])
    assert inside["containers"][0]["workingDir"] == "/pliant/files", "where the files are that were sent along"


def test_a_pod_can_write_to_its_temporary_folders_only() -> None:
    inside = pod()["spec"]
    volumes = {volume["name"]: volume for volume in inside["volumes"]}
    main = inside["containers"][0]
    writable = {m["mountPath"] for m in main["volumeMounts"] if not m.get("readOnly")}
    assert main["securityContext"]["readOnlyRootFilesystem"]
    assert writable == {"/tmp", "/dev/shm", "/var/lib/pliant"}
    assert all("emptyDir" in volumes[m["name"]] for m in main["volumeMounts"] if m["mountPath"] in writable)
