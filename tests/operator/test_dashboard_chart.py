"""The chart with the dashboard, rendered by a real helm."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.operator.test_brain_chart import deployment, pod_of, secret_of, volumes
from tests.operator.test_chart import CHART, PROJECT, helm, of_kind, pytestmark, rendered, rights

from pliant.cli.app import app
from pliant.dashboard.serving import ServeOptions, check

__all__ = ["helm", "pytestmark"]

NAME = "pliant-dashboard"
READS = {
    ("pliant.dev", "elasticjobs", "get"),
    ("pliant.dev", "elasticjobs", "list"),
    ("", "pods", "list"),
    ("", "pods/log", "get"),
    ("", "configmaps", "get"),
    ("", "secrets", "get"),
    ("", "pods/portforward", "get"),
    ("", "pods/portforward", "create"),
}
MACHINES = {(group, kind, "list") for group in ("", "metrics.k8s.io") for kind in ("nodes", "pods")}

Found = list[dict[str, Any]]


def with_dashboard(helm: str, *settings: str, chart: Path = CHART) -> Found:
    chosen = ("dashboard.enabled=true", *settings)
    return rendered(helm, *(word for setting in chosen for word in ("--set", setting)), chart=chart)


def named(objects: Found, kind: str, name: str = NAME) -> Any:
    [found] = [item for item in of_kind(objects, kind) if item["metadata"]["name"] == name]
    return found


def options_of(objects: Found) -> dict[str, Any]:
    """What the command makes of the arguments that the chart gives it."""
    words = pod_of(objects, NAME)["containers"][0]["args"]
    group: Any = typer.main.get_command(app)
    command = group.get_command(group.context_class(group), words[0])
    return dict(command.make_context(words[0], words[1:]).params)


def refusal(helm: str, *settings: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        with_dashboard(helm, *settings)
    return str(failed.value.stderr)


def notes(helm: str, folder: Path, *settings: str) -> str:
    """What `helm install` says at its end: without a cluster it renders the notes only as a file like the others."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    (chart / "templates/NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates/notes.yaml").write_text('kind: Notes\ntext: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}\n')
    [found] = of_kind(with_dashboard(helm, *settings, chart=chart), "Notes")
    return str(found["text"])


def test_by_default_there_is_nothing_of_it(helm: str) -> None:
    assert "dashboard" not in json.dumps(rendered(helm))


def test_it_only_reads_the_namespace_that_it_shows(helm: str) -> None:
    objects = with_dashboard(helm, "dashboard.namespace=team-a")
    role = named(objects, "Role")
    assert role["metadata"]["namespace"] == "team-a"
    assert rights(role["rules"]) == READS
    binding = named(objects, "RoleBinding")
    assert binding["metadata"]["namespace"] == "team-a"
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": "pliant-system"}
    assert binding["subjects"] == [account]
    assert pod_of(objects, NAME)["serviceAccountName"] == NAME
    assert named(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert rights(named(objects, "ClusterRole", "pliant-pliant-system-dashboard")["rules"]) == MACHINES
    assert options_of(objects)["namespace"] == "team-a"
    assert options_of(objects)["allow_control"] is False


def test_it_writes_only_where_that_is_allowed(helm: str) -> None:
    objects = with_dashboard(helm, "dashboard.allowControl=true")
    assert rights(named(objects, "Role")["rules"]) - READS == {("pliant.dev", "elasticjobs", "patch")}
    assert options_of(objects)["allow_control"] is True


def test_without_the_view_of_the_cluster_it_has_no_rights_elsewhere(helm: str) -> None:
    for setting in ("dashboard.readMachines=false", "rbac.create=false"):
        objects = with_dashboard(helm, setting)
        bound = [item for item in of_kind(objects, "ClusterRoleBinding") if NAME in json.dumps(item["subjects"])]
        assert not bound
    assert NAME not in {item["metadata"]["name"] for item in of_kind(objects, "Role")}


def test_the_namespace_is_the_only_one_that_is_served_or_the_releases(helm: str) -> None:
    assert options_of(with_dashboard(helm))["namespace"] == "pliant-system"
    assert options_of(with_dashboard(helm, "namespaces={team-b}"))["namespace"] == "team-b"
    assert "dashboard.namespace" in refusal(helm, "namespaces={a,b}")
    assert options_of(with_dashboard(helm, "namespaces={a,b}", "dashboard.namespace=b"))["namespace"] == "b"


@pytest.mark.parametrize("hosts", ["{https://dash.example}", "{dash.example:443}", "{*.example}", "dash.example"])
def test_what_is_no_host_name_is_refused(helm: str, hosts: str) -> None:
    assert "dashboard.allowedHosts" in refusal(helm, f"dashboard.allowedHosts={hosts}")


def test_what_the_chart_gives_it_is_understood_and_accepted_by_it(helm: str, tmp_path: Path) -> None:
    objects = with_dashboard(helm, "dashboard.allowedHosts={dash.example,10.0.0.7,[fd00::7]}", "dashboard.port=9443")
    given = options_of(objects)
    assert (given["host"], given["port"], given["open_browser"]) == ("0.0.0.0", 9443, False)
    assert given["allow_host"] == ["dash.example", "10.0.0.7", "[fd00::7]"]
    pod = pod_of(objects, NAME)
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in pod["containers"][0]["volumeMounts"]}
    assert given["tls_cert"] == mounts["tls"] / "tls.crt"
    assert given["tls_key"] == mounts["tls"] / "tls.key"
    for name, text in secret_of(objects, f"{NAME}-tls").items():
        (tmp_path / name).write_text(text)
    check(ServeOptions(host=given["host"], tls_cert=tmp_path / "tls.crt", tls_key=tmp_path / "tls.key"))
    assert named(objects, "Service")["spec"]["ports"] == [{"name": "https", "port": 9443, "targetPort": "https"}]


def test_the_certificate_is_for_the_names_by_which_browsers_reach_it(helm: str, tmp_path: Path) -> None:
    files = secret_of(with_dashboard(helm, "dashboard.allowedHosts={dash.example,10.0.0.7}"), f"{NAME}-tls")
    assert files.keys() == {"ca.crt", "tls.crt", "tls.key"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for host in ("localhost", "127.0.0.1", "dash.example", "10.0.0.7", f"{NAME}.pliant-system.svc"):
        assert handshakes(tmp_path, host), host
    assert not handshakes(tmp_path, "evil.example")


def handshakes(folder: Path, host: str) -> bool:
    """Whether a client that trusts the authority takes the certificate for this host."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=folder / "ca.crt")
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return ends[0].version() is not None


def test_a_certificate_of_ones_own_is_used_and_none_is_made(helm: str) -> None:
    objects = with_dashboard(helm, "dashboard.tls.secretName=mine")
    assert not of_kind(objects, "Secret")
    secret = volumes(pod_of(objects, NAME))["tls"]["secret"]
    assert (secret["secretName"], secret["defaultMode"]) == ("mine", 0o440)
    assert {item["key"] for item in secret["items"]} == {"tls.crt", "tls.key"}


def test_the_link_is_for_a_port_forward_unless_a_host_name_is_given(helm: str, tmp_path: Path) -> None:
    assert options_of(with_dashboard(helm))["allow_host"] == ["localhost"]
    shown = notes(helm, tmp_path, "dashboard.namespace=team-a")
    assert f"kubectl port-forward -n pliant-system svc/{NAME} 8470\n" in shown
    assert f"kubectl logs -n pliant-system deployment/{NAME} " in shown
    assert "namespace team-a." in shown
    assert "scale and stop" not in shown
    shown = notes(helm, tmp_path, "dashboard.allowedHosts={dash.example}", "dashboard.allowControl=true")
    assert "https://dash.example;" in shown
    assert "scale and stop" in shown
    assert not re.search(r"[{}]", shown)


def test_it_runs_without_root_and_without_more_than_it_needs(helm: str) -> None:
    objects = with_dashboard(helm)
    spec, pod = deployment(objects, NAME), pod_of(objects, NAME)
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["command"] == ["python", "-m", "pliant.cli"]
    assert "priorityClassName" not in pod
    scheduled = with_dashboard(helm, "dashboard.priorityClassName=low", "dashboard.nodeSelector.disk=ssd")
    assert pod_of(scheduled, NAME)["priorityClassName"] == "low"
    assert pod_of(scheduled, NAME)["nodeSelector"] == {"disk": "ssd"}


def test_nobody_may_connect_but_through_its_machine_and_who_is_named(helm: str) -> None:
    labels = deployment(with_dashboard(helm), NAME)["selector"]["matchLabels"]
    policy = named(with_dashboard(helm), "NetworkPolicy")["spec"]
    assert (policy["podSelector"]["matchLabels"], policy["ingress"]) == (labels, [])
    objects = with_dashboard(helm, "dashboard.allowFrom[0].podSelector.matchLabels.app=ingress")
    [rule] = named(objects, "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "ingress"}}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8470}]
    assert named(objects, "Service")["spec"]["selector"] == labels
    assert of_kind(with_dashboard(helm, "networkPolicy.create=false"), "NetworkPolicy") == []


def test_the_image_has_what_it_needs() -> None:
    extras = re.search(r"^ARG EXTRAS=(\S+)$", (PROJECT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert extras is not None
    assert {"dashboard", "kubernetes"} <= set(extras[1].split(","))
