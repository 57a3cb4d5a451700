"""What one job's token is good for when its holder means harm, or is broken: never more than that job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.brain.test_service import LOCAL, NEW, database, hear, report, send

from pliant.brain.store.quotas import StoredQuota, set_quota
from pliant.core.errors import InvalidRequest
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.cluster.report import JobIdentity, NumberedPeriod
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import Period
from pliant.testing.brain import RunningBrain

OTHER = JobIdentity("local", "other", "uid-2")
TEAM = replace(LOCAL, quota="team")


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RunningBrain]:
    with RunningBrain(tmp_path / "brain") as found:
        yield found


@pytest.mark.parametrize("term", [(1 << 63) - 1, (1 << 63) - 3])
def test_a_term_that_no_brain_was_ever_in_is_refused_and_ends_no_turn(brain: RunningBrain, term: int) -> None:
    """Terms end at the largest number of the database: whoever could raise it there would end the Brain for good."""
    before = brain.server.term
    with pytest.raises(InvalidRequest, match="no Brain was ever in term"):
        send(brain.access("train"), report(), term=term)
    assert send(brain.access("train"), report()).term == before


def test_a_phase_that_is_none_is_refused_and_nothing_of_it_is_kept(brain: RunningBrain) -> None:
    with pytest.raises(InvalidRequest, match="phase"):
        send(brain.access("train"), report(phase="nonsense"))
    assert send(brain.access("train"), report()).sequence == 1


def test_a_job_whose_demand_cannot_be_computed_holds_up_nobody(brain: RunningBrain) -> None:
    set_quota(database(brain), StoredQuota("team", nodes=4), 1.0)
    without = Period(Configuration(Shape(0, 1.0, 1024)), 1.0, 2.0, 5.0, 0.1, 3)  # a rate, of no workers
    send(brain.access("train"), report(description=TEAM, periods=(NumberedPeriod(1, without),)))
    before = brain.server.term
    heard = hear(
        brain.access("other"),
        OTHER,
        0,
        while_open=lambda: send(brain.access("other"), report(job=OTHER, description=TEAM)),
        until=lambda message: isinstance(message.content, Grant),
    )
    assert {message.term for message in heard} == {before}, "the turn goes on"


def test_a_job_of_more_workers_than_there_are_machines_holds_up_nobody(brain: RunningBrain) -> None:
    set_quota(database(brain), StoredQuota("team", nodes=4), 1.0)
    many = replace(NEW, configuration=Configuration(Shape(2**31)), bounds=Bounds(RoleBounds(1, 2**31)))
    with pytest.raises(InvalidRequest, match="replicas"):
        send(brain.access("train"), report(description=TEAM, history=many))
