"""What a decision costs: on this machine's disk (the default), and in the Brain's database over its service.

    python bench/journal.py [--quick] [--json] [--rounds N]

A decision is an operation and an event, and counts when ``Journal.durable`` returns: it survives a power failure. One caller waits
for each; sixteen callers share commits (group commit). The Brain is a process of its own on a Unix socket; PostgreSQL and MariaDB
are servers of this bench with their data on this disk and fsync on. All in turn, several times; shown are medians, and medians of
the ratios within a turn. A server that is not installed is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness import finish, machine, median, quantile, say, table, times

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import text
from tools.databases.servers import make_server as make_database_server
from tools.databases.servers import missing

from pliant.brain.callers import BrainBorder
from pliant.brain.journal_service import JournalsServicer
from pliant.brain.store import leases
from pliant.brain.store.database import Database
from pliant.brain.store.migrating import migrate
from pliant.core.clock import Clock
from pliant.core.events import TrainingStopped
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.shards.book import ShardBook
from pliant.master.clock import SystemClock
from pliant.master.journal.journal import Journal
from pliant.master.journal.local_copy import LocalCopy
from pliant.master.journal.replicated_store import ReplicatedStore
from pliant.master.journal.store import JournalStore, SqliteStore
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.identity import LOCAL_NAMESPACE, Caller, job_token
from pliant.rpc.server import make_server
from pliant.rpc.unix_socket import ServedSocket

CALLERS = (1, 16)
FILE, SQLITE, POSTGRESQL, MARIADB = "file", "sqlite", "postgresql", "mariadb"
TITLES = {
    FILE: "file on this disk (default)",
    SQLITE: "Brain, SQLite",
    POSTGRESQL: "Brain, PostgreSQL",
    MARIADB: "Brain, MariaDB",
}
TOKEN = "bench" * 10
JOB = JobIdentity(LOCAL_NAMESPACE, "bench", "bench")
SOCKET_NAME = "brain.sock"


# --- the Brain


async def serve(folder: Path, url: str) -> None:
    database = Database(url)
    migrate(database)
    lease = leases.acquire(database, leases.ACTIVE_BRAIN, "bench", 3600.0)
    assert lease is not None
    server = make_server(TOKEN, border=BrainBorder(TOKEN))
    services.add_JournalsServicer_to_server(JournalsServicer(database, lambda: lease.term, time.time), server)
    served = ServedSocket(folder, SOCKET_NAME)
    served.bind(server)
    await server.start()
    served.publish()
    print("serving", flush=True)
    await server.wait_for_termination()


@contextmanager
def brain(folder: Path, url: str) -> Iterator[BrainAccess]:
    folder.mkdir(mode=0o700)
    command = [sys.executable, __file__, "--serve", str(folder), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"serving\n"
            token = job_token(TOKEN, JOB.namespace, JOB.name)
            yield BrainAccess(f"unix:{folder / SOCKET_NAME}", token, Caller(JOB.namespace, JOB.name))
        finally:
            process.kill()


# --- measuring


async def decide(store: JournalStore, callers: int, seconds: float) -> dict[str, float]:
    recovered = store.load()
    book = ShardBook()
    clock: Clock = SystemClock()
    journal = Journal(store, clock, JobState(job=JobBook(), shards=book), last_event=recovered.last_event)
    commits = 0
    real = store.commit

    def counted(batch: Any) -> None:
        nonlocal commits
        commits += 1
        real(batch)

    store.commit = counted  # type: ignore[method-assign]
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def caller(number: int) -> None:
        session, at = f"s{number}", 0
        journal.do(book.open_session, session=session, node=f"n{number}", incarnation=0)
        await journal.durable()
        while time.perf_counter() < end:
            at += 1
            began = time.perf_counter()
            journal.do(book.exchange, session=session, request=at, dataset=None, want=0)
            journal.event(TrainingStopped(reason="a decision"))
            await journal.durable()
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(callers)))
    took = time.perf_counter() - began
    await journal.close()
    return {
        "decisions_per_s": len(latencies) / took,
        "commits_per_s": commits / took,
        "p50_ms": 1000 * median(latencies),
        "p99_ms": 1000 * quantile(latencies, 0.99),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one turn, a second each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", nargs=2, metavar=("FOLDER", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(Path(options.serve[0]), options.serve[1]))
        return
    rounds, seconds = (1, 1.0) if options.quick else (options.rounds, 3.0)
    found: dict[str, dict[int, list[dict[str, float]]]] = {}
    with ExitStack() as undo:
        folder = Path(
            undo.enter_context(tempfile.TemporaryDirectory(prefix="pliant-bench-", dir=os.environ.get("TMPDIR")))
        )
        ways: dict[str, BrainAccess | None] = {FILE: None}
        for name in (SQLITE, POSTGRESQL, MARIADB):
            url = f"sqlite:///{folder / 'database' / 'brain.db'}"
            if name != SQLITE:
                if reason := missing(name):
                    say(f"left out: {reason}")
                    continue
                url = _database(name, undo)
            ways[name] = undo.enter_context(brain(folder / f"brain-{name}", url))
        for turn in range(rounds):
            for name, access in ways.items():
                for callers in CALLERS:
                    say(f"turn {turn + 1} of {rounds}: {TITLES[name]}, {callers} callers")
                    path = folder / f"{name}-{turn}-{callers}.db"
                    job = JobIdentity(JOB.namespace, JOB.name, f"{turn}-{callers}")
                    store = SqliteStore(path) if access is None else ReplicatedStore(LocalCopy(path), access, job)
                    found.setdefault(name, {}).setdefault(callers, []).append(
                        asyncio.run(decide(store, callers, seconds))
                    )
    _show(found, as_json=options.json)


def _database(name: str, undo: ExitStack) -> str:
    server = make_database_server(name, is_durable=True)
    undo.callback(server.stop)
    server.start()
    system = Database(server.url("postgres" if name == POSTGRESQL else "mysql"))
    with system.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE pliant_bench"))
    system.close()
    return server.url("pliant_bench")


def _show(found: dict[str, dict[int, list[dict[str, float]]]], *, as_json: bool) -> None:
    rows, result = [], {}
    for name, by_callers in found.items():
        for callers, turns in by_callers.items():
            figures = {key: median([turn[key] for turn in turns]) for key in turns[0]}
            base = found[FILE][callers]
            ratio = median([a["p50_ms"] / b["p50_ms"] for a, b in zip(turns, base, strict=True)])
            slower = median([b["decisions_per_s"] / a["decisions_per_s"] for a, b in zip(turns, base, strict=True)])
            result[f"{name}/{callers}"] = {**figures, "p50_ratio": ratio, "decisions_ratio": slower}
            rows.append(
                (
                    TITLES[name],
                    str(callers),
                    f"{figures['decisions_per_s']:,.0f}",
                    f"{figures['commits_per_s']:,.0f}",
                    f"{figures['p50_ms']:.2f}",
                    f"{figures['p99_ms']:.2f}",
                    times(ratio, 1.0),
                )
            )
    head = ("journal", "callers", "decisions/s", "commits/s", "p50 ms", "p99 ms", "p50 against the file")
    table("what a durable decision costs", head, rows)
    finish({"machine": machine(), "journal": result}, as_json=as_json)


if __name__ == "__main__":
    main()
