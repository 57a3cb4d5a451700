"""The commands of a user on a real cluster. Jobs wait for their test, so that nothing depends on how fast the machine is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.commands import Cli
from tests.kubernetes.harness import PATIENCE, PROJECT, Space
from tests.kubernetes.jobs import LONG, ReadingClusterJob

from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, ELASTIC_JOBS, PODS
from pliant.platforms.kubernetes.names import files_name
from pliant.platforms.kubernetes.portforward import PortForward

EXAMPLES = sorted((PROJECT / "examples" / "kubernetes").glob("*.yaml"))
ECHO = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
server = socketserver.ThreadingTCPServer(("0.0.0.0", 7777), Echo)
print("listening", flush=True)
server.serve_forever()
"""


@pytest.fixture
def planner(space: Space, tmp_path: Path) -> Iterator[Cli]:
    """On a cluster that has an API server and nobody who acts."""
    made = Cli(space, tmp_path)
    yield made
    made.close()


def write_job(cli: Cli, job: ReadingClusterJob) -> Path:
    path = cli.folder / "job.yaml"
    path.write_text(yaml.safe_dump({"name": job.name, **job.spec}))
    return path


# --- on the control plane alone


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_api_server_takes_each_example(space: Space, path: Path) -> None:
    assert "created" in space.kubectl("create", "--dry-run=server", "-f", str(path)).stdout


def test_a_submitted_job_is_there_with_its_files_and_not_twice(planner: Cli) -> None:
    script, path = planner.folder / "train.py", planner.folder / "job.yaml"
    script.write_text("print(1)\n")
    path.write_text("name: fresh\nroles: {worker: {command: [python, train.py], resources: {cpu: 0.25}}}\n")
    told = planner.json("submit", str(path), "--file", str(script))
    job = planner.space.get(ELASTIC_JOBS, "fresh")
    assert (told["name"], told["uid"]) == ("fresh", job["metadata"]["uid"])
    files = planner.space.get(CONFIG_MAPS, files_name("fresh"))
    assert files["data"] == {"train.py": "print(1)\n"}
    assert files["metadata"]["ownerReferences"][0]["uid"] == told["uid"]
    assert planner("submit", str(path)).exit_code == 2
    planner.space.patch(ELASTIC_JOBS, "fresh", {"status": {"phase": "Failed"}}, subresource="status")
    refused = planner("submit", str(path))
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    assert planner.json("submit", str(path), "--overwrite")["uid"] != told["uid"]


def test_a_namespace_that_is_not_there_is_named_and_nothing_left(planner: Cli) -> None:
    path = planner.folder / "job.yaml"
    path.write_text("name: lost\nroles: {worker: {command: ['true']}}\n")
    result = planner("submit", str(path), "-N", "nowhere-at-all")
    assert result.exit_code == 2
    assert "namespace nowhere-at-all not found" in result.stderr


def test_a_job_that_nobody_serves_is_told_as_it_is(planner: Cli) -> None:
    path = planner.folder / "job.yaml"
    path.write_text("name: waiting\nroles: {worker: {command: ['true']}}\n")
    assert planner("submit", str(path)).exit_code == 0
    found = planner.json("status", "waiting")
    assert (found["phase"], found["master"]["alive"]) == ("Pending", False)
    assert "no master now" in found["note"]
    assert [row["name"] for row in planner.json("jobs")] == ["waiting"]
    assert planner("stop", "waiting").exit_code == 1
    assert planner("logs", "waiting").stdout == ""


def test_the_doctor_finds_what_is_there_and_its_exit_code_tells_what_is_not(planner: Cli) -> None:
    result = planner("doctor", "--platform", "kubernetes", "--json")
    states = {check["name"]: check["state"] for check in json.loads(result.stdout)["checks"]}
    assert result.exit_code == ("broken" in states.values())  # another test's operator may be there
    assert states["API server"] == states["kind ElasticJob"] == states["kind ScalePlan"] == "ok"
    assert states["namespace"] == states["rights"] == "ok"


def test_the_doctor_tells_somebody_without_rights_that_they_cannot_run_a_job(planner: Cli) -> None:
    planner.env["KUBECONFIG"] = str(planner.space.testbed.cluster.kubeconfig_of("nobody"))
    result = planner("doctor", "--platform", "kubernetes", "--json")
    checks = json.loads(result.stdout)["checks"]
    broken = [check["text"] for check in checks if check["state"] == "broken"]
    assert broken == [f"this user may not {verb} elasticjobs.pliant.dev" for verb in ("create", "get")]
    assert result.exit_code == 1


# --- on real nodes


def test_a_port_forward_carries_bytes_into_a_real_pod_and_tells_what_is_not_there(cli: Cli) -> None:
    container = {"name": "main", "image": "localhost/pliant:dev", "command": ["python", "-c", ECHO]}
    space = cli.space
    space.create(PODS, {"metadata": {"name": "echo"}, "spec": {"containers": [container], "restartPolicy": "Never"}})
    space.wait_for(lambda: "listening" in space.logs("echo"), "the echo to listen")

    async def exchange(pod: str, port: int, content: bytes) -> tuple[bytes, str]:
        async with (
            KubeApi.load(space.testbed.kubeconfig) as api,
            PortForward(api, space.name, pod, port) as forward,
            asyncio.timeout(PATIENCE),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
            writer.write(content)
            got = b""
            while len(got) < len(content) and (block := await reader.read(1 << 16)):
                got += block
            writer.close()
            return got, str(forward.problem or "")

    content = os.urandom(300_000)
    assert asyncio.run(exchange("echo", 7777, content)) == (content, "")
    got, problem = asyncio.run(exchange("echo", 7778, b"x"))
    assert got == b""
    assert "7778" in problem
    assert "not found" in asyncio.run(exchange("nobody", 7777, b"x"))[1]


def test_every_command_works_on_a_real_job(cli: Cli) -> None:
    job = ReadingClusterJob(cli.space, cli.folder, workers="1:2", name="reading")
    told = cli("submit", str(write_job(cli, job)))
    assert told.exit_code == 0, told.output
    following = cli.start("logs", "reading", "-f")
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)

    found = job.wait_for(lambda: (s := cli.json("status", "reading"))["master"]["alive"] and s, "the master's word")
    assert (found["phase"], found["namespace"], found["note"]) == ("Running", cli.space.name, "")
    assert [node["name"] for node in found["nodes"]] == nodes
    assert [row["phase"] for row in cli.json("jobs")] == ["Running"]
    assert {node["name"] for node in cli.json("top", "reading")["nodes"]} == set(nodes)
    job.wait_for(lambda: set(cli.json("series", "reading")["nodes"]) >= set(nodes), "the use of both nodes")
    assert "worker-1 is running" in cli("events", "reading").stdout
    assert cli("audit", "reading").exit_code == 1
    assert cli("scale", "reading", "--workers", "9").exit_code == 2
    scaled = cli("scale", "reading", "--workers", "1", "--reason", "one is enough")
    assert scaled.stdout == "reading: worker 2 -> 1\n", scaled.output
    job.wait_for_workers(1)
    assert job.object()["spec"]["roles"]["worker"]["replicas"]["wanted"] == 1
    assert "one is enough" in cli("events", "reading").stdout
    healthy = cli("doctor", "--platform", "kubernetes")
    assert healthy.exit_code == 0, healthy.output

    job.finish()
    assert following.wait(LONG) == 0
    assert cli.json("status", "reading")["phase"] == "Succeeded"
    audited = cli("audit", "reading")
    assert audited.exit_code == 0, audited.output
    assert "exact" in audited.stdout
    assert "one is enough" in cli("events", "reading").stdout
    kept = cli.json("series", "reading")
    assert set(kept["nodes"]) >= set(nodes)
    assert max(kept["records_per_second"]["max"]) > 0
    assert cli("top", "reading").exit_code == 2
    assert cli("stop", "reading").exit_code == 0
    assert cli("jobs", "--prune", "--yes").stdout == "removed reading\n"


def test_a_run_shows_the_output_of_its_pods_and_exits_as_the_job_does(cli: Cli) -> None:
    script = cli.folder / "hello.py"
    script.write_text("import pliant\njob = pliant.connect()\nprint('hello from', job.node, flush=True)\n")
    summary = cli.folder / "summary.json"
    run = cli.start(
        *("run", "--platform", "kubernetes", "--name", "hello", "--memory", "256Mi"),
        *("--summary", str(summary), "--", "python", str(script)),
    )
    told, _ = run.communicate(timeout=LONG)
    assert run.returncode == 0, told
    assert "worker-0 | hello from worker-0" in told
    assert json.loads(summary.read_text())["phase"] == "Succeeded"


def test_ctrl_c_stops_a_run_with_grace(cli: Cli) -> None:
    job = ReadingClusterJob(cli.space, cli.folder, workers=1, name="stopped")
    run = cli.start("run", str(write_job(cli, job)), "--quiet")
    job.wait_until_all_work(job.wait_for_workers(1))
    run.send_signal(signal.SIGINT)
    told, _ = run.communicate(timeout=LONG)
    assert run.returncode == 130, told
    assert job.status()["phase"] == "Stopped"
