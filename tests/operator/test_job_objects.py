"""What is made around a master, and its Pod."""

from __future__ import annotations

import base64
from typing import Any

from cryptography import x509
from tests.operator.builders import claimed, job

from pliant.operator import job_objects
from pliant.operator.job_spec import spec_of
from pliant.operator.master_pod import master_pod
from pliant.platforms.kubernetes.kinds import CLAIMS, CONFIG_MAPS, NETWORK_POLICIES, Object
from pliant.platforms.kubernetes.names import labels_of
from pliant.spec import JobSpec


def pod_of(owner: Object) -> dict[str, Any]:
    return master_pod(owner, spec_of(owner), "10.0.0.7", "pliant:1")


def test_everything_belongs_to_the_job() -> None:
    owner = claimed()
    made = [
        job_objects.service(owner),
        pod_of(owner),
        *(body for _, body in job_objects.supporting_objects(owner, spec_of(owner))),
    ]
    for body in made:
        assert body["metadata"]["ownerReferences"][0]["uid"] == "job-1"
        assert body["metadata"]["labels"]["pliant.dev/job"] == "digits"


def test_the_certificate_is_for_the_services_address_and_names() -> None:
    owner = job()
    data = job_objects.master_secret(owner, spec_of(owner), "10.0.0.7")["data"]
    names = x509.load_pem_x509_certificate(base64.b64decode(data["master.crt"])).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "10.0.0.7" in [str(address) for address in names.value.get_values_for_type(x509.IPAddress)]
    assert "digits-master.team.svc" in names.value.get_values_for_type(x509.DNSName)


def test_without_tls_there_is_a_token_alone() -> None:
    owner = job(security={"tls": False})
    data = job_objects.master_secret(owner, spec_of(owner), "10.0.0.7")["data"]
    assert set(data) == {"token"}
    assert "--tls-dir" not in pod_of(owner)["spec"]["containers"][0]["command"]


def test_the_masters_spec_is_the_jobs_and_never_suspended() -> None:
    owner = claimed(suspend=True)
    made = {
        (kind, body["metadata"]["name"]): body for kind, body in job_objects.supporting_objects(owner, spec_of(owner))
    }
    read = JobSpec.from_yaml(made[CONFIG_MAPS, "digits-master"]["data"]["job.yaml"])
    assert read == spec_of(owner).replaced(suspend=False)
    assert made[CLAIMS, "digits-journal"]["spec"]["resources"]["requests"]["storage"] == "1Gi"


def test_a_master_creates_nothing_and_writes_only_what_has_the_name_of_its_job() -> None:
    reads = {"get", "list", "watch"}
    for rule in job_objects.master_rules("digits"):
        assert "create" not in rule["verbs"], "no rule can limit that by name"
        assert set(rule["verbs"]) <= reads or set(rule["resourceNames"]) <= {"digits", "digits-summary"}
        assert not {"secrets", "pods/log"} & set(rule["resources"])


def test_the_masters_pod_runs_without_root_and_has_no_secret_in_its_command() -> None:
    pod = pod_of(job())["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["restartPolicy"] == "OnFailure"
    assert "/etc/pliant/secret/token" in container["command"]


def test_the_master_asks_for_cpu_and_may_use_more() -> None:
    resources = pod_of(job())["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}


def test_the_masters_template_is_merged_and_cannot_hide_the_pod() -> None:
    template = {
        "metadata": {"labels": {"pliant.dev/job": "other", "team": "a"}, "name": "x"},
        "spec": {"volumes": [{"name": "usr", "hostPath": {"path": "/usr"}}], "restartPolicy": "Never"},
    }
    pod = pod_of(job(platform={"kubernetes": {"master": {"template": template}}}))
    assert pod["metadata"]["name"] == "digits-master"
    assert pod["metadata"]["labels"]["pliant.dev/job"] == "digits"
    assert pod["metadata"]["labels"]["team"] == "a"
    assert {"usr", "spec", "secret"} <= {volume["name"] for volume in pod["spec"]["volumes"]}
    assert pod["spec"]["restartPolicy"] == "OnFailure"


def lets_in(policies: list[Object], target: dict[str, str], peer: dict[str, str], port: int) -> bool:
    """As a network plug-in decides for Pods of one namespace, by their labels: a Pod that no policy selects is open to all."""

    def matches(selector: Object, labels: dict[str, str]) -> bool:
        exist = all(entry["key"] in labels for entry in selector.get("matchExpressions", ()))
        return exist and selector.get("matchLabels", {}).items() <= labels.items()

    selecting = [policy["spec"] for policy in policies if matches(policy["spec"]["podSelector"], target)]
    rules = [rule for policy in selecting for rule in policy["ingress"]]
    return not selecting or any(
        any(matches(each["podSelector"], peer) for each in rule["from"])
        and ("ports" not in rule or port in [entry["port"] for entry in rule["ports"]])
        for rule in rules
    )


def test_only_pods_of_the_same_job_reach_its_master_and_its_nodes() -> None:
    owner = job(metrics_port=9090)
    prometheus: Object = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    made = job_objects.supporting_objects(owner, spec_of(owner), [prometheus])
    policies = [body for kind, body in made if kind is NETWORK_POLICIES]
    master, node = labels_of("digits", role="master"), labels_of("digits", role="worker", node="worker-0")
    others = [{}, {"app": "prometheus"}, labels_of("other", role="worker", node="worker-0")]
    for target, port in ((master, 7777), (node, 7777), (node, 29500)):
        assert lets_in(policies, target, node, port)
        assert lets_in(policies, target, master, port)
        assert not any(lets_in(policies, target, other, port) for other in others)
    assert [lets_in(policies, master, other, 9090) for other in others] == [False, True, False]
