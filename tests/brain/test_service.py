"""The Brain's calls, as masters and monitors make them: a real server, a real database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.brain.store.reporting import DESCRIPTION, HISTORY, TAUGHT, node, plan

from pliant.brain.store import jobs, leases, plans
from pliant.brain.store.database import Database
from pliant.brain.store.quotas import StoredQuota, set_quota
from pliant.core.errors import BrainUnavailable, Conflict, InvalidRequest, Unauthenticated
from pliant.core.planning.cluster.offer import BrainMessage, Grant, NothingToDo, Offer
from pliant.core.planning.cluster.report import JobIdentity, JobReport, JobSample, PlannerFacts
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind
from pliant.rpc import brain_pb2 as bp
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.channel import AsyncBrainClient, BrainClient
from pliant.rpc.brain.identity import PROTOCOL
from pliant.rpc.brain.messages import brain_message_from, identity_message, report_message
from pliant.testing.brain import RunningBrain
from pliant.testing.waiting import MAX_WAIT_S, wait_until

JOB = JobIdentity("local", "train", "uid-1")
LOCAL = replace(DESCRIPTION, platform="local", quota="", algorithms=())
LED = PlannerFacts("observing", is_led=True)
NEW = replace(HISTORY, kind=JobKind.QUEUE, virtual_workers=0, started=0.0)


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RunningBrain]:
    with RunningBrain(tmp_path / "brain") as found:
        yield found


def report(sequence: int = 1, records: int = 0, job: JobIdentity = JOB, **others: Any) -> JobReport:
    now = time.time()
    made = JobReport(
        job,
        1,
        sequence,
        now,
        "Running",
        JobSample(now, records, 0, 1.0, 2, 0),
        LOCAL if sequence == 1 else None,
        history=NEW if sequence == 1 else None,
        planner=PlannerFacts("observing"),
    )
    return replace(made, **others)


def send(access: BrainAccess, made: JobReport, **others: Any) -> bp.ReportReply:
    client = BrainClient(access)
    message = report_message(made)
    for name, value in others.items():
        setattr(message, name, value)
    try:
        reply: bp.ReportReply = client.call(client.stubs.planning.Report, message, timeout=MAX_WAIT_S)
        return reply
    finally:
        client.close()


def hear(
    access: BrainAccess,
    job: JobIdentity,
    count: int,
    while_open: Callable[[], object] = lambda: None,
    until: Callable[[BrainMessage], bool] | None = None,
) -> list[BrainMessage]:
    """The first messages of the stream, or all up to one of which ``until`` holds; ``while_open`` runs in a thread meanwhile."""

    async def main() -> list[BrainMessage]:
        client = AsyncBrainClient(access)
        request = bp.FollowRequest(protocol=PROTOCOL, job=identity_message(job))
        found: list[BrainMessage] = []
        doing = asyncio.create_task(asyncio.to_thread(while_open))
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                async for message in client.stream(client.stubs.planning.Follow, request):
                    made = brain_message_from(message)
                    assert made is not None
                    found.append(made)
                    if until(made) if until is not None else len(found) == count:
                        return found
            return found
        finally:
            await doing
            await client.close()

    return asyncio.run(main())


def database(brain: RunningBrain) -> Database:
    return Database(brain.settings.url)


def test_a_report_is_in_the_database_when_it_is_answered_and_counts_once(brain: RunningBrain) -> None:
    access = brain.access("train")
    first, second = report(records=10), report(2, records=25)
    assert (send(access, first).session, send(access, second).sequence) == (1, 2)
    assert send(access, second).sequence == 2, "sent again"
    [stored] = jobs.running_jobs(database(brain))
    assert (stored.identity, stored.sample.records) == (JOB, 25)
    with database(brain).reading() as connection:
        assert connection.scalar(text("SELECT sum(accepted) FROM job_samples")) == 25


def test_a_job_speaks_only_for_itself(brain: RunningBrain) -> None:
    other = JobIdentity("local", "other", "uid-2")
    with pytest.raises(Unauthenticated, match="not that of job local/other"):
        send(brain.access("train"), report(job=other))
    with pytest.raises(Unauthenticated):
        send(brain.access(), report())
    with pytest.raises(Unauthenticated):
        send(replace(brain.access("train"), token="0" * 64), report())
    with pytest.raises(Unauthenticated):
        hear(brain.access("train"), other, 1)
    client = BrainClient(brain.access("train"))
    with pytest.raises(Unauthenticated, match="token of the cluster"):
        client.call(client.stubs.clusters.Observe, bp.ObserveRequest(protocol=PROTOCOL, cluster="c"))
    client.close()
    assert jobs.running_jobs(database(brain)) == ()


def test_another_version_of_the_protocol_is_refused_and_nothing_of_it_is_kept(brain: RunningBrain) -> None:
    with pytest.raises(InvalidRequest, match="version 2 of the protocol"):
        send(brain.access("train"), report(), protocol=2)
    assert jobs.running_jobs(database(brain)) == ()


def test_a_wrong_clock_is_refused(brain: RunningBrain) -> None:
    with pytest.raises(InvalidRequest, match="clock"):
        send(brain.access("train"), report(time=time.time() + 86_400))
    assert jobs.running_jobs(database(brain)) == ()


def test_a_new_job_hears_its_grant_and_how_to_begin(brain: RunningBrain) -> None:
    access = brain.access("train")
    found = hear(access, JOB, 2, lambda: send(access, report()))
    contents = {type(message.content) for message in found}
    assert contents == {Grant, Offer}
    [offer] = [message.content for message in found if isinstance(message.content, Offer)]
    assert offer.proposal.algorithm == "create_from_history"
    assert offer.base_version == NEW.version
    assert {message.term for message in found} == {brain.server.term}


def test_what_holds_is_sent_again_to_a_master_that_comes_back(brain: RunningBrain) -> None:
    access = brain.access("train")
    first = hear(access, JOB, 2, lambda: send(access, report()))
    again = hear(access, JOB, 2)
    ids = {message.content.id for message in (*first, *again) if isinstance(message.content, Offer)}
    assert len(ids) == 1, "the same offer, by its id"


def test_a_job_like_an_earlier_one_of_the_cluster_begins_with_what_that_one_ended_with(brain: RunningBrain) -> None:
    earlier = JobIdentity("local", "earlier", "uid-0")
    other_user = brain.access("earlier")
    taught = replace(TAUGHT, configuration=Configuration(Shape(5)), ended=time.time())
    send(other_user, report(job=earlier))
    send(other_user, report(2, 100, job=earlier, phase="Succeeded", taught=taught))
    access = brain.access("train")
    found = hear(access, JOB, 2, lambda: send(access, report()))
    [offer] = [message.content for message in found if isinstance(message.content, Offer)]
    assert offer.proposal.configuration.worker.replicas == 5


def test_a_job_that_begins_with_what_it_desires_is_told_that_there_is_nothing_to_do(brain: RunningBrain) -> None:
    access = brain.access("train")
    fixed = replace(NEW, bounds=Bounds(RoleBounds(2, 2, max_cpu=1.0, max_memory_mb=1024)))
    found = hear(access, JOB, 2, lambda: send(access, report(history=fixed)))
    assert {type(message.content) for message in found} == {Grant, NothingToDo}


def test_the_outcome_of_an_offer_is_kept_with_it(brain: RunningBrain) -> None:
    access = brain.access("train")
    found = hear(access, JOB, 2, lambda: send(access, report()))
    [offer] = [message.content for message in found if isinstance(message.content, Offer)]
    record = replace(plan("auto-1", origin=offer.id), proposal=offer.proposal)
    send(access, report(2, 5, plans=(record,)))
    [stored] = jobs.running_jobs(database(brain))
    [kept] = plans.plans_of(database(brain), stored.id)
    assert kept.offer == offer.id
    assert kept.record is not None
    assert kept.record.id == "auto-1"


def test_two_jobs_of_a_quota_never_hold_more_than_it(brain: RunningBrain) -> None:
    set_quota(database(brain), StoredQuota("team", nodes=4), time.time())
    one, two = JobIdentity("local", "one", "u1"), JobIdentity("local", "two", "u2")
    shared = replace(LOCAL, quota="team")
    wide = JobHistory(JobKind.QUEUE, Configuration(Shape(4)), Bounds(RoleBounds(1, 8)), version=1)
    first = hear(
        brain.access("one"),
        one,
        1,
        lambda: send(brain.access("one"), report(job=one, description=shared, history=wide)),
    )
    [grant] = [message.content for message in first if isinstance(message.content, Grant)]
    assert grant.limit is not None
    assert grant.limit.nodes == 4, "it is alone"
    running = tuple(node(f"worker-{n}", cpu=0.0, memory_mb=0, gpu=0) for n in range(4))
    send(brain.access("one"), report(2, job=one, nodes=running, granted=grant.number, granted_limit=grant.limit))

    def arrive() -> None:
        send(brain.access("two"), report(job=two, description=shared, history=wide))

    def is_later(message: BrainMessage) -> bool:
        return isinstance(message.content, Grant) and message.content.number > grant.number

    less = hear(brain.access("one"), one, 0, arrive, until=is_later)[-1].content
    assert isinstance(less, Grant)
    assert less.limit is not None
    assert less.limit.nodes < 4
    waiting = hear(brain.access("two"), two, 1)[0].content
    assert not isinstance(waiting, Grant) or waiting.limit is None, "the other one has not confirmed that it has less"

    def confirm() -> None:
        assert less.limit is not None
        gone = tuple(replace(each, state="Deleted") for each in running[less.limit.nodes :])
        send(brain.access("one"), report(3, job=one, nodes=gone, granted=less.number, granted_limit=less.limit))

    def is_granted(message: BrainMessage) -> bool:
        return isinstance(message.content, Grant) and message.content.limit is not None

    more = hear(brain.access("two"), two, 0, confirm, until=is_granted)[-1].content
    assert isinstance(more, Grant)
    assert more.limit is not None
    assert more.limit.nodes + less.limit.nodes <= 4


def test_a_report_of_a_job_that_was_made_anew_ends_the_former_one(brain: RunningBrain) -> None:
    access = brain.access("train")
    send(access, report())
    anew = replace(JOB, uid="uid-2")
    send(access, report(job=anew))
    with pytest.raises(Conflict, match="replaced"):
        send(access, report(2))


def test_a_brain_that_is_stopped_hands_over_at_once_with_a_later_term(tmp_path: Path) -> None:
    folder = tmp_path / "brain"
    with RunningBrain(folder) as first:
        term = first.server.term
        send(first.access("train"), report(records=7))
        second = RunningBrain(folder)
        second.start(waits=False)
        try:
            with suppress(BrainUnavailable):
                assert send(first.access("train"), report(2, records=8)).term == term, "one is active at a time"
            first.stop()
            wait_until(lambda: second.is_active, what="the other Brain")
            assert second.server.term > term
            assert send(second.access("train"), report(3, records=9)).sequence == 3
            [stored] = jobs.running_jobs(database(second))
            assert stored.sample.records == 9
        finally:
            second.stop()


def test_a_database_that_was_restored_gets_a_later_term_than_anyone_has_heard_of(brain: RunningBrain) -> None:
    access = brain.access("train")
    send(access, report())
    with suppress(BrainUnavailable):
        send(access, report(2), term=41)

    def later() -> bool:
        try:
            return bool(send(access, report(3), term=41).term > 41)
        except BrainUnavailable:
            return False

    wait_until(later, what="a later term")
    found = leases.current(database(brain))
    assert found is not None
    assert found.term > 41


def test_reports_that_are_lost_are_noticed(brain: RunningBrain) -> None:
    access = brain.access("train")
    send(access, report())
    send(access, report(4, records=40))
    [stored] = jobs.running_jobs(database(brain))
    assert stored.reports_lost == 2


def test_nonsense_is_refused(brain: RunningBrain) -> None:
    access = brain.access("train")
    bad = report_message(report())
    bad.sample.rate = float("nan")
    client = BrainClient(access)
    try:
        with pytest.raises(InvalidRequest):
            client.call(client.stubs.planning.Report, bad)
        bad = report_message(report())
        bad.history = b"[1, 2"
        with pytest.raises(InvalidRequest):
            client.call(client.stubs.planning.Report, bad)
    finally:
        client.close()
