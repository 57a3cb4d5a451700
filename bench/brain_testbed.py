"""A Brain to measure: ``pliant brain serve`` over a PostgreSQL of its own with ``fsync`` on, and meters for both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from pliant.brain.store.database import Database
from pliant.core.errors import PliantError
from pliant.files.atomic import read_json
from pliant.rpc.brain.access import WHERE

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_S = 120.0
_WRITTEN = """
    SELECT tup_inserted + tup_updated + tup_deleted, pg_current_wal_lsn() - '0/0'::pg_lsn, xact_commit
    FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True)
class Testbed:
    folder: Path
    database: Database
    brain_pid: int
    server_pid: int

    def meter(self) -> Meter:
        with self.database.reading() as connection:
            rows, wal, commits = connection.execute(text(_WRITTEN)).one()
        cpu = (cpu_seconds(self.brain_pid), cpu_seconds(self.server_pid))
        return Meter(time.monotonic(), *cpu, int(rows), int(wal), int(commits))

    def ask(self, query: str, **values: Any) -> Any:
        with self.database.reading() as connection:
            return connection.scalar(text(query), values)


@dataclass(frozen=True)
class Meter:
    at: float
    brain_cpu_s: float  # with the processes of algorithms
    server_cpu_s: float  # of all processes of PostgreSQL
    rows: int
    wal_bytes: int
    commits: int

    def since(self, before: Meter) -> dict[str, float]:
        seconds = self.at - before.at
        return {
            "brain_cores": (self.brain_cpu_s - before.brain_cpu_s) / seconds,
            "postgresql_cores": (self.server_cpu_s - before.server_cpu_s) / seconds,
            "rows_per_s": (self.rows - before.rows) / seconds,
            "wal_bytes_per_s": (self.wal_bytes - before.wal_bytes) / seconds,
            "commits_per_s": (self.commits - before.commits) / seconds,
        }


def cpu_seconds(pid: int) -> float:
    """Of a process, those that it started, and those of them that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    own = sum(int(value) for value in fields[11:15]) / TICKS_PER_S  # user, system, and both of children that ended
    return own + sum(cpu_seconds(int(child)) for child in children)


@contextmanager
def durable_database(family: str) -> Iterator[str]:
    """The URL of an empty one. Raises ``RuntimeError`` if there is no such server here."""
    with database_server(family) as (url, _):
        yield url


@contextmanager
def database_server(family: str) -> Iterator[tuple[str, int]]:
    from tools.databases.servers import make_server, missing

    if family == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/own/brain.db", 0
        return
    if reason := missing(family):
        raise RuntimeError(reason)
    server = make_server(family, is_durable=True)
    try:
        server.start()
        assert server.process is not None
        system = Database(server.url("postgres"))
        with system.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("CREATE DATABASE brain"))
        system.close()
        yield server.url("brain"), server.process.pid
    finally:
        server.stop()


@contextmanager
def testbed() -> Iterator[Testbed]:
    with tempfile.TemporaryDirectory(prefix="pliant-bench-brain-") as made, database_server("postgresql") as found:
        url, server = found
        folder = Path(made) / "brain"
        command = [sys.executable, "-m", "pliant.cli", "brain", "serve", "--dir", str(folder), "--database", url]
        with (Path(made) / "log").open("ab") as log:
            brain = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        database = Database(url)
        try:
            _wait_until_serving(brain, folder, Path(made) / "log")
            yield Testbed(folder, database, brain.pid, server)
        finally:
            database.close()
            brain.send_signal(signal.SIGTERM)
            try:
                brain.wait(30)
            except subprocess.TimeoutExpired:
                brain.kill()
                brain.wait()


def _wait_until_serving(brain: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        if brain.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the Brain does not serve:\n{log.read_text()[-3000:]}")
        try:
            where = read_json(folder / WHERE)
        except (OSError, PliantError):
            where = None
        if where is not None and where["pid"] == brain.pid:
            return
        time.sleep(0.05)
