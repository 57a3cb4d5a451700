"""What one job's token is good for when its holder means harm, or is broken: never more than that job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.brain.store.reporting import node
from tests.brain.test_service import LOCAL, NEW, database, hear, report, send

from pliant.brain.store.quotas import StoredQuota, set_quota
from pliant.core.errors import InvalidRequest, PliantError
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.cluster.report import JobIdentity, JobReport, JobSample, NodeSample, NumberedPeriod
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import Period
from pliant.testing.brain import RunningBrain
from pliant.testing.waiting import wait_until

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


def test_a_job_that_claims_later_terms_again_and_again_does_not_end_every_turn(
    brain: RunningBrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pliant.brain.server.LIFT_S", 600.0)
    before = brain.server.term
    with suppress(PliantError):
        send(brain.access("train"), report(), term=before + 5)
    wait_until(lambda: brain.is_active and brain.server.term > before + 5, what="the turn after a restored database")
    later = brain.server.term
    for sequence in range(2, 12):
        assert send(brain.access("train"), report(sequence), term=later + 5 * sequence).term == later
    assert send(brain.access("other"), report(job=OTHER)).term == later


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


MAX = (1 << 63) - 1
HOSTILE = {
    "a node of negative size": report(description=TEAM, nodes=(node("worker-0", cpu=-1000.0),)),
    "a node of negative memory": report(description=TEAM, nodes=(node("worker-0", memory_mb=-1),)),
    "a node with minus one GPU": report(description=TEAM, nodes=(node("worker-0", gpu=-1),)),
    "nodes of more memory than there is": report(
        description=TEAM, nodes=tuple(node(f"worker-{number}", memory_mb=MAX) for number in range(4))
    ),
    "a grant of a negative number": report(description=TEAM, granted=-1),
    "the last grant that there can be": report(description=TEAM, granted=MAX),
    "fewer records than none": report(description=TEAM, sample=JobSample(1.0, -MAX, 0, 1.0, 0, 0)),
    "a rate below nothing": report(description=TEAM, sample=JobSample(1.0, 0, 0, -1.0, 0, 0)),
    "a sample of negative use": report(description=TEAM, samples=(NodeSample("worker-0", 1.0, -5.0, 0.0, 1.0, 0),)),
    "a configuration of negative size": report(
        description=TEAM, history=replace(NEW, configuration=Configuration(Shape(2, -5.0, 1024)))
    ),
    "a period of negative size": report(
        description=TEAM,
        periods=(NumberedPeriod(1, Period(Configuration(Shape(-4, 1.0, 1024)), 1.0, 2.0, 5.0, 0.1, 3)),),
    ),
    "a grant of negative size": report(description=TEAM, granted=1, granted_limit=Configuration(Shape(-4, 1.0))),
    "a job of negative bounds": report(
        description=TEAM, history=replace(NEW, bounds=Bounds(RoleBounds(1, 8, min_cpu=-1.0)))
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_amounts_that_no_job_can_have_are_refused_and_stop_no_sharing(brain: RunningBrain, hostile: JobReport) -> None:
    """One report used to end the sharing of all quotas, or the Brain's start from then on."""
    set_quota(database(brain), StoredQuota("team", nodes=4), 1.0)
    with pytest.raises(PliantError):
        send(brain.access("train"), replace(hostile, time=report().time))
    heard = hear(
        brain.access("other"),
        OTHER,
        0,
        while_open=lambda: send(brain.access("other"), report(job=OTHER, description=TEAM)),
        until=lambda message: isinstance(message.content, Grant),
    )
    assert heard
    brain.stop()
    brain.start()
    assert send(brain.access("other"), report(2, job=OTHER)).sequence == 2


def test_numbers_that_add_up_to_more_than_a_column_holds_end_no_turn(brain: RunningBrain) -> None:
    before = brain.server.term
    send(brain.access("train"), report())
    for session in (2, 3, 4):
        for sequence in (1 << 53, MAX):
            with suppress(PliantError):
                send(brain.access("train"), report(sequence, session=session, records=MAX))
            with suppress(PliantError):
                send(brain.access("train"), report(sequence, session=session, records=0))
    assert send(brain.access("other"), report(job=OTHER)).term == before
    with database(brain).reading() as connection:
        assert connection.scalar(text("SELECT sum(accepted) FROM job_samples")) == 0
