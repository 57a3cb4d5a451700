"""Whole jobs on real nodes, as a user runs them: they end well, whatever happens to their Pods."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kubernetes.harness import PROJECT, Space
from tests.kubernetes.jobs import LONG, SHARED, ClusterJob, ReadingClusterJob
from tools.kubernetes.testbed.images import INSIDE, USER

from pliant.platforms.kubernetes.kinds import CLAIMS, CONFIG_MAPS, PODS, SCALE_PLANS, SECRETS, SERVICES
from pliant.platforms.kubernetes.names import CONTAINER, SUMMARY_KEY, master_name, pod_name

DIGITS = "02_cnn_digits.py"
# What a process of a container can do, as JSON.
LOOK = f"""
import json, os, pathlib
def writable(folder):
    try:
        path = pathlib.Path(folder, "x")
        path.touch()
        path.unlink()
        return True
    except OSError:
        return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps(dict(
    user=os.getuid(),
    written=[folder for folder in ("/", "/etc", "/usr", "/var", "{INSIDE}/src", "/tmp") if writable(folder)],
    privileges=int(status["CapEff"], 16),
    more_privileges=status["NoNewPrivs"].strip() != "1",
    token=os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"),
)))
"""
# The example as it is, but from its tenth step on it waits for the test: so it cannot be over too early.
HELD = f"""
import pathlib, runpy, sys, time
import pliant.torch
steps = pliant.torch.Trainer.steps
def held(trainer, *args, **options):
    for number, step in enumerate(steps(trainer, *args, **options)):
        while number == 10 and not pathlib.Path("{SHARED}/gate").exists():
            time.sleep(0.05)
        yield step
pliant.torch.Trainer.steps = held
sys.argv = ["{DIGITS}", *sys.argv[1:]]
runpy.run_path("{INSIDE}/examples/{DIGITS}", run_name="__main__")
"""


def test_a_job_reads_every_record_once_and_leaves_a_summary(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    status = job.finish()
    assert status["progress"]["records"] == job.size
    summary = job.summary()
    assert summary["phase"] == "Succeeded"
    assert summary["records_done"] == job.size
    assert SUMMARY_KEY in field.get(CONFIG_MAPS, "job-summary")["data"]


@pytest.mark.losses
def test_pods_run_without_root_and_the_jobs_secret_is_not_shown(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    for pod in (*(pod_name(job.name, node) for node in nodes), master_name(job.name)):
        assert_harmless(field, pod)
    assert_secret_is_kept(job)
    job.finish()


def assert_harmless(field: Space, pod: str) -> None:
    """As seen from inside of its container: no root, nothing to write to but what is meant for it, no token for nothing."""
    found = json.loads(field.kubectl("exec", pod, "-c", CONTAINER, "--", "python", "-c", LOOK).stdout)
    assert found == {
        "user": USER,
        "written": ["/tmp"],
        "privileges": 0,
        "more_privileges": False,
        "token": pod.endswith("-master"),
    }


def assert_secret_is_kept(job: ClusterJob) -> None:
    """It is in its Secrets, and not where people look."""
    secret = job.space.get(SECRETS, f"{job.name}-node")["data"]["token"]
    token = base64.b64decode(secret).decode().strip()
    assert len(token) > 16
    pods = job.space.list(PODS)
    shown = json.dumps([*pods, job.object(), *job.plans()]) + job.told()
    for text in (shown, *(job.space.logs(pod["metadata"]["name"]) for pod in pods)):
        assert token not in text
        assert secret not in text


def test_workers_and_the_master_are_deleted_and_no_record_is_lost(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    job.delete_pod(nodes[0])
    job.wait_for(lambda: [node for node in job.nodes() if node not in nodes], "a worker with a new name")
    uid = job.delete_master()
    job.wait_for_another_master(uid)
    job.wait_until_all_work(job.wait_for_workers(2))
    job.finish()


@pytest.mark.losses
def test_digits_are_learned_to_the_last_bit_by_workers_of_which_one_is_deleted(field: Space, tmp_path: Path) -> None:
    """Each record counts once: the weights are those of one process that nobody disturbed."""
    options = ("--epochs", "3")
    job = ClusterJob(
        field,
        tmp_path,
        ["python", "held.py", *options],
        files={"held.py": HELD},
        workers=2,
        role={"resources": {"memory": "1Gi"}},
        spec={"strategy": "allreduce"},
    ).submit()
    nodes = job.wait_for_workers(2)
    job.wait_for(lambda: any("loss" in field.logs(f"job-{node}") for node in nodes), "the first epoch")
    job.delete_pod(nodes[-1])
    job.wait_for(lambda: set(job.nodes()) - set(nodes), "a worker with a new name")
    (job.shared / "gate").touch()
    alone = [sys.executable, str(PROJECT / "examples" / DIGITS), *options]
    expected = subprocess.run(alone, capture_output=True, text=True, check=True, timeout=LONG).stdout
    status = job.wait_for_phase("Succeeded", "Failed")
    assert status["phase"] == "Succeeded", job.report()
    said = [field.logs(pod["metadata"]["name"]) for pod in field.list(PODS)]
    assert weights(expected)
    assert [found for text in said for found in weights(text)] == weights(expected), job.report()
    assert len(job.summary()["nodes"]) == 3, "one was replaced"


def weights(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("weights:")]


def test_deleting_a_job_leaves_nothing_behind(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    field.kubectl("delete", "elasticjob", "job", "--wait=false")
    kinds = (PODS, SERVICES, SECRETS, CONFIG_MAPS, CLAIMS, SCALE_PLANS)

    def left() -> list[str]:
        found = [f"{kind.plural}/{item['metadata']['name']}" for kind in kinds for item in field.list(kind)]
        return [name for name in found if "default-token" not in name and "kube-root-ca" not in name]

    field.wait_for(lambda: not left(), "everything to be gone", LONG)


def test_a_job_is_suspended_and_goes_on(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    field.kubectl("patch", "elasticjob", "job", "--type=merge", '--patch={"spec":{"suspend":true}}')
    job.wait_for_phase("Suspended")
    assert job.nodes() == []
    field.kubectl("patch", "elasticjob", "job", "--type=merge", '--patch={"spec":{"suspend":false}}')
    job.wait_for_workers(2)
    job.finish()
