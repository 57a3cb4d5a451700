"""Brains on PostgreSQL and MariaDB whose database, or network, or themselves are lost: one takes over, and jobs go on."""

from __future__ import annotations

import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.brain.test_service import report, send
from tests.e2e.auto.planned_job import PLANNING_TIMEOUT_S
from tests.e2e.brain.brain_process import BrainProcess
from tests.e2e.brain.database_server import DatabaseServer, running_server
from tests.e2e.brain.severed_link import SeveredLink
from tests.e2e.brain.test_cluster_mode import (
    check_each_offer_was_planned_once,
    check_records,
    job_of,
    wait_for_progress,
)

from pliant.brain.store.database import Database
from pliant.core.errors import PliantError
from pliant.core.events import EventKind
from pliant.rpc.brain.access import BrainAccess, local_brain
from pliant.rpc.brain.identity import LOCAL_NAMESPACE, Caller, job_token
from pliant.testing.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.databases, pytest.mark.timeout(600)]
TAKE_OVER_S = 120.0  # where seconds are promised: the machine is busy


@pytest.fixture(params=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    with running_server(request.param) as found:
        yield found


def access(brain: BrainProcess, job: str) -> BrainAccess:
    found = local_brain(brain.folder)
    return BrainAccess(found.address, job_token(found.token, LOCAL_NAMESPACE, job), Caller(LOCAL_NAMESPACE, job))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def readiness(port: int) -> int:
    """Status of /readyz; 0: nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_another_brain_takes_over_when_the_active_one_is_killed_and_jobs_go_on(
    tmp_path: Path, database: DatabaseServer
) -> None:
    folder = tmp_path / "brain"
    first = BrainProcess(folder, "--no-monitor", database=database.url, log="first")
    second = BrainProcess(folder, "--no-monitor", database=database.url, log="second")
    try:
        first.start()
        second.start(waits=False)
        with job_of(tmp_path, workers="1:4") as job:
            wait_for_progress(job)
            wait_until(lambda: "waiting for its lease" in second.log(), what="the second one to wait")
            first.kill()
            wait_until(second.is_serving, what="the second one to take over", timeout=TAKE_OVER_S)
            job.wait_for_replicas("worker", 4)
            job.finish()
        check_each_offer_was_planned_once(job)
        check_records(second, job)
    finally:
        first.stop()
        second.stop()


def test_a_brain_that_freezes_in_a_transaction_is_replaced_and_changes_nothing_when_it_wakes_up(
    tmp_path: Path, database: DatabaseServer
) -> None:
    """It holds locks that whoever takes over needs; the database takes them away from it."""
    folder = tmp_path / "brain"
    frozen = BrainProcess(folder, "--no-monitor", database=database.url, log="frozen")
    other = BrainProcess(folder, "--no-monitor", database=database.url, log="other")
    try:
        frozen.start()
        train = access(frozen, "train")
        send(train, report(records=1))
        blocker = Database(database.url)
        sending = threading.Thread(target=lambda: _try_to_send(train))
        with blocker.engine.connect() as connection, connection.begin():
            connection.execute(text("SELECT id FROM jobs FOR UPDATE")).all()
            sending.start()
            wait_until(lambda: database.waiting_for_locks() > 0, what="the report to wait for the job's row", every=0.1)
            frozen.send(signal.SIGSTOP)
        blocker.close()
        other.start(waits=False)
        wait_until(other.is_serving, what="the other one to take over", timeout=TAKE_OVER_S)
        assert send(access(other, "train"), report(3, records=7)).sequence == 3
        frozen.send(signal.SIGCONT)
        wait_until(lambda: "lost its lease" in frozen.log(), what="the frozen one to notice")
        sending.join()
        assert other.accepted("train") == 7
        assert frozen.is_alive
    finally:
        frozen.stop()
        other.stop()


def _try_to_send(train: BrainAccess) -> None:
    with suppress(PliantError):
        send(train, report(2, records=5))


def test_a_job_goes_on_while_the_database_is_killed_and_comes_back(tmp_path: Path, database: DatabaseServer) -> None:
    with (
        BrainProcess(tmp_path / "brain", "--no-monitor", database=database.url) as brain,
        job_of(tmp_path, workers="1:4") as job,
    ):
        for _ in range(2):
            wait_for_progress(job)
            database.kill()
            wait_for_progress(job)
            database.start()
            wait_until(lambda: _accepted(brain, job.name) > 0, what="reports", every=0.2)
        job.wait_for_replicas("worker", 4)
        job.finish()
        check_each_offer_was_planned_once(job)
        check_records(brain, job)


def _accepted(brain: BrainProcess, job: str) -> int:
    try:
        return brain.accepted(job)
    except PliantError:
        return 0


def test_a_brain_whose_database_freezes_is_not_active_any_more_and_is_again_afterwards(
    tmp_path: Path, database: DatabaseServer
) -> None:
    """Nothing breaks: every call just waits. Whoever asks /readyz is to be sent to another Brain."""
    port = free_port()
    with BrainProcess(tmp_path / "brain", "--no-monitor", "--health-port", str(port), database=database.url) as brain:
        wait_until(lambda: readiness(port) == 200, what="an active Brain", every=0.1)
        database.freeze()
        wait_until(lambda: readiness(port) == 503, what="a Brain that is not the active one", every=0.1)
        database.thaw()
        wait_until(lambda: readiness(port) == 200, what="an active Brain", every=0.1)
        assert send(access(brain, "train"), report(records=3)).sequence == 1


def test_a_brain_whose_database_is_frozen_can_be_told_to_end(tmp_path: Path, database: DatabaseServer) -> None:
    for is_active in (True, False):
        brain = BrainProcess(tmp_path / "brain", "--no-monitor", database=database.url, log=f"{is_active}")
        if not is_active:
            database.freeze()
        brain.start(waits=is_active)
        if is_active:
            database.freeze()
        wait_until(lambda: "its database is" in brain.log(), what="the Brain's start")  # noqa: B023
        brain.send(signal.SIGTERM)
        assert brain.wait() == 0
        database.thaw()


@pytest.mark.parametrize("kind", ["cut", "frozen"])
def test_a_job_behind_a_partition_plans_by_itself_and_hands_over_when_it_is_mended(tmp_path: Path, kind: str) -> None:
    port = free_port()
    with SeveredLink(("127.0.0.1", port)) as link:
        listen = ("--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{link.port}")
        with BrainProcess(tmp_path / "brain", "--no-monitor", *listen) as brain, job_of(tmp_path, workers="1:6") as job:
            wait_for_progress(job)
            job.until(lambda: job.events(EventKind.BRAIN_FOUND), "the Brain", PLANNING_TIMEOUT_S)
            link.cut() if kind == "cut" else link.freeze()
            job.until(lambda: job.events(EventKind.BRAIN_LOST), "the fallback", PLANNING_TIMEOUT_S)
            job.wait_for_replicas("worker", 6)
            link.mend()
            job.until(lambda: len(job.events(EventKind.BRAIN_FOUND)) > 1, "the hand-over", PLANNING_TIMEOUT_S)
            job.finish()
            check_each_offer_was_planned_once(job)
            check_records(brain, job)
