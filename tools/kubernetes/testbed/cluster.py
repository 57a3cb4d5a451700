"""A cluster that runs: its control plane, its nodes, and the ways to hurt it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.kubernetes.testbed import images, nodes, pki, ready, runs, servers

PATIENCE = 120.0  # seconds; only how long a broken start takes to say so
LOOK_EVERY = 0.05  # seconds
MAX_NODES = 8
NODE_MEMORY_MB = 3072  # what a node offers to Pods, whatever the machine has


class Cluster:
    """``Cluster.up(...)`` starts one, ``Cluster.attach(name)`` finds one that runs."""

    def __init__(self, run: runs.Run) -> None:
        self.run = run
        self._processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    def up(
        cls,
        *,
        nodes: int = 0,
        name: str | None = None,
        owner: int | None = None,
        audit: bool = True,
        manifests: Sequence[Path] = (),
        labels: Mapping[int, Mapping[str, str]] | None = None,
    ) -> Cluster:
        """A control plane, and so many nodes, all Ready. It goes away with the process ``owner`` (default: this one).

        ``manifests`` are applied before the controllers start: a garbage collector that meets custom resources later
        takes half a minute to know them.
        """
        if reason := ready.missing():
            raise RuntimeError(reason)
        run = runs.begin(name, owner if owner is not None else os.getpid())
        cluster = cls(run)
        try:
            cluster._start_control_plane(audit, manifests)
            for number in range(1, nodes + 1):
                cluster.start_node(number, labels=(labels or {}).get(number), wait=False)
            if nodes:
                cluster._start("proxy", servers.proxy(run.folder, "node1"))
            cluster.wait_for_nodes(nodes)
        except BaseException:
            cluster.down()
            raise
        return cluster

    @classmethod
    def attach(cls, name: str) -> Cluster:
        run = runs.find(name)
        if run is None:
            raise LookupError(f"no cluster called {name} runs here")
        return cls(run)

    def down(self) -> None:
        """Remove all of it, and wait until it is gone."""
        self.run.end()
        for process in self._processes:
            process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.down()

    # --- what is there

    @property
    def kubeconfig(self) -> Path:
        """Of somebody who may do everything."""
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        """``nobody`` has no rights at all."""
        return self.run.folder / "pki" / f"{user}.kubeconfig"

    @property
    def server(self) -> str:
        return f"https://{self.run.address}:{pki.PORT}"

    @property
    def audit_log(self) -> Path:
        """Every request to the API server, a JSON line each, if the cluster was started with ``audit``."""
        return self.run.folder / "audit.log"

    # --- nodes

    def start_node(self, number: int, *, labels: Mapping[str, str] | None = None, wait: bool = True) -> None:
        """Switch on node ``number`` (1 and up), for the first time or again."""
        process = nodes.start(self.run, number, NODE_MEMORY_MB, dict(labels or {}))
        self._processes.append(process)
        (self.run.folder / f"node{number}.pid").write_text(str(runs.child_of(process, "unshare")))
        if wait:
            self.wait_for_node(f"node{number}")

    def lose_node(self, number: int) -> None:
        """Cut its power: kubelet, containerd and containers die at once, and nobody says good-bye."""
        file = self.run.folder / f"node{number}.pid"
        os.kill(int(file.read_text()), signal.SIGKILL)
        file.unlink()

    def wait_for_nodes(self, number: int) -> None:
        for each in range(1, number + 1):
            self.wait_for_node(f"node{each}")

    def wait_for_node(self, name: str, ready: bool = True) -> None:
        """Until the node is Ready, or until it is known not to be."""

        def is_so() -> bool:
            node = self.get(f"/api/v1/nodes/{name}") or {}
            conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", [])}
            return "Ready" in conditions and (conditions["Ready"] == "True") is ready

        self._wait(is_so, f"{name} to be {'ready' if ready else 'lost'}")

    # --- the control plane

    def _start_control_plane(self, audit: bool, manifests: Sequence[Path]) -> None:
        folder, address = self.run.folder, self.run.address
        names = [f"node{number}" for number in range(1, MAX_NODES + 1)]
        pki.make(folder / "pki", address, servers.FIRST_SERVICE, names)
        images.build(folder / "images")
        self._start("etcd", servers.etcd())
        self._start("apiserver", servers.api_server(folder, address, self.audit_log if audit else None))
        self._wait(lambda: self.get("/readyz", parse=False) is not None, "the API server to be ready")
        if manifests:
            self._apply(manifests)
        self._start("controller-manager", servers.controller_manager(folder))
        self._start("scheduler", servers.scheduler(folder))
        # Pods are refused until their service account is there.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait(lambda: bool((self.get(account) or {}).get("secrets")), "the default service account")

    def _apply(self, manifests: Sequence[Path]) -> None:
        files = [f"--filename={path}" for path in manifests]
        self._kubectl(
            "apply", "--server-side", *files
        )  # the client's way would keep a second copy, with a limit of size
        self._wait(self.crds_are_established, "the custom resources to be known")

    def crds_are_established(self) -> bool:
        """`kubectl wait` fails for one that was made so recently that it has no conditions."""
        found = self.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") or {}
        return all(_is_established(crd) for crd in found["items"]) if found.get("items") else False

    def _kubectl(self, *words: str) -> None:
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)} failed: {done.stderr}")

    def _start(self, name: str, command: Sequence[str]) -> None:
        with (self.run.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self.run.inside(*command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": ready.search_path()},
                start_new_session=True,
            )
        self._processes.append(process)

    # --- asking

    def get(self, path: str, parse: bool = True) -> Any:
        """The answer of the API server; ``None`` if there is none, or not (yet) what is asked for."""
        config = json.loads(self.kubeconfig.read_text())
        token = config["users"][0]["user"]["token"]
        trust = ssl.create_default_context(cafile=str(self.run.folder / "pki" / "ca.crt"))
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
                body = answer.read()
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            return None
        return json.loads(body) if parse else body

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"waited {PATIENCE:g} s for {what}; logs are in {self.run.folder}\n{self._last_words()}"
                )
            if not self.run.folder.exists():
                raise RuntimeError(f"the cluster went away while waiting for {what}")
            time.sleep(LOOK_EVERY)

    def _last_words(self) -> str:
        """The folder is removed with the cluster; what its servers said last goes into the error."""
        logs = [*self.run.folder.glob("*.log"), *self.run.folder.glob("node*/*.log")]
        tails = []
        for log in sorted(logs):
            if log.name != "audit.log" and (lines := log.read_text(errors="replace").splitlines()[-5:]):
                tails.append("\n".join([f"--- {log.relative_to(self.run.folder)}", *lines]))
        return "\n".join(tails)


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)
