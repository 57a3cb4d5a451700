"""The dashboard as the chart starts it: on a double of the API server with a real master, and what it uses of that server."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.e2e.cli.test_kubernetes_job import PATIENCE, ClusterCommandLine, cluster
from tests.operator.test_brain_chart import pod_of, secret_of
from tests.operator.test_chart import CACHED, helm, rights
from tests.operator.test_dashboard_chart import NAME, named, with_dashboard

from pliant.testing.waiting import wait_until

__all__ = ["cluster", "helm"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CACHED and not os.environ.get("CI"), reason="no helm; tools/kubernetes/helm.sh fetches it"),
]

REQUEST = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<rest>.+)")
# From Kubernetes 1.35 on, a port-forward over a websocket needs this verb too, as one over SPDY always did.
CREATE_FORWARD = ("", "pods/portforward", "create")

Right = tuple[str, str, str]


def rights_used(seen: list[str]) -> tuple[set[Right], set[Right]]:
    """In the namespace, and in the cluster."""
    inside: set[Right] = set()
    outside: set[Right] = set()
    for line in seen:
        method, _, address = line.partition(" ")
        url = urlsplit(address)
        found = REQUEST.fullmatch(url.path)
        assert found is not None, line
        kind, *name = found["rest"].split("/")
        resource = "/".join((kind, *name[1:]))
        verb = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}.get(method)
        if verb is None:
            verb = "get" if name else "watch" if "watch" in parse_qs(url.query) else "list"
        (inside if found["namespace"] else outside).add((found["group"] or "", resource, verb))
    return inside, outside


class DashboardPod:
    """The container of the rendered Deployment, as a process: its arguments, its certificate, its probes."""

    def __init__(self, objects: list[dict[str, Any]], folder: Path) -> None:
        [self.container] = pod_of(objects, NAME)["containers"]
        for name, text in secret_of(objects, f"{NAME}-tls").items():
            (folder / name).write_text(text)
        self._authority = ssl.create_default_context(cafile=folder / "ca.crt")
        self._log = folder / "dashboard.log"
        self._cookie = self._csrf = ""
        words = [word.replace("/etc/pliant/tls", str(folder)) for word in self.container["args"]]
        words = ["--port=0" if word.startswith("--port=") else word for word in words]
        with self._log.open("w") as output:
            command = [sys.executable, "-m", "pliant.cli", *words]
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def link(self) -> str:
        """The one that works now, as `kubectl logs` shows it."""
        return wait_until(self.links, PATIENCE, "the link in the log")[-1]

    def links(self) -> list[str]:
        return re.findall(r"https://\S+", self._log.read_text())

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        port = urlsplit(self.link()).port or 0
        connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=self._authority)
        given = {"cookie": self._cookie} if self._cookie else {}
        if body is not None:
            given |= {"origin": f"https://localhost:{port}", "x-pliant-csrf": self._csrf}
            given |= {"content-type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, {**given, **headers})
        reply = connection.getresponse()
        text = reply.read().decode()
        if cookie := reply.headers["set-cookie"]:
            self._cookie = cookie.partition(";")[0]
        connection.close()
        return reply.status, json.loads(text) if reply.headers["content-type"] == "application/json" else text

    def probe(self, name: str) -> int:
        get = self.container[name]["httpGet"]
        assert get["scheme"] == "HTTPS"
        return self.request("GET", get["path"], **{one["name"]: one["value"] for one in get["httpHeaders"]})[0]

    def sign_in(self) -> None:
        link = urlsplit(self.link())
        assert self.request("GET", f"{link.path}?{link.query}")[0] == 200
        self._csrf = self.get("/api/config")["csrf"]

    def get(self, path: str) -> Any:
        status, found = self.request("GET", path)
        assert status == 200, (path, found)
        return found

    def post(self, path: str, body: Any) -> Any:
        status, found = self.request("POST", path, body)
        assert status in (200, 202), (path, found)
        return found


@pytest.fixture
def pod(helm: str, cluster: ClusterCommandLine, tmp_path: Path) -> Iterator[DashboardPod]:
    objects = with_dashboard(helm, "dashboard.namespace=team", "dashboard.allowControl=true")
    folder = tmp_path / "pod"
    folder.mkdir()
    made = DashboardPod(objects, folder)
    yield made
    made.process.terminate()
    try:
        assert made.process.wait(PATIENCE) == 0
    finally:
        made.process.kill()
        made.process.wait()


def test_its_rights_are_exactly_what_it_uses(helm: str, cluster: ClusterCommandLine, pod: DashboardPod) -> None:
    cluster.start_master()
    cluster.api.objects["/api/v1/nodes"] = {"metadata": {"resourceVersion": "1"}, "items": []}
    for name in ("readinessProbe", "livenessProbe"):
        assert pod.probe(name) == 200
    assert pod.request("GET", "/api/jobs")[0] == 401
    pod.sign_in()
    wait_until(lambda: len(pod.links()) == 2, PATIENCE, "the next link")
    assert [job["id"] for job in pod.get("/api/jobs")["jobs"].values()] == ["digits"]
    assert pod.get("/api/cluster")["note"] == ""
    for topic in ("nodes", "data", "servers", "decisions", "series", "events", "spec", "search?q=line"):
        pod.get(f"/api/jobs/digits/{topic}")
    lines = pod.get("/api/jobs/digits/log?node=worker-0")["lines"]
    assert [line["text"] for line in lines] == ["line of 0", "another"]
    document = wait_until(lambda: _running(pod.get("/api/jobs/digits")), PATIENCE, "the master's answer")
    assert document["note"] == ""
    reading, _ = rights_used(cluster.api.seen)
    assert pod.post("/api/jobs/digits/scale", {"replicas": 1})["now"] == 1
    pod.post("/api/jobs/digits/stop", {"now": True})
    cluster.leave()
    wait_until(lambda: pod.get("/api/jobs/digits")["over"], PATIENCE, "the summary of the job")
    inside, outside = rights_used(cluster.api.seen)
    given = with_dashboard(helm, "dashboard.allowControl=true")
    assert rights(named(given, "Role")["rules"]) == {*inside, CREATE_FORWARD}
    assert rights(named(given, "ClusterRole", "pliant-pliant-system-dashboard")["rules"]) == outside
    # Of what was used before anything was changed; the summary is only read of a job that has ended.
    only_looking = {*reading, CREATE_FORWARD, ("", "configmaps", "get")}
    assert rights(named(with_dashboard(helm), "Role")["rules"]) == only_looking


def _running(document: dict[str, Any]) -> dict[str, Any] | None:
    return document if document["phase"] == "Running" else None
