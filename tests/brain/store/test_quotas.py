"""Quotas, what is used of them, and grants; clusters with their machines."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.brain.store.reporting import DESCRIPTION, FOUR, identity, node, node_sample, report

from pliant.brain.store.cluster import (
    Machine,
    ObservedNode,
    StoredCluster,
    free_room,
    list_clusters,
    machines_of,
    observe,
    observed_nodes_of,
)
from pliant.brain.store.database import Database
from pliant.brain.store.quotas import (
    QuotaUse,
    StoredQuota,
    last_grants,
    list_quotas,
    remove_quota,
    set_quota,
    store_grant,
    use_by_quota,
)
from pliant.brain.store.reports import write_reports
from pliant.core.errors import InvalidRequest, NotFound
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.history import Room

MANUAL = replace(DESCRIPTION, mode="manual", quota="speech")


def seen(name: str, job: str, phase: str = "Running", cpu: float = 3.0) -> ObservedNode:
    return ObservedNode("team", job, name, "worker", phase, "m1", cpu, 1000.0, 2, 0.5, 400.0)


def test_a_quota_is_set_changed_listed_and_removed(database: Database) -> None:
    set_quota(database, StoredQuota("vision", 16.0, 65536.0, 8, 10, 2.0), 1.0)
    set_quota(database, StoredQuota("Vision"), 1.0)
    set_quota(database, StoredQuota("vision", 32.0), 2.0)
    assert sorted(list_quotas(database), key=lambda quota: quota.name) == [
        StoredQuota("Vision"),
        StoredQuota("vision", 32.0),
    ]
    assert remove_quota(database, "vision")
    assert not remove_quota(database, "vision")
    with pytest.raises(InvalidRequest):
        set_quota(database, StoredQuota(""), 1.0)


def test_use_counts_reported_nodes_and_observed_ones_of_manual_jobs(database: Database) -> None:
    ended = node("w2", ended_at=5.0)
    unlimited = node("w1", cpu=0.0)
    others = [
        report(1, job=identity("a"), nodes=(node("w0"), unlimited, ended)),
        report(1, job=identity("over"), phase="Succeeded", nodes=(node("w0"),)),
        report(1, job=identity("b"), description=MANUAL, nodes=(node("w0"),)),
        report(1, job=identity("c"), description=replace(DESCRIPTION, quota=""), nodes=(node("w0"),)),
    ]
    write_reports(database, others, 2000.0)
    nodes = [seen("b-0", "b"), seen("b-1", "b", "Pending", 0.0), seen("b-2", "b", "Succeeded"), seen("a-0", "a")]
    observe(database, "prod", [], nodes, time=1.0)
    assert use_by_quota(database) == {
        "vision": QuotaUse("vision", 3.0, 4096.0, 2, 2, 1),
        "speech": QuotaUse("speech", 4.0, 2000.0, 4, 2, 1),
        "": QuotaUse("", 2.0, 2048.0, 1, 1, 1),
    }
    set_quota(database, StoredQuota("vision", 16.0), 1.0)
    set_quota(database, StoredQuota("unused", 1.0), 1.0)
    with database.reading() as connection:
        rows = {row.quota: row for row in connection.execute(text("SELECT * FROM v_quota_use"))}
    assert (rows["vision"].cpu_limit, rows["vision"].cpu, rows["vision"].nodes, rows["vision"].jobs) == (
        16.0,
        3.0,
        2,
        1,
    )
    assert (rows["unused"].cpu, rows["unused"].nodes) == (0, 0)


def test_the_last_grant_of_each_job_that_runs(database: Database) -> None:
    write_reports(database, [report(1, job=identity(name)) for name in ("a", "b", "c")], 2000.0)
    first, second = Grant("a", 1, FOUR, "all of it", 30.0), Grant("a", 2, None, "nothing is left")
    store_grant(database, identity("a"), second, 11.0)
    store_grant(database, identity("a"), first, 10.0)
    store_grant(database, identity("a"), replace(first, reason="another"), 12.0)  # what a job was told stays
    store_grant(database, identity("b"), Grant("b", 7, None, "no quota", is_unlimited=True), 10.0)
    store_grant(database, identity("c"), Grant("c", 1, FOUR, "it"), 10.0)
    write_reports(database, [report(2, job=identity("c"), phase="Failed")], 2001.0)
    assert last_grants(database) == {
        identity("a"): second,
        identity("b"): Grant("b", 7, None, "no quota", is_unlimited=True),
    }


def test_an_observation_replaces_the_one_before(database: Database) -> None:
    machines = [
        Machine("m1", 8.0, 1e4, 2, 3.0, 4e3, 1, 2.5, 3e3),
        Machine("m2", 8.0, 1e4, free_cpu=6.0, free_memory_mb=1e3),
    ]
    nodes = [seen("n1", "a"), seen("n2", "b")]
    assert observe(database, "prod", machines, nodes, time=100.0, monitor="kubernetes on m1")
    assert observe(database, "lab", [Machine("m1", 1.0, 1.0)], [], time=100.0)
    assert machines_of(database, "prod") == tuple(machines)
    assert observed_nodes_of(database, "prod") == tuple(nodes)
    assert free_room(database, "prod") == Room(9.0, 5e3, 6.0, 1e3)
    away = replace(machines[1], is_ready=False)
    assert observe(database, "prod", [machines[0], away], nodes[:1], time=105.0)
    assert free_room(database, "prod") == Room(3.0, 4e3, 3.0, 4e3)
    assert observed_nodes_of(database, "prod") == (nodes[0],)
    assert not observe(database, "prod", [], [], time=104.0)  # it was on its way for longer
    assert len(machines_of(database, "prod")) == 2
    assert list_clusters(database) == (StoredCluster("lab", "", 100.0), StoredCluster("prod", "", 105.0))
    with database.reading() as connection:
        rows = connection.execute(text("SELECT machine, nodes FROM v_machines WHERE cluster = 'prod' ORDER BY machine"))
        assert [tuple(row) for row in rows] == [("m1", 1), ("m2", 0)]


def test_room_of_a_cluster_that_nobody_observed_is_an_error(database: Database) -> None:
    with pytest.raises(NotFound):
        free_room(database, "prod")
    observe(database, "prod", [], [], time=1.0)
    assert free_room(database, "prod") == Room(0.0, 0.0)


def test_views_for_people_show_jobs_and_use_of_nodes(database: Database) -> None:
    now = time.time()
    samples = (node_sample("w0", now - 60), node_sample("w0", now - 30), node_sample("w0", now - 9000))
    write_reports(database, [report(1, 40, nodes=(node("w0"),), samples=samples)], now)
    with database.reading() as connection:
        row = connection.execute(text("SELECT * FROM v_jobs")).one()
        assert (row.namespace, row.name, row.owner, row.records, row.plans) == ("team", "resnet-1", "ann", 40, 0)
        use = connection.execute(text("SELECT * FROM v_node_usage")).one()
        assert (use.job, use.node, use.samples, use.cpu, use.memory_peak_mb) == ("resnet-1", "w0", 2, 1.5, 512.25)
