"""The size of a simulated day of one job in the Brain's database: as it was reported, rolled up into minutes, and into hours.

Reports are those that a master of ten nodes sends: a sample of the job and of each node, the open period, and the history that it
plans by, which differs each time. *Compacted* is what is left when the database gives free space back (``VACUUM FULL``,
``VACUUM``): without it, a database keeps the space for what comes next.
"""

from __future__ import annotations

import random
import time
from typing import Any

from brain_testbed import durable_database
from sqlalchemy import text

from pliant.brain.store.database import Database
from pliant.brain.store.migrating import migrate
from pliant.brain.store.reports import write_reports
from pliant.brain.store.retention import Retention, roll_up
from pliant.core.planning.cluster.report import (
    JobDescription,
    JobIdentity,
    JobReport,
    JobSample,
    NodeFacts,
    NodeSample,
    NumberedPeriod,
    PlannerFacts,
)
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, NodeView, Period, StepParts
from pliant.core.planning.past_jobs import Fingerprint

INTERVAL_S = 5.0
DAY_REPORTS = round(86_400 / INTERVAL_S)
NODES = 10
BATCH = 20  # reports of one transaction
BEGAN = 1_700_000_000.0
CONFIGURATION = Configuration(Shape(NODES, 1.0, 4096))
NAMES = [f"worker-{number}" for number in range(NODES)]
_SIZES = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
}


def measure_size(family: str, reports: int = DAY_REPORTS) -> dict[str, Any]:
    random.seed(1)
    with durable_database(family) as url:
        database = Database(url)
        try:
            migrate(database)
            empty = compacted(database)
            began = time.perf_counter()
            for first in range(1, reports + 1, BATCH):
                some = [report(number) for number in range(first, min(first + BATCH, reports + 1))]
                write_reports(database, some, some[-1].time)
            written = time.perf_counter() - began
            end, keep = BEGAN + reports * INTERVAL_S, Retention()
            found: dict[str, Any] = {"family": family, "reports": reports, "reports_per_s": reports / written}
            found["raw_bytes"] = size(database) - empty
            found["raw_compact_bytes"] = compacted(database) - empty
            began = time.perf_counter()
            roll_up(database, end + keep.raw_s + 120, keep)
            found["roll_up_s"] = time.perf_counter() - began
            found["minutes_bytes"] = size(database) - empty
            found["minutes_compact_bytes"] = compacted(database) - empty
            roll_up(database, end + keep.minutes_s + 7200, Retention(silent_s=1e9))
            found["hours_compact_bytes"] = compacted(database) - empty
            return found
        finally:
            database.close()


def size(database: Database) -> int:
    if database.family == "sqlite":
        _alone(database, "PRAGMA wal_checkpoint(TRUNCATE)")
    with database.reading() as connection:
        return int(connection.scalar(text(_SIZES[database.family])) or 0)


def compacted(database: Database) -> int:
    _alone(database, "VACUUM" if database.family == "sqlite" else "VACUUM FULL")
    return size(database)


def _alone(database: Database, command: str) -> None:
    """Outside of any transaction."""
    with database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        if database.family == "postgresql":
            driver.rollback()
            driver.autocommit = True
        try:
            driver.execute(command)
        finally:
            if database.family == "postgresql":
                driver.autocommit = False


def report(sequence: int) -> JobReport:
    now, records = BEGAN + INTERVAL_S * sequence + random.random(), 5000 * sequence
    is_first = sequence == 1
    mark = Fingerprint("queue", "command", "train.py", "day")
    points = tuple((float(5000 * at), 900.0 + at) for at in range(min(sequence, 32)))
    views = tuple(
        NodeView(
            name,
            "worker",
            cpu=random.uniform(0.7, 0.9),
            cpu_p95=0.95,
            cpu_limit=1.0,
            throttled=random.uniform(0, 0.02),
            memory_mb=random.uniform(900, 1000),
            memory_peak_mb=1000.0,
            memory_limit_mb=4096.0,
            memory_points=points,
            records_per_second=random.uniform(95, 105),
            age_s=INTERVAL_S * sequence,
            host="host",
        )
        for name in NAMES
    )
    history = JobHistory(JobKind.QUEUE, CONFIGURATION, Bounds(RoleBounds(2, 20)), started=BEGAN, nodes=views)
    hour = int((now - BEGAN) // 3600)  # periods are closed and begun anew
    period = Period(CONFIGURATION, BEGAN + 3600 * hour, now, 1000.0, 5.0, sequence % 720 + 2, StepParts(0.1, 0.7, 0.2))
    return JobReport(
        JobIdentity("bench", "day", "uid"),
        1,
        sequence,
        now,
        "Running",
        JobSample(now, records, sequence, random.uniform(950, 1050), NODES, 0),
        JobDescription("ann", "", 0, False, "cluster", "local", (), mark) if is_first else None,
        tuple(NodeFacts(name, "worker", "Running", 1.0, 4096, 0, "host", BEGAN, BEGAN, 0.0, "") for name in NAMES)
        if is_first
        else (),
        tuple(
            NodeSample(name, now, random.uniform(0.7, 0.9), 0.01, random.uniform(900, 1000), records // NODES)
            for name in NAMES
        ),
        (NumberedPeriod(hour + 1, period),),
        (),
        history,
        planner=PlannerFacts("observing", is_led=True),
    )
