"""How many reports per second the Brain's database takes, and how much room they need.

    python bench/brain_store.py [--jobs 100] [--nodes 10] [--batch 20] [--rounds 20] [--json]

Each job reports a sample of itself and one of each node. Reports of several jobs are one transaction, as the service writes them;
the ratio is to the same reports written one by one, in the same run. PostgreSQL and MariaDB run on this machine as they are
shipped (``fsync`` on), and are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import finish, machine, say, table
from sqlalchemy import text

from pliant.brain.store.database import Database
from pliant.brain.store.migrating import migrate
from pliant.brain.store.reports import write_reports
from pliant.core.planning.cluster.report import JobDescription, JobIdentity, JobReport, JobSample, NodeFacts, NodeSample
from pliant.core.planning.past_jobs import Fingerprint

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
REPORT_EVERY_S = 5.0
REPORTS_PER_DAY = 86_400 / REPORT_EVERY_S
FAMILIES = ("sqlite", "postgresql", "mariadb")
_SIZES = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
    "mysql": "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20, help="reports of each job")
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="10 jobs, 3 reports of each, on SQLite")
    options = parser.parse_args()
    if options.quick:
        options.jobs, options.rounds, options.only = 10, 3, "sqlite"
    found: dict[str, Any] = {"machine": machine(), "options": vars(options)}
    rows = []
    for family in options.only.split(","):
        with opened(family) as database:
            if database is None:
                say(f"{family} is not installed: make databases-testbed")
                continue
            measured = found[family] = measure(database, options)
        rows.append(
            (
                family,
                f"{measured['reports_per_s']:,.0f}",
                f"{measured['ratio']:.1f}",
                f"{measured['bytes_per_report']:,.0f}",
                f"{measured['raw_mb_per_job_and_day']:.1f}",
                f"{measured['minutes_mb_per_job_and_day']:.2f}",
            )
        )
    title = f"{options.jobs} jobs x {options.nodes} nodes, batches of {options.batch}"
    heads = ("", "reports/s", "x one by one", "bytes/report", "MB/job and day, raw", "as minutes")
    table(title, heads, rows)
    finish(found, options.json)


def measure(database: Database, options: argparse.Namespace) -> dict[str, float]:
    jobs = [JobIdentity("bench", f"job-{number}", f"uid-{number}") for number in range(options.jobs)]
    for job in jobs:
        write_reports(database, [made(job, 1, options.nodes)], 0.0)
    before = size(database)
    begin = time.perf_counter()
    for sequence in range(2, options.rounds + 2):
        for at in range(0, len(jobs), options.batch):
            write_reports(database, [made(job, sequence, options.nodes) for job in jobs[at : at + options.batch]], 1.0)
    together = options.rounds * len(jobs) / (time.perf_counter() - begin)
    bytes_per_report = (size(database) - before) / (options.rounds * len(jobs))
    begin = time.perf_counter()
    few = jobs[: max(1, 200 // options.rounds)]
    for sequence in range(options.rounds + 2, 2 * options.rounds + 2):
        for job in few:
            write_reports(database, [made(job, sequence, options.nodes)], 1.0)
    single = options.rounds * len(few) / (time.perf_counter() - begin)
    day = bytes_per_report * REPORTS_PER_DAY / 1e6
    return {
        "reports_per_s": together,
        "one_by_one_per_s": single,
        "ratio": together / single,
        "bytes_per_report": bytes_per_report,
        "raw_mb_per_job_and_day": day,
        "minutes_mb_per_job_and_day": day * REPORT_EVERY_S / 60,
    }


def made(job: JobIdentity, sequence: int, nodes: int) -> JobReport:
    at = 1.7e9 + REPORT_EVERY_S * sequence + 0.123456
    names = [f"{job.name}-worker-{number}" for number in range(nodes)]
    first = sequence == 1
    return JobReport(
        job,
        1,
        sequence,
        at,
        "Running",
        JobSample(at, 1000 * sequence, sequence, 200.5, nodes, 0),
        JobDescription("ann", "vision", 0, False, "cluster", "kubernetes", (), Fingerprint("allreduce", "c", "p"))
        if first
        else None,
        tuple(NodeFacts(name, "worker", "Running", 2.0, 4096, 0, "host", at, at, 0.0, "") for name in names)
        if first
        else (),
        tuple(NodeSample(name, at, 1.75, 0.01, 2345.5, 100 * sequence) for name in names),
    )


def size(database: Database) -> float:
    if database.family == "sqlite":
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    with database.reading() as connection:
        if database.family == "mysql":
            connection.execute(text("ANALYZE TABLE node_samples, job_samples"))
        return float(connection.scalar(text(_SIZES[database.family])) or 0)


@contextmanager
def opened(family: str) -> Iterator[Database | None]:
    """Migrated; None: there is no such server here."""
    from tools.databases.servers import make_server, missing

    if family == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            database = Database(f"sqlite:///{folder}/own/brain.db")
            migrate(database)
            yield database
            database.close()
        return
    if missing(family):
        yield None
        return
    server = make_server(family, is_durable=True)
    try:
        server.start()
        system = Database(server.url("postgres" if family == "postgresql" else "mysql"))
        with system.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("CREATE DATABASE brain"))
        system.close()
        database = Database(server.url("brain"))
        migrate(database)
        yield database
        database.close()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
