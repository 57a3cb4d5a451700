"""Jobs that the Brain has not heard of for a while: because they were silent, or because it was away itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.brain.store.reporting import node
from tests.brain.test_service import JOB, LED, LOCAL, NEW, database, hear, report, send

from pliant.brain import coordinator
from pliant.brain.server import BrainServer
from pliant.brain.store.quotas import StoredQuota, last_grants, set_quota
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.testing.brain import RunningBrain
from pliant.testing.waiting import wait_until

OTHER = JobIdentity("local", "other", "uid-2")
TEAM = replace(LOCAL, quota="team")
ELASTIC = replace(NEW, configuration=Configuration(Shape(4, 1.0, 1024)), bounds=Bounds(RoleBounds(1, 8)))


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RunningBrain]:
    with RunningBrain(tmp_path / "brain") as found:
        yield found


def forget_everybody(brain: RunningBrain, seconds: float) -> None:
    """As if that much time had passed without a report."""

    async def forget(server: BrainServer) -> None:
        assert server._coordinator is not None
        for view in server._coordinator.views:
            view.heard_at -= seconds
        server._coordinator._forget_silent()

    brain.call(forget)


def known(brain: RunningBrain) -> int:
    async def count(server: BrainServer) -> int:
        assert server._coordinator is not None
        return len(server._coordinator.views)

    return brain.call(count)


def age(brain: RunningBrain, seconds: float) -> None:
    with database(brain).engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET last_heard_at = last_heard_at - :s"), {"s": seconds})


def test_a_job_that_was_silent_for_long_is_asked_for_everything_and_known_again(brain: RunningBrain) -> None:
    access = brain.access("train")
    send(access, report())
    forget_everybody(brain, coordinator.GONE_S + 1)
    assert known(brain) == 0
    assert send(access, report(2)).wants_all
    assert not send(access, report(3, description=LOCAL, history=NEW)).wants_all
    assert known(brain) == 1


def test_a_brain_that_was_away_for_long_knows_the_jobs_that_ran_when_it_went(brain: RunningBrain) -> None:
    access = brain.access("train")
    send(access, report())
    brain.stop()
    age(brain, 2 * coordinator.GONE_S)
    brain.start()
    send(access, report(2))
    assert known(brain) == 1


def test_a_brain_that_was_away_for_long_grants_nothing_that_a_job_it_has_not_heard_yet_has(brain: RunningBrain) -> None:
    set_quota(database(brain), StoredQuota("team", nodes=8), 1.0)
    for job in (JOB, OTHER):
        nodes = tuple(node(f"{job.name}-{number}", cpu=1.0) for number in range(4))
        made = report(job=job, description=TEAM, history=ELASTIC, nodes=nodes, planner=LED)
        send(brain.access(job.name), made)
    wait_until(lambda: len(last_grants(database(brain))) == 2, what="both grants")
    brain.stop()
    age(brain, 2 * coordinator.GONE_S)
    brain.start()
    before = last_grants(database(brain))[JOB]
    again = report(2, job=JOB, planner=LED, description=TEAM, history=ELASTIC, granted=before.number)
    again = replace(again, granted_limit=before.limit)
    [heard] = hear(
        brain.access("train"), JOB, 1, while_open=lambda: send(brain.access("train"), again), until=_is_grant
    )[-1:]
    assert isinstance(heard.content, Grant)
    assert heard.content.limit is not None
    assert heard.content.limit.nodes <= 4


def _is_grant(message: object) -> bool:
    return isinstance(getattr(message, "content", None), Grant)
