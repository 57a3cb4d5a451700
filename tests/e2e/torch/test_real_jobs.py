"""Real jobs of real processes, killed, frozen and grown: the result does not know."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.torch.training_job import PROGRAM, STEPS_PER_EPOCH, TIMEOUT_S, TrainingJob

from pliant.core.events import EventKind
from pliant.rpc import pliant_pb2 as pb

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

POINTS = ("before", "inside", "between", "after")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> TrainingJob:
    """The same training by `python program.py`."""
    job = TrainingJob(tmp_path_factory.mktemp("alone"), workers=1)
    env = {k: v for k, v in job._env.items() if not k.startswith("PLIANT_")}
    subprocess.run([sys.executable, str(PROGRAM)], env=env, check=True, timeout=TIMEOUT_S, capture_output=True)
    job.assert_each_record_once()
    return job


def assert_same(job: TrainingJob, alone: TrainingJob) -> None:
    """To the last bit."""
    assert job.hashes() == alone.hashes()


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
def test_weights_are_equal_to_the_last_bit_for_any_number_of_workers(
    tmp_path: Path, workers: int, alone: TrainingJob
) -> None:
    with TrainingJob(tmp_path, workers=workers) as job:
        job.ends_well()
    assert_same(job, alone)


@pytest.mark.parametrize("transport", ["sockets", "mixed"])
@pytest.mark.parametrize("workers", [2, 5])
def test_weights_do_not_depend_on_how_gradients_travel(
    tmp_path: Path, workers: int, transport: str, alone: TrainingJob
) -> None:
    with TrainingJob(tmp_path, workers=workers, transport=transport) as job:
        job.ends_well()
    assert_same(job, alone)


@pytest.mark.parametrize(
    ("point", "transport"),
    [*((point, "memory") for point in POINTS), ("inside", "sockets"), ("before", "mixed"), ("inside", "mixed")]
    + [("adding", transport) for transport in ("memory", "sockets", "mixed")],
)
def test_a_program_killed_at_any_point_of_a_step_changes_nothing(
    tmp_path: Path, point: str, transport: str, alone: TrainingJob
) -> None:
    with TrainingJob(tmp_path, workers=3, pace=0.02, kill=f"worker-0 {point} 4", transport=transport) as job:
        job.ends_well()
        summary = job.summary()
    assert (job.traces / "killed").exists()
    assert_same(job, alone)
    assert not job.computed_twice()
    others = {line["pid"] for line in job.lines() if line["node"] != "worker-0"}
    assert len(others) == 2, "survivors go on in their process"
    assert summary["restarts"] == 1


@pytest.mark.parametrize("point", ["sending", "receiving"])
def test_a_program_killed_while_another_joins_changes_nothing(tmp_path: Path, point: str, alone: TrainingJob) -> None:
    with TrainingJob(tmp_path, workers=3, kill=f"any {point} 0") as job:
        job.ends_well()
    assert (job.traces / "killed").exists()
    assert_same(job, alone)


def test_a_frozen_program_is_left_behind_and_comes_back_as_a_new_one(tmp_path: Path, alone: TrainingJob) -> None:
    with TrainingJob(tmp_path, workers=3, pace=0.15, gated=True) as job:
        job.wait_for_step(3)
        pid = job.freeze_program("worker-1")
        job.until(lambda: job.events(EventKind.FROZEN), "the master's word that it is stopped")
        step = job.committed()
        job.wait_for_step(step + 2)
        job.thaw(pid)
        job.open_gate()
        job.ends_well()
        summary = job.summary()
    assert_same(job, alone)
    assert (summary["restarts"], summary["replacements"]) == (0, 0)
    assert "joining again as a new member" in job.log("worker-1") or pid in {
        x["pid"] for x in job.lines() if "hash" in x
    }


def test_workers_with_other_resources_join_one_by_one_and_the_result_is_the_same(
    tmp_path: Path, alone: TrainingJob
) -> None:
    with TrainingJob(tmp_path, workers=2, pace=0.15, gated=True) as job:
        job.wait_for_step(1)
        other = pb.ScaleRequest(role="worker", memory_mb=4096, rollout="rolling")
        job.call(lambda c: c.stubs.job.Scale, other)
        job.until(lambda: job.events(EventKind.ROLLED_OUT), "the end of the rollout", TIMEOUT_S)
        assert job.committed() < STEPS_PER_EPOCH * job.epochs, "training was over before the workers were replaced"
        job.open_gate()
        job.ends_well()
        summary = job.summary()
    assert {node["memory_limit_mb"] for node in summary["nodes"][2:]} == {4096.0}
    assert (summary["restarts"], len(summary["nodes"])) == (0, 4)
    assert_same(job, alone)


def test_workers_that_are_scaled_down_leave_between_two_steps_and_end_by_themselves(
    tmp_path: Path, alone: TrainingJob
) -> None:
    with TrainingJob(tmp_path, workers="1:3", pace=0.04, gated=True) as job:
        job.wait_for_step(2)
        job.scale(1)
        job.wait_for(lambda s: [n.name for n in s.live_nodes] == ["worker-0"], "the end of the others")
        job.open_gate()
        job.ends_well()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
        exits = [event.message for event in job.events(EventKind.EXIT)]
    gone = [nodes[name] for name in ("worker-1", "worker-2")]
    assert {node["state"] for node in gone} == {"Deleted"}
    assert {node["exit_reason"] for node in gone} == {"Completed"}
    assert {node["message"].split(":")[0] for node in gone} == {"scaled down from 3 to 1"}, "not killed after its grace"
    assert not any("Preempted" in text for text in exits), exits
    assert {line["node"] for line in job.lines() if "hash" in line} == {"worker-0"}, "they run nothing after the loop"
    assert not job.computed_twice()
    assert_same(job, alone)


@pytest.mark.chaos
@pytest.mark.parametrize("transport", ["memory", "sockets", "mixed"])
def test_a_random_history_of_faults_changes_nothing(tmp_path: Path, transport: str, alone: TrainingJob) -> None:
    seed = int(os.environ.get("PLIANT_CHAOS_SEED", random.randrange(10**6)))
    print(f"PLIANT_CHAOS_SEED={seed}")
    chance = random.Random(seed)
    with TrainingJob(tmp_path, workers="1:3", transport=transport, pace=0.15, gated=True) as job:
        for step in (2, 5, 8, 11, 14):
            job.wait_for_step(step)
            deed = chance.choice(
                ["program", "agent", "two", "all but one", "leader", "master", "freeze", "fewer", "more"]
            )
            print(f"step {step}: {deed}")
            status = job.wait_for(lambda s: s, "the master")
            running = sorted(n.name for n in status.nodes if n.state == "Running" and n.pid)
            chance.shuffle(running)
            match deed:
                case "program":
                    victims = running[:1]
                case "two":
                    victims = running[:2]
                case "all but one":
                    victims = running[1:]
                case "leader":
                    ranks = {x["node"]: x["rank"] for x in job.lines() if "commit" in x}
                    victims = [name for name in running if ranks.get(name) == 0][:1]
                case _:
                    victims = []
            pids = [node.pid for node in status.nodes if node.name in victims]
            for pid in pids:
                job.send(pid, 9)
            if deed == "agent" and running:
                job.send(next(n.agent_pid for n in status.nodes if n.name == running[0]), 9)
            elif deed == "master":
                job.kill_master()
            elif deed == "freeze" and len(running) > 1:  # the others must be able to go on meanwhile
                stopped = next(n.pid for n in status.nodes if n.name == running[0])
                job.send(stopped, 19)
                job.wait_for_step(step + 1)
                job.thaw(stopped)
            elif deed in ("fewer", "more"):
                job.scale(1 if deed == "fewer" else 3)
        job.open_gate()
        job.ends_well()
    assert_same(job, alone)
