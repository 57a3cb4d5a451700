"""The chart on a real API server: helm installs it, its rights are enough for the operator, and no more than that."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import PATIENCE, PROJECT, Space, Testbed
from tests.kubernetes.operators import (
    a_job,
    kubeconfig_of,
    masters_plan,
    node_pods,
    nodes_to_create,
    running_operator,
    wait_for_master,
    wait_for_phase,
    wait_for_plan,
)

from pliant.platforms.kubernetes.kinds import DEPLOYMENTS, ELASTIC_JOBS

FORBIDDEN = (
    ("list", "secrets"),
    ("watch", "secrets"),
    ("delete", "secrets"),
    ("delete", "elasticjobs.pliant.dev"),
    ("create", "elasticjobs.pliant.dev"),
    ("create", "pods", "--subresource=exec"),
    ("delete", "services"),
    ("escalate", "roles.rbac.authorization.k8s.io"),
    ("bind", "roles.rbac.authorization.k8s.io"),
)


@pytest.fixture(scope="session")
def helm() -> str:
    script = str(PROJECT / "tools/kubernetes/helm.sh")
    return subprocess.run([script], check=True, capture_output=True, text=True, timeout=280).stdout.strip()


@pytest.fixture
def installed(helm: str, control_plane: Testbed, space: Space) -> Iterator[Space]:
    """The chart for one namespace, without Pods of its own: the tests run the operator themselves."""
    common = ["--kubeconfig", str(control_plane.kubeconfig), "--namespace", space.name]
    values = [f"namespaces={{{space.name}}}", "replicas=0", "priorityClasses.create=false"]
    flags = [word for value in values for word in ("--set", value)]
    words = [helm, "install", "pliant", str(PROJECT / "deploy/helm"), "--skip-crds", *common, *flags]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    yield space
    subprocess.run([helm, "uninstall", "pliant", *common], check=True, capture_output=True, timeout=PATIENCE)


def test_the_operators_account_has_the_rights_for_a_jobs_whole_life(
    installed: Space, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    space = installed
    assert space.find(DEPLOYMENTS, "pliant")
    with running_operator(space, tmp_path / "operator.log", kubeconfig_of(space, tmp_path, "pliant")) as operator:
        job = a_job(space)
        kubelet.run(wait_for_master(space))
        wait_for_phase(space, "Running")
        plan = masters_plan(space, job, 1, create=nodes_to_create(0, 1))
        wait_for_plan(space, plan, "Succeeded")
        plan = masters_plan(space, job, 2, remove=[{"node": "worker-0"}, {"node": "worker-1"}])
        wait_for_plan(space, plan, "Succeeded")
        space.wait_for(lambda: not node_pods(space), "the nodes to go")
        space.patch(ELASTIC_JOBS, "digits", {"spec": {"suspend": True}})
        wait_for_phase(space, "Suspended")
        text = operator.log.read_text()
    assert "forbidden" not in text.lower(), text
    assert "Traceback" not in text, text


def test_the_operators_account_has_no_rights_that_it_does_not_need(installed: Space, control_plane: Testbed) -> None:
    who = f"--as=system:serviceaccount:{installed.name}:pliant"
    for words in FORBIDDEN:
        answer = installed.kubectl("auth", "can-i", *words, who, check=False).stdout
        assert answer.startswith("no"), f"{words}: {answer}"
    elsewhere = control_plane.kubectl("auth", "can-i", "create", "pods", who, "-n", "default", check=False)
    assert elsewhere.stdout.startswith("no")
    assert installed.kubectl("auth", "can-i", "create", "pods", who, check=False).stdout.strip() == "yes"


def test_a_masters_account_reaches_its_own_job_and_no_secret(
    installed: Space, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    space = installed
    with running_operator(space, tmp_path / "operator.log"):
        a_job(space)
        wait_for_master(space)
    who = f"--as=system:serviceaccount:{space.name}:digits-master"

    def may(*words: str) -> bool:
        return space.kubectl("auth", "can-i", *words, who, check=False).stdout.strip() == "yes"

    assert may("patch", "elasticjobs.pliant.dev/digits", "--subresource=status")
    assert may("patch", "configmaps/digits-summary")
    assert may("watch", "scaleplans.pliant.dev")
    assert may("watch", "pods")
    assert not may("patch", "elasticjobs.pliant.dev/other", "--subresource=status")
    for kind in ("scaleplans.pliant.dev", "pods", "configmaps", "events", "secrets"):
        assert not may("create", kind)
    assert not may("get", "pods", "--subresource=log")
    assert not may("get", "secrets")
    assert not may("delete", "pods")
