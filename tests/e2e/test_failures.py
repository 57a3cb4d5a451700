"""Jobs that cannot succeed say so, and why; jobs that can, do."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.platforms.cgroup import why_not
from pliant.testing.jobs import LocalJob
from pliant.testing.reading import ReadingJob

pytestmark = pytest.mark.e2e

QUICK = {"limit": 1, "backoff": {"first": 0.05}, "in_place": True}


def test_a_program_that_always_fails_fails_the_job_with_its_traceback_and_a_hint(tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("def train():\n    raise RuntimeError('no such layer')\ntrain()\n")
    with LocalJob(tmp_path, ["python", str(program)], workers=2, spec={"fault": {"error": QUICK}}) as job:
        assert job.wait() == 1
        summary, shown = job.summary(), job.output()
    failure = summary["first_failure"]
    assert (summary["phase"], summary["exit_code"], failure["kind"]) == ("Failed", 1, "Error")
    assert failure["node"] in ("worker-0", "worker-1")
    assert "RuntimeError: no such layer" in failure["traceback"]
    assert f"first failure: {failure['node']}, Error: exit code 1: RuntimeError: no such layer" in shown
    assert f'File "{program}", line 2, in train' in shown
    assert "what to do: fix the program" in shown
    assert f"full output: {job.home.log_of(failure['node'])}" in shown


def test_no_error_is_forgiven_if_the_user_says_so(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["false"], options=["--max-restarts", "0"]) as job:
        assert job.wait() == 1
        assert job.summary()["restarts"] == 0


@pytest.mark.parametrize("skip", [False, True])
def test_a_poisonous_record_costs_its_shard_and_nothing_else(tmp_path: Path, skip: bool) -> None:
    read = {"train": {"size": 60, "shard_size": 4, "max_failures": 2, "skip_parked": skip}}
    spec = {"fault": {"error": {**QUICK, "limit": 10}}}
    with ReadingJob(tmp_path, read, workers=2, env={"POISON": "17"}, spec=spec) as job:
        assert job.wait() == (0 if skip else 1)
        job.assert_each_record_once(job.expected() - {("train", 0, "train", i) for i in range(16, 20)})
        summary = job.summary()
    (dataset,) = summary["datasets"]
    assert [(p["start"], p["end"], p["failures"]) for p in dataset["parked"]] == [(16, 20, 2)]
    assert summary["phase"] == ("Succeeded" if skip else "Failed")
    if not skip:
        assert "dataset train, epoch 0, records [16, 20)" in job.output()
        assert "record 17 is poison" in job.output()


def test_a_job_whose_workers_all_finish_with_shards_undone_has_failed(tmp_path: Path) -> None:
    program = tmp_path / "early.py"
    program.write_text(
        "import pliant\nfor shard in pliant.connect().shards('train', size=100, shard_size=10):\n    break\n"
    )
    with LocalJob(tmp_path, ["python", str(program)], workers=2) as job:
        assert job.wait() == 1
        assert "all workers finished, but dataset train is incomplete: 0 of 100 records" in job.output()


def test_a_mistake_in_the_description_is_told_before_anything_starts(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, ["true"], spec={"fault": {"grace": "soon"}})
    with job:
        assert job.wait() == 2
        assert not job.home.path.exists()
    assert "fault.grace" in job.output()
    assert "soon" in job.output()
    assert "Traceback" not in job.output()


def test_a_damaged_description_of_a_running_job_ends_it_with_a_clear_error(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["sleep", "1000"]) as job:
        job.wait_until_running("worker-0")
        job.home.spec.write_text("roles: [not, roles]\n")
        job.kill_master()
        assert job.wait() == 2
        assert "job.yaml: 1 problem in the job spec" in job.output()
        assert "roles" in job.output()


def test_a_metrics_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with LocalJob(tmp_path, ["true"], options=["--metrics-port", str(port)]) as job:
            assert job.wait() == 2
    assert f"127.0.0.1:{port}" in job.output()
    assert "Traceback" not in job.output()


@pytest.mark.skipif(bool(why_not()), reason=f"no memory limits here: {why_not()}")
def test_a_worker_out_of_memory_is_replaced_with_more_up_to_the_ceiling(tmp_path: Path) -> None:
    hog = "import os; block = bytearray(90 << 20); block[::4096] = b'x' * len(block[::4096]); print('fits')"
    fault = {"oom": {"backoff": {"first": 0.05}}, "memory": {"factor": 1.0, "add": "32Mi", "ceiling": "200Mi"}}
    role = {"resources": {"memory": "64Mi"}}
    with LocalJob(tmp_path, ["python", "-c", hog], role=role, spec={"fault": fault}) as job:
        assert job.wait() == 0
        summary = job.summary()
        nodes = summary["nodes"]
        assert job.log(nodes[-1]["name"]) == "fits\n"
    assert [node["exit_reason"] for node in nodes] == ["OOM"] * (len(nodes) - 1) + ["Completed"]
    assert [node["memory_limit_mb"] for node in nodes] == [64 + 32 * at for at in range(len(nodes))]
    assert 2 <= len(nodes) <= 4
    [advice] = summary["memory_advice"]
    assert advice["ran_out_mb"] == [node["memory_limit_mb"] for node in nodes[:-1]]
    assert (advice["was_enough"], advice["last_mb"]) == (True, nodes[-1]["memory_limit_mb"])
    assert 90 <= advice["peak_mb"] <= advice["last_mb"]
    assert (
        f"{advice['last_mb']} MB was enough (peak {advice['peak_mb']} MB): use --memory {advice['last_mb']}Mi"
        in job.output()
    )


@pytest.mark.skipif(bool(why_not()), reason=f"no memory limits here: {why_not()}")
def test_a_worker_that_needs_more_than_the_machine_has_fails_the_job(tmp_path: Path) -> None:
    hog = "blocks = [bytearray(1 << 20) for _ in range(500)]; [b.__setitem__(slice(None, None, 4096), b'x' * 256) for b in blocks]"
    fault = {"oom": {"backoff": {"first": 0.05}}, "memory": {"factor": 1.0, "add": "32Mi"}}
    machine = {"kind": "local", "local": {"capacity": {"memory": "64Mi"}}}
    role = {"resources": {"memory": "48Mi"}}
    with LocalJob(tmp_path, ["python", "-c", hog], role=role, spec={"fault": fault, "platform": machine}) as job:
        assert job.wait() == 1
        summary = job.summary()
    assert "out of memory with 64 MB" in summary["reason"]
    assert "cannot request more, 64 MB is the size of the largest machine" in summary["reason"]
    assert summary["first_failure"]["kind"] == "OOM"
    assert "fault.memory.ceiling" in job.output()


def test_a_request_that_can_never_be_met_is_said_at_once_and_given_up_by_the_users_limit(tmp_path: Path) -> None:
    role = {"resources": {"memory": "1000Gi"}}
    with LocalJob(tmp_path, ["true"], role=role, options=["--give-up-after", "2"]) as job:
        assert job.wait() == 1
        reason = job.summary()["reason"]
    problem = "1024000 MB of memory requested, the largest machine has "
    assert f"waiting: worker-0 cannot be scheduled: {problem}" in job.output()
    assert reason.startswith(f"gave up on worker-0: {problem}")
    assert reason in job.output()
    assert [event.facts["node"] for event in job.events(EventKind.TOO_LARGE)] == ["worker-0"]


def test_a_node_without_room_is_asked_for_with_less_and_then_runs(tmp_path: Path) -> None:
    spec = {
        "platform": {"kind": "local", "local": {"capacity": {"memory": "600Mi"}}},
        "fault": {"unschedulable": {"backoff": {"first": 0.1, "factor": 1.0}, "shrink_after": 0.3}},
    }
    role = {"resources": {"memory": "2Gi"}, "min_resources": {"memory": "512Mi"}}
    with LocalJob(tmp_path, ["echo", "fits"], spec=spec, role=role) as job:
        assert job.wait() == 0
        (node,) = job.summary()["nodes"]
    assert 512 <= node["memory_limit_mb"] <= 600
    assert any("600 MB available" in event.facts["reason"] for event in job.events(EventKind.REFUSED))
    assert any("with reduced resources" in event.facts["reason"] for event in job.events(EventKind.LAUNCH))


def test_a_node_that_never_finds_room_does_not_hold_up_the_end_of_the_job(tmp_path: Path) -> None:
    spec = {
        "platform": {"kind": "local", "local": {"capacity": {"cpu": 1}, "limits": "off"}},
        "fault": {"unschedulable": {"backoff": {"first": 3600.0, "longest": 3600.0}}},
    }
    read = {"train": {"size": 60, "shard_size": 4}}
    with ReadingJob(tmp_path, read, workers="1:3", spec=spec, role={"resources": {"cpu": 1}}) as job:
        assert job.wait() == 0
        job.assert_each_record_once()


def test_a_second_launch_of_a_running_job_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with ReadingJob(tmp_path, {"train": {"size": 200, "shard_size": 4}}, gated=True) as job:
        job.wait_until_all_work(1)
        again = [sys.executable, "-c", "from pliant.cli import main; main()", "run", "--job-dir", str(job.home.path)]
        second = subprocess.run([*again, "--overwrite", "--", "true"], capture_output=True, text=True, cwd=tmp_path)
        assert second.returncode == 2
        assert "is running in" in second.stderr
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
