from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pliant.client import Job
from pliant.testing import ManualClock, RunningMaster

SHARDS_ONLY = {
    "components": {"need_pod_manager": False, "task_fault_tolerance": True, "keep_serving": True},
    "audit": True,
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def master(tmp_path: Path, clock: ManualClock) -> Iterator[RunningMaster]:
    """Gives out shards, for any program that knows the token. Time stands still for it."""
    with RunningMaster(tmp_path, SHARDS_ONLY, clock=clock) as running:
        yield running


@pytest.fixture
def connect(master: RunningMaster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Job]]:
    """Makes programs of the job, each with a name of its own."""
    made: list[Job] = []

    def make(node: str = "guest") -> Job:
        monkeypatch.setenv("PLIANT_NODE", node)
        made.append(Job(master.address))
        return made[-1]

    yield make
    for job in made:
        job.close()


@pytest.fixture
def alone() -> Iterator[Job]:
    with Job() as job:
        yield job
