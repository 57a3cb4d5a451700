"""The chart with the Brain, rendered by a real helm."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.monitors.recording_brain import RecordingBrain
from tests.monitors.test_reporter import Scripted
from tests.operator.test_chart import helm, of_kind, pytestmark, rendered, rights

from pliant.cli.commands.brain import app
from pliant.monitors.reporter import ObservationReporter
from pliant.operator.__main__ import known_brain, parser
from pliant.platforms.kubernetes.names import labels_of
from pliant.rpc.tls import TlsFiles

__all__ = ["helm", "pytestmark"]

ENABLED = ("--set", "brain.enabled=true")
POSTGRES = "postgresql+psycopg://pliant:hidden@db/pliant"
ADDRESS = "pliant-brain.pliant-system.svc:50051"
FILE = "--database=sqlite:////var/lib/pliant/brain/brain.db"

Found = list[dict[str, Any]]


def with_brain(helm: str, *settings: str) -> Found:
    return rendered(helm, *ENABLED, *(word for setting in settings for word in ("--set", setting)))


def deployment(objects: Found, name: str) -> Any:
    return next(item for item in of_kind(objects, "Deployment") if item["metadata"]["name"] == name)["spec"]


def pod_of(objects: Found, name: str) -> Any:
    return deployment(objects, name)["template"]["spec"]


def volumes(pod: Any) -> dict[str, Any]:
    return {volume["name"]: volume for volume in pod["volumes"]}


def secret_of(objects: Found, name: str) -> dict[str, str]:
    [found] = [item for item in of_kind(objects, "Secret") if item["metadata"]["name"] == name]
    return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


def refusal(helm: str, *settings: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        with_brain(helm, *settings)
    return str(failed.value.stderr)


def test_by_default_there_is_nothing_of_it(helm: str) -> None:
    assert "brain" not in json.dumps(rendered(helm))


def test_a_single_brain_has_a_file_on_a_claim_that_outlives_the_release(helm: str) -> None:
    objects = with_brain(helm)
    pod = pod_of(objects, "pliant-brain")
    [claim] = of_kind(objects, "PersistentVolumeClaim")
    assert volumes(pod)["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    [container] = pod["containers"]
    assert container["command"] == ["python", "-m", "pliant.cli"]
    assert container["args"][:2] == ["brain", "serve"]
    assert {FILE, "--listen=0.0.0.0:50051", f"--advertise={ADDRESS}", "--dir=/etc/pliant/brain"} <= set(
        container["args"]
    )
    assert deployment(objects, "pliant-brain")["strategy"] == {"type": "Recreate"}


def test_without_persistence_the_file_is_lost_with_the_pod(helm: str) -> None:
    objects = with_brain(helm, "brain.persistence.enabled=false")
    assert volumes(pod_of(objects, "pliant-brain"))["data"] == {"name": "data", "emptyDir": {}}
    assert not of_kind(objects, "PersistentVolumeClaim")


@pytest.mark.parametrize("setting", [f"brain.database.url={POSTGRES}", "brain.database.existingSecret=mine"])
def test_several_brains_share_a_database_whose_address_is_in_a_secret_only(helm: str, setting: str) -> None:
    objects = with_brain(helm, "brain.replicas=3", setting)
    assert deployment(objects, "pliant-brain")["replicas"] == 3
    pod = pod_of(objects, "pliant-brain")
    [variable] = [each for each in pod["containers"][0]["env"] if each["name"] == "PLIANT_BRAIN_DATABASE"]
    source = variable["valueFrom"]["secretKeyRef"]
    if "url" in setting:
        assert source == {"name": "pliant-brain-database", "key": "url"}
        assert secret_of(objects, "pliant-brain-database") == {"url": POSTGRES}
    else:
        assert source == {"name": "mine", "key": "url"}
    assert "hidden" not in json.dumps([item for item in objects if item["kind"] != "Secret"])
    assert FILE not in pod["containers"][0]["args"]
    assert "data" not in volumes(pod)
    assert not of_kind(objects, "PersistentVolumeClaim")


def test_values_that_contradict_each_other_are_refused(helm: str) -> None:
    assert "database server" in refusal(helm, "brain.replicas=2")
    assert "database server" in refusal(helm, "brain.replicas=2", "brain.database.url=sqlite:////x.db")
    assert "not both" in refusal(helm, "brain.database.url=x://", "brain.database.existingSecret=mine")
    assert "single-job" in refusal(helm, "brain.defaultMode=single-job")


def test_a_client_that_has_the_secrets_authority_and_token_trusts_a_brain_with_its_certificate(
    helm: str, tmp_path: Path
) -> None:
    files = secret_of(with_brain(helm), "pliant-brain")
    assert files.keys() == {"token", "ca.crt", "master.crt", "master.key"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with RecordingBrain(tmp_path / "brain", token=files["token"], tls=TlsFiles(tmp_path)) as brain:
        reporter = ObservationReporter(Scripted(), brain.access)
        asyncio.run(_once(reporter))
    assert len(brain.observed) == 1


async def _once(reporter: ObservationReporter) -> None:
    await reporter.report()
    await reporter.close()


def test_an_existing_secret_is_used_and_none_is_made(helm: str) -> None:
    objects = with_brain(helm, "brain.existingSecret=mine")
    assert not of_kind(objects, "Secret")
    for name in ("pliant", "pliant-brain", "pliant-monitor"):
        assert volumes(pod_of(objects, name))["brain"]["secret"]["secretName"] == "mine"


def test_the_brain_alone_has_its_key(helm: str) -> None:
    objects = with_brain(helm)

    def files(name: str) -> set[str]:
        secret = volumes(pod_of(objects, name))["brain"]["secret"]
        assert secret["defaultMode"] == 0o440
        return {item["path"] for item in secret["items"]}

    assert files("pliant-brain") == {"token", "tls/ca.crt", "tls/master.crt", "tls/master.key"}
    assert files("pliant") == files("pliant-monitor") == {"token", "ca.crt"}


def test_what_the_chart_gives_operator_and_monitor_is_understood_by_them(helm: str) -> None:
    objects = with_brain(helm, "brain.defaultMode=cluster", "brain.address=10.0.0.9:7", "brain.monitor.cluster=east")
    options = parser().parse_args(pod_of(objects, "pliant")["containers"][0]["args"])
    known = known_brain(options.brain, options.brain_dir, options.brain_default_mode)
    assert known is not None
    assert (known.address, known.plans_by_default) == ("10.0.0.9:7", True)
    [monitor] = pod_of(objects, "pliant-monitor")["containers"]
    mounts = [mount["mountPath"] for mount in monitor["volumeMounts"]]
    assert str(known.folder.path) in mounts
    words = monitor["args"]
    assert words[0] == "brain"
    command = typer.main.get_command(app).commands[words[1]]  # type: ignore[attr-defined]
    given = command.make_context("monitor", words[2:]).params
    assert (given["platform"], given["brain"], given["cluster"]) == ("kubernetes", "10.0.0.9:7", "east")
    assert (str(given["brain_dir"]), given["interval"]) == ("/etc/pliant/brain", 5.0)
    plain = parser().parse_args(pod_of(with_brain(helm), "pliant")["containers"][0]["args"])
    assert (plain.brain, plain.brain_default_mode) == (ADDRESS, None)


def test_the_monitor_may_list_machines_and_pods_and_nothing_else(helm: str) -> None:
    objects = with_brain(helm)
    [role] = [role for role in of_kind(objects, "ClusterRole") if role["metadata"]["name"].endswith("-monitor")]
    groups = ("", "metrics.k8s.io")
    assert rights(role["rules"]) == {(group, kind, "list") for group in groups for kind in ("nodes", "pods")}
    pod = pod_of(objects, "pliant-monitor")
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("pliant-monitor", True)
    without = with_brain(helm, "brain.monitor.enabled=false")
    assert "pliant-monitor" not in {item["metadata"]["name"] for item in without}


def test_brain_and_monitor_run_without_root_and_without_more_than_they_need(helm: str) -> None:
    objects = with_brain(helm)
    for name in ("pliant-brain", "pliant-monitor"):
        pod = pod_of(objects, name)
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert pod["priorityClassName"] == "pliant-high"
    assert pod_of(objects, "pliant-brain")["automountServiceAccountToken"] is False
    bare = with_brain(helm, "priorityClasses.create=false")
    assert "priorityClassName" not in pod_of(bare, "pliant-brain")


def test_what_the_chart_gives_the_brain_is_understood_by_it_and_its_probes_reach_it(helm: str) -> None:
    [container] = pod_of(with_brain(helm), "pliant-brain")["containers"]
    words = container["args"]
    command = typer.main.get_command(app).commands[words[1]]  # type: ignore[attr-defined]
    given = command.make_context("serve", words[2:]).params
    assert given["listen"] == "0.0.0.0:50051"
    assert given["advertise"] == ADDRESS
    assert (given["health_host"], given["health_port"]) == ("0.0.0.0", 8080), "probes come from outside of the Pod"


def test_the_brain_is_watched_by_probes_of_its_health_port(helm: str) -> None:
    [container] = pod_of(with_brain(helm, "brain.healthPort=81"), "pliant-brain")["containers"]
    assert "--health-port=81" in container["args"]
    assert {"name": "health", "containerPort": 81} in container["ports"]
    paths = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: get["path"] for name, get in paths.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {get["port"] for get in paths.values()} == {"health"}


def test_only_masters_the_operator_monitors_and_who_is_named_may_connect(helm: str) -> None:
    peers = "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"
    objects = with_brain(helm, peers, "brain.allowFrom[0].podSelector.matchLabels.app=notebook")
    [policy] = [item for item in of_kind(objects, "NetworkPolicy") if item["metadata"]["name"] == "pliant-brain"]
    calls, metrics = policy["spec"]["ingress"]
    assert calls["ports"] == [{"protocol": "TCP", "port": 50051}]
    masters, *own = calls["from"]
    assert masters["namespaceSelector"] == {}
    assert masters["podSelector"]["matchLabels"].items() <= labels_of("any", role="master").items()
    chosen = [peer["podSelector"]["matchLabels"] for peer in own]
    for labels, name in zip(chosen[:2], ("pliant", "pliant-monitor"), strict=True):
        assert labels.items() <= deployment(objects, name)["template"]["metadata"]["labels"].items()
    assert chosen[2] == {"app": "notebook"}
    assert metrics["ports"] == [{"protocol": "TCP", "port": 8080}]
    assert (
        policy["spec"]["podSelector"]["matchLabels"] == deployment(objects, "pliant-brain")["selector"]["matchLabels"]
    )
    assert len(policy["spec"]["ingress"]) == 2
