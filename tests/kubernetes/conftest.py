"""Fixtures of the tests on a real Kubernetes; see ``harness``.

``control_plane``: a cluster without kubelets, for what concerns the API server alone; ``space``: a namespace in it.
``cluster``: two real nodes, and the chart with two operators; ``field``: a namespace in it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes import harness
from tests.kubernetes.commands import Cli
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import PROJECT, Space, Testbed
from tools.kubernetes.testbed import Cluster, missing

from pliant.platforms.kubernetes.kinds import NODES

CRDS = sorted((PROJECT / "deploy" / "helm" / "crds").glob("*.yaml"))
MAX_TEST = 900  # seconds, with the start of a cluster; only how long a hanging one takes to end
_shared: list[Path] = []  # the folder that the workers of this run share, once a cluster was asked for


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses the real nodes runs on one worker, one test after the other; what takes nodes or operators away, last."""
    here = Path(__file__).parent
    reason = missing()
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.kubernetes)
            if "cluster" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("cluster"))
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(MAX_TEST))
            if reason and not os.environ.get("CI"):
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: item.get_closest_marker("losses") is not None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    for folder in _shared:
        harness.leave(folder)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kubernetes"
    folder.mkdir(parents=True, exist_ok=True)
    _shared.append(folder)
    return folder


@pytest.fixture(scope="session")
def control_plane(shared_folder: Path) -> Iterator[Testbed]:
    """API server, controllers and scheduler, with the CRDs; no nodes but those that a test registers."""
    testbed = Testbed(
        harness.share(shared_folder, "control-plane", lambda owner: Cluster.up(owner=owner, manifests=CRDS))
    )
    yield testbed
    testbed.kube.close()


@pytest.fixture
def space(control_plane: Testbed, request: pytest.FixtureRequest) -> Iterator[Space]:
    with control_plane.space(name_for(request)) as space:
        yield space


@pytest.fixture(scope="session")
def cluster(shared_folder: Path) -> Iterator[Testbed]:
    """Two real nodes, and the operator in Pods of its own, with the rights that the chart gives it and no others."""
    testbed = Testbed(harness.share(shared_folder, "cluster", start_cluster))
    yield testbed
    testbed.kube.close()


def start_cluster(owner: int) -> Cluster:
    cluster = Cluster.up(nodes=2, owner=owner, manifests=CRDS)
    try:
        harness.install_chart(cluster)
    except BaseException:
        cluster.down()
        raise
    return cluster


@pytest.fixture
def field(cluster: Testbed, request: pytest.FixtureRequest) -> Iterator[Space]:
    with cluster.space(name_for(request)) as space:
        space.wait_for(
            lambda: all_machines_take_pods(cluster), "both machines, of which a test before may have taken one"
        )
        yield space


def all_machines_take_pods(cluster: Testbed) -> bool:
    return not any(node["spec"].get("taints") or node["spec"].get("unschedulable") for node in cluster.kube.list(NODES))


@pytest.fixture
def cli(field: Space, tmp_path: Path) -> Iterator[Cli]:
    """The commands, as a user of the cluster has them."""
    made = Cli(field, tmp_path)
    yield made
    made.close()


@pytest.fixture
def kubelet(control_plane: Testbed, space: Space) -> Iterator[FakeKubelet]:
    """Two machines that pretend to run what is bound to them; Pods of the test's namespace that are asked to go, go."""
    with FakeKubelet(control_plane.kube, nodes=2, prefix=f"m-{space.name[-6:]}") as kubelet:
        kubelet.obey_deletions(space.name)
        yield kubelet


def name_for(request: pytest.FixtureRequest) -> str:
    """Of a namespace: says which test it is of."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    return f"{words[:50].strip('-')}-{secrets.token_hex(3)}"
