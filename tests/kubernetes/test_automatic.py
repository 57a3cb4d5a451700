"""A job that plans its own resources on a cluster: its plans become ScalePlans, Pods come, and its status says why."""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes.harness import Space
from tests.kubernetes.jobs import LONG, SHARED, ClusterJob

LOAD = ("python", "-m", "pliant.testing.load", "wait", "--records", "100000", "--seconds", "0.05")


def test_a_job_scales_itself_to_the_maximum_and_says_why(field: Space, tmp_path: Path) -> None:
    optimize = {"mode": "single-job", "interval": "1s"}
    command = (*LOAD, "--hurry", f"{SHARED}/hurry")
    job = ClusterJob(field, tmp_path, command, workers="1:4", spec={"optimize": optimize}).submit()
    job.wait_for(lambda: len(job.nodes()) == 4, "as many workers as are allowed", LONG)
    job.wait_for(lambda: (job.status().get("last_plan") or {}).get("reason"), "the last plan, with its reason")
    (job.shared / "hurry").touch()
    status = job.wait_for_phase("Succeeded", "Failed")
    assert status["phase"] == "Succeeded", job.report()
    assert status["progress"]["records"] == 100000
    plans = job.summary()["plans"]
    assert plans[0]["proposal"]["algorithm"] == "create_from_history"
    grown = [plan["proposal"]["reason"] for plan in plans if plan["proposal"]["algorithm"] in ("probe", "plan_job")]
    assert any("workers" in reason for reason in grown)
