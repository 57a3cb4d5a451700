"""Errors say what to do and never the password; a database that was away is used again."""

from __future__ import annotations

import importlib.util
import logging
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread

import pytest
from sqlalchemy import Connection, delete, insert, select, text
from tests.brain.store.reporting import identity, node, node_sample, report
from tests.databases import Databases, require
from tools.databases.servers import Server, make_server

from pliant.brain.store.database import Database
from pliant.brain.store.errors import DatabaseFault, DatabaseRefused, DatabaseUnavailable
from pliant.brain.store.jobs import running_jobs
from pliant.brain.store.migrating import check_schema, migrate
from pliant.brain.store.reports import write_reports
from pliant.brain.store.tables import job_samples, jobs, nodes
from pliant.core.errors import Conflict, InvalidRequest, PermanentError, PliantError, RetryableError
from pliant.testing.waiting import MAX_WAIT_S, wait_until

SECRET = "s3cr3t-word"


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "oracle://u:s3cr3t-word@h/d",
        "postgresql://u:s3cr3t-word@h",
        "postgresql://u:s3cr3t-word@h:port/d",
        "postgresql://u:begin@s3cr3t-word@h/d",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://host/file",
    ],
)
def test_a_url_that_cannot_be_used_is_explained(url: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        Database(url)
    assert raised.value.hint
    assert SECRET not in everything_said(raised.value)


@pytest.mark.parametrize(("url", "package"), [("postgresql://u@h/d", "psycopg"), ("mariadb://u@h/d", "pymysql")])
def test_a_missing_driver_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch, url: str, package: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(PermanentError, match=package) as raised:
        Database(url)
    assert raised.value.hint.startswith("pip install 'pliant[brain-")


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_an_unreachable_server_may_come_back(scheme: str) -> None:
    database = Database(
        f"{scheme}://ann:{SECRET}@127.0.0.1:1/brain?{'sslmode=disable' if scheme == 'postgresql' else ''}"
    )
    with pytest.raises(DatabaseUnavailable, match="does not answer") as raised:
        database.ping()
    assert isinstance(raised.value, RetryableError)
    assert SECRET not in everything_said(raised.value) + database.shown_url + repr(database)
    assert "***" in database.shown_url


@pytest.mark.parametrize("family", ["postgresql", "mariadb"], indirect=True)
def test_a_wrong_password_or_database_is_refused(
    databases: Databases, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with databases.migrated(family) as good:
        url = good.engine.url
        for wrong in (url.set(password=SECRET), url.set(username="nobody-" + SECRET[:0]), url.set(database="nothing")):
            database = Database(wrong.render_as_string(hide_password=False))
            with pytest.raises(DatabaseRefused, match="refused us") as raised:
                database.ping()
            database.close()
            assert SECRET not in everything_said(raised.value) + caplog.text
            assert str(url.password) not in everything_said(raised.value) + caplog.text


def test_a_rejected_statement_is_an_error_of_ours_without_values(database: Database) -> None:
    with pytest.raises(DatabaseFault, match="rejected") as raised:
        database.transaction(lambda c: c.execute(insert(nodes).values(job_id=12345, name=SECRET)))  # no such job
    assert SECRET not in str(raised.value)


def test_a_transaction_that_fails_leaves_nothing(database: Database) -> None:
    class Oops(Exception):
        pass

    def work(connection: Connection) -> None:
        connection.execute(delete(job_samples))
        connection.execute(delete(jobs))
        raise Oops

    write_reports(database, [report(1)], 1.0)
    with pytest.raises(Oops):
        database.transaction(work)
    assert len(running_jobs(database)) == 1


def test_many_threads_write_at_once(database: Database) -> None:
    def work(number: int) -> None:
        job = identity(f"job-{number}")
        for sequence in range(1, 6):
            seen = report(sequence, sequence, job=job, nodes=(node("w"),), samples=(node_sample("w", float(sequence)),))
            assert write_reports(database, [seen], 1.0)[0].sequence == sequence

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))
    assert [each.sample.records for each in running_jobs(database)] == [5] * 12


def test_the_same_reports_from_several_brains_count_once(database: Database) -> None:
    """Without a term: also a race of two that both believe to be the active one does no harm."""
    batch = [report(1, 7, job=identity(f"job-{number}"), nodes=(node("w"),)) for number in range(10)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: write_reports(database, each, 1.0), [batch, batch[::-1], batch, batch[::-1]]))
    assert [each.sample.records for each in running_jobs(database)] == [7] * 10


# --- SQLite


def test_a_sqlite_file_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    database = Database(f"sqlite:///{folder / 'brain.db'}")
    migrate(database)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "brain.db" in modes
    with database.reading() as connection:
        assert connection.scalar(text("PRAGMA foreign_keys")) == 1
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
    database.close()


def test_a_sqlite_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    file = tmp_path / "open" / "brain.db"
    file.parent.mkdir(mode=0o755)
    file.touch(mode=0o644)
    database = Database(f"sqlite:///{file}")
    database.ping()
    database.close()
    assert (stat.S_IMODE(file.parent.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o700, 0o600)


def test_a_folder_that_is_shared_on_purpose_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(Conflict):
        Database(f"sqlite:///{folder / 'brain.db'}").ping()


def test_a_file_that_is_no_database_is_an_error_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "own" / "brain.db"
    file.parent.mkdir(mode=0o700)
    file.write_bytes(b"this is not a database" * 100)
    with pytest.raises(PliantError):
        check_schema(Database(f"sqlite:///{file}"))


WRITER = """
import sys
from tests.brain.store.reporting import report
from pliant.brain.store.database import Database
from pliant.brain.store.reports import write_reports
database = Database(sys.argv[1])
for sequence in range(1, 1_000_000):
    write_reports(database, [report(sequence, sequence)], 1.0)
    print(sequence, flush=True)
"""


def test_a_killed_writer_of_a_sqlite_file_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'own' / 'brain.db'}"
    database = Database(url)
    migrate(database)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], text=True
    )
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    writer.kill()
    said = [int(line) for line in writer.stdout.read().split()]
    writer.wait()
    writer.stdout.close()
    [stored] = running_jobs(database)
    assert stored.sequence >= (said[-1] if said else 20)
    assert stored.reports_lost == 0
    assert write_reports(database, [report(stored.sequence + 1, 5)], 2.0)[0].sequence == stored.sequence + 1
    database.close()


# --- servers that are killed


@pytest.fixture(params=["postgresql", "mariadb"])
def durable_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    require(request.param)
    server = make_server(request.param, is_durable=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Writer(Thread):
    """Reports without end; what fails is sent again, as masters do."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.acknowledged = 0
        self.failures = 0
        self.wrong: list[BaseException] = []
        self.changed = Condition()
        self.is_stopped = False

    def run(self) -> None:
        while not self.is_stopped:
            number = self.acknowledged + 1
            nodes = tuple(node(f"w{each}") for each in range(5))
            samples = tuple(node_sample(each.name, float(number)) for each in nodes)
            try:
                [answer] = write_reports(self.database, [report(number, number, nodes=nodes, samples=samples)], 1.0)
                with self.changed:
                    self.acknowledged = answer.sequence
                    self.changed.notify_all()
            except DatabaseUnavailable:
                with self.changed:
                    self.failures += 1
                    self.changed.notify_all()
            except BaseException as error:  # noqa: BLE001 - the test shows it
                self.wrong.append(error)
                return

    def wait_for_failure(self) -> int:
        """What was acknowledged by then."""
        with self.changed:
            before = self.failures
            assert self.changed.wait_for(lambda: self.failures > before or self.wrong, MAX_WAIT_S)
            assert not self.wrong
            return self.acknowledged

    def wait_for(self, more: int) -> None:
        with self.changed:
            until = self.acknowledged + more
            reached = self.changed.wait_for(lambda: self.acknowledged >= until or self.wrong, MAX_WAIT_S)
        assert reached
        assert not self.wrong


def test_a_killed_server_loses_nothing_that_was_acknowledged_and_is_used_again(durable_server: Server) -> None:
    server = durable_server
    system = Database(server.url("postgres" if server.scheme == "postgresql" else "mysql"))
    with system.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE brain"))
    system.close()
    database = Database(server.url("brain"))
    migrate(database)
    writer = Writer(database)
    writer.start()
    try:
        for round_ in (7, 20, 3):
            writer.wait_for(round_)
            server.kill()
            known = writer.wait_for_failure()
            server.start()
            [stored] = running_jobs(Database(server.url("brain")))
            assert stored.sequence >= known
        writer.wait_for(5)
    finally:
        writer.is_stopped = True
        writer.join()
    [stored] = running_jobs(database)
    assert (stored.sequence, stored.sample.records, stored.reports_lost) == (
        writer.acknowledged,
        writer.acknowledged,
        0,
    )
    with database.reading() as connection:
        assert connection.scalar(text("SELECT sum(accepted) FROM job_samples")) == writer.acknowledged
        assert connection.scalar(select(text("count(*)")).select_from(text("node_samples"))) == 5 * writer.acknowledged
    database.close()


# --- the servers of tests themselves

USER = """
import sys
from contextlib import ExitStack
from pathlib import Path
from tools.databases.supervisor import shared_server
with ExitStack() as stack:
    print(stack.enter_context(shared_server(sys.argv[1], Path(sys.argv[2])))["folder"], flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("family", ["postgresql", "mariadb"], indirect=True)
def test_a_server_of_tests_is_gone_when_its_users_are_killed(tmp_path: Path, family: str) -> None:
    require(family)
    users = [
        subprocess.Popen(
            [sys.executable, "-c", USER, family, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for _ in range(2)
    ]
    try:
        folders = {user.stdout.readline().strip() for user in users if user.stdout is not None}
        assert len(folders) == 1  # they share it
        [folder] = folders
        users[0].kill()
        users[0].wait()
        assert Path(folder, "data").exists()
    finally:
        for user in users:
            user.kill()
            user.communicate()
    wait_until(lambda: not Path(folder).exists(), what=f"{folder} is gone")
    wait_until(lambda: not [pid for pid in processes() if folder in command_of(pid)], what="the server ended")


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def command_of(pid: str) -> str:
    with suppress(OSError):
        return Path("/proc", pid, "cmdline").read_text(errors="replace")
    return ""
