"""Jobs that the Brain plans for on a cluster: the Brain, operator and monitor of the chart, in Pods; some of them die."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.brains import InstalledBrain
from tests.kubernetes.harness import LOOK_EVERY, Space, Testbed
from tests.kubernetes.jobs import SHARED, ClusterJob, ReadingClusterJob

from pliant.core.shards.audit import AuditRow
from pliant.core.status import BRAIN_LEADS
from pliant.platforms.kubernetes.kinds import CLAIMS, PODS
from pliant.platforms.kubernetes.names import ROLE_LABEL, claim_name

RECORDS = 100_000
LOAD = ("python", "-m", "pliant.testing.load", "wait", "--records", str(RECORDS), "--seconds", "0.05")
QUOTA = 3


@pytest.fixture(scope="module")
def brain(cluster: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledBrain]:
    made = InstalledBrain(cluster, tmp_path_factory.mktemp("brain"))
    try:
        made.install()
        yield made
    finally:
        made.remove()


class PlannedClusterJob(ClusterJob):
    """Its records cost time until it is told to hurry."""

    def __init__(self, space: Space, folder: Path, *, name: str = "job", **optimize: Any) -> None:
        super().__init__(
            space,
            folder / name,
            (*LOAD, "--hurry", f"{SHARED}/hurry"),
            name=name,
            workers="1:4",
            spec={"optimize": {"mode": "cluster", "interval": "1s", **optimize}},
            journal="auto",
        )

    def standing_of_the_brain(self) -> str:
        return str((self.status().get("planner") or {}).get("brain"))

    def records(self) -> int:
        return int((self.status().get("progress") or {}).get("records") or 0)

    def submit(self) -> PlannedClusterJob:
        super().submit()
        return self

    def wait_for_progress(self) -> None:
        before = self.records()
        self.wait_for(lambda: self.records() > before, "more records")

    def finish(self, brain: InstalledBrain) -> dict[str, Any]:
        """Its summary; the Brain knows of each record that it accepted."""
        (self.shared / "hurry").touch()
        status = self.wait_for_phase("Succeeded", "Failed", "Stopped")
        assert status["phase"] == "Succeeded", self.report()
        assert status["progress"]["records"] == RECORDS
        summary = self.summary()
        assert summary["audit"]["exact"], summary["audit"]
        self.wait_for(lambda: brain.phase(self.space.name, self.name) == "Succeeded", "the Brain to know")
        assert brain.accepted(self.space.name, self.name) == RECORDS, brain.report()
        return summary


def test_a_job_is_planned_by_the_brain_and_goes_on_while_the_brains_pod_is_replaced(
    field: Space, tmp_path: Path, brain: InstalledBrain
) -> None:
    job = PlannedClusterJob(field, tmp_path).submit()
    job.wait_for(lambda: len(job.nodes()) >= 2, "more workers than the job has to have")
    assert job.standing_of_the_brain() == BRAIN_LEADS
    uid = brain.delete_pod()
    job.wait_for_progress()
    standings = set()

    def is_at_maximum() -> bool:
        standings.add(job.standing_of_the_brain())
        return len(job.nodes()) == 4

    job.wait_for(is_at_maximum, "as many workers as are allowed")
    brain.wait_for_another(uid)
    heard = brain.last_heard(field.name, job.name)
    job.wait_for(lambda: brain.last_heard(field.name, job.name) > heard, "a report to the new Brain")
    job.wait_for(lambda: job.standing_of_the_brain() == BRAIN_LEADS, "the new Brain to lead")
    last = job.status()["last_plan"]
    assert last["algorithm"]
    assert "workers" in last["reason"]
    plans = job.finish(brain)["plans"]
    first = plans[0]
    assert (first["proposal"]["algorithm"], bool(first["origin"])) == ("create_from_history", True)
    origins = [plan["origin"] for plan in plans if plan["origin"]]
    assert len(origins) == len(set(origins)), "no offer is planned twice"
    if standings == {BRAIN_LEADS}:  # where it was away for a minute, the job has planned by itself
        assert len(plans) == len(origins) > 1
    stored = dict(brain.ask("SELECT offer, outcome FROM plans WHERE offer IS NOT NULL"))
    assert {plan["origin"]: plan["outcome"] for plan in plans if plan["origin"]}.items() <= stored.items()
    machines = brain.ask("SELECT name FROM machines WHERE is_ready")
    assert {name for (name,) in machines} == {"node1", "node2"}, "the monitor's Pod tells of them"


@contextlib.contextmanager
def counted_workers(space: Space) -> Iterator[list[int]]:
    """How many Pods of workers there were in a namespace, again and again; also those on their way out."""
    counts: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            pods = space.list(PODS, f"{ROLE_LABEL}=worker")
            counts.append(sum(pod["status"].get("phase") in ("Pending", "Running") for pod in pods))
            over.wait(LOOK_EVERY)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield counts
    finally:
        over.set()
        thread.join()


def test_two_jobs_of_a_quota_share_it_and_nobody_starves(field: Space, tmp_path: Path, brain: InstalledBrain) -> None:
    brain.set_quota("team", nodes=QUOTA)
    one = PlannedClusterJob(field, tmp_path, name="one", quota="team")
    two = PlannedClusterJob(field, tmp_path, name="two", quota="team")
    with counted_workers(field) as counts:
        one.submit()
        one.wait_for(lambda: len(one.nodes()) == QUOTA, "one that takes all of it")
        two.submit()
        two.wait_for(lambda: two.nodes() and two.records(), "the other to have a worker")
        one.wait_for_progress()
        assert len(one.nodes()) >= 1, "nobody starves"
        for job in (one, two):
            job.finish(brain)
    assert max(counts) == QUOTA, counts


class JournaledByTheBrain(ReadingClusterJob):
    def __init__(self, space: Space, folder: Path, brain: InstalledBrain) -> None:
        spec = {"journal": {"store": "database"}, "optimize": {"mode": "cluster"}}
        super().__init__(space, folder, workers=2, journal="auto", spec=spec)
        self._brain = brain

    def audit(self) -> list[AuditRow]:
        return self._brain.audit(self.space.name, self.name)


def test_a_master_that_is_lost_with_its_disk_continues_from_the_brains_database(
    field: Space, tmp_path: Path, brain: InstalledBrain
) -> None:
    job = JournaledByTheBrain(field, tmp_path, brain)
    job.submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    condition = job.wait_for(lambda: job.condition("JournalDurable"), "the condition")
    assert (condition["status"], condition["reason"]) == ("True", "Database")
    assert field.find(CLAIMS, claim_name(job.name)) is None
    uid = job.delete_master(grace=0)
    job.wait_for_another_master(uid)
    job.finish()
    assert job.condition("JournalLost") is None
    summary = job.summary()
    assert [(node["name"], node["restarts"]) for node in summary["nodes"]] == [(node, 0) for node in nodes]
    assert summary["audit"]["exact"], summary["audit"]
    assert summary["master_starts"] == 2
    job.wait_for(lambda: brain.phase(field.name, job.name) == "Succeeded", "the Brain to know")
    assert brain.accepted(field.name, job.name) == job.size
