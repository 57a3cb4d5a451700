"""The chart with the Brain on a real API server: what it installs is accepted, kept by upgrades, and enough for the monitor."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import PATIENCE, PROJECT, Space, Testbed
from tests.kubernetes.operators import kubeconfig_of
from tests.kubernetes.test_chart import helm
from tests.monitors.recording_brain import RecordingBrain

from pliant.platforms.kubernetes.kinds import CLAIMS, DEPLOYMENTS, NETWORK_POLICIES, SECRETS, SERVICES
from pliant.rpc.tls import TlsFiles

__all__ = ["helm"]

VALUES = ("replicas=0", "brain.enabled=true", "brain.replicas=0", "priorityClasses.create=false")


class Release:
    def __init__(self, helm: str, space: Space) -> None:
        self._helm, self._space = helm, space
        self._common = ["--kubeconfig", str(space.testbed.kubeconfig), "--namespace", space.name]

    def run(self, verb: str, *values: str) -> str:
        given = [f"namespaces={{{self._space.name}}}", *VALUES, *values]
        flags = [word for value in given for word in ("--set", value)]
        words = [self._helm, verb, "pliant", str(PROJECT / "deploy/helm"), "--skip-crds", *self._common, *flags]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def uninstall(self) -> None:
        words = [self._helm, "uninstall", "pliant", *self._common]
        subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)


@pytest.fixture
def release(helm: str, space: Space) -> Iterator[Release]:
    made = Release(helm, space)
    made.run("install")
    yield made
    made.uninstall()


def secret(space: Space, name: str = "pliant-brain") -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in space.get(SECRETS, name)["data"].items()}


def test_an_upgrade_keeps_token_and_certificates_and_the_notes_warn_of_a_database_that_can_be_lost(
    release: Release, space: Space
) -> None:
    before = secret(space)
    assert len(before["token"]) >= 32
    notes = release.run("upgrade", "brain.persistence.enabled=false", "brain.defaultMode=cluster")
    assert "WARNING" in notes
    assert secret(space) == before
    volumes = space.get(DEPLOYMENTS, "pliant-brain")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "data", "emptyDir": {}} in volumes
    assert "WARNING" not in release.run("upgrade", "brain.database.url=postgresql://pliant:hidden@db/pliant")
    assert secret(space) == before
    assert secret(space, "pliant-brain-database") == {"url": "postgresql://pliant:hidden@db/pliant"}


def test_all_that_the_brain_needs_is_accepted_by_the_api_server(release: Release, space: Space) -> None:
    assert space.get(SERVICES, "pliant-brain")["spec"]["ports"][0]["port"] == 50051
    assert space.find(CLAIMS, "pliant-brain")
    assert {"pliant-brain", "pliant-monitor"} <= {item["metadata"]["name"] for item in space.list(NETWORK_POLICIES)}
    assert space.find(DEPLOYMENTS, "pliant-monitor")


def test_the_monitors_account_is_enough_for_it_and_for_nothing_else(
    control_plane: Testbed, release: Release, space: Space, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    files = secret(space)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    account = kubeconfig_of(space, tmp_path, "pliant-monitor")
    with RecordingBrain(tmp_path / "brain", token=files["token"], tls=TlsFiles(tmp_path)) as brain:
        words = [sys.executable, "-m", "pliant.cli", "brain", "monitor", "--platform", "kubernetes", "--once"]
        words += ["--brain", brain.address, "--brain-dir", str(brain.folder.path)]
        environment = {**os.environ, "KUBECONFIG": str(account)}
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr
    assert {machine.name for machine in brain.observed[0].machines} >= set(kubelet.nodes)
    who = f"--as=system:serviceaccount:{space.name}:pliant-monitor"

    def may(*what: str) -> bool:
        return control_plane.kubectl("auth", "can-i", *what, who, "-A", check=False).stdout.strip() == "yes"

    assert may("list", "pods")
    for what in (
        ("get", "secrets"),
        ("list", "secrets"),
        ("list", "configmaps"),
        ("create", "pods"),
        ("patch", "nodes"),
    ):
        assert not may(*what), what
