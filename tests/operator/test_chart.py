"""The Helm chart, rendered by a real helm: what it asks for, and that it follows its values."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.operator.__main__ import parser, peers
from pliant.operator.job_objects import master_rules

PROJECT = Path(__file__).parents[2]
CHART = PROJECT / "deploy/helm"
CACHED = sorted((Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pliant").glob("helm-*/bin/helm"))

pytestmark = pytest.mark.skipif(
    not CACHED and not os.environ.get("CI"), reason="no helm; tools/kubernetes/helm.sh fetches it"
)


@pytest.fixture(scope="module")
def helm() -> str:
    script = str(PROJECT / "tools/kubernetes/helm.sh")
    return subprocess.run([script], check=True, capture_output=True, text=True, timeout=110).stdout.strip()


def rendered(helm: str, *flags: str, chart: Path = CHART) -> list[dict[str, Any]]:
    words = [helm, "template", "pliant", str(chart), "--namespace", "pliant-system", *flags]
    text = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    return [item for item in yaml.safe_load_all(text) if item]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


def rights(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_helm_finds_no_fault_with_it(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_plain_manifests_are_current(helm: str) -> None:
    script = str(PROJECT / "tools/kubernetes/manifests.sh")
    made = subprocess.run([script], check=True, capture_output=True, text=True, timeout=110).stdout
    assert (PROJECT / "deploy/manifests/pliant.yaml").read_text() == made, (
        "run `make manifests` and commit what it writes"
    )


def test_the_operator_runs_without_root_and_asks_for_what_it_needs(helm: str) -> None:
    pod = of_kind(rendered(helm), "Deployment")[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["command"] == ["python", "-m", "pliant.operator"]


def test_no_rule_gives_more_than_single_verbs_of_single_resources(helm: str) -> None:
    objects = rendered(helm)
    for role in (*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole")):
        for rule in role["rules"]:
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


def test_the_operator_holds_every_right_that_it_gives_to_masters(helm: str) -> None:
    wanted = "pliant-pliant-system"
    [role] = [role for role in of_kind(rendered(helm), "ClusterRole") if role["metadata"]["name"] == wanted]
    assert rights(master_rules("some-job")) <= rights(role["rules"])


def test_people_cannot_write_the_status_by_which_masters_ask_the_operator_for_pods(helm: str) -> None:
    roles = [role for role in of_kind(rendered(helm), "ClusterRole") if "aggregate" in str(role["metadata"]["labels"])]
    given = {resource for role in roles for _, resource, _ in rights(role["rules"])}
    assert given == {"elasticjobs", "scaleplans", "elasticjobs/scale"}


def test_the_operator_may_list_storage_classes_wherever_it_serves(helm: str) -> None:
    for flags in ((), ("--set", "namespaces={a}")):
        found = [rule for role in of_kind(rendered(helm, *flags), "ClusterRole") for rule in role["rules"]]
        assert {("storage.k8s.io", "storageclasses", "list")} <= rights(found)


def test_with_namespaces_there_are_no_rights_elsewhere(helm: str) -> None:
    objects = rendered(
        helm, "--set", "namespaces={a,b}", "--set", "rbac.readMachines=false", "--set", "rbac.readStorageClasses=false"
    )
    bound = {binding["metadata"]["name"] for binding in of_kind(objects, "ClusterRoleBinding")}
    assert bound == set()
    roles = {(role["metadata"]["namespace"], role["metadata"]["name"]) for role in of_kind(objects, "Role")}
    assert {("a", "pliant"), ("b", "pliant")} <= roles
    args = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--namespace=a", "--namespace=b"} <= set(args)


def test_what_the_chart_gives_the_operator_is_understood_by_it(helm: str) -> None:
    flags = ("--set", "watchSeconds=45", "--set", "namespaces={a}", "--set", "extraArgs={--lease-namespace=b}")
    args = of_kind(rendered(helm, *flags), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    options = parser().parse_args(args)
    assert (options.watch_seconds, options.namespace, options.lease_namespace) == (45, ["a"], "b")


def test_what_an_administrator_allows_reaches_the_operator_and_nothing_is_allowed_by_default(helm: str) -> None:
    def options(*flags: str) -> Any:
        pod = of_kind(rendered(helm, *flags), "Deployment")[0]["spec"]["template"]["spec"]
        return parser().parse_args(pod["containers"][0]["args"])

    given = options()
    assert (given.allow, given.allow_volume, given.allow_host_path, given.metrics_from) == ([], [], [], "[]")
    wide = "podPolicy.allow={hostNetwork,privileged},podPolicy.volumes={nfs},podPolicy.hostPaths={/mnt/a}"
    peer = "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"
    given = options("--set", wide, "--set", peer)
    assert (given.allow, given.allow_volume) == (["hostNetwork", "privileged"], ["nfs"])
    assert given.allow_host_path == ["/mnt/a"]
    assert peers(given.metrics_from) == ({"podSelector": {"matchLabels": {"app": "prometheus"}}},)


def test_image_command_and_volumes_can_be_given(helm: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "image": {"repository": "registry/host", "tag": "7"},
                "command": ["/venv/bin/python", "-m", "pliant.operator"],
                "extraVolumes": [{"name": "usr", "hostPath": {"path": "/usr"}}],
                "extraVolumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}],
            }
        )
    )
    pod = of_kind(rendered(helm, "-f", str(values)), "Deployment")[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["image"] == "registry/host:7"
    assert container["command"][0] == "/venv/bin/python"
    assert {"name": "PLIANT_IMAGE", "value": "registry/host:7"} in container["env"]
    assert {"tmp", "usr"} == {volume["name"] for volume in pod["volumes"]}
    assert {"tmp", "usr"} == {mount["name"] for mount in container["volumeMounts"]}
