"""What templates of jobs may ask for, and what an administrator can add to that."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import SpecError
from pliant.operator.master_pod import master_pod
from pliant.platforms.kubernetes.plans import PodToCreate
from pliant.platforms.kubernetes.pod_policy import WIDENINGS, PodPolicy
from pliant.platforms.kubernetes.pods import node_pod
from pliant.spec import JobSpec

JOB = {"apiVersion": "pliant.dev/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "digits", "uid": "u-1"}}


def spec_with(template: Any = None, *, of_master: Any = None, **options: Any) -> JobSpec:
    kubernetes = {**options, "master": {"template": of_master or {}}}
    worker = {"command": ["python", "train.py"], "template": template or {}}
    platform = {"kind": "kubernetes", "kubernetes": kubernetes}
    return JobSpec.from_dict({"name": "digits", "platform": platform, "roles": {"worker": worker}})


def problems(spec: JobSpec, policy: PodPolicy | None = None) -> str:
    return "\n".join(map(str, (policy or PodPolicy()).violations(spec)))


def in_container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def in_security(**fields: Any) -> dict[str, Any]:
    return in_container(securityContext=fields)


def with_volume(**volume: Any) -> dict[str, Any]:
    return {"spec": {"volumes": [{"name": "v", **volume}]}}


WIDENED: list[tuple[str, dict[str, Any]]] = [
    ("hostNetwork", {"spec": {"hostNetwork": True}}),
    ("hostPID", {"spec": {"hostPID": True}}),
    ("hostIPC", {"spec": {"hostIPC": True}}),
    ("hostPort", in_container(ports=[{"containerPort": 80, "hostPort": 80}])),
    ("privileged", in_security(privileged=True)),
    ("privileged", in_security(allowPrivilegeEscalation=True)),
    ("privileged", in_container(volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}])),
    ("capabilities", in_security(capabilities={"add": ["SYS_ADMIN"]})),
    ("capabilities", in_security(capabilities={"drop": []})),
    ("runAsRoot", in_security(runAsUser=0)),
    ("runAsRoot", {"spec": {"securityContext": {"runAsNonRoot": False}}}),
    ("unconfined", {"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}),
    ("unconfined", {"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}}),
    (
        "unconfined",
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}}},
    ),
    ("serviceAccountToken", {"spec": {"automountServiceAccountToken": True}}),
    ("serviceAccountToken", with_volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]})),
]


@pytest.mark.parametrize(("name", "template"), WIDENED)
def test_what_goes_beyond_the_restricted_profile_is_refused_until_an_administrator_allows_it(
    name: str, template: dict[str, Any]
) -> None:
    for spec in (spec_with(template), spec_with(of_master=template)):
        assert f"podPolicy.allow: {name}" in problems(spec)
        assert problems(spec, PodPolicy(frozenset({name}))) == ""
        assert problems(spec, PodPolicy(frozenset(WIDENINGS.keys() - {name}))) != ""


@pytest.mark.parametrize(
    "template",
    [
        {"spec": {"serviceAccountName": "admin"}},
        {"spec": {"serviceAccount": "admin"}},
        {"spec": {"nodeName": "machine-1"}},
        {"spec": {"restartPolicy": "Always"}},
        {"spec": {"containers": [{"name": "x", "unheard": 1}]}},
        {"metadata": {"name": "x"}},
        {"metadata": {"ownerReferences": []}},
        {"metadata": {"labels": {"pliant.dev/job": "other"}}},
        {"metadata": {"annotations": {"pliant.dev/life": "other"}}},
        {"status": {}},
        with_volume(secret={"secretName": "other-master"}),
        with_volume(secret={"secretName": "other-node"}),
        with_volume(secret={"secretName": "other-master-token-x7abc"}),
        with_volume(projected={"sources": [{"secret": {"name": "other-node"}}]}),
        with_volume(csi={"driver": "x", "nodePublishSecretRef": {"name": "other-node"}}),
        with_volume(persistentVolumeClaim={"claimName": "other-journal"}),
        in_container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other-node", "key": "token"}}}]),
        in_container(envFrom=[{"secretRef": {"name": "other-master"}}]),
        in_container(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
    ],
)
def test_what_could_make_a_job_another_one_is_refused_whatever_is_allowed(template: dict[str, Any]) -> None:
    wide = PodPolicy(frozenset(WIDENINGS), ("nfs",), ("/",))
    assert problems(spec_with(template), wide)
    assert problems(spec_with(of_master=template), wide)


def test_the_accounts_and_volumes_of_masters_are_refused_as_options_too() -> None:
    assert "service_account" in problems(spec_with(service_account="other-master"))
    assert "shared_claim" in problems(spec_with(shared_claim="other-journal"))
    assert problems(spec_with(service_account="trainer", shared_claim="team")) == ""


def test_folders_of_the_machine_and_other_volumes_are_allowed_by_name() -> None:
    policy = PodPolicy(volumes=("nfs",), host_paths=("/mnt/data/",))
    cases = {"/mnt/data": True, "/mnt/data/a": True, "/mnt/database": False, "/mnt": False, "/": False}
    cases |= {"/mnt/data/../..": False, "mnt/data": False}
    for path, allowed in cases.items():
        assert (problems(spec_with(with_volume(hostPath={"path": path})), policy) == "") is allowed, path
        assert "podPolicy.hostPaths" in problems(spec_with(with_volume(hostPath={"path": path})))
    nfs = spec_with(with_volume(nfs={"server": "s", "path": "/"}))
    assert problems(nfs, policy) == ""
    assert "podPolicy.volumes" in problems(nfs)


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ({"spec": []}, "roles.worker.template.spec"),
        ({"spec": {"containers": "main"}}, "spec.containers"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers[0]"),
        ({"spec": {"containers": ["main"]}}, "spec.containers[0]"),
        ({"spec": {"volumes": {"name": "v"}}}, "spec.volumes"),
        ({"spec": {"securityContext": None}}, "spec.securityContext"),
        ({"metadata": {"labels": None}}, "metadata.labels"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels.a"),
        (in_container(env=[{"name": "A", "value": 1}]), "env[0].value"),
        (in_container(env={"A": "1"}), "containers[0].env"),
    ],
)
def test_a_malformed_template_is_an_invalid_spec_that_names_the_place(template: dict[str, Any], place: str) -> None:
    assert place in problems(spec_with(template))
    with pytest.raises(SpecError, match="ElasticJob team/digits"):
        PodPolicy().check(spec_with(template), "ElasticJob team/digits")


def test_what_the_documentation_shows_is_allowed() -> None:
    template = {
        "metadata": {"annotations": {"team": "vision"}},
        "spec": {
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "images"}}],
            "containers": [
                {"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                {"name": "proxy", "image": "proxy:1", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
            ],
        },
    }
    assert problems(spec_with(template, of_master=template)) == ""


def test_unknown_names_of_the_policy_are_refused() -> None:
    with pytest.raises(SpecError, match="everything"):
        PodPolicy(frozenset({"everything"}))


# --- what is allowed yields Pods of the restricted profile

FRAGMENTS: list[dict[str, Any]] = [
    *(template for _, template in WIDENED),
    in_security(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    in_security(capabilities={}),
    in_security(runAsUser=7, seccompProfile={"type": "Localhost", "localhostProfile": "x"}),
    {"spec": {"securityContext": {}}},
    {"spec": {"securityContext": None}},
    {"spec": {"containers": [{"name": "proxy", "image": "p"}]}},
    {
        "spec": {
            "initContainers": [{"name": "first", "image": "p", "securityContext": {"readOnlyRootFilesystem": False}}]
        }
    },
    {"spec": {"volumes": [{"name": "tmp", "hostPath": {"path": "/"}}]}},
    {"spec": {"containers": [{"name": "proxy", "image": "p", "securityContext": {"capabilities": {"drop": []}}}]}},
]


def restricted(pod: dict[str, Any]) -> bool:
    """The restricted Pod Security profile, as the Kubernetes documentation has it; for these fragments."""
    spec = pod["spec"]
    security = spec["securityContext"]
    every = [*spec["containers"], *spec.get("initContainers", ())]
    own = [container["securityContext"] for container in every]
    annotations = pod["metadata"].get("annotations") or {}
    return (
        not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
        and not any("hostPath" in volume for volume in spec["volumes"])
        and not any(port.get("hostPort") for container in every for port in container.get("ports") or ())
        and security["runAsNonRoot"] is True
        and security["runAsUser"] != 0
        and security["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
        and not security.get("sysctls")
        and not any("apparmor" in key for key in annotations)
        and all(
            each["allowPrivilegeEscalation"] is False
            and not each.get("privileged")
            and "ALL" in each["capabilities"]["drop"]
            and set(each["capabilities"].get("add", ())) <= {"NET_BIND_SERVICE"}
            and each.get("runAsUser", 1) != 0
            for each in own
        )
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=3))
def test_whatever_is_allowed_results_in_pods_of_the_restricted_profile(fragments: list[dict[str, Any]]) -> None:
    template: dict[str, Any] = {"spec": {}}
    for fragment in copy.deepcopy(fragments):
        template["spec"] |= fragment.get("spec", {})
        template |= {"metadata": fragment["metadata"]} if "metadata" in fragment else {}
    spec = spec_with(template, of_master=template)
    if problems(spec):
        return
    node = PodToCreate(node="worker-0", role="worker")
    assert restricted(node_pod(JOB, spec, node, master_address="10.0.0.1:7777", image="pliant:1"))
    assert restricted(master_pod(JOB, spec, "10.0.0.1", "pliant:1"))
    assert template == spec.roles["worker"].template, "a template is not changed by what is made of it"
