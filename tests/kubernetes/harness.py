"""Clusters that a whole test run shares, and a namespace of its own for each test.

A cluster is started by the first test that asks for it and serves all workers of pytest-xdist; its owner is the process
that the run began with, so it goes away with the run, also if that is killed. ``Space`` is what a test has in hand: a
namespace, and verbs on what is in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tools.kubernetes.testbed import Cluster

from pliant.core.errors import PliantError
from pliant.files.atomic import read_json, write_json
from pliant.files.locks import FileLock
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import NAMESPACES, PODS, Kind, Object
from pliant.testing import wait_until

T = TypeVar("T")
PROJECT = Path(__file__).parents[2]
PATIENCE = 150.0  # seconds; only how long a failure takes to show on a busy machine
VOLUMES = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
LOOK_EVERY = 0.1  # seconds; a look is a request
# The process of the run, found out while it surely lives: of a killed run's worker the parent is that of all orphans.
RUN = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


class Kube:
    """The project's own client of the API, for tests that are not coroutines."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kube", daemon=True)
        self._thread.start()
        self.api = self._run(self._load())

    async def _load(self) -> KubeApi:
        return KubeApi.load(self.kubeconfig)

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE)

    def close(self) -> None:
        self._run(self.api.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return self._run(self.api.get(kind, name, namespace))

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        return self._run(self.api.find(kind, name, namespace))

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        return self._run(self.api.list(kind, namespace, labels=labels, fields=fields)).items

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        return self._run(self.api.create(kind, body, namespace))

    def patch(
        self, kind: Kind, name: str, patch: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Object:
        return self._run(self.api.patch(kind, name, patch, namespace, subresource=subresource))

    def delete(self, kind: Kind, name: str, namespace: str = "", *, grace: float | None = None) -> bool:
        return self._run(self.api.delete(kind, name, namespace, grace=grace))

    def logs(self, pod: str, namespace: str, *, tail: int | None = None, previous: bool = False) -> str:
        """What its container wrote so far; empty if there is none (yet)."""
        try:
            return self._run(_join(self.api.logs(pod, namespace, tail=tail, previous=previous)))
        except PliantError:
            return ""


async def _join(lines: AsyncIterator[str]) -> str:
    return "\n".join([line async for line in lines])


class Testbed:
    """A cluster that is shared by the tests of a run."""

    __test__ = False

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kube = Kube(cluster.kubeconfig)

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig

    def kubectl(self, *words: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """As a person calls it; what it printed is in the result."""
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, input=stdin)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """``kubectl apply`` of what a file would hold."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    @contextlib.contextmanager
    def space(self, name: str) -> Iterator[Space]:
        """A namespace that is emptied and removed at the end; its removal goes on in the background."""
        self.kube.create(NAMESPACES, {"metadata": {"name": name}})
        space = Space(self, name)
        try:
            # Pods are refused until the namespace has its default service account.
            account = Kind("", "v1", "ServiceAccount", "serviceaccounts")
            wait_until(lambda: (self.kube.find(account, "default", name) or {}).get("secrets"), PATIENCE)
            yield space
        finally:
            space.remove()


class Space:
    """A namespace of a test."""

    def __init__(self, testbed: Testbed, name: str) -> None:
        self.testbed = testbed
        self.name = name
        self.kube = testbed.kube

    def kubectl(self, *words: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.testbed.kubectl("--namespace", self.name, *words, check=check, stdin=stdin)

    def get(self, kind: Kind, name: str) -> Object:
        return self.kube.get(kind, name, self.name)

    def find(self, kind: Kind, name: str) -> Object | None:
        return self.kube.find(kind, name, self.name)

    def list(self, kind: Kind, labels: str = "") -> list[Object]:
        return self.kube.list(kind, self.name, labels=labels)

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        return self.kube.create(kind, body, self.name)

    def patch(self, kind: Kind, name: str, patch: Mapping[str, Any], *, subresource: str = "") -> Object:
        return self.kube.patch(kind, name, patch, self.name, subresource=subresource)

    def delete(self, kind: Kind, name: str, *, grace: float | None = None) -> bool:
        return self.kube.delete(kind, name, self.name, grace=grace)

    def logs(self, pod: str, tail: int | None = None) -> str:
        return self.kube.logs(pod, self.name, tail=tail)

    def wait_for(self, happened: Callable[[], T | None], what: str, timeout: float = PATIENCE) -> T:
        """Looks less often than ``wait_until`` does by itself: each look is a request to a server that shares the cores."""
        return wait_until(happened, timeout, what, every=LOOK_EVERY)

    def remove(self) -> None:
        """Have it removed; Pods get no grace."""
        self.kube.delete(NAMESPACES, self.name)
        for volume in self.kube.list(VOLUMES, labels=f"test={self.name}"):
            self.kube.delete(VOLUMES, volume["metadata"]["name"])
        for pod in self.list(PODS):
            with contextlib.suppress(PliantError):
                self.delete(PODS, pod["metadata"]["name"], grace=0)


# --- the operator

OPERATOR_NAMESPACE = "pliant-system"


def install_chart(cluster: Cluster, *settings: str, operators: int = 2) -> None:
    """As a person does, with helm; the image is this working tree."""
    values = {"image.repository": "localhost/pliant", "image.tag": "dev", "replicas": str(operators)}
    values["podPolicy.hostPaths"] = "{/}"  # tests have folders of this machine mounted
    chart = str(PROJECT / "deploy" / "helm")
    given = (*(f"{key}={value}" for key, value in values.items()), *settings)
    run_helm(cluster, "install", "pliant", chart, "--create-namespace", "--skip-crds", *map("--set={}".format, given))


def run_helm(cluster: Cluster, *words: str) -> None:
    """And wait until all Pods of it are ready."""
    found = subprocess.run([PROJECT / "tools/kubernetes/helm.sh"], capture_output=True, text=True, check=True)
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={OPERATOR_NAMESPACE}")
    command = [found.stdout.strip(), *words, *where, "--wait", f"--timeout={PATIENCE:.0f}s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    if done.returncode != 0:
        pods = subprocess.run(
            ["kubectl", f"--kubeconfig={cluster.kubeconfig}", "describe", "pods", "-n", OPERATOR_NAMESPACE],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        raise RuntimeError(f"helm {words[0]} failed: {done.stderr}\n{pods.stdout[-3000:]}")


# --- one cluster for all workers of a run


def share(folder: Path, name: str, start: Callable[[int], Cluster]) -> Cluster:
    """The run's cluster of this name: started by the first who asks, found by the others.

    ``start`` gets the process that must outlive no cluster: that of the run, not that of one of its workers. While a
    person works on tests, ``PLIANT_CLUSTER=NAME`` names one that ``cluster.py up`` started; it stays.
    """
    if standing := os.environ.get("PLIANT_CLUSTER"):
        return Cluster.attach(standing)
    lock = FileLock(folder / f"{name}.lock")
    lock.acquire()
    try:
        known = read_json(folder / f"{name}.json")
        if known is not None:
            return Cluster.attach(str(known["name"]))
        cluster = start(RUN)
        write_json(folder / f"{name}.json", {"name": cluster.run.name})
        return cluster
    finally:
        lock.release()


def leave(folder: Path) -> None:
    """This worker is done; the last one takes the run's clusters down."""
    lock = FileLock(folder / "leave.lock")
    lock.acquire()
    try:
        (folder / f"left-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}").touch()
        if len(list(folder.glob("left-*"))) < int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")):
            return
        for file in folder.glob("*.json"):
            known = read_json(file)
            with contextlib.suppress(LookupError):
                if known is not None:
                    Cluster.attach(str(known["name"])).down()
    finally:
        lock.release()
