"""Every command on a job of a cluster: the API server is a double, the master behind its port-forward is real."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.command_line import GATED_PROGRAM, CommandLine
from tests.platforms.kubernetes.fake_api_server import FakeApi, running_api
from typer.testing import Result

from pliant.core.events import EventRecord, NodeRemoved
from pliant.files.atomic import read_json
from pliant.handles.kubernetes.job_handle import KubernetesJob
from pliant.rpc.identity import read_token_file
from pliant.testing.waiting import wait_until

pytestmark = pytest.mark.e2e
PATIENCE = 120  # seconds
JOBS = "/apis/pliant.dev/v1alpha1/namespaces/team/elasticjobs"
CORE = "/api/v1/namespaces/team"


class ClusterCommandLine:
    """The command line, with a cluster that has one job."""

    def __init__(self, command_line: CommandLine, api: FakeApi) -> None:
        self.command_line = command_line
        self.api = api
        self.gate = command_line.folder / "gate"
        self.name = "digits"

    def __call__(self, *args: str) -> Result:
        return self.command_line(*args, "-N", "team")

    def json(self, *args: str) -> Any:
        result = self(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def start_master(self) -> None:
        program = self.command_line.program(GATED_PROGRAM)
        spec = {
            "name": self.name,
            "audit": True,
            "security": {"tls": True},
            "roles": {"worker": {"replicas": "1:2", "command": ["python", str(program), str(self.gate)]}},
        }
        path = self.command_line.folder / "job.yaml"
        path.write_text(yaml.safe_dump(spec))
        self.process = self.command_line.start("master", "--spec", str(path), "--port", "0")
        home = self.command_line.job(self.name)
        wait_until((home / "master.json").exists, PATIENCE, "the master's address")
        found = read_json(home / "master.json")
        assert found is not None
        self.api.target = int(found["tcp"].rpartition(":")[2])
        files = {"token": read_token_file(home / "token").encode()}
        files |= {name: (home / "tls" / name).read_bytes() for name in ("ca.crt", "node.crt", "node.key")}
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        replicas = {"min": 1, "max": 2, "wanted": 2}
        self.job: dict[str, Any] = {
            "metadata": {},
            "spec": {"roles": {"worker": {"replicas": replicas}}},
            "status": {"phase": "Running"},
        }
        self.api.put(f"{JOBS}/{self.name}", self.job)
        self.api.put(f"{CORE}/secrets/{self.name}-node", {"metadata": {}, "data": data})
        self.pod("master", "master")
        for number in (0, 1):
            self.pod(f"worker-{number}", "worker")
            self.api.logs[f"{self.name}-worker-{number}"] = f"line of {number}\nanother\n"

    def pod(self, node: str, role: str) -> None:
        labels = {"pliant.dev/job": self.name, "pliant.dev/role": role}
        if role != "master":
            labels["pliant.dev/node"] = node
        state = {"name": "main", "restartCount": 0, "state": {"running": {}}}
        body = {"metadata": {"labels": labels}, "status": {"phase": "Running", "containerStatuses": [state]}}
        self.api.put(f"{CORE}/pods/{self.name}-{node}", body)

    def leave(self) -> None:
        """What the master of a cluster does at its end."""
        home = self.command_line.job(self.name)
        wait_until((home / "summary.json").exists, PATIENCE, "the end of the job")
        summary = read_json(home / "summary.json")
        assert summary is not None
        left = {"metadata": {}, "data": {"summary.json": json.dumps(summary)}}
        self.api.put(f"{CORE}/configmaps/{self.name}-summary", left)
        for path, pod in self.api.objects.items():
            if "/pods/" in path:
                pod["status"]["containerStatuses"][0]["state"] = {"terminated": {}}
        self.job["status"] = {"phase": summary["phase"], "message": summary["reason"]}


@pytest.fixture
def cluster(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterCommandLine]:
    with running_api() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        yield ClusterCommandLine(command_line, api)


def test_a_running_job_is_asked_through_the_api_server_by_every_command(cluster: ClusterCommandLine) -> None:
    cluster.start_master()

    def at_work() -> bool:
        found = cluster.json("status", "digits")
        return [node["state"] for node in found["nodes"]] == ["Running", "Running"] and bool(found["datasets"])

    wait_until(at_work, PATIENCE, "two workers at work")
    found = cluster.json("status")
    assert (found["name"], found["phase"], found["note"], found["namespace"]) == ("digits", "Running", "", "team")
    assert found["master"]["alive"]
    assert found["master"]["pod"] == "digits-master"
    assert "ElasticJob team/digits" in cluster("status", "digits").stdout
    assert cluster.json("jobs")[0]["name"] == "digits"
    assert {node["name"] for node in cluster.json("top", "digits")["nodes"]} == {"worker-0", "worker-1"}
    first = json.loads(cluster("events", "digits", "--json").stdout.splitlines()[0])
    assert (first["number"], first["kind"]) == (1, "master")
    audited = cluster("audit", "digits", "--json")
    assert audited.exit_code == 1
    assert not json.loads(audited.stdout)["over"]
    shown = cluster("logs", "digits", "--node", "worker-1").stdout
    assert shown == "worker-1 | line of 1\nworker-1 | another\n"
    assert "worker-0 | line of 0" in cluster("logs").stdout
    assert "did you mean worker-1?" in cluster("logs", "--node", "worker-11").stderr

    refused = cluster("scale", "digits", "--workers", "9")
    assert refused.exit_code == 2
    assert "2" in refused.stderr
    scaled = cluster("scale", "digits", "--workers", "1", "--reason", "one is enough")
    assert scaled.stdout == "digits: worker 2 -> 1\n"
    assert cluster.job["spec"]["roles"]["worker"]["replicas"]["wanted"] == 1
    assert "one is enough" in cluster("events", "digits").stdout

    cluster.gate.touch()
    cluster.leave()
    assert cluster.json("status", "digits")["phase"] == "Succeeded"
    assert cluster("stop", "digits").stdout.startswith("digits: Succeeded")
    assert cluster("top", "digits").exit_code == 2
    assert cluster("scale", "digits", "--workers", "2").exit_code == 2
    assert cluster.process.wait(PATIENCE) == 0


def test_a_job_is_stopped_and_its_end_waited_for(cluster: ClusterCommandLine) -> None:
    cluster.start_master()
    leaving = threading.Thread(target=cluster.leave)
    leaving.start()
    result = cluster("stop", "digits", "--now", "--reason", "enough", "--json")
    leaving.join()
    assert result.exit_code == 0, result.output
    assert (json.loads(result.stdout)["phase"], json.loads(result.stdout)["reason"]) == ("Stopped", "enough")
    assert cluster.process.wait(PATIENCE) == 130


def test_a_secret_that_may_not_be_read_is_told_with_the_right_that_is_missing(cluster: ClusterCommandLine) -> None:
    cluster.start_master()
    cluster.api.forbidden.add(f"GET {CORE}/secrets")
    result = cluster("status", "digits")
    assert result.exit_code == 2
    assert "permission to read the Secret digits-node" in result.stderr
    cluster.api.forbidden.clear()
    assert cluster.command_line("stop", "digits", "--now").exit_code == 0


@pytest.mark.parametrize("command", [("status", "digits"), ("jobs",), ("logs", "digits"), ("stop", "digits")])
def test_a_cluster_without_pliant_is_told_with_how_to_install_it(
    cluster: ClusterCommandLine, command: tuple[str, ...]
) -> None:
    cluster.api.unknown.add("elasticjobs")
    result = cluster(*command)
    assert result.exit_code == 2
    assert "ElasticJob is not installed in the cluster" in result.stderr
    assert "install Pliant" in result.stderr


def test_a_master_that_is_away_is_told_of_and_the_elastic_job_is_read(
    cluster: ClusterCommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in (KubernetesJob.view, KubernetesJob.command):
        monkeypatch.setattr(asked, "__kwdefaults__", {"retry_timeout": 0.5})
    status = {"phase": "Creating", "message": "0/3 machines have room", "progress": {"records": 5, "total": 20}}
    cluster.api.put(f"{JOBS}/digits", {"metadata": {}, "spec": {}, "status": status})
    found = cluster.json("status", "digits")
    assert (found["phase"], found["reason"]) == ("Creating", "0/3 machines have room")
    assert "unavailable" in found["note"]
    assert found["datasets"][0]["records_done"] == 5
    for command in (["stop"], ["scale", "--workers", "1"]):
        result = cluster(command[0], "digits", *command[1:])
        assert result.exit_code == 1
        assert "unavailable" in result.stderr


def test_an_ended_job_is_known_by_what_it_left_and_removed_when_asked(cluster: ClusterCommandLine) -> None:
    status = {"phase": "Failed", "message": "no workers left"}
    cluster.api.put(f"{JOBS}/old", {"metadata": {}, "spec": {}, "status": status})
    cluster.api.put(f"{JOBS}/young", {"metadata": {}, "spec": {}, "status": {"phase": "Pending"}})
    audit = {"name": "old", "over": False, "exact": True, "datasets": []}
    summary = {"name": "old", "phase": "Failed", "reason": "no workers left", "audit": audit, "datasets": []}
    event = EventRecord(3, 1.0, NodeRemoved(node="worker-0", grace_s=0.0, reason="it is gone")).to_json()
    data = {"summary.json": json.dumps({**summary, "events": [event]})}
    cluster.api.put(f"{CORE}/configmaps/old-summary", {"metadata": {}, "data": data})
    assert cluster.json("status", "old")["reason"] == "no workers left"
    assert json.loads(cluster("events", "old", "--json").stdout) == event
    assert cluster("events", "old", "--after", "3").stdout == ""
    assert cluster("audit", "old").exit_code == 0
    assert [row["phase"] for row in cluster.json("jobs")] == ["Failed", "Pending"]
    assert "did you mean old?" in cluster("status", "olt").stderr
    assert cluster("jobs", "--prune", "--yes").stdout == "removed old\n"
    assert [row["name"] for row in cluster.json("jobs")] == ["young"]


def test_a_submitted_job_owns_its_files_and_is_not_replaced_by_accident(
    cluster: ClusterCommandLine, tmp_path: Path
) -> None:
    script, path = tmp_path / "train.py", tmp_path / "submitted.yaml"
    script.write_text("print(1)\n")
    path.write_text("name: fresh\nroles: {worker: {command: [python, train.py]}}\n")
    told = cluster("submit", str(path), "--file", str(script))
    assert told.exit_code == 0, told.output
    assert "pliant logs fresh -N team -f" in told.stdout
    job = cluster.api.objects[f"{JOBS}/fresh"]
    files = cluster.api.objects[f"{CORE}/configmaps/fresh-files"]
    assert files["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    running = cluster("submit", str(path))
    assert running.exit_code == 2
    assert "is still active" in running.stderr
    job["status"] = {"phase": "Succeeded"}
    ended = cluster("submit", str(path))
    assert ended.exit_code == 2
    assert "--overwrite" in ended.stderr
    del cluster.api.objects[f"{CORE}/configmaps/fresh-files"]  # the cluster would: its owner goes
    assert cluster("submit", str(path), "--overwrite", "--json").exit_code == 0
    assert cluster.api.objects[f"{JOBS}/fresh"]["metadata"]["uid"] != job["metadata"]["uid"]


def test_a_run_is_followed_to_its_end_and_exits_as_the_job_does(cluster: ClusterCommandLine, tmp_path: Path) -> None:
    cluster.start_master()
    home = cluster.api.objects.pop(f"{JOBS}/digits")

    def created() -> None:
        wait_until(lambda: f"{JOBS}/digits" in cluster.api.objects, PATIENCE, "the ElasticJob")
        cluster.job = cluster.api.objects[f"{JOBS}/digits"]
        cluster.job["status"] = home["status"]
        cluster.gate.touch()
        cluster.leave()

    cluster.api.put(f"{CORE}/configmaps/digits-files", {"metadata": {}})
    acting = threading.Thread(target=created)
    acting.start()
    program = cluster.command_line.program(GATED_PROGRAM)
    options = ["--platform", "kubernetes", "--name", "digits", "--summary", str(tmp_path / "summary.json")]
    result = cluster.command_line("run", "-N", "team", *options, "--", "python", str(program))
    acting.join()
    assert result.exit_code == 0, result.output
    assert "Succeeded" in result.stdout
    assert "pliant logs digits -N team" in result.stdout
    assert json.loads((tmp_path / "summary.json").read_text())["phase"] == "Succeeded"
    files = cluster.api.objects[f"{CORE}/configmaps/digits-files"]
    assert files["data"] == {"prog.py": GATED_PROGRAM}
    command = cluster.api.objects[f"{JOBS}/digits"]["spec"]["roles"]["worker"]["command"]
    assert command == ["python", "/pliant/files/prog.py"]
    assert cluster.process.wait(PATIENCE) == 0
