"""An offer and what a master made of it are one plan; what masters plan by themselves is there too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.brain.store.reporting import TWO, identity, plan, proposal, report

from pliant.brain.store.database import Database
from pliant.brain.store.events import (
    AlgorithmRun,
    StoredEvent,
    end_event,
    events_of,
    runs_of,
    store_event,
    store_run,
)
from pliant.brain.store.jobs import job
from pliant.brain.store.plans import close_offer, mark_sent, open_offers, plans_of, plans_since, store_offer
from pliant.brain.store.reports import write_reports
from pliant.core.errors import NotFound
from pliant.core.planning.cluster.offer import Offer
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.proposal import Proposal

OFFER = Offer("offer-1", proposal(), 3, 300.0, "event-1")


@pytest.fixture
def job_id(database: Database) -> int:
    write_reports(database, [report(1)], 2000.0)
    return job(database, "team", "resnet-1").id


def test_an_offer_is_open_until_a_plan_is_made_of_it(database: Database, job_id: int) -> None:
    store_offer(database, identity(), OFFER, 1090.0, 1390.0)
    store_offer(database, identity(), replace(OFFER, base_version=9), 1091.0, 1391.0)  # again: nothing changes
    [offered] = open_offers(database, 1100.0)
    assert (offered.job, offered.offer, offered.event, offered.proposal) == (
        identity(),
        "offer-1",
        "event-1",
        proposal(),
    )
    assert (offered.base_version, offered.made_at, offered.sent_at, offered.expires_at) == (3, 1090.0, 0.0, 1390.0)
    assert offered.record is None
    mark_sent(database, ["offer-1", "unknown"], 1095.0)
    mark_sent(database, ["offer-1"], 1099.0)
    assert [each.sent_at for each in open_offers(database, 1100.0, identity())] == [1095.0]
    assert open_offers(database, 1100.0, identity(uid="other")) == ()
    assert open_offers(database, 1390.0) == ()
    write_reports(database, [report(2, plans=(plan("p1", "offer-1"),))], 2005.0)
    assert open_offers(database, 1100.0) == ()
    [stored] = plans_of(database, job_id)
    assert (stored.offer, stored.event, stored.made_at, stored.record) == (
        "offer-1",
        "event-1",
        1090.0,
        plan("p1", "offer-1"),
    )
    assert not close_offer(database, "offer-1", "expired")


def test_an_outcome_reaches_the_plan_of_its_offer(database: Database, job_id: int) -> None:
    store_offer(database, identity(), OFFER, 1090.0, 1390.0)
    write_reports(database, [report(2, plans=(plan("p1", "offer-1"),))], 2005.0)
    judged = plan(
        "p1",
        "offer-1",
        outcome=Outcome.KEPT,
        accepted_at=1101.0,
        ended_at=1200.0,
        achieved_rate=19.0,
        achieved_error=0.4,
        judgement="as predicted",
    )
    write_reports(database, [report(3, plans=(judged,))], 2010.0)
    [stored] = plans_of(database, job_id)
    assert stored.record == judged
    with database.reading() as connection:
        row = connection.execute(text("SELECT * FROM v_plans")).one()
    assert (row.job, row.predicted_rate, row.achieved_rate, row.is_within_interval) == ("resnet-1", 20.0, 19.0, 1)
    assert row.relative_error == pytest.approx(-0.05)


def test_masters_plans_are_kept_newest_first(database: Database, job_id: int) -> None:
    records = tuple(plan(f"p{number}", time=1000.0 + number) for number in range(5))
    write_reports(database, [report(2, plans=records)], 2005.0)
    assert [each.record for each in plans_of(database, job_id)] == list(reversed(records))
    assert [each.record for each in plans_of(database, job_id, limit=2)] == list(reversed(records))[:2]
    assert [each.record for each in plans_since(database, 1003.0)] == list(reversed(records))[:2]


def test_a_plan_of_an_unknown_offer_is_kept_with_it(database: Database, job_id: int) -> None:
    """The database was restored: the offer is gone, the master has its id."""
    write_reports(database, [report(2, plans=(plan("p1", "lost-offer"),))], 2005.0)
    [stored] = plans_of(database, job_id)
    assert (stored.offer, stored.record) == ("lost-offer", plan("p1", "lost-offer"))
    write_reports(database, [report(3, plans=(plan("p1", "lost-offer", judgement="fine"),))], 2006.0)
    assert len(plans_of(database, job_id)) == 1


def test_a_job_cannot_claim_the_offer_of_another(database: Database, job_id: int) -> None:
    store_offer(database, identity(), OFFER, 1090.0, 1390.0)
    thief = identity("thief")
    write_reports(database, [report(1, job=thief, plans=(plan("p1", "offer-1"),))], 2005.0)
    assert len(open_offers(database, 1100.0, identity())) == 1
    [own] = plans_of(database, job(database, "team", "thief").id)
    assert own.offer == ""


def test_two_plans_of_one_offer_are_both_kept(database: Database, job_id: int) -> None:
    store_offer(database, identity(), OFFER, 1090.0, 1390.0)
    write_reports(database, [report(2, plans=(plan("p1", "offer-1"), plan("p2", "offer-1")))], 2005.0)
    found = {each.record.id: each.offer for each in plans_of(database, job_id) if each.record is not None}
    assert found == {"p1": "offer-1", "p2": ""}


def test_an_offer_that_nothing_came_of_is_closed(database: Database, job_id: int) -> None:
    store_offer(database, identity(), OFFER, 1090.0, 1390.0)
    assert close_offer(database, "offer-1", "replaced by a newer one")
    assert open_offers(database, 1100.0) == ()
    [stored] = plans_of(database, job_id)
    assert (stored.closed, stored.is_open) == ("replaced by a newer one", False)


def test_a_proposal_without_a_prediction_and_with_everything_else(database: Database, job_id: int) -> None:
    made = Proposal("hot_ps", "", TWO, None, ("ps-1",), {"w": 2}, {"ps-0": 0.25}, True, True, True)
    store_offer(database, identity(), Offer("o", made, 0, 1.0), 1.0, 2.0)
    assert plans_of(database, job_id)[0].proposal == made


def test_an_offer_for_an_unknown_job_is_an_error(database: Database) -> None:
    with pytest.raises(NotFound):
        store_offer(database, identity("nobody"), OFFER, 1.0, 2.0)


def test_events_and_runs_of_algorithms_are_kept(database: Database, job_id: int) -> None:
    raised = StoredEvent("event-1", identity(), "slow", "rate fell by half", 1000.0)
    store_event(database, raised)
    store_event(database, replace(raised, reason="another"))
    assert events_of(database, job_id) == (raised,)
    end_event(database, "event-1", "offered", 1002.0)
    end_event(database, "event-1", "too late", 1009.0)
    assert events_of(database, job_id) == (replace(raised, ended_at=1002.0, outcome="offered"),)
    runs = [AlgorithmRun(identity(), "event-1", name, 1001.0, 0.25, "nothing", "no fit") for name in ("a", "b")]
    for run in runs:
        store_run(database, run)
    assert runs_of(database, job_id) == (runs[1], runs[0])
    assert runs_of(database, job_id, limit=1) == (runs[1],)
