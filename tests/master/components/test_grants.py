"""What a real master does with what a real Brain grants, on a platform in memory; and what persons want against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.brain.store.reporting import node
from tests.brain.test_service import LOCAL, database, report, send

from pliant.brain.store.quotas import StoredQuota, set_quota
from pliant.core.changes import ChangeRequest, RequestSource, Resume, Suspend
from pliant.core.job_state import JobState
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.planning.planner import Planner
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.planning.planner import ResourcePlanner
from pliant.rpc.brain.access import BrainFolder
from pliant.testing import wait_until
from pliant.testing.brain import RunningBrain
from pliant.testing.platform import FakePlatform
from pliant.testing.running import RunningMaster

HOLDER = JobIdentity("local", "holder", "uid-9")  # a manual job that has all of the quota


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RunningBrain]:
    with RunningBrain(tmp_path / "brain") as found:
        set_quota(database(found), StoredQuota("team", nodes=2), 1.0)
        hold(found, 2)
        yield found


def hold(brain: RunningBrain, nodes: int, sequence: int = 1) -> None:
    states = ["Running" if number < nodes else "Deleted" for number in range(2)]
    facts = tuple(node(f"holder-{number}", cpu=1.0, state=state) for number, state in enumerate(states))
    described = replace(LOCAL, quota="team", mode="manual")
    made = report(sequence, job=HOLDER, description=described, history=None, nodes=facts)
    send(brain.access("holder"), replace(made, planner=replace(made.planner, state="")))


def master_of(folder: Path, brain: RunningBrain, platform: FakePlatform, **optimize: Any) -> RunningMaster:
    access = brain.access("tested")
    shared = {"mode": "cluster", "brain": access.address, "quota": "team", "interval": 0.1, **optimize}
    worker = {"command": ["python", "train.py"], "replicas": "2:2"}
    made = RunningMaster(folder, {"roles": {"worker": worker}, "optimize": shared}, platform=platform)
    BrainFolder(made.job_dir.brain).write(access.token, access.ca)
    return made


def suspended(master: RunningMaster) -> str:
    def read(state: JobState) -> str:
        assert state.nodes is not None
        return state.nodes.suspended

    return str(master.run_inside(lambda parts: read(parts.require(ChangeHandler)._state)))


def ask(master: RunningMaster, name: str, change: Suspend | Resume) -> None:
    request = ChangeRequest(name, RequestSource.PERSON, (change,), "a person")
    master.run_inside(lambda parts: parts.require(ChangeHandler).handle(request))


@pytest.mark.parametrize("mode", ["cluster", "single-job"])
def test_a_job_whose_quota_is_full_launches_nothing(tmp_path: Path, brain: RunningBrain, mode: str) -> None:
    platform = FakePlatform()
    with master_of(tmp_path, brain, platform, mode=mode) as master:
        wait_until(lambda: suspended(master), what="the suspension")
        assert not platform.launched


def test_a_person_who_resumes_a_job_that_waits_for_its_quota_does_not_exceed_it(
    tmp_path: Path, brain: RunningBrain
) -> None:
    platform = FakePlatform()
    with master_of(tmp_path, brain, platform) as master:
        wait_until(lambda: suspended(master), what="the suspension")
        for number in range(2):
            ask(master, f"resume-{number}", Resume())
            wait_until(lambda: suspended(master), what="the quota to hold again")
        hold(brain, 0, 2)
        wait_until(lambda: not suspended(master), what="the grant")


def test_a_job_that_a_person_suspends_while_it_waits_for_its_quota_stays_so(
    tmp_path: Path, brain: RunningBrain
) -> None:
    platform = FakePlatform()
    with master_of(tmp_path, brain, platform) as master:
        wait_until(lambda: suspended(master), what="the suspension")
        ask(master, "suspend-1", Suspend())
        before = granted(master)
        hold(brain, 0, 2)
        wait_until(lambda: granted(master) > before, what="the grant")
        assert suspended(master)
        ask(master, "resume-1", Resume())
        wait_until(lambda: len(platform.launched) == 2, what="the nodes")


def granted(master: RunningMaster) -> int:
    def read(planner: Planner) -> int:
        return planner.grant.number if planner.grant is not None else 0

    return int(master.run_inside(lambda parts: read(parts.require(ResourcePlanner).planner)))
