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
from typer.testing import Result

from pliant.cli.kubernetes.place import KubernetesPlace
from pliant.platforms.durable_files import read_json
from pliant.rpc.identity import read_token_file
from pliant.testing.waiting import wait_until

from .conftest import GATED, Cli
from .fake_api import FakeApi, running_api

pytestmark = pytest.mark.e2e
PATIENCE = 60  # seconds
JOBS = "/apis/pliant.dev/v1alpha1/namespaces/team/elasticjobs"
CORE = "/api/v1/namespaces/team"


class There:
    """The command line, with a cluster that has one job."""

    def __init__(self, cli: Cli, api: FakeApi) -> None:
        self.cli = cli
        self.api = api
        self.gate = cli.folder / "gate"
        self.name = "digits"

    def __call__(self, *args: str) -> Result:
        return self.cli(*args, "-N", "team")

    def json(self, *args: str) -> Any:
        result = self(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def start_master(self) -> None:
        program = self.cli.program(GATED)
        spec = {
            "name": self.name,
            "audit": True,
            "security": {"tls": True},
            "roles": {"worker": {"replicas": "1:2", "command": ["python", str(program), str(self.gate)]}},
        }
        path = self.cli.folder / "job.yaml"
        path.write_text(yaml.safe_dump(spec))
        self.process = self.cli.start("master", "--spec", str(path))
        home = self.cli.job(self.name)
        wait_until((home / "master.json").exists, PATIENCE, "the master's address")
        found = read_json(home / "master.json")
        assert found is not None
        self.api.target = int(found["address"].rpartition(":")[2])
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
        home = self.cli.job(self.name)
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
def there(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    with running_api() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        yield There(cli, api)


def test_a_running_job_is_asked_through_the_api_server_by_every_command(there: There) -> None:
    there.start_master()

    def at_work() -> bool:
        found = there.json("status", "digits")
        return [node["state"] for node in found["nodes"]] == ["Running", "Running"] and bool(found["datasets"])

    wait_until(at_work, PATIENCE, "two workers at work")
    found = there.json("status")
    assert (found["name"], found["phase"], found["note"], found["namespace"]) == ("digits", "Running", "", "team")
    assert found["master"]["alive"]
    assert found["master"]["pod"] == "digits-master"
    assert "ElasticJob team/digits" in there("status", "digits").stdout
    assert there.json("jobs")[0]["name"] == "digits"
    assert [node["name"] for node in there.json("top", "digits")["nodes"]] == ["worker-0", "worker-1"]
    first = json.loads(there("events", "digits", "--json").stdout.splitlines()[0])
    assert (first["number"], first["kind"]) == (1, "master")
    audited = there("audit", "digits", "--json")
    assert audited.exit_code == 1
    assert not json.loads(audited.stdout)["over"]
    shown = there("logs", "digits", "--node", "worker-1").stdout
    assert shown == "worker-1 | line of 1\nworker-1 | another\n"
    assert "worker-0 | line of 0" in there("logs").stdout
    assert "did you mean worker-1?" in there("logs", "--node", "worker-11").stderr

    refused = there("scale", "digits", "--workers", "9")
    assert refused.exit_code == 2
    assert "2" in refused.stderr
    scaled = there("scale", "digits", "--workers", "1", "--reason", "one is enough")
    assert scaled.stdout == "digits: worker 2 -> 1\n"
    assert there.job["spec"]["roles"]["worker"]["replicas"]["wanted"] == 1
    assert "one is enough" in there("events", "digits").stdout

    there.gate.touch()
    there.leave()
    assert there.json("status", "digits")["phase"] == "Succeeded"
    assert there("stop", "digits").stdout.startswith("digits: Succeeded")
    assert there("top", "digits").exit_code == 2
    assert there("scale", "digits", "--workers", "2").exit_code == 2
    assert there.process.wait(PATIENCE) == 0


def test_a_job_is_stopped_and_its_end_waited_for(there: There) -> None:
    there.start_master()
    leaving = threading.Thread(target=there.leave)
    leaving.start()
    result = there("stop", "digits", "--now", "--reason", "enough", "--json")
    leaving.join()
    assert result.exit_code == 0, result.output
    assert (json.loads(result.stdout)["phase"], json.loads(result.stdout)["reason"]) == ("Stopped", "enough")
    assert there.process.wait(PATIENCE) == 130


def test_a_secret_that_may_not_be_read_is_told_with_the_right_that_is_missing(there: There) -> None:
    there.start_master()
    there.api.forbidden.add(f"GET {CORE}/secrets")
    result = there("status", "digits")
    assert result.exit_code == 2
    assert "get the Secret digits-node" in result.stderr
    there.api.forbidden.clear()
    assert there.cli("stop", "digits", "--now").exit_code == 0


@pytest.mark.parametrize("command", [("status", "digits"), ("jobs",), ("logs", "digits"), ("stop", "digits")])
def test_a_cluster_without_pliant_is_told_with_how_to_install_it(there: There, command: tuple[str, ...]) -> None:
    there.api.unknown.add("elasticjobs")
    result = there(*command)
    assert result.exit_code == 2
    assert "knows no ElasticJobs" in result.stderr
    assert "install Pliant" in result.stderr


def test_a_master_that_is_away_is_told_of_and_the_elastic_job_is_read(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in (KubernetesPlace.look, KubernetesPlace.command):
        monkeypatch.setattr(asked, "__kwdefaults__", {"patience": 0.5})
    status = {"phase": "Creating", "message": "0/3 machines have room", "progress": {"records": 5, "total": 20}}
    there.api.put(f"{JOBS}/digits", {"metadata": {}, "spec": {}, "status": status})
    found = there.json("status", "digits")
    assert (found["phase"], found["reason"]) == ("Creating", "0/3 machines have room")
    assert "away" in found["note"]
    assert found["datasets"][0]["records_done"] == 5
    for command in (["stop"], ["scale", "--workers", "1"]):
        result = there(command[0], "digits", *command[1:])
        assert result.exit_code == 1
        assert "away" in result.stderr


def test_an_ended_job_is_known_by_what_it_left_and_removed_when_asked(there: There) -> None:
    status = {"phase": "Failed", "message": "no worker is left"}
    there.api.put(f"{JOBS}/old", {"metadata": {}, "spec": {}, "status": status})
    there.api.put(f"{JOBS}/young", {"metadata": {}, "spec": {}, "status": {"phase": "Pending"}})
    audit = {"name": "old", "over": False, "exact": True, "datasets": []}
    summary = {"name": "old", "phase": "Failed", "reason": "no worker is left", "audit": audit, "datasets": []}
    event = {"number": 3, "time": 1.0, "kind": "node", "node": "worker-0", "message": "it is gone"}
    data = {"summary.json": json.dumps({**summary, "events": [event]})}
    there.api.put(f"{CORE}/configmaps/old-summary", {"metadata": {}, "data": data})
    assert there.json("status", "old")["reason"] == "no worker is left"
    assert json.loads(there("events", "old", "--json").stdout) == event
    assert there("events", "old", "--after", "3").stdout == ""
    assert there("audit", "old").exit_code == 0
    assert [row["phase"] for row in there.json("jobs")] == ["Failed", "Pending"]
    assert "did you mean old?" in there("status", "olt").stderr
    assert there("jobs", "--prune", "--yes").stdout == "removed old\n"
    assert [row["name"] for row in there.json("jobs")] == ["young"]


def test_a_submitted_job_owns_its_files_and_is_not_replaced_by_accident(there: There, tmp_path: Path) -> None:
    script, path = tmp_path / "train.py", tmp_path / "submitted.yaml"
    script.write_text("print(1)\n")
    path.write_text("name: fresh\nroles: {worker: {command: [python, train.py]}}\n")
    told = there("submit", str(path), "--file", str(script))
    assert told.exit_code == 0, told.output
    assert "pliant logs fresh -N team -f" in told.stdout
    job = there.api.objects[f"{JOBS}/fresh"]
    files = there.api.objects[f"{CORE}/configmaps/fresh-files"]
    assert files["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    running = there("submit", str(path))
    assert running.exit_code == 2
    assert "not over" in running.stderr
    job["status"] = {"phase": "Succeeded"}
    ended = there("submit", str(path))
    assert ended.exit_code == 2
    assert "--overwrite" in ended.stderr
    del there.api.objects[f"{CORE}/configmaps/fresh-files"]  # the cluster would: its owner goes
    assert there("submit", str(path), "--overwrite", "--json").exit_code == 0
    assert there.api.objects[f"{JOBS}/fresh"]["metadata"]["uid"] != job["metadata"]["uid"]


def test_a_run_is_followed_to_its_end_and_exits_as_the_job_does(there: There, tmp_path: Path) -> None:
    there.start_master()
    home = there.api.objects.pop(f"{JOBS}/digits")

    def created() -> None:
        wait_until(lambda: f"{JOBS}/digits" in there.api.objects, PATIENCE, "the ElasticJob")
        there.job = there.api.objects[f"{JOBS}/digits"]
        there.job["status"] = home["status"]
        there.gate.touch()
        there.leave()

    there.api.put(f"{CORE}/configmaps/digits-files", {"metadata": {}})
    acting = threading.Thread(target=created)
    acting.start()
    program = there.cli.program(GATED)
    options = ["--platform", "kubernetes", "--name", "digits", "--summary", str(tmp_path / "summary.json")]
    result = there.cli("run", "-N", "team", *options, "--", "python", str(program))
    acting.join()
    assert result.exit_code == 0, result.output
    assert "Succeeded" in result.stdout
    assert "pliant logs digits -N team" in result.stdout
    assert json.loads((tmp_path / "summary.json").read_text())["phase"] == "Succeeded"
    files = there.api.objects[f"{CORE}/configmaps/digits-files"]
    assert files["data"] == {"prog.py": GATED}
    command = there.api.objects[f"{JOBS}/digits"]["spec"]["roles"]["worker"]["command"]
    assert command == ["python", "/pliant/files/prog.py"]
    assert there.process.wait(PATIENCE) == 0
