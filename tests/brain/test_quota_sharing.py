"""Who is granted what, as reports come in and quotas are changed under them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tests.brain.store.reporting import DESCRIPTION, HISTORY, node

from pliant.brain.job_view import JobView
from pliant.brain.quota_sharing import QuotaSharing
from pliant.brain.store.quotas import StoredQuota
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.cluster.report import JobIdentity, JobReport, JobSample, PlannerFacts
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape

TEAM = replace(DESCRIPTION, quota="team", is_preemptible=False, priority=0)
SHAPE = Shape(1, 2.0, 2048, 1)  # of a node
EIGHT = (StoredQuota("team", nodes=8),)


def job(name: str, *, mode: str = "cluster", **others: object) -> JobView:
    described = replace(TEAM, mode=mode, **others)  # type: ignore[arg-type]
    return JobView(JobIdentity("team", name, "u"), described, 1.0)


def of(replicas: int) -> Configuration:
    return Configuration(replace(SHAPE, replicas=replicas))


def report(view: JobView, nodes: int, bounds: tuple[int, int], granted: Grant | None = None) -> None:
    """What its master would say; of a manual job, that it plans nothing."""
    is_manual = view.description.mode == "manual"
    now = [node(f"{view.identity.name}-{number}") for number in range(nodes)]
    gone = [replace(one, state="Deleted") for one in view.nodes.values() if one not in now]
    history = replace(HISTORY, configuration=of(max(nodes, bounds[0])), bounds=Bounds(RoleBounds(*bounds)))
    made = JobReport(
        *(view.identity, 1, view.sequence + 1, 1.0, "Running", JobSample(1.0, 0, 0, 1.0, nodes, 0)),
        nodes=(*now, *gone),
        history=None if is_manual else history,
        planner=PlannerFacts("") if is_manual else PlannerFacts("observing", is_led=True),
        granted=granted.number if granted is not None else 0,
        granted_limit=granted.limit if granted is not None else None,
        is_unlimited=granted is not None and granted.is_unlimited,
    )
    view.take(made, 1.0)


def share(
    sharing: QuotaSharing, views: Sequence[JobView], quotas: Sequence[StoredQuota] = EIGHT, now: float = 10.0
) -> dict[str, Grant]:
    """The grants that are sent, by the name of the job."""
    for view in views:
        sharing.reported(now, view)
    made = asyncio.run(sharing.share(now, quotas, views))
    for view, grant in made:
        sharing.sent(view, grant)
    return {view.identity.name: grant for view, grant in made}


def nodes_of(grant: Grant | None) -> int:
    return grant.limit.nodes if grant is not None and grant.limit is not None else 0


def test_what_a_manual_job_gives_up_is_free_for_others() -> None:
    sharing, manual, other = QuotaSharing(), job("manual", mode="manual"), job("other")
    report(manual, 6, (1, 8))
    report(other, 0, (4, 4))
    share(sharing, [manual, other])
    assert nodes_of(sharing.grant_of(other)) == 0, "two are free"
    report(manual, 2, (1, 8))
    report(other, 0, (4, 4), sharing.grant_of(other))
    share(sharing, [manual, other])
    assert nodes_of(sharing.grant_of(other)) == 4


def test_what_a_manual_job_had_is_free_while_it_is_suspended() -> None:
    sharing, manual, other = QuotaSharing(), job("manual", mode="manual"), job("other")
    report(manual, 8, (1, 8))
    report(other, 0, (8, 8))
    share(sharing, [manual, other])
    report(manual, 0, (1, 8))
    report(other, 0, (8, 8), sharing.grant_of(other))
    share(sharing, [manual, other])
    assert nodes_of(sharing.grant_of(other)) == 8


def test_a_job_hears_that_its_quota_was_removed_before_it_has_told_of_its_last_grant() -> None:
    sharing, view = QuotaSharing(), job("one")
    report(view, 2, (1, 8))
    first = share(sharing, [view])["one"]
    report(view, 2, (1, 8), first)
    second = share(sharing, [view], [StoredQuota("team", nodes=1)])["one"]  # on its way
    removed = share(sharing, [view], [])["one"]
    assert removed.is_unlimited
    assert removed.number > second.number


def test_a_preemptible_job_that_had_no_limit_is_suspended_by_a_quota_that_is_set_again() -> None:
    sharing, view = QuotaSharing(), job("one", is_preemptible=True)
    report(view, 4, (4, 4))
    report(view, 4, (4, 4), share(sharing, [view])["one"])
    unlimited = share(sharing, [view], [])["one"]
    report(view, 4, (4, 4), unlimited)
    told = share(sharing, [view], [StoredQuota("team", nodes=2)])["one"]
    assert told.limit is None
    assert not told.is_unlimited
    assert told.number > unlimited.number


def test_a_brain_that_takes_over_changes_no_grant_of_a_job_that_it_has_not_heard_yet() -> None:
    view = job("one")
    granted = Grant(view.key, 5, of(8), "")
    report(view, 4, (1, 8), granted)  # it grows
    view.planner = PlannerFacts("")
    sharing = QuotaSharing()
    sharing.restore(10.0, EIGHT, [view])
    told = share(sharing, [view])
    assert all(grant.number == 5 and grant.limit == of(8) for grant in told.values())


def test_a_brain_that_takes_over_numbers_grants_after_those_that_masters_have_not_told_of() -> None:
    view = job("one")
    report(view, 4, (1, 8), Grant(view.key, 4, of(8), ""))
    told = view.granted
    view.granted = Grant(view.key, 5, of(4), "")  # as the database has it
    sharing = QuotaSharing()
    sharing.restore(10.0, EIGHT, [view])
    report(view, 4, (1, 8), told)
    made = share(sharing, [view], [StoredQuota("team", nodes=2)])["one"]
    assert made.number > 5
