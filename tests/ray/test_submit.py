"""``pliant submit --platform ray``, and every command on the job: its files travel with it, by Ray's runtime environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S

from pliant.testing.jobs import LAUNCHER, LocalJob

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

PROGRAM = """
import os, time
import pliant
from beside import GREETING

job = pliant.connect()
print(GREETING, job.node, "in", os.getcwd(), flush=True)
for shard in job.shards("numbers", size=40, shard_size=2):
    while shard.start and not os.path.exists(os.environ["GATE"]):
        time.sleep(0.05)
"""


class Submitter:
    """A person with a folder, a job's file in it, and the command line."""

    def __init__(self, folder: Path, address: str, *, name: str = "sent") -> None:
        self.folder, self.job_dir = folder, folder / "jobs" / name
        self.sources = folder / "sources"
        self.sources.mkdir()
        (self.sources / "train.py").write_text(PROGRAM)
        (self.sources / "beside.py").write_text('GREETING = "hello from"\n')
        worker = {
            "command": ["python", "train.py"],
            "replicas": {"min": 1, "max": 3, "wanted": 1},
            "env": {"GATE": str(folder / "gate")},
        }
        ray = {"address": address, "runtime_env": {"working_dir": "sources"}}
        spec = {"name": name, "audit": True, "platform": {"kind": "ray", "ray": ray}, "roles": {"worker": worker}}
        (folder / "job.yaml").write_text(yaml.safe_dump(spec))

    def gives(self, *command: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, *command],
            cwd=self.folder,
            env={**os.environ, "PLIANT_HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def gives_json(self, *command: str) -> Any:
        return json.loads(self.gives(*command, "--json"))


def test_a_submitted_job_brings_its_files_and_all_commands_work_on_it(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    job = LocalJob(tmp_path, [], name="sent")  # only to look at it, and to end what a failure leaves
    person = Submitter(tmp_path, ray_cluster.address)
    try:
        assert person.gives_json("submit", "job.yaml") == {"name": "sent", "job_dir": str(person.job_dir)}
        shutil.rmtree(person.sources)  # they were uploaded
        job.wait_for(lambda s: any(n.records for n in s.nodes), "some progress", LONG_S)
        status = person.gives_json("status", "sent")
        assert (status["phase"], status["job_dir"]) == ("Running", str(person.job_dir))
        assert [node["name"] for node in person.gives_json("top", "sent")["nodes"]] == ["worker-0"]
        assert "2" in person.gives("scale", "sent", "worker=2")
        job.wait_for(lambda s: sum(n.pid > 0 for n in s.nodes) == 2, "another worker with the files", LONG_S)
        (tmp_path / "gate").touch()
        output = person.gives("logs", "sent", "-f")
        greetings = [line for line in output.splitlines() if "hello from worker-0 in" in line]
        assert greetings
        assert str(tmp_path) not in greetings[0].partition(" in ")[2]
        assert "working_dir_files" in greetings[0]
        job.wait_for_summary(LONG_S)
        kinds = {json.loads(line)["kind"] for line in person.gives("events", "sent", "--json").splitlines()}
        assert {"master", "node"} & kinds
        assert "exact: 40 records accepted, each once" in person.gives("audit", "sent")
        assert person.gives_json("plans", "sent")["plans"] == []
        assert person.gives_json("status", "sent")["phase"] == "Succeeded"
        job.check_nothing_is_left()
    finally:
        job.end_all()


def test_a_working_dir_that_is_not_there_is_refused_before_anything_starts(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    person = Submitter(tmp_path, ray_cluster.address)
    shutil.rmtree(person.sources)
    person.gives("submit", "job.yaml", code=2)
    assert not person.job_dir.exists()


def test_two_jobs_of_one_name_do_not_run_on_one_cluster(tmp_path: Path, ray_cluster: RayTestCluster) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    job = LocalJob(folders[0], [], name="sent")
    first, second = (Submitter(folder, ray_cluster.address, name="twice") for folder in folders)
    try:
        first.gives("submit", "job.yaml", "--job-dir", str(job.home.path))
        second.gives("submit", "job.yaml", code=2)
        assert not second.job_dir.exists()
        first.gives("stop", "--now", "--job-dir", str(job.home.path))
    finally:
        job.end_all()
