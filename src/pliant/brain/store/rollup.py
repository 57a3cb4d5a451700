"""Old samples in less detail: raw ones become minutes, minutes become hours, and hours of a job become one sample that stands for
all earlier time. Those of nodes are deleted then.

Each transaction takes some samples of one job, or of a few nodes, and leaves a correct state: it can be the last one before a
crash, and it can run beside reports. ``accepted`` of a job's samples adds up to the job's records before and after. A sample that
comes late, for a time that was rolled up already, is added to it the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import floor
from typing import Any

from sqlalchemy import Connection, Table, delete, exists, select

from pliant.brain.store.database import Database
from pliant.brain.store.leases import check_term
from pliant.brain.store.resolutions import EARLIER
from pliant.brain.store.tables import job_samples, jobs, node_samples, nodes
from pliant.brain.store.upserts import upsert

SAMPLES_AT_A_TIME = 4000  # of one transaction
NODES_AT_A_TIME = 20

Row = dict[str, Any]


def roll_up_jobs(database: Database, resolution: int, into: int, before: float, term: int | None) -> int:
    """How many samples were rolled up: those of ``resolution`` that are older than ``before``."""
    total = 0
    for some in _with_samples(database, jobs, job_samples, resolution, before, 100):
        for job in some:
            take = partial(_job_portion, job=job, resolution=resolution, into=into, before=before, term=term)
            while done := database.transaction(take):
                total += done
    return total


def roll_up_nodes(database: Database, resolution: int, into: int | None, before: float, term: int | None) -> int:
    """``into`` None: they are deleted."""
    total = 0
    for some in _with_samples(database, nodes, node_samples, resolution, before, NODES_AT_A_TIME):
        take = partial(_node_portion, some=some, resolution=resolution, into=into, before=before, term=term)
        while done := database.transaction(take):
            total += done
    return total


def merged_job_sample(time: float, resolution: int, samples: Sequence[Row]) -> Row:
    """Of one job, oldest first."""
    return {
        **_merged(time, resolution, samples, "job_id", means=("rate", "running", "waiting")),
        "accepted": sum(sample["accepted"] for sample in samples),
        "step": samples[-1]["step"],
    }


def merged_node_sample(time: float, resolution: int, samples: Sequence[Row]) -> Row:
    return {
        **_merged(time, resolution, samples, "node_id", means=("cpu", "throttled")),
        "memory_mb": max(sample["memory_mb"] for sample in samples),
    }


def _merged(time: float, resolution: int, samples: Sequence[Row], owner: str, means: tuple[str, ...]) -> Row:
    weight = sum(sample["samples"] for sample in samples)
    return {
        owner: samples[0][owner],
        "resolution": resolution,
        "time": time,
        "records": samples[-1]["records"],
        "samples": weight,
        **{name: sum(sample[name] * sample["samples"] for sample in samples) / weight for name in means},
    }


def begin_of(time: float, resolution: int) -> float:
    """Of the minute or hour that has this time; all earlier time is one."""
    return 0.0 if resolution == EARLIER else float(floor(time / resolution) * resolution)


def _with_samples(
    database: Database, owners: Table, samples: Table, resolution: int, before: float, portion: int
) -> Iterator[list[int]]:
    """Ids of jobs, or nodes, that have such samples, some at a time."""
    owner = next(iter(samples.c))
    has_some = exists().where(owner == owners.c.id, samples.c.resolution == resolution, samples.c.time < before)
    last = 0
    while True:
        query = select(owners.c.id).where(owners.c.id > last, has_some).order_by(owners.c.id).limit(portion)
        with database.reading() as connection:
            found = list(connection.scalars(query))
        if not found:
            return
        yield found
        last = found[-1]


def _job_portion(connection: Connection, job: int, resolution: int, into: int, before: float, term: int | None) -> int:
    check_term(connection, term)
    # Reports take this lock too: no sample of the job is added between reading and deleting.
    connection.execute(select(jobs.c.id).where(jobs.c.id == job).with_for_update())
    return _replace(connection, job_samples, [job], resolution, into, before)


def _node_portion(
    connection: Connection, some: list[int], resolution: int, into: int | None, before: float, term: int | None
) -> int:
    check_term(connection, term)
    return _replace(connection, node_samples, some, resolution, into, before)


def _replace(
    connection: Connection, table: Table, owners: list[int], resolution: int, into: int | None, before: float
) -> int:
    """How many samples were replaced by fewer."""
    owner = next(iter(table.c))
    query = (
        select(table)
        .where(owner.in_(owners), table.c.resolution == resolution, table.c.time < before)
        .order_by(owner, table.c.time)
        .limit(SAMPLES_AT_A_TIME)
    )
    old = [dict(row) for row in connection.execute(query).mappings()]
    if not old:
        return 0
    if into is not None:
        _merge(connection, table, old, into)
    for each in {row[owner.name] for row in old}:
        of_owner = [row["time"] for row in old if row[owner.name] == each]
        span = (owner == each, table.c.resolution == resolution, table.c.time.between(of_owner[0], of_owner[-1]))
        connection.execute(delete(table).where(*span))
    return len(old)


def _merge(connection: Connection, table: Table, old: list[Row], into: int) -> None:
    owner = next(iter(table.c))
    merge = merged_job_sample if table is job_samples else merged_node_sample
    groups: dict[tuple[int, float], list[Row]] = {}
    for row in old:
        groups.setdefault((row[owner.name], begin_of(row["time"], into)), []).append(row)
    times = [time for _, time in groups]
    there = select(table).where(
        owner.in_({each for each, _ in groups}),
        table.c.resolution == into,
        table.c.time.between(min(times), max(times)),
    )
    for found in connection.execute(there).mappings():
        key = (found[owner.name], found["time"])
        if key in groups:
            groups[key].insert(0, dict(found))
    upsert(connection, table, [merge(time, into, rows) for (_, time), rows in groups.items()])
